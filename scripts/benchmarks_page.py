"""Writes docs/benchmarks.md from the registry and the manifests, and prints the page of a benchmark.

    python scripts/benchmarks_page.py [--check | NAME ...]

Facts come from the plugins, numbers from `benchmarks/manifests/` (written by `medhelm validate
--update`), so that neither needs the data. The words on mended faults are a benchmark's own
(`mended`) or lie in `scripts/benchmark_words.yaml`; a benchmark without them is an error.
`scripts/docs_site.py` makes a page of every benchmark, linked relative to docs/.
`--check` writes nothing and fails where the page is not what would be written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec
from pages import ROOT, grid, parser, put

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


def render(link: Callable[[Benchmark], str] | None = None) -> str:
    """Return the overview, in which `link` leads to a benchmark; None: to its plugin's file."""
    registry = load_registry()
    lines = [
        "# Benchmarks",
        "",
        "The benchmarks that come with medhelm. `medhelm list benchmarks` gives their titles,",
        "`medhelm describe NAME` an example prompt, and `python scripts/benchmarks_page.py NAME` the page",
        "of one (also on the documentation's site): what it asks, data and licence, metrics, what was",
        "mended, and the scores of embedded answers.",
        "",
        "The best constant is the score of the best of the answers that are the same for every",
        "instance; the oracle under `helm` is what the published scorer gives the gold. Both are",
        "measured on the full data, where they can be fetched.",
        "",
        *_overview(built_in(registry), registry, link or _plugin),
    ]
    return "\n".join(lines) + "\n"


def _plugin(benchmark: Benchmark) -> str:
    return f"../{Path(benchmark.origin).resolve().relative_to(ROOT).as_posix()}"


def render_each() -> dict[str, str]:
    """Return the page of every benchmark that comes with medhelm, by name."""
    registry = load_registry()
    own = built_in(registry)
    words = read_words(own, registry)
    return {b.name: "\n".join(_page(b, registry, words[b.name])) + "\n" for b in own}


def _overview(
    benchmarks: Sequence[Benchmark], registry: Registry, link: Callable[[Benchmark], str]
) -> Iterator[str]:
    rows = []
    for benchmark in benchmarks:
        main = benchmark.metrics[0]
        cells = [
            f"[`{benchmark.name}`]({link(benchmark)})",
            benchmark.data_class,
            registry.taxonomy.subcategory(benchmark.subcategory).name,
            _count(benchmark, benchmark.dataset.splits[0]),
            f"`{main}`",
            *_measured(read_manifest(benchmark, "full"), main, benchmark.published_metric or main),
        ]
        rows.append(cells)
    heads = ["benchmark", "access", "subcategory", "instances", "main metric"]
    yield from grid("lllrlrr", [*heads, "best constant", "oracle, `helm`"], rows)


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


def _page(benchmark: Benchmark, registry: Registry, words: Words) -> Iterator[str]:
    yield from [f"# {benchmark.title}", "", f"`{benchmark.name}`. {_plain(benchmark.description)}"]
    parts = {
        "What it asks": _asked(benchmark, registry),
        "Data": _data(benchmark),
        "Scoring": _scoring(benchmark, registry, words),
        "Faults that were mended": [f"- {fault}" for fault in words.mended],
        "Scores of embedded answers": _scores(benchmark),
        "Citation": [benchmark.citation],
    }
    for heading, lines in parts.items():
        yield from ["", f"## {heading}", "", *lines]


def _plain(text: str) -> str:
    """Return a text in one line, in which angle brackets stay what they are in Markdown."""
    return _PLACE.sub(r"`\g<0>`", " ".join(text.split()))


