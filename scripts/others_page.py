"""Writes docs/others.md: what other harnesses do on the same items.

    python scripts/others_page.py [--check]

The figures are those that the scripts of scripts/others/ stored in scripts/others/results/, each
run by hand with its harness installed. `--check` writes nothing and fails where the page differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from pages import ROOT, grid, make

PAGE = ROOT / "docs" / "others.md"
RESULTS = ROOT / "scripts" / "others" / "results"
LIKELIHOODS_STORED = ROOT / "scripts" / "others" / "likelihoods.json"
FOOTPRINT = ROOT / "scripts" / "others" / "footprint.json"


class Score(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points that a harness gives to one kind of answer."""

    benchmark: str
    metric: str
    answers: str
    part: str
    n: int
    points: float
    unscored: int = 0


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a script stored of its harness."""

    harness: str
    script: str
    packages: dict[str, str]
    files: dict[str, str]
    scores: tuple[Score, ...]


class Rated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The log-probabilities that a harness finds of options, by question."""

    version: str
    labels: dict[str, tuple[float, ...]]
    texts: dict[str, tuple[float, ...]]


class Likelihoods(msgspec.Struct, frozen=True, rename={"lm_eval": "lm-eval"}):
    """The same by two harnesses."""

    model: str
    medhelm: Rated
    lm_eval: Rated


class Footprint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a harness installs, and the least time that its command and a whole run took."""

    harness: str
    installed: dict[str, str]
    command: str
    packages: int
    mib: int
    help_cpu_s: float
    help_wall_s: float
    run_cpu_s: float | None = None
    run_wall_s: float | None = None


class Footprints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The harnesses that were measured in one run; the first is this package."""

    items: int
    concurrency: int
    harnesses: tuple[Footprint, ...]


def read_results(folder: Path) -> list[Stored]:
    """Return the stored results, by name of their file."""
    return [
        msgspec.json.decode(path.read_bytes(), type=Stored)
        for path in sorted(folder.glob("*.json"))
    ]


def read_footprints(path: Path) -> Footprints:
    """Return what the harnesses install and use."""
    return msgspec.json.decode(path.read_bytes(), type=Footprints)


def render(results: list[Stored], footprints: Footprints) -> str:
    """Return the page."""
    _check_files(results)
    lines = [TEXT, *_harnesses(results)]
    for benchmark, words in BENCHMARKS.items():
        lines += ["", words, "", *_table(benchmark, results)]
    stored = msgspec.json.decode(LIKELIHOODS_STORED.read_bytes(), type=Likelihoods)
    lines += ["", LIKELIHOODS.format(model=stored.model, n=len(stored.medhelm.labels)), ""]
    lines += [*_likelihoods(stored), "", SPEED.format(footprints), "", *_footprints(footprints)]
    return "\n".join(lines) + "\n"


def _harnesses(results: list[Stored]) -> list[str]:
    """Return the table of what was measured, with the version that dates it."""
    rows = [
        (own.harness, f"`{package}`", version, f"`{own.script}`")
        for own in results
        for package, version in own.packages.items()
    ]
    return grid("llll", ("harness", "package", "version", "script"), rows)


def _table(benchmark: str, results: list[Stored]) -> list[str]:
    """Return the scores on a benchmark: a row for each answer, a column for each metric."""
    found: dict[tuple[str, str], dict[tuple[str, str], Score]] = {}
    columns: dict[tuple[str, str], None] = {}
    for own in results:
        for score in own.scores:
            if score.benchmark == benchmark:
                columns[own.harness, score.metric] = None
                given = found.setdefault((score.answers, score.part), {})
                given[own.harness, score.metric] = score
    has_parts = any(part != "all" for _, part in found)
    names = ["answers", "part"] if has_parts else ["answers"]
    items = [max(score.n + score.unscored for score in own.values()) for own in found.values()]
    rows = []
    for n, (row, scores) in zip(items, found.items(), strict=True):
        cells = (_cell(scores[c], n) if c in scores else "" for c in columns)
        rows.append([*row[: len(names)], *([f"{n:,}"] if len(set(items)) > 1 else []), *cells])
    if len(set(items)) > 1:
        names.append("items")
    else:
        names[-1] += f" ({items[0]:,} items)"
    heads = [*names, *(f"{harness}, `{metric}`" for harness, metric in columns)]
    return grid("l" * (1 + has_parts) + "r" * (len(heads) - 1 - has_parts), heads, rows)


def _cell(score: Score, items: int) -> str:
    """Return a score with its points, where they do not follow from it, and with its items, where they
    are not those of the row."""
    if not score.n:
        return "none" if score.unscored == items else f"none of {score.unscored:,}"
    of = f" / {score.n:,}" if score.n != items else ""
    without = f"; {score.unscored:,} without a score" if score.unscored else ""
    rate = score.points / score.n
    points = f"{score.points:,.6g}" if of or without or rate not in (0, 1) else ""
    return f"{rate:.3f}" + f" ({points}{of}{without})" * bool(points)


