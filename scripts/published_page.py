"""Writes docs/published.md: the MedHELM paper's tables beside what the product makes of its figures.

    python scripts/published_page.py COPY [--check]

COPY is a clone of the authors' public analysis repository (som-shahlab/medhelm), or a folder with
its files scores.csv and tokens_and_costs.csv. The published scores, tokens and ratings are written
as run folders, so that the tables are made as those of any run. `--check` writes nothing and fails
where the page differs; of a copy without the clinicians' ratings the figures made of them stay.
"""

from __future__ import annotations

import csv
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
import yaml
from pages import ROOT, grid, parser, put

sys.path.insert(0, str(ROOT))

from medhelm.models.costs import upper_bound  # noqa: E402
from medhelm.plugins.registry import load_registry  # noqa: E402
from medhelm.schema.data import Criterion, Rubric  # noqa: E402
from medhelm.schema.model import ModelSpec, Price  # noqa: E402
from medhelm.schema.run import JUDGE, JurySpec, JuryTerms, Party, UsageTotals  # noqa: E402
from medhelm.stats import aggregation as stats  # noqa: E402
from medhelm.store.records import read_record  # noqa: E402
from medhelm.tables.clinicians.agreement import ZScores, agreement_table  # noqa: E402
from medhelm.tables.clinicians.rated_answers import Rated, load_rated  # noqa: E402
from medhelm.tables.clinicians.ratings import read_ratings  # noqa: E402
from medhelm.tables.format.table import Settings, Table, Value  # noqa: E402
from medhelm.tables.loading import load_results  # noqa: E402
from medhelm.tables.results import Results  # noqa: E402
from medhelm.tables.study.selection import RunChoice  # noqa: E402
from tests.build_runs import EXACT, Item, write_run  # noqa: E402

PAGE = ROOT / "docs" / "published.md"
COMMIT = "51a9bec"
DATE = "2025-05-12"
LIKERT = msgspec.structs.replace(EXACT, name="jury", minimum=1.0, maximum=5.0, floor=1.0)
AXES = ("accuracy", "completeness", "clarity")
PARTS = ("clear", "ehrshot", "n2c2_ct", "med_dialog")
"""Benchmarks of several runs, whose instances do not weigh the same."""
RATED = {"aci_bench": "aci_bench", "medi_qa": "mediqa_qa"}
BEGIN, END = "<!-- ratings:begin -->", "<!-- ratings:end -->"
SETTINGS = Settings(draws=200)

Line = Mapping[str, str]
Cells = Sequence[object]


@dataclass(frozen=True)
class Copy:
    """The content of a copy of the repository."""

    scores: Sequence[Line]
    costs: Sequence[Line]
    ratings: Sequence[Line] | None
    """None where the copy has no ratings."""


def read_copy(folder: Path) -> Copy:
    """Return the figures of a copy; raises SystemExit where there are none."""
    found: dict[str, Sequence[Line] | None] = {}
    for name, places in {
        "scores": ("data/leaderboard.csv", "scores.csv"),
        "costs": ("data/costs.csv", "tokens_and_costs.csv"),
        "ratings": ("src/medhelm/open-ended-evals/output.csv",),
    }.items():
        path = next((folder / p for p in places if (folder / p).is_file()), None)
        if path is None and name != "ratings":
            raise SystemExit(f"{folder}: there is neither {' nor '.join(places)}; name a copy")
        if path is None:
            found[name] = None
            continue
        with path.open(encoding="utf-8-sig", newline="") as file:
            found[name] = list(csv.DictReader(file))
    return Copy(found["scores"] or (), found["costs"] or (), found["ratings"])


@dataclass(frozen=True)
class Printed:
    """The numbers that the paper prints (`published_tables.yaml`)."""

    models: Sequence[dict[str, Any]]
    benchmarks: Mapping[str, dict[str, Any]]
    judges: Sequence[str]
    categories: Mapping[str, Sequence[float]]
    table_2: Mapping[str, dict[str, Any]]
    grand_total: float

    def spec(self, name: str) -> ModelSpec:
        """Return a model with its printed price."""
        (own,) = (m for m in self.models if m["name"] == name)
        price = Price(input=own["price"][0], output=own["price"][1], date=DATE)
        return ModelSpec(name=name, price=price)


