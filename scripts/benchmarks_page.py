"""Writes docs/benchmarks.md from the registry and the manifests.

    python scripts/benchmarks_page.py [--check]

Facts come from the plugins, numbers from `benchmarks/manifests/` (written by `medhelm validate
--update`), so that neither needs the data. The words on mended faults are a benchmark's own
(`mended`) or lie in `scripts/benchmark_words.yaml`; a benchmark without them is an error.
`--check` writes nothing and fails where the page is not what would be written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from pages import ROOT, parser, put

from medhelm.data.dataset import open_dataset
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.plugins.registry import Registry, load_registry
from medhelm.prompts.messages import resolve_prompt
from medhelm.proof.manifest import Facts, read_manifest
from medhelm.schema.data import PART, Benchmark, SourceFile

PAGE = ROOT / "docs" / "benchmarks.md"
WORDS = Path(__file__).resolve().parent / "benchmark_words.yaml"
_RAW = re.compile(r"https://raw\.githubusercontent\.com/([^/]+/[^/]+)/([^/]+)/(.+)")
_SHARED = {"exact_match": "letter", JURY: "jury"}
"""The shared words that say how a main metric scores."""
_PLACE = re.compile(r"[\w./-]*<[^<>`]+>(?:[\w./<>-]*[\w>])?")
"""A path with a placeholder, such as <data dir>/headqa."""


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds facts on a benchmark that are not numbers."""

    scoring: str
    """The differences of `fixed` and `helm`, and their reasons."""
    mended: tuple[str, ...]
    """Known faults of data, prompt or scorer, and what is done about each."""


def read_words(benchmarks: Sequence[Benchmark], registry: Registry) -> Mapping[str, Words]:
    """Return the words of each benchmark: of its own `mended`, else of the file of words.

    Raises SystemExit for one that has them in neither or in both places, and for words of none.
    """
    import yaml

    values = yaml.safe_load(WORDS.read_text(encoding="utf-8"))
    shared = values.pop("_shared")
    own = {b.name: b for b in benchmarks if b.mended}
    if others := sorted((values.keys() | own) ^ {b.name for b in benchmarks}):
        raise SystemExit(f"{WORDS.name} and the benchmarks differ in: {', '.join(others)}")
    if both := sorted(values.keys() & own):
        raise SystemExit(f"{WORDS.name} has words of what says them itself: {', '.join(both)}")
    words = dict(msgspec.convert(values, dict[str, Words]))
    for name, benchmark in own.items():
        main = benchmark.metrics[0]
        scoring = shared.get(_SHARED.get(main, ""), "") or _of_metric(main, registry)
        words[name] = Words(scoring=scoring, mended=benchmark.mended)
    return words


def _of_metric(name: str, registry: Registry) -> str:
    """Return what the class of a metric says of its rule, in one paragraph."""
    text = type(registry.metric(name)).__doc__ or ""
    return f"`{name}`: {' '.join(text.split())}"


def built_in(registry: Registry) -> list[Benchmark]:
    """Return the benchmarks that come with medhelm."""
    home = ROOT / "benchmarks"
    return [
        b for b in registry.benchmarks.values() if Path(b.origin).resolve().is_relative_to(home)
    ]


def render() -> str:
    """Return the page."""
    registry = load_registry()
    own = built_in(registry)
    words = read_words(own, registry)
    lines = [
        "# Benchmarks",
        "",
        "Written by `python scripts/benchmarks_page.py` from the registry and the manifests; do",
        "not edit. Scores are those of embedded answers, as `medhelm validate` finds and checks",
        "them: `oracle` is the gold as a model would write it, `empty` no answer, `constant` one",
        "answer to everything, `random` a seeded draw. No model was asked. Where the full data",
        "cannot be fetched or were not measured, the scores are those on the bundled samples,",
        "which are synthetic: they show that the scorer works, and nothing of the benchmark.",
        "",
        *_overview(own, registry),
    ]
    for benchmark in own:
        lines += ["", *_section(benchmark, registry, words[benchmark.name])]
    return "\n".join(lines) + "\n"


