"""All facts of one thing that has a name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from medhelm.config import packaged_suites
from medhelm.data.dataset import open_dataset
from medhelm.data.rubrics import known_rubrics
from medhelm.data.sources import file_path, how_to_get, is_found, origin_of
from medhelm.errors import MedhelmError, UnknownName
from medhelm.grading.grade import AS_FIXED, metric_names
from medhelm.grading.jury.choice import jury_names, packaged_jury
from medhelm.grading.jury.grader import judge_messages
from medhelm.listing.listed import jury_entry, profile_entry
from medhelm.models.catalogue import find_model, open_provider
from medhelm.plugins.profiles import profile_names, read_profile
from medhelm.plugins.registry import Registry
from medhelm.prompts.messages import field_values, render_prompt, resolve_prompt
from medhelm.proof.manifest import read_manifest
from medhelm.schema.data import Benchmark, Instance, Rubric
from medhelm.schema.run import fields_of
from medhelm.schema.score import Metric
from medhelm.similarity.bertscore import BertScore, is_bertscore

Facts = dict[str, Any]

KINDS = "benchmark, metric, model, suite, jury, rubric, profile, category or subcategory"


@dataclass(frozen=True, repr=False)
class Description:
    """All facts of one thing that has a name; it shows itself as `medhelm describe` does."""

    kind: str
    """One of the kinds in `KINDS`."""
    name: str
    facts: Mapping[str, Any]
    """By name; what is missing is None or empty."""

    def __repr__(self) -> str:
        return "\n".join([f"{self.kind} {self.name}", *_lines(self.facts, "  ")])

    def _repr_html_(self) -> str:
        rows, style = [], "text-align:left;white-space:pre-wrap"
        for key, value in self.facts.items():
            label, _, text = "\n".join(_lines({key: value}, "")).partition(":")
            if label:
                cell = f"<td style='{style}'>{escape(text.strip())}</td>"
                rows.append(f"<tr><th>{escape(label)}</th>{cell}</tr>")
        head = f"<p>{escape(self.kind)} <b>{escape(self.name)}</b></p>"
        return f"{head}<table>{''.join(rows)}</table>"


def describe_name(name: str, registry: Registry, root: Path) -> Description:
    """Return what bears a name; `root` is the folder of data. Raises UnknownName."""
    kind, facts = _find(name, registry, root)
    return Description(kind, name, facts)


def _find(name: str, registry: Registry, root: Path) -> tuple[str, Facts]:
    metrics = {scoring: m for (n, scoring), m in registry.metrics.items() if n == name}
    if name in registry.benchmarks:
        return "benchmark", describe_benchmark(registry.benchmarks[name], registry, root)
    if metrics:
        users = [b.name for b in registry.benchmarks.values() if name in b.metrics]
        scorings: Facts = {scoring: describe_metric(m) for scoring, m in metrics.items()}
        scorings.setdefault("helm", as_published(name, registry))
        return "metric", {"name": name, "scorings": scorings, "benchmarks": users}
    if is_bertscore(name) and find_spec("bert_score") is None:
        return "metric", {
            "name": name,
            **describe_class(BertScore),
            "needs": "pip install '.[bertscore]'",
        }
    if name.startswith("evaluate:") or is_bertscore(name):
        return "metric", {"name": name, **describe_metric(registry.metric(name))}
    if name in registry.models or open_provider(name):
        return "model", msgspec.to_builtins(find_model(name, registry.models))
    if name in profile_names():
        return "profile", profile_entry(read_profile(name))
    if name in jury_names():
        return "jury", jury_entry(packaged_jury(name, registry.models))
    suites = packaged_suites()
    if name in suites:
        return "suite", {"name": name, "benchmarks": suites[name]}
    rubrics = known_rubrics(registry.benchmarks.values())
    if name in rubrics:
        return "rubric", describe_rubric(rubrics[name], registry)
    if (found := _describe_part(name, registry)) is not None:
        return found
    known = {*registry.benchmarks, *(n for n, _ in registry.metrics), *registry.models, *rubrics}
    known |= {*profile_names(), *jury_names(), *suites}
    known |= {part.id for c in registry.taxonomy.categories for part in (c, *c.subcategories)}
    raise UnknownName(KINDS, name, known, "`medhelm list WHAT` shows what there is.")


def _describe_part(name: str, registry: Registry) -> tuple[str, Facts] | None:
    """Return the category or subcategory that has an id (or an alias), with all that belongs to it."""
    for category in registry.taxonomy.categories:
        own = [s for s in category.subcategories if name in (category.id, s.id, *s.aliases)]
        if not own:
            continue
        within = [sub.id for sub in own]
        if name == category.id:
            kind, about = "category", fields_of(category, "id", "name") | {"subcategories": within}
        else:
            kind, about = "subcategory", fields_of(own[0], "id", "name") | {"category": category.id}
        return kind, {
            **about,
            **fields_of(category, "definition", "inclusion", "performer"),
            "tasks": [task.name for sub in own for task in sub.tasks],
            "benchmarks": [
                benchmark.name
                for benchmark in registry.benchmarks.values()
                if registry.taxonomy.subcategory(benchmark.subcategory).id in within
            ],
        }
    return None


def describe_benchmark(benchmark: Benchmark, registry: Registry, root: Path) -> Facts:
    """Return all facts of a benchmark, with the prompt of its first bundled sample."""
    subcategory = registry.taxonomy.subcategory(benchmark.subcategory)
    category = registry.taxonomy.category_of(subcategory.id)
    prompt = resolve_prompt(benchmark)
    names = {task.id: task.name for task in subcategory.tasks}
    filled, shown = _first_sample(benchmark, root)
    return {
        "name": benchmark.name,
        "title": benchmark.title or benchmark.name,
        "description": benchmark.description,
        "version": benchmark.version,
        "category": category.name,
        **fields_of(category, "inclusion", "performer"),
        "subcategory": subcategory.name,
        "tasks": [names[task] for task in benchmark.tasks],
        **_declared(benchmark, "data_class", "redistributable", "licence", "citation", "curation"),
        **_declared(benchmark, "exposure", "unverified", "mended", "answer", "labels", "metrics"),
        "scoring_helm": {
            name: as_published(name, registry) for name in metric_names(benchmark, "helm")
        },
        **_declared(
            benchmark, "max_output_tokens", "reasoning_output_tokens", "expected_instances"
        ),
        "left_out": _left_out(benchmark),
        **_declared(benchmark, "cluster", "parts", "reference_part", "rubric", "criteria_rules"),
        **_declared(benchmark, "columns", "how_to_get"),
        "plugin": benchmark.origin,
        "data": _describe_data(benchmark, root),
        "prompt": {"name": prompt.name, "version": prompt.version, "template": prompt.whole},
        "prompt_fields": filled,
        "examples": benchmark.examples
        or "none declared: ask.examples_from=FILE names a file of yours",
        "example_prompt": shown,
    }


def _declared(benchmark: Benchmark, *names: str) -> Facts:
    """Return what a benchmark declares under these names, as JSON holds it."""
    found = msgspec.to_builtins(fields_of(benchmark, *names))
    return {name: [*own] if isinstance(own, tuple) else own for name, own in found.items()}


def _left_out(benchmark: Benchmark) -> Facts:
    """Return the rows that are left out, by reason, as the manifest counted them."""
    full, sample = (read_manifest(benchmark, data) for data in ("full", "sample"))
    facts, of = (full, f"full data, split {full.split}") if full else (sample, "bundled samples")
    if facts is None or not facts.left_out:
        return {}
    return {"of": of, "instances": facts.instances, "rows": facts.left_out}


def _describe_data(benchmark: Benchmark, root: Path) -> Facts:
    dataset = benchmark.dataset
    files = [
        {
            "path": str(file_path(benchmark, source, root)),
            "is_there": is_found(benchmark, source, root),
            "sha256": source.sha256 or "unpinned",
            "url": origin_of(source) or "none: a user must bring it",
        }
        for source in dataset.files
    ]
    said = {"source": dataset.source, "splits": list(dataset.splits)}
    return said | {"files": files, "get": how_to_get(benchmark, root)}


def _first_sample(benchmark: Benchmark, root: Path) -> tuple[list[str], str]:
    """Return the fields of a template that the first bundled sample fills, and its prompt or why it has none."""
    try:
        instance = next(open_dataset(benchmark, "sample", root=root).instances())
    except MedhelmError as e:
        return [], f"none: {e}"
    filled = [f"{{{name}}}" for name, text in field_values(benchmark, instance).items() if text]
    return filled, render_prompt(benchmark, instance)[-1].content


def as_published(name: str, registry: Registry) -> str:
    """Return how a metric is scored under scoring=helm."""
    if not registry.has_published_form(name):
        return AS_FIXED
    return "the published scorer" if (name, "helm") in registry.metrics else "the same rule"


def describe_metric(metric: Metric) -> Facts:
    """Return what a metric declares."""
    facts = {f.name: getattr(metric, f.name) for f in dataclasses.fields(Metric)}
    return facts | describe_class(type(metric))


def describe_class(metric: type[Metric]) -> Facts:
    """Return the first line of what a metric's class says of itself."""
    summary = (metric.__doc__ or "").strip().splitlines()
    return {"description": summary[0] if summary else ""}