def read_printed() -> Printed:
    """Return what the paper prints."""
    text = (ROOT / "scripts" / "published_tables.yaml").read_text(encoding="utf-8")
    return Printed(**yaml.safe_load(text))


# The figures as runs -------------------------------------------------------------------------


def write_runs(folder: Path, copy: Copy, printed: Printed) -> None:
    """Write one run for each model and benchmark: its published score, tokens and judges' tokens."""
    registry = load_registry()
    costs = {(line["Model"], line["Benchmark"]): line for line in copy.costs}
    scores = {line["Model"]: line for line in copy.scores}
    heads = {head.split(" - ")[0]: head for head in copy.scores[0]}
    judges = [printed.spec(name) for name in printed.judges]
    for model in printed.models:
        for name, own in printed.benchmarks.items():
            head = heads[own["scores"]]
            line = costs[model["costs"], own["costs"]]
            place = registry.taxonomy.subcategory(registry.benchmark(name).subcategory)
            grading = write_run(
                folder,
                name,
                printed.spec(model["name"]),
                [Item(id="published", value=float(scores[model["name"]][head]))],
                metrics=[LIKERT if head.endswith("Jury Score") else EXACT],
                category=registry.taxonomy.category_of(place.id).name,
                subcategory=place.name,
                usage=_tokens(line, "Total Input Tokens", "Total Output Tokens"),
            )
            judged = _tokens(line, "Total Judge Input Tokens", "Total Judge Output Tokens")
            if judged.input_tokens:
                _add_judges(grading, judges, judged)


def _tokens(line: Line, given: str, limit: str) -> UsageTotals:
    requests, given_, limit_ = (
        int(line[name].replace(",", "") or 0) for name in ("Test Instances", given, limit)
    )
    return UsageTotals(requests=requests, input_tokens=given_, output_limit_tokens=limit_)


def _add_judges(grading: Path, judges: Sequence[ModelSpec], usage: UsageTotals) -> None:
    """Give a run's record its judges: the published tokens are those of each."""
    totals = tuple(
        Party(role=JUDGE, model=judge, usage=usage, served_models={}, is_grader=True)
        for judge in judges
    )
    record = read_record(grading)
    record = msgspec.structs.replace(record, parties=(record.own, *totals))
    (grading / "summary.json").write_bytes(msgspec.json.encode(record))


def load_ratings(folder: Path, lines: Sequence[Line]) -> Rated:
    """Return the clinicians' ratings beside the jury's scores, through files as users have them.

    Raters become numbers.
    """
    own = [line for line in lines if line["dataset_name"] in RATED]
    rubric = Rubric(
        name="three axes",
        version="1",
        task="Rate the answer.",
        criteria=tuple(Criterion(name=axis, text=axis) for axis in AXES),
    )
    judges = tuple(ModelSpec(name=name) for name in read_printed().judges)
    terms = JuryTerms(jury=JurySpec(name="paper", judges=judges), rubric=rubric, version="1")
    runs: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for line in own:
        mean = fmean(float(line[f"llm_{axis}"]) for axis in AXES)
        runs[RATED[line["dataset_name"]], line["model_key"]][line["instance_id"]] = mean
    for (benchmark, model), given in runs.items():
        rows = [Item(id=name, value=value) for name, value in given.items()]
        grading = write_run(folder, benchmark, model, rows, metrics=[LIKERT])
        record = read_record(grading)
        judged = msgspec.structs.replace(record.grading, jury=terms)
        record = msgspec.structs.replace(record, grading=judged)
        (grading / "summary.json").write_bytes(msgspec.json.encode(record))
    raters = {name: str(i) for i, name in enumerate(sorted({line["username"] for line in own}))}
    path = folder / "ratings.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["rater", "benchmark", "model", "instance", "item", "value"])
        for line in own:
            answer = (RATED[line["dataset_name"]], line["model_key"], line["instance_id"])
            for axis in AXES:
                writer.writerow([raters[line["username"]], *answer, axis, line[axis]])
    return load_rated(read_ratings([path]), RunChoice(results_dir=folder))


# The page ------------------------------------------------------------------------------------


