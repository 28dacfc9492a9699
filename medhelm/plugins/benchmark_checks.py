"""Checks of what a plugin declares of a benchmark, before anything of it is used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

from medhelm.data.rubrics import load_rubric
from medhelm.errors import PluginError, UnknownName
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.plugins.taxonomy import Taxonomy
from medhelm.prompts.messages import resolve_prompt
from medhelm.protocols.protocol import Protocol
from medhelm.schema.data import AnswerKind, Benchmark
from medhelm.schema.score import Metric, Scoring
from medhelm.similarity.bertscore import is_bertscore

_COMMIT = re.compile(r"[0-9a-f]{40}")
_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?|")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_benchmark(benchmark: Benchmark, taxonomy: Taxonomy) -> None:
    """Refuse a benchmark whose own values cannot be used; raises PluginError."""
    where = f"benchmark {benchmark.name!r} in {benchmark.origin}"
    if not _NAME.fullmatch(benchmark.name):
        raise PluginError(f"{where}: a name is snake_case: a-z, 0-9 and _")
    try:
        subcategory = taxonomy.subcategory(benchmark.subcategory)
        resolve_prompt(benchmark)
        if benchmark.rubric or JURY in benchmark.metrics:
            load_rubric(benchmark)
    except UnknownName as e:
        raise PluginError(f"{where}: {e}") from None
    for hub in (source.hub for source in benchmark.dataset.files):
        if hub is not None and not _COMMIT.fullmatch(str(hub.revision)):
            raise PluginError(
                f"{where}: revision {hub.revision!r} of {hub.repo} is not a commit, so "
                "the data are not pinned; give the commit, 40 digits of 0-9 and a-f"
            )
    tasks = {task.id for task in subcategory.tasks}
    for task in benchmark.tasks:
        if task not in tasks:
            raise PluginError(f"{where}: {UnknownName('task', task, tasks)}")
    if benchmark.answer not in (kinds := get_args(AnswerKind)):
        raise PluginError(f"{where}: {UnknownName('kind of answer', benchmark.answer, kinds)}")
    if benchmark.answer == "items" and benchmark.items is None:
        raise PluginError(
            f"{where}: answer='items' needs items, by which rules answer: "
            "items=Items(TEXTS, GOLDS, WRITE), from `from medhelm import Items`"
        )
    if not benchmark.metrics or isinstance(benchmark.metrics, str):
        raise PluginError(f"{where}: metrics must be a list of at least one name")
    if benchmark.metrics[0].startswith("evaluate:"):
        raise PluginError(f"{where}: an evaluate metric may be secondary only, not the first")
    if is_bertscore(benchmark.metrics[0]):
        raise PluginError(f"{where}: BERTScore may be secondary only, not the first")
    for part in benchmark.languages:
        if part and part not in benchmark.parts:
            raise PluginError(f"{where}: languages: {UnknownName('part', part, benchmark.parts)}")
    if benchmark.reference_part and benchmark.reference_part not in benchmark.parts:
        unknown = UnknownName("part", benchmark.reference_part, benchmark.parts)
        raise PluginError(f"{where}: reference_part: {unknown}")
    if not _DATE.fullmatch(since := benchmark.exposure.public_since):
        raise PluginError(
            f"{where}: exposure.public_since {since!r} is not a date; write YYYY, YYYY-MM or "
            "YYYY-MM-DD"
        )
    if benchmark.max_output_tokens < 1 or benchmark.reasoning_output_tokens < 1:
        raise PluginError(f"{where}: output budgets must be at least 1 token")


def check_metrics(benchmark: Benchmark, names: set[str]) -> None:
    """Refuse a benchmark with a metric that is not among these names; raises PluginError."""
    for metric in benchmark.metrics:
        is_made = metric.startswith("evaluate:") or is_bertscore(metric)
        if metric not in names and not is_made:
            raise PluginError(
                f"benchmark {benchmark.name!r} in {benchmark.origin}: "
                f"{UnknownName('metric', metric, names)}"
            )


def check_protocol(benchmark: Benchmark, protocols: Mapping[str, tuple[Protocol, str]]) -> None:
    """Refuse a benchmark whose protocol is not among these; raises PluginError."""
    if benchmark.protocol not in protocols:
        raise PluginError(
            f"benchmark {benchmark.name!r} in {benchmark.origin}: "
            f"{UnknownName('protocol', benchmark.protocol, protocols)}"
        )


def check_published(
    benchmark: Benchmark, metrics: Mapping[tuple[str, Scoring], tuple[Metric, str]]
) -> None:
    """Refuse a `published_metric` that is not among the metrics or has no published form."""
    name = benchmark.published_metric
    if not name:
        return
    where = f"benchmark {benchmark.name!r} in {benchmark.origin}"
    if name not in benchmark.metrics:
        raise PluginError(
            f"{where}: published_metric: {UnknownName('metric', name, benchmark.metrics)}"
        )
    fixed = metrics.get((name, "fixed"))
    if (name, "helm") not in metrics and not (fixed is not None and fixed[0].is_as_published):
        raise PluginError(
            f"{where}: published_metric {name!r} has no published form; write one with "
            'scoring="helm", or leave published_metric out'
        )