def _overview(benchmarks: Sequence[Benchmark], registry: Registry) -> Iterator[str]:
    yield (
        "| benchmark | access | subcategory | instances | main metric | best constant | "
        "oracle, `helm` |"
    )
    yield "|---|---|---|---:|---|---:|---:|"
    for benchmark in benchmarks:
        main = benchmark.metrics[0]
        cells = [
            f"[{benchmark.title}](#{benchmark.name})",
            benchmark.data_class,
            registry.taxonomy.subcategory(benchmark.subcategory).name,
            _count(benchmark, benchmark.dataset.splits[0]),
            f"`{main}`",
            *_measured(read_manifest(benchmark, "full"), main, benchmark.published_metric or main),
        ]
        yield f"| {' | '.join(cells)} |"


def _count(benchmark: Benchmark, split: str) -> str:
    """Return how many instances a split has, as far as that can be said of data not here."""
    if split in benchmark.expected_instances:
        return f"{benchmark.expected_instances[split]:,}"
    return "your own" if benchmark.columns else "as released"


def _measured(facts: Facts | None, main: str, published: str) -> tuple[str, str]:
    """Return the best constant answer on the main metric, and the oracle on HELM's main metric under
    `helm`; of full data alone."""
    if facts is None or main not in facts.metrics:
        return "–", "–"
    constants = [s[main] for a, s in facts.scores.items() if a.startswith("constant")]
    best = max((value for value in constants if value is not None), default=None)
    oracle = facts.scores_helm.get("oracle", {})
    helm = _score(oracle[published]) if published in oracle else "–"
    part = f" (`{facts.split}`)" if facts.split.startswith(PART) else ""
    return ("–" if best is None else _score(best) + part), helm + (part if helm != "–" else "")


def _section(benchmark: Benchmark, registry: Registry, words: Words) -> Iterator[str]:
    yield f"## {benchmark.name}"
    yield ""
    yield f"{benchmark.title}: {' '.join(benchmark.description.split())}"
    yield ""
    for name, value in _declared(benchmark, registry):
        yield f"- {name}: {value}"
    if benchmark.how_to_get:
        yield ""
        yield "How to get the data:"
        yield ""
        for number, step in enumerate(benchmark.how_to_get, 1):
            yield f"{number}. {_plain(step)}"
    if benchmark.columns:
        yield ""
        yield "Columns of the file:"
        yield ""
        yield from (f"- `{name}`: {_plain(text)}" for name, text in benchmark.columns.items())
    yield ""
    yield f"Scoring: {words.scoring}"
    yield ""
    yield "Known faults, and what is done about them:"
    yield ""
    yield from (f"- {fault}" for fault in words.mended)
    yield ""
    yield from _scores(benchmark)


def _plain(text: str) -> str:
    """Return a text in one line, in which angle brackets stay what they are in Markdown."""
    return _PLACE.sub(r"`\g<0>`", " ".join(text.split()))


def _declared(benchmark: Benchmark, registry: Registry) -> Iterator[tuple[str, str]]:
    subcategory = registry.taxonomy.subcategory(benchmark.subcategory)
    category = registry.taxonomy.category_of(subcategory.id)
    tasks = {task.id: task.name for task in subcategory.tasks}
    own = "; ".join(tasks[task].lower() for task in benchmark.tasks)
    yield "Place", f"{category.name} / {subcategory.name}; tasks: {own}"
    yield "Access", f"{benchmark.data_class}; curation: {benchmark.curation}"
    yield "Source", _source(benchmark)
    split, *others = benchmark.dataset.splits
    counts = [f"{_count(benchmark, split)} (split `{split}`, the default)"]
    counts += [f"{_count(benchmark, other)} (split `{other}`)" for other in others]
    yield "Instances", ", ".join(counts)
    if benchmark.parts:
        parts = ", ".join(f"`{part}`" for part in benchmark.parts)
        yield "Parts", f"{parts}; the score is the unweighted mean of theirs"
    yield "Clusters", benchmark.cluster or "none, instances are independent"
    yield "Slices", ", ".join(f"`{key}`" for key in _metadata(benchmark)) or "none"
    yield "Metrics", ", ".join(_metric(name, registry) for name in benchmark.metrics)
    if benchmark.rubric:
        yield "Rubric", f"`{benchmark.rubric}`"
    if (rules := benchmark.criteria_rules) is not None:
        yield "Judges' rules on criteria", f"`{rules.name}` (version {rules.version})"
    prompt = resolve_prompt(benchmark)
    yield "Prompt", f"`{prompt.name}` (version {prompt.version}), in our own words"
    yield (
        "Output budget",
        f"{benchmark.max_output_tokens:,} tokens, {benchmark.reasoning_output_tokens:,} for a model "
        "that thinks",
    )
    if benchmark.unverified:
        yield "Unverified", "written to the published layout, never tried on the real file"
    if since := benchmark.exposure.public_since:
        yield "Public since", since
    if benchmark.exposure.overlaps:
        yield "Known overlaps", " ".join(benchmark.exposure.overlaps)
    may = "may" if benchmark.redistributable else "may not"
    yield "Licence", f"{benchmark.licence}; text {may} be republished"
    yield "Citation", benchmark.citation