def _asked(benchmark: Benchmark, registry: Registry) -> Iterator[str]:
    subcategory = registry.taxonomy.subcategory(benchmark.subcategory)
    category = registry.taxonomy.category_of(subcategory.id)
    tasks = {task.id: task.name for task in subcategory.tasks}
    own = "; ".join(tasks[task].lower() for task in benchmark.tasks)
    prompt = resolve_prompt(benchmark)
    yield f"- Place: {category.name} / {subcategory.name}; tasks: {own}"
    yield f"- Prompt: `{prompt.name}` (version {prompt.version}), in our own words"
    thinks = f"{benchmark.reasoning_output_tokens:,} for a model that thinks"
    yield f"- Output budget: {benchmark.max_output_tokens:,} tokens, {thinks}"
    if benchmark.parts:
        parts = ", ".join(f"`{part}`" for part in benchmark.parts)
        yield f"- Parts: {parts}; the score is the unweighted mean of theirs"
    if benchmark.instruction:
        yield from ["", "The instruction:", ""]
        yield from (
            f"> {escape(line, quote=False)}".rstrip() for line in benchmark.instruction.splitlines()
        )


def _data(benchmark: Benchmark) -> Iterator[str]:
    yield f"- Access: {benchmark.data_class}; curation: {benchmark.curation}"
    may = "may" if benchmark.redistributable else "may not"
    yield f"- Licence: {benchmark.licence}; text {may} be republished"
    yield f"- Source: {_source(benchmark)}"
    split, *others = benchmark.dataset.splits
    counts = [f"{_count(benchmark, split)} (split `{split}`, the default)"]
    counts += [f"{_count(benchmark, other)} (split `{other}`)" for other in others]
    yield f"- Instances: {', '.join(counts)}"
    yield f"- Clusters: {benchmark.cluster or 'none, instances are independent'}"
    yield f"- Slices: {', '.join(f'`{key}`' for key in _metadata(benchmark)) or 'none'}"
    if benchmark.unverified:
        yield "- Unverified: written to the published layout, never tried on the real file"
    yield f"- Public since: {benchmark.exposure.public_since or 'not known, or not public'}"
    if benchmark.exposure.overlaps:
        yield f"- Known overlaps: {' '.join(benchmark.exposure.overlaps)}"
    if benchmark.how_to_get:
        yield from ["", "How to get the data:", ""]
        for number, step in enumerate(benchmark.how_to_get, 1):
            yield f"{number}. {_plain(step)}"
    if benchmark.columns:
        yield from ["", "Columns of the file:", ""]
        yield from (f"- `{name}`: {_plain(text)}" for name, text in benchmark.columns.items())


def _scoring(benchmark: Benchmark, registry: Registry, words: Words) -> Iterator[str]:
    yield f"- Metrics: {', '.join(_metric(name, registry) for name in benchmark.metrics)}"
    if benchmark.rubric:
        yield f"- Rubric: `{benchmark.rubric}`"
    if (rules := benchmark.criteria_rules) is not None:
        yield f"- Judges' rules on criteria: `{rules.name}` (version {rules.version})"
    yield from ["", words.scoring]


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
    yield "`oracle` is the gold as a model would write it, `empty` no answer, `constant` one answer to"
    yield "everything, `random` a seeded draw. No model was asked."
    if full is None:
        yield "The data are the bundled samples, which are synthetic: the scores show that the scorer"
        yield "works, and nothing of the benchmark."
    else:
        yield f"The data are the full ones (split `{facts.split}`)."
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
        rows = [(a, *(_score(own[p]) for p in benchmark.parts)) for a, own in facts.parts.items()]
        heads = ["answer", *(f"`{part}`" for part in benchmark.parts)]
        yield from grid("l" + "r" * len(benchmark.parts), heads, rows)


def _score(value: float | None) -> str:
    return "no value" if value is None else f"{value:.4f}"


def main() -> int:
    """Write or check the overview, or print the pages that are named; return the exit code."""
    options = parser(__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help="benchmarks whose page to print")
    given = options.parse_args()
    if not given.names:
        return put(PAGE, render(), check=given.check)
    each = render_each()
    if unknown := [name for name in given.names if name not in each]:
        options.error(f"there is no benchmark {', '.join(unknown)}: medhelm list benchmarks")
    print("\n".join(each[name] for name in given.names), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
