"""Writes docs/benchmarks.md from the registry and the manifests.

    python scripts/benchmarks_page.py [--check]

Facts come from the plugins, numbers from `benchmarks/manifests/` (written by `medhelm validate
--update`), so that neither needs the data. Only the words on scoring and on mended faults stand
here. `--check` writes nothing and fails where the page is not what would be written.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.data.dataset import open_dataset
from medhelm.manifest import Facts, read_manifest
from medhelm.prompts import resolve_prompt
from medhelm.registry import Registry, load_registry
from medhelm.schema import Benchmark, FileDataset, HubDataset

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
_RAW = re.compile(r"https://raw\.githubusercontent\.com/([^/]+/[^/]+)/([^/]+)/(.+)")


@dataclass(frozen=True)
class Words:
    """What numbers cannot say of a benchmark."""

    scoring: str
    """How `fixed` and `helm` differ, and why."""
    mended: tuple[str, ...]
    """Known faults of data, prompt or scorer, and what is done about each."""


_LETTER = (
    "`fixed` reads the option that the completion states: a bare letter, `Answer: C`, `(C)`, "
    "`C. text`, the option's own text, the last of several only where it is marked as final; "
    "anything else is `unparsed`. `helm` takes nothing but the bare letter, so that `C.` counts 0."
)

WORDS = {
    "headqa": Words(
        _LETTER,
        (
            "The key of the right answer is text and the keys of the answers are numbers: compared "
            "as they are they never agree. Both are read as numbers.",
            "The question number repeats across exams; the id is exam and number.",
            "Questions with an image cannot be answered from text and are left out.",
            "Some questions stand in several exams: the question's stem is the cluster.",
            "The published runs drew a sample; here all questions of the test exams are asked.",
        ),
    ),
    "medbullets": Words(
        _LETTER,
        (
            "The source is pinned to a commit; the published loader follows a moving branch.",
            "Some questions stand twice in the file: equal questions are one cluster.",
            "Some questions refer to a figure that the file lacks: the metadata key `figure` tells "
            "`none`, `referenced` and `only_letters` (the options are bare letters), so that "
            "`--table slices --by figure` shows them apart.",
            "The explanation, which gives the answer away, is not shown.",
        ),
    ),
    "medcalc_bench": Words(
        "`fixed` decides by the form of the gold: a pair of weeks and days in days, a date as a "
        "date, an integer as a number, a decimal within the published limits, borders included. "
        "`helm` decides by the spelling of the category, knows neither `lab` nor `dosage`, and "
        "compares rule-based scores as text, so that `3.0` is not `3`.",
        (
            "Every laboratory and dosage item counts 0 under the published scorer, whatever the "
            "answer; the oracle's `helm` score below is the ceiling that this leaves.",
            "Some rows marked `integer` have a pair of weeks and days as gold; an answer in the "
            "form that the question asks for is accepted.",
            "Categories are spelt differently between releases; all spellings are known, and an "
            "unknown one is an error.",
            "The test set behind the published source changed; here it is pinned to version 1.0.",
            "Several questions share one note: the note is the cluster.",
            "The published output budget has no room for a sentence.",
        ),
    ),
    "medec": Words(
        "`fixed` reads what the completion claims: that all is right (the word CORRECT and plain "
        "wordings of it), or that there is an error, and in which sentence; where it claims neither, "
        "or both, it is `unparsed` and counts 0. `helm` takes everything but the bare word CORRECT "
        "as a claim of an error.",
        (
            "Under the published rule an empty or refused answer is right on every note with an "
            "error; see the scores of `empty` below.",
            "The published sentence accuracy never reads the gold's sentence number, so that a "
            "sentence that is found earns nothing.",
            "The prompt says that sentences are numbered from 0.",
            "The file ends in records of empty cells, which are left out.",
            "The correction itself is scored by neither rule.",
        ),
    ),
    "pubmed_qa": Words(
        _LETTER,
        (
            "The official test split is the default; the published leaderboard used all labelled "
            "items, which are the split `all` (`benchmark.split=all`).",
            "The abstract's conclusion, which gives the answer away, is not shown.",
        ),
    ),
    "race_bias": Words(
        _LETTER,
        (
            "The published parse of the document loses answers behind no-break spaces and titles, "
            "and glues headings and parts of answers to their neighbours; here lines are split and "
            "titles taken off before the text is read.",
            "Equal pairs of question and answer are kept once.",
            "The label follows the question to a large part: the question is the cluster, and "
            "`--table slices --by question` shows each.",
        ),
    ),
}


def render() -> str:
    """Return the page."""
    registry = load_registry()
    home = ROOT / "benchmarks"
    own = [b for b in registry.benchmarks.values() if Path(b.origin).resolve().parent == home]
    lines = [
        "# Benchmarks",
        "",
        "Written by `python scripts/benchmarks_page.py` from the registry and the manifests; do",
        "not edit. Scores are those of embedded answers on the full data, as `medhelm validate`",
        "finds and checks them: `oracle` is the gold as a model would write it, `empty` no answer,",
        "`constant` one answer to everything, `random` a seeded draw. No model was asked.",
        "",
        *_overview(own, registry),
    ]
    for benchmark in own:
        lines += ["", *_section(benchmark, registry)]
    return "\n".join(lines) + "\n"


def _overview(benchmarks: Sequence[Benchmark], registry: Registry) -> Iterator[str]:
    yield "| benchmark | subcategory | instances | main metric | best constant | oracle, `helm` |"
    yield "|---|---|---:|---|---:|---:|"
    for benchmark in benchmarks:
        facts = _facts(benchmark)
        main = benchmark.metrics[0]
        constants = [s[main] for a, s in facts.scores.items() if a.startswith("constant")]
        best = max((value for value in constants if value is not None), default=None)
        helm = facts.scores_helm.get("oracle", facts.scores["oracle"]).get(main)
        cells = [
            f"[{benchmark.title}](#{benchmark.name})",
            registry.taxonomy.subcategory(benchmark.subcategory).name,
            f"{facts.instances:,}",
            f"`{main}`",
            _score(best),
            _score(helm),
        ]
        yield f"| {' | '.join(cells)} |"


def _section(benchmark: Benchmark, registry: Registry) -> Iterator[str]:
    yield f"## {benchmark.name}"
    yield ""
    yield f"{benchmark.title}: {benchmark.description}"
    yield ""
    for name, value in _declared(benchmark, registry):
        yield f"- {name}: {value}"
    words = WORDS.get(benchmark.name)
    if words:
        yield ""
        yield f"Scoring: {words.scoring}"
        yield ""
        yield "Known faults, and what is done about them:"
        yield ""
        yield from (f"- {fault}" for fault in words.mended)
    yield ""
    yield from _scores(_facts(benchmark))


def _declared(benchmark: Benchmark, registry: Registry) -> Iterator[tuple[str, str]]:
    subcategory = registry.taxonomy.subcategory(benchmark.subcategory)
    category = registry.taxonomy.category_of(subcategory.id)
    tasks = {task.id: task.name for task in subcategory.tasks}
    own = "; ".join(tasks[task].lower() for task in benchmark.tasks)
    yield "Place", f"{category.name} / {subcategory.name}; tasks: {own}"
    yield "Source", _source(benchmark)
    split, *others = benchmark.dataset.splits
    counts = benchmark.expected_instances
    yield (
        "Instances",
        ", ".join(
            [f"{counts[split]:,} (split `{split}`, the default)"]
            + [f"{counts[other]:,} (split `{other}`)" for other in others]
        ),
    )
    yield "Clusters", benchmark.cluster or "none, instances are independent"
    yield "Slices", ", ".join(f"`{key}`" for key in _metadata(benchmark)) or "none"
    yield "Metrics", ", ".join(f"`{m}` (version {v})" for m, v in _facts(benchmark).metrics.items())
    prompt = resolve_prompt(benchmark)
    yield "Prompt", f"`{prompt.name}` (version {prompt.version}), in our own words"
    yield (
        "Output budget",
        f"{benchmark.max_output_tokens:,} tokens, {benchmark.reasoning_output_tokens:,} for a model "
        "that thinks",
    )
    may = "may" if benchmark.redistributable else "may not"
    yield "Data", f"{benchmark.data_class}; licence: {benchmark.licence}; text {may} be republished"
    yield "Citation", benchmark.citation


def _source(benchmark: Benchmark) -> str:
    dataset = benchmark.dataset
    if isinstance(dataset, HubDataset):
        return f"{dataset.repo} at revision `{dataset.revision}`"
    assert isinstance(dataset, FileDataset)
    files = []
    for file in dataset.files:
        link = _RAW.sub(r"https://github.com/\1/blob/\2/\3", file.url)
        files.append(f"[`{file.name}`]({link}) (sha256 `{file.sha256[:12]}`)")
    return f"{dataset.source}: {', '.join(files)}"


def _metadata(benchmark: Benchmark) -> list[str]:
    samples = open_dataset(benchmark, "sample", root=ROOT).instances()
    return sorted({key for instance in samples for key in instance.metadata})


def _facts(benchmark: Benchmark) -> Facts:
    facts = read_manifest(benchmark, "full")
    if facts is None:
        command = f"medhelm validate {benchmark.name} --data full --update"
        raise SystemExit(f"{benchmark.name} has no manifest of its full data: run `{command}`")
    return facts


def _scores(facts: Facts) -> Iterator[str]:
    names = list(facts.metrics)
    helm = [name for name in names if name in facts.scores_helm.get("oracle", {})]
    heads = [f"`{n}`" for n in names] + [f"`{n}`, `helm`" for n in helm]
    yield f"| answer | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(heads)}"
    for answer, values in facts.scores.items():
        cells = [_score(values[name]) for name in names]
        cells += [_score(facts.scores_helm[answer][name]) for name in helm]
        yield f"| {answer} | {' | '.join(cells)} |"


def _score(value: float | None) -> str:
    return "no value" if value is None else f"{value:.4f}"


def main() -> int:
    """Write or check the page and return the exit code."""
    parser = argparse.ArgumentParser(description="Write docs/benchmarks.md.")
    parser.add_argument("--check", action="store_true", help="fail where it is out of date")
    check = parser.parse_args().check
    page = render()
    if not check:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page:
        print(f"{PAGE.relative_to(ROOT)} is out of date: run python scripts/benchmarks_page.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