def _likelihoods(stored: Likelihoods) -> list[str]:
    """Return how far the log-probabilities of two harnesses are apart."""
    apart = f"largest difference of this package to `lm-eval` {stored.lm_eval.version}"
    rows = []
    for name in ("labels", "texts"):
        ours, theirs = getattr(stored.medhelm, name), getattr(stored.lm_eval, name)
        pairs = [(ours[q], theirs[q]) for q in ours]
        most = max(abs(a - b) for own, other in pairs for a, b in zip(own, other, strict=True))
        same = sum(own.index(max(own)) == other.index(max(other)) for own, other in pairs)
        options = sum(len(own) for own, _ in pairs)
        rows.append((f"`{name}`", options, f"{most:.1e}", f"{same} of {len(pairs)}"))
    return grid("lrrr", ("rated", "options", apart, "same option likeliest"), rows)


def _footprints(footprints: Footprints) -> list[str]:
    """Return the table of what harnesses install and use, with ratios to this package."""
    ours = footprints.harnesses[0]
    heads = ["installed", "packages", "MiB", "command", "CPU s", "ratio"]
    rows = []
    for own in footprints.harnesses:
        names = ", ".join(f"`{name}` {version}" for name, version in own.installed.items())
        cells = [names, f"{own.packages}", f"{own.mib:,}", f"`{own.command}`"]
        cells += [f"{own.help_cpu_s:.2f}", f"{own.help_cpu_s / ours.help_cpu_s:.1f}"]
        if own.run_cpu_s is None or own.run_wall_s is None or ours.run_cpu_s is None:
            cells += [""] * 3
        else:
            cells += [f"{own.run_cpu_s:.1f}", f"{own.run_cpu_s / ours.run_cpu_s:.1f}"]
            cells += [f"{footprints.items / own.run_wall_s:.0f}"]
        rows.append(cells)
    return grid("lrrlrrrrr", [*heads, "CPU s of a run", "ratio", "requests/s"], rows)


def _check_files(results: list[Stored]) -> None:
    """Raise SystemExit where a file that was scored is not the same for every harness."""
    sums: dict[str, str] = {}
    for own in results:
        for file, sha256 in own.files.items():
            if sums.setdefault(file, sha256) != sha256:
                raise SystemExit(f"{file}: not the same for every harness in {RESULTS}")


TEXT = """# medhelm-framework and others

<!-- made by scripts/others_page.py; edit the words there -->

Scores that other harnesses give to fixed answers, by their own code. A script for each (in `scripts/others/`) was run by
hand in an environment with that harness, and stored counts and the hashes of the files. A cell holds the score, in
brackets its points, and its items where they are not those of the row; `none` where no item got a score. [Benchmarks](benchmarks.md) has what this package gives to golds and empty answers.
"""

BENCHMARKS = {
    "medcalc_bench": """## MedCalc-Bench

The answer `gold` is that of the file, so a scorer that can credit every item gives it 1.000. Both metrics know
`dosage conversion`, as another release spells the file's `dosage`, and have no case for laboratory equations.""",
    "ehrsql": """## EHRSQL

The answer `gold` is the query of the file, and no text where the question has none, as the prompts ask. HELM also asks
the 950 questions without a query, and runs golds as published. `medhelm` puts a time for `current_time` into the gold
and not into the answer. On the published database most golds find no row: `medhelm` then takes the empty answer for
right, and HELM compares with the values of the file.""",
    "aci_bench": """## A jury without a judge

Golds of ACI-Bench, rated 1 to 5 by a jury whose judges are a client that fails, or that gives each request the same
answer. Where no rating can be read, both give 1, the lowest of the scale.""",
    "healthbench": """## HealthBench's points for harm

245 of the 5,000 rows, with a client as judge that answers each criterion rightly for the kind of answer that the row
names. By the published rule, points of harmful criteria count against the answer. `medhelm` of the package index adds
10 to the points of each harmful criterion and counts them for the answer. An unreadable reply of the judge leaves the
row without a score in evalscope and is a criterion not met in Inspect; in `medhelm` each later reply counts for the
criterion before its own.""",
    "mmlu_medical": """## Replies to multiple-choice questions

The six medical subjects of MMLU. Each reply states the gold, but for one that states another option and one that is
empty; B is the letter of the gold. We chose the forms. Each harness is scored on all, and asks for one of its
own: lm-evaluation-harness for the letter (`mmlu generative`) or for `The answer is (B).` at the end of reasoning
(`mmlu flan_cot_zeroshot`, with two filters), Inspect and evalscope for `ANSWER: B`.""",
    "likelihoods": """## Tasks without a reply

MedQA, MedMCQA (the single-choice part of its validation set) and PubMedQA in lm-evaluation-harness compare the
log-likelihoods of the options and read no reply. A model that prefers no option gets the share of items whose gold
is the first.""",
}

LIKELIHOODS = """## Log-probabilities of options

The same weights (`{model}`, a small model of random weights) and {n} questions of MedQA, asked by the harness's task
`medqa_4options` and here by an asking with its prompt, as plain text (`scripts/others/likelihoods.py`). `labels`
rates each letter, as the task does, `texts` each option's text."""

SPEED = """## Speed and footprint

`scripts/others/footprint.py` on 2 cores with other work on the machine; the least of the rounds counts. Environments
hold what a harness needs to ask a server of the OpenAI protocol. A run asks the {0.items:,} questions of the replies
above once, from a server on the same machine that answers at once, with {0.concurrency} requests in flight.
Requests/s are those of the whole command. HELM and `medhelm` of the package index were not run."""


def main() -> int:
    """Write or check the page, and return the exit code."""
    stored = read_results(RESULTS), read_footprints(FOOTPRINT)
    return make(__doc__, PAGE, lambda: render(*stored))


if __name__ == "__main__":
    sys.exit(main())