def render(copy: Copy, stored: str) -> str:
    """Return the page; what is made of ratings is taken from the stored page where there are none."""
    printed = read_printed()
    tables = {"TABLE_2": _stored_table_2(stored)} if copy.ratings is None else {}
    with tempfile.TemporaryDirectory() as name:
        if copy.ratings is not None:
            tables["TABLE_2"] = _table_2(load_ratings(Path(name, "rated"), copy.ratings), printed)
        write_runs(Path(name, "scored"), copy, printed)
        results = load_results(Path(name, "scored"))
    tables |= {
        "TABLE_1": _table_1(results, printed),
        "CATEGORIES": _categories(results, printed),
        "TABLE_3": _table_3(results, printed),
        "MDE": _mde(copy, printed),
    }
    page = TEXT
    for key, text in tables.items():
        page = page.replace(f"<{key}>", text)
    return page


def _stored_table_2(page: str) -> str:
    found = re.search(rf"{BEGIN}\n(.*?)\n{END}", page, re.DOTALL)
    if found is None:
        raise SystemExit("the copy has no ratings and the stored page no figures made of them")
    return found[1]


def _grid(heads: Sequence[str], rows: Sequence[Cells]) -> str:
    return "\n".join(grid("l" + "r" * (len(heads) - 1), heads, rows))


def _beside(printed: float, made: Value, digits: int = 2) -> str:
    """Return a printed figure, and where the recomputed one differs that too, in bold."""
    assert isinstance(made, float)
    made += stats.TIE  # 161 wins of 280 are 0.575 and round up, whatever their last bit
    shown, other = f"{printed:,.{digits}f}", f"{made:,.{digits}f}"
    if shown == other:
        return shown
    return f"{shown}, **{made:,.{digits + 1 if abs(made) < 1 else digits}f}**"


def _by_model(table: Table) -> dict[str, Mapping[str, Value]]:
    return {str(row["model"]): row for row in table.rows if row["model"] is not None}


def _table_1(results: Results, printed: Printed) -> str:
    table = results.typed("overall", SETTINGS)
    rows = _by_model(table)
    has_half = "win_rate_half" in {c.name for c in table.columns}
    half, sd, literal = (
        ("win_rate_half", "win_half_sd", "win_rate")
        if has_half
        else ("win_rate", "win_sd", "win_rate_literal")
    )
    lines = []
    for model in printed.models:
        row, (win, win_sd, macro, macro_sd) = rows[model["name"]], model["table_1"]
        lines.append(
            [
                model["name"],
                _beside(win, row[half]),
                _beside(win, row[literal]),
                _beside(win_sd, row[sd]),
                _beside(macro, row["macro_average"]),
                _beside(macro_sd, row["macro_sd"]),
            ]
        )
    heads = [
        "model",
        "win rate, ties half",
        "win rate, literal",
        "its SD",
        "macro-average",
        "its SD",
    ]
    return _grid(heads, lines)


def _categories(results: Results, printed: Printed) -> str:
    found: dict[str, list[float]] = defaultdict(list)
    for row in results.typed("categories", SETTINGS).rows:
        if row["level"] == "category" and isinstance(row["mean"], float):
            found[str(row["category"])].append(row["mean"])
    lines = [
        [name, _beside(low, min(found[name])), _beside(high, max(found[name]))]
        for name, (low, high) in printed.categories.items()
    ]
    return _grid(["category", "lowest model", "highest model"], lines)


