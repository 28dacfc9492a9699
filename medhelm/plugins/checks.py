"""Faults of what a plugin declares, found before anything of it is used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from medhelm.data.rubrics import load_rubric
from medhelm.errors import PluginError, UnknownName, closest
from medhelm.files.durable import is_file
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.models.provider import DECIDING, Provider
from medhelm.plugins.taxonomy import Taxonomy
from medhelm.prompts.messages import resolve_prompt
from medhelm.protocols.protocol import Protocol
from medhelm.schema.aggregation import EACH, MEAN, Aggregation
from medhelm.schema.data import AnswerKind, Benchmark
from medhelm.schema.page import Page
from medhelm.schema.score import Metric, Scoring
from medhelm.similarity.bertscore import is_bertscore

CORE = ("mean", "mean_of_parts")
"""Names of the aggregations of the core."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?|")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PROVIDER = re.compile(r"[a-z][a-z0-9_-]*")


def refuse(kind: str, name: str, origin: str, faults: Iterable[str]) -> None:
    """Raise PluginError for the first fault of a value that a plugin brings."""
    for fault in faults:
        raise PluginError(f"{kind} {name!r} in {origin}: {fault}")


def benchmark_faults(benchmark: Benchmark, taxonomy: Taxonomy) -> Iterator[str]:
    """Yield what is wrong with a benchmark's own values."""
    if not _NAME.fullmatch(benchmark.name):
        yield "a name is snake_case: a-z, 0-9 and _"
    tasks: set[str] = set()
    try:
        tasks |= {task.id for task in taxonomy.subcategory(benchmark.subcategory).tasks}
        resolve_prompt(benchmark)
        if benchmark.rubric or JURY in benchmark.metrics:
            load_rubric(benchmark)
    except UnknownName as e:
        yield str(e)
    for hub in (source.hub for source in benchmark.dataset.files):
        if hub is not None and not _COMMIT.fullmatch(str(hub.revision)):
            yield (
                f"revision {hub.revision!r} of {hub.repo} is not a commit, so the data are not "
                "pinned; give the commit, 40 digits of 0-9 and a-f"
            )
    yield from _unknown("task", benchmark.tasks, tasks)
    yield from _unknown("kind of answer", [benchmark.answer], get_args(AnswerKind))
    if benchmark.answer == "items" and benchmark.items is None:
        yield (
            "answer='items' needs items, by which rules answer: "
            "items=Items(TEXTS, GOLDS, WRITE), from `from medhelm import Items`"
        )
    if not benchmark.metrics or isinstance(benchmark.metrics, str):
        yield "metrics must be a list of at least one name"
    elif benchmark.metrics[0].startswith("evaluate:"):
        yield "an evaluate metric may be secondary only, not the first"
    elif is_bertscore(benchmark.metrics[0]):
        yield "BERTScore may be secondary only, not the first"
    for part in _unknown("part", filter(None, benchmark.languages), benchmark.parts):
        yield f"languages: {part}"
    for part in _unknown("part", filter(None, [benchmark.reference_part]), benchmark.parts):
        yield f"reference_part: {part}"
    if not _DATE.fullmatch(since := benchmark.exposure.public_since):
        yield f"exposure.public_since {since!r} is not a date; write YYYY, YYYY-MM or YYYY-MM-DD"
    if benchmark.max_output_tokens < 1 or benchmark.reasoning_output_tokens < 1:
        yield "output budgets must be at least 1 token"


def _unknown(kind: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    kept = [*known]
    yield from (str(UnknownName(kind, name, kept)) for name in names if name not in kept)


def unknown_names(
    benchmark: Benchmark,
    metrics: Mapping[tuple[str, Scoring], tuple[Metric, str]],
    protocols: Mapping[str, tuple[Protocol, str]],
) -> Iterator[str]:
    """Yield what a benchmark names that no plugin brings: metrics, a protocol, a published form."""
    made = [m for m in benchmark.metrics if m.startswith("evaluate:") or is_bertscore(m)]
    yield from _unknown("metric", benchmark.metrics, {*made, *(name for name, _ in metrics)})
    yield from _unknown("protocol", [benchmark.protocol], protocols)
    if not (name := benchmark.published_metric):
        return
    for fault in _unknown("metric", [name], benchmark.metrics):
        yield f"published_metric: {fault}"
    fixed = metrics.get((name, "fixed"))
    if (name, "helm") not in metrics and not (fixed is not None and fixed[0].is_as_published):
        yield (
            f"published_metric {name!r} has no published form; write one with "
            'scoring="helm", or leave published_metric out'
        )


def metric_faults(metric: Metric, known: Iterable[Metric]) -> Iterator[str]:
    """Yield why a metric's aggregation cannot be used, or that it is named as another is."""
    own: object = metric.aggregation
    if not isinstance(own, Aggregation):
        wanted = (
            "leave it out, the mean is the default"
            if own == CORE[0]
            else "give the value itself, as Aggregation(name=..., sums=(...), of=...) from medhelm"
        )
        yield f"aggregation={own!r} is not an Aggregation; {wanted}"
        return
    kinds = {name.endswith(f"/{EACH}") for name in own.sums}
    if len(set(own.sums)) < len(own.sums) or len(kinds) != 1:
        yield (
            f"aggregation {own.name!r} names the sums {', '.join(own.sums) or 'none'}; "
            "name each once, all of them ending in '/*' or none"
        )
    others = {m.aggregation.name: m.aggregation for m in known}
    if own != MEAN and (own.name in CORE or others.get(own.name, own) != own):
        yield (
            f"another aggregation is named {own.name!r} too; rename one, since runs keep "
            "the name alone"
        )


def page_faults(page: Page) -> Iterator[str]:
    """Yield why a page cannot be put on a site: its name is part of addresses and files."""
    if not _NAME.fullmatch(page.name):
        yield "a name is lower-case letters, digits and _, from a letter on"
    if not page.title.strip():
        yield "title is empty; the navigation shows it"
    files: tuple[tuple[str, object, str], ...] = (
        ("script", page.script, ".js"),
        ("style", page.style, ".css"),
    )
    for kind, path, suffix in files:
        if path is None:
            continue
        if not isinstance(path, Path):
            yield f"{kind} is a pathlib.Path, not {type(path).__name__}"
        elif path.suffix != suffix:
            yield f"{kind} {path.name} is not a {suffix} file"
        elif not is_file(path):
            yield f"{kind} {path} does not exist; a package names it as package data"


def provider_faults(provider: Provider) -> Iterator[str]:
    """Yield why a provider could not be used, or could be handed the gold."""
    if not _PROVIDER.fullmatch(provider.name):
        yield "a name has small letters, digits, '_' and '-', and begins with a letter"
    if (provider.open_host is None) == (provider.open_model is None):
        yield "give one of open_host (what models share) and open_model (embedded)"
    if not provider.plays and (not provider.reads_prompt or provider.reads_gold is not None):
        yield (
            "a plugin's models are handed requests, never the gold; leave out reads_prompt, or "
            "name in `plays` the protocols whose roles they play by rule"
        )
    if provider.plays and (provider.reads_prompt or provider.open_model is None):
        yield "what `plays` roles by rule is embedded: give reads_prompt=False, open_model"
    if provider.base_url and urlsplit(provider.base_url).scheme not in ("http", "https"):
        yield f"base_url {provider.base_url!r} is not an http or https address"
    known = DECIDING[2:]
    for name in (name for name in provider.uses if name not in known):
        near = closest(name, known, n=1)
        did = f"did you mean {near[0]!r}?" if near else f"settings are {', '.join(known)}"
        yield f"uses names {name!r}, which is not a setting; {did}"