def describe_rubric(rubric: Rubric, registry: Registry) -> Facts:
    """Return what judges rate by a rubric, and the rules that they are sent."""
    users = [b.name for b in registry.benchmarks.values() if b.rubric == rubric.name]
    example = Instance(id="example", context="...", question="...", references=("...",))
    facts: Facts = msgspec.to_builtins(rubric)
    facts["criteria"] = {c.name: c.text for c in rubric.criteria}
    rules = judge_messages(rubric, example, "...", "...")[0].content
    return facts | {"benchmarks": users, "rules": rules}


def _lines(facts: Mapping[str, Any], indent: str, *, are_names: bool = False) -> Iterator[str]:
    """Yield facts line by line; keys that are names of a user's columns stay as they are."""
    for key, value in facts.items():
        label = key if are_names else key.replace("_", " ")
        if value is None or (not value and not isinstance(value, int | float)):
            continue
        if isinstance(value, Mapping):
            yield f"{indent}{label}:"
            is_own = key in ("columns", "scoring_helm", "rows")
            yield from _lines(value, indent + "  ", are_names=is_own)
        elif isinstance(value, list) and isinstance(value[0], Mapping):
            yield f"{indent}{label}:"
            for item in value:
                yield from _lines(item, indent + "  ")
        elif key == "how_to_get":
            yield f"{indent}{label}:"
            yield from (f"{indent}  {n}. {step}" for n, step in enumerate(value, 1))
        elif isinstance(value, str) and "\n" in value:
            yield f"{indent}{label}:"
            yield from (f"{indent}  | {line}" for line in value.splitlines())
        else:
            yield f"{indent}{label}: {_shown(value)}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