def _table_3(results: Results, printed: Printed) -> str:
    table = results.typed("cost", SETTINGS)
    rows = _by_model(table)
    lines = []
    for model in printed.models:
        row, (tokens, judged, *usd) = rows[model["name"]], model["table_3"]
        names = ("cost_upper_usd", "jury_cost_upper_usd", "total_cost_upper_usd")
        lines.append(
            [
                model["name"],
                _counts(tokens, _sum(row, "input_tokens", "output_limit_tokens")),
                _counts(judged, _sum(row, "jury_input_tokens", "jury_output_limit_tokens") // 3),
                *(_beside(p, row[name]) for p, name in zip(usd, names, strict=True)),
            ]
        )
    lines.append(["DeepSeek R1 at 1.35 and 5.40", *_charged(rows["DeepSeek R1"], printed)])
    (every,) = (row for row in table.rows if row["level"] == "all")
    total = _beside(printed.grand_total, every["total_cost_upper_usd"])
    lines.append(["all nine", "", "", "", "", total])
    heads = ["model", "benchmark tokens", "jury tokens", "benchmark USD", "jury USD"]
    return _grid([*heads, "total USD"], lines)


def _charged(row: Mapping[str, Value], printed: Printed) -> Cells:
    """Return the cells of DeepSeek R1 at the price that it was charged at in the copy."""
    price = Price(input=1.35, output=5.40, date=DATE)
    made = upper_bound(_sum(row, "input_tokens"), _sum(row, "output_limit_tokens"), price)
    jury = row["jury_cost_upper_usd"]
    assert made is not None and isinstance(jury, float)
    (usd,) = (m["table_3"][2:] for m in printed.models if m["name"] == "DeepSeek R1")
    return ["", "", _beside(usd[0], made), _beside(usd[1], jury), _beside(usd[2], made + jury)]


def _sum(row: Mapping[str, Value], *names: str) -> int:
    return sum(int(str(row[name])) for name in names)


def _counts(printed: int, made: int) -> str:
    return f"{printed:,}" if printed == made else f"{printed:,}, **{made:,}**"


def _table_2(rated: Rated, printed: Printed) -> str:
    found = {when: _agreement(rated, when) for when in ("after", "before")}
    lines = []
    for group, own in printed.table_2.items():
        for measure in ("jury", "clinicians"):
            row = found["after"][group, measure]
            pairs = "" if row["pairs"] is None else f"{row['pairs']} pairs"
            lines.append(
                [
                    f"{group}, {measure}",
                    _icc(own[measure]),
                    _made_icc(row, "icc" if measure == "jury" else "boot"),
                    _made_icc(
                        found["before"][group, measure], "icc" if measure == "jury" else "boot"
                    ),
                    pairs or f"{row['n']} answers",
                ]
            )
    heads = ["agreement", "printed", "z-scores after", "default", "made of"]
    return _grid(heads, lines)


def _agreement(rated: Rated, when: ZScores) -> dict[tuple[str, str], Mapping[str, Value]]:
    table = agreement_table(rated, Settings(), z_scores=when)
    return {(str(row["benchmark"]), str(row["measure"])): row for row in table.rows}


def _icc(printed: Sequence[float]) -> str:
    value, low, high = printed
    return f"{value:.3f} ({low:.3f}, {high:.3f})"


def _made_icc(row: Mapping[str, Value], kind: str) -> str:
    value, low, high = (row[name] for name in ("icc", f"{kind}_low", f"{kind}_high"))
    if not isinstance(value, float):
        return "none"
    ends = (
        f"{low:.3f}, {high:.3f}"
        if isinstance(low, float) and isinstance(high, float)
        else "no interval"
    )
    return f"{value:.3f} ({ends})"


def _mde(copy: Copy, printed: Printed) -> str:
    """Return the printed effects of rights and wrongs beside the range that the scores leave."""
    sizes = {(c["Model"], c["Benchmark"]): int(c["Test Instances"]) for c in copy.costs}
    heads = {head.split(" - ")[0]: head for head in copy.scores[0]}
    lines = []
    for name, own in printed.benchmarks.items():
        head = heads[own["scores"]]
        if name in PARTS or head.endswith(("Jury Score", "F1")):
            continue
        n = sizes[printed.models[0]["costs"], own["costs"]]
        ranges = np.asarray(
            [_effects(float(a[head]), float(b[head]), n) for a, b in combinations(copy.scores, 2)]
        )
        low, high = ranges.mean(axis=0)
        mean, _ = own["mde"]
        is_in = low - 0.0005 <= mean <= high + 0.0005
        shown = f"{mean:.3f}" if is_in else f"**{mean:.3f}**"
        lines.append([name, shown, f"{low:.3f}", f"{high:.3f}"])
    return _grid(["benchmark", "printed", "lowest", "highest"], lines)


def _effects(a: float, b: float, n: int) -> tuple[float, float]:
    """Return the MDE of two models with shares a and b right of n: where the questions that one of
    the two misses overlap as far as they can, and not at all."""
    shares = (abs(a - b), min(a + b, 2 - a - b))
    low, high = (float(stats.mde(np.sqrt((q - (a - b) ** 2) / n))) for q in shares)
    return low, high


TEXT = f"""# The published tables, recomputed

<!-- made by scripts/published_page.py; edit the words there -->

What the MedHELM paper ([arXiv 2505.23802](https://arxiv.org/abs/2505.23802)) prints, beside what medhelm makes of the
scores, tokens, costs and clinicians' ratings in the authors' public analysis repository, som-shahlab/medhelm at commit
{COMMIT}. A cell holds the printed figure and, in bold, the recomputed one where it differs.
`python scripts/published_page.py COPY` makes this page of a copy of it.

## Table 1: win rates and macro-averages

Nine models on the paper's 35 benchmarks, without MedQA and MedMCQA, which the copy also has.

<TABLE_1>

- **Win rate.** Counting a tie half, as HELM does and as is [the default here](statistics.md#models---table-overall),
  gives eight of nine printed values. Counting it as a win for both, as the paper's text says, gives three. The ninth
  depends on one tie that the three decimals of the copy's scores cannot decide.
- **SD of the win rate.** Over the eight rivals (ddof 0). The authors' script lets a tie count for neither model
  there; by that rule all nine printed SDs come out.
- **Macro-average.** A jury's mean enters as (x - 1) / 4; the SD is over the benchmarks (ddof 1). All eighteen figures
  come out.

## The ranges by category

The lowest and the highest of the nine models' means over a category's benchmarks. All ten come out.

<CATEGORIES>

## Table 2: agreement with clinicians

ICC(3,k) with k = 2 and its 95 % interval: of the jury the F interval, which the paper clips at 0, of
clinicians the bootstrap interval.

{BEGIN}
<TABLE_2>
{END}

- **Jury.** The paper [z-scores the clinicians' mean](agreement.md#answers) (`--set z_scores=after`); by default each
  clinician is z-scored first. Combined and MEDIQA come out to the last digit. Nothing in the copy explains the 0.305
  of ACI-Bench.
- **Clinicians.** The text averages over all pairs with at least two answers in common, the authors' script takes the
  pair with most in common; neither gives the printed figures to the last digit. The printed interval of MEDIQA is the
  ICCs of its two pairs, whose six answers in common say too little for a bootstrap. An ICC has no lower end.
- **ROUGE-L and BERTScore** need the models' answers, which the copy does not hold.

## Table 3: tokens and costs

Input tokens as counted and each answer at its output limit, at the prices of the paper's table G5. Jury tokens are of
one judge, jury costs of all three.

<TABLE_3>

- **DeepSeek R1** was charged at 1.35 and 5.40 USD per million tokens in the copy, not at the 1.20 and 4.84 of
  table G5. At the former its printed cost comes out to a cent or two, and with it the grand total.
- **Cents** differ since the copy rounds each benchmark's cost before the sums.

## Table E4: minimum detectable effects

The copy holds no scores of single instances, so only bounds can be made again. Two models with shares a and b of
right answers differ on at least |a - b| of the questions, and at most on all that one of them misses. Below are the
means over the 36 pairs at both ends, without benchmarks with a jury, of several parts, or scored by F1.

<MDE>

Every printed effect lies within its range. A jury's effect is 1.25 times the printed one here;
`medhelm tables --table mde --mde paper` is on the authors' scale ([power](statistics.md#power---table-mde)).

## Notes of MTSamples

Two benchmarks leave out notes whose gold is not what is asked for, or cannot be told from the note.
`benchmark.split=published` has the notes of HELM's loader (use a `results_dir` of its own):

| benchmark | default | `published` | what differs there |
| --- | ---: | ---: | --- |
| mtsamples | 338 | 539 | all golds count (201 are findings or a summary) and 202 prompts hold their gold |
| mtsamples_procedures | 86 | 131 | every note is asked for a plan, also the 98 whose gold is findings |

- The published runs had fewer: 427 notes for two models and 78 for the other seven, and 128 procedures for all.
- The counts of procedures are unchecked: the files were not at hand.
- Prompts, rubric and judges differ from the paper's, so that its column is not a target for a run on `published`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page and return the exit code."""
    given = parser(__doc__)
    given.add_argument("copy", type=Path, metavar="COPY")
    args = given.parse_args(argv)
    stored = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    return put(PAGE, render(read_copy(args.copy), stored), check=args.check)


if __name__ == "__main__":
    sys.exit(main())