def _metric(name: str, registry: Registry) -> str:
    if name == JURY:
        return f"`{name}`"
    return f"`{name}` (version {registry.metric(name).version})"


def _source(benchmark: Benchmark) -> str:
    dataset = benchmark.dataset
    return f"{dataset.source}: {', '.join(map(_file, dataset.files))}"


def _file(file: SourceFile) -> str:
    pin = (
        f"sha256 `{file.sha256[:12]}`"
        if file.sha256
        else "no checksum; that of the first fetch holds"
    )
    if hub := file.hub:
        page = f"https://huggingface.co/datasets/{hub.repo}/tree/{hub.revision}"
        return f"`{file.name}`, from the hub by `datasets`: [{hub}]({page}) ({pin})"
    if not file.url:
        return f"`{file.name}` (yours to bring)"
    link = _RAW.sub(r"https://github.com/\1/blob/\2/\3", file.url)
    return f"[`{file.name}`]({link}) ({pin})"


def _metadata(benchmark: Benchmark) -> list[str]:
    samples = open_dataset(benchmark, "sample", root=ROOT).instances()
    return sorted({key for instance in samples for key in instance.metadata})


def _scores(benchmark: Benchmark) -> Iterator[str]:
    full = read_manifest(benchmark, "full")
    facts = full or read_manifest(benchmark, "sample")
    if facts is None:
        command = f"medhelm validate {benchmark.name} --update"
        raise SystemExit(f"{benchmark.name} has no manifest: run `{command}`")
    if not facts.metrics:
        yield "No metric but the jury, which needs judges: there is nothing to measure without one."
        return
    if full is None:
        yield "Scores on the bundled samples, which are synthetic:"
    else:
        yield f"Scores on the full data (split `{facts.split}`):"
    yield ""
    names = list(facts.metrics)
    if facts.unscored:
        yield f"Uninformative, in no mean of `{names[0]}`: {facts.unscored:,} of {facts.instances:,}."
        yield ""
    helm = [name for name in names if name in facts.scores_helm.get("oracle", {})]
    heads = [f"`{n}`" for n in names] + [f"`{n}`, `helm`" for n in helm]
    yield f"| answer | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(heads)}"
    for answer, values in facts.scores.items():
        cells = [_score(values[name]) for name in names]
        cells += [_score(facts.scores_helm[answer][name]) for name in helm]
        yield f"| {answer} | {' | '.join(cells)} |"
    if facts.parts:
        yield ""
        yield f"`{names[0]}` in each part:"
        yield ""
        yield f"| answer | {' | '.join(f'`{part}`' for part in benchmark.parts)} |"
        yield f"|---|{'---:|' * len(benchmark.parts)}"
        for answer, by_part in facts.parts.items():
            cells = [_score(by_part[part]) for part in benchmark.parts]
            yield f"| {answer} | {' | '.join(cells)} |"


def _score(value: float | None) -> str:
    return "no value" if value is None else f"{value:.4f}"


def main() -> int:
    """Write or check the page and return the exit code."""
    return put(PAGE, render(), check=parser(__doc__).parse_args().check)


if __name__ == "__main__":
    sys.exit(main())
