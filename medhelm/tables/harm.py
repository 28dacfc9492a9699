"""Harm of labelled actions: safety beside what it is made of, errors by kind, severity, category.

The paper's table 3 (MedAct), with the counts behind it. Scores and intervals are those of the
table `benchmarks`; here they stand in one row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medhelm.noharm.cases import CATEGORIES
from medhelm.noharm.derive import SEVERITIES
from medhelm.tables import notes
from medhelm.tables.cells import Cell
from medhelm.tables.column_kinds import count, ends, number, text, yes
from medhelm.tables.study import Study
from medhelm.tables.table import Part, Row, Table, make_table

_KINDS = ("omission", "commission")
_METRICS = {
    "overall": "noharm_overall",
    "safety": "noharm_safety",
    "completeness": "noharm_completeness",
    "restraint": "noharm_restraint",
    "severe_rate": "noharm_severe_rate",
}
_COUNTS = "noharm_harm"
"""The metric whose statistics are the harm, the number of cases and the counts of errors."""


COLUMNS = (
    text("benchmark", "name of the benchmark"),
    text("level", "model: over all actions; category: of one category of actions"),
    text("model", "name of the model", "model"),
    text("category", "category of actions; missing in the row over all", "category"),
    yes("ranked", "whether the model is ranked"),
    count("attempted", "cases asked"),
    count("parsed", "cases whose labels could be read", "cases", of="attempted"),
    text("not_scored", "cases without labels, by outcome", "not scored"),
    number(
        "overall",
        "harmonic mean of the three",
        "share",
        "overall",
        ("overall_low", "overall_high"),
        3,
    ),
    *ends("overall", "overall", "share"),
    number(
        "safety", "mean of 1 - min(H, 25) / 25", "share", "safety", ("safety_low", "safety_high"), 3
    ),
    *ends("safety", "safety", "share"),
    number("safety_worst", "safety if every case without a value scored 0", "share"),
    number(
        "completeness",
        "share of cases with every strongly appropriate action",
        "share",
        "complete",
        ("completeness_low", "completeness_high"),
        3,
    ),
    *ends("completeness", "completeness", "share"),
    number(
        "restraint",
        "share of endorsed actions that are appropriate or uncertain, pooled",
        "share",
        "restraint",
        ("restraint_low", "restraint_high"),
        3,
    ),
    *ends("restraint", "restraint", "share"),
    number(
        "severe_rate",
        "share of cases with a severe error",
        "share",
        "severe",
        ("severe_rate_low", "severe_rate_high"),
        3,
    ),
    *ends("severe_rate", "severe_rate", "share"),
    text("severe_rate_method", "how its interval was made"),
    number("severe_rate_worst", "share if every case without a value had a severe error", "share"),
    number(
        "nnh",
        "cases per case with a severe error; missing where there was none",
        "",
        "NNH",
        digits=1,
    ),
    number("harm", "mean H of a case, not capped", "", "H", digits=1),
    count("errors", "errors in all cases", "errors"),
    number(
        "severe_per_error",
        "severe errors / errors",
        "share",
        "severe/error",
        digits=1,
        is_percent=True,
    ),
    count("omissions", "appropriate actions left out, after resolution", "omissions"),
    count("commissions", "inappropriate actions endorsed", "commissions"),
    *(
        count(f"{kind}s_{severity}", f"{severity} {kind}s")
        for kind in ("omission", "commission")
        for severity in ("mild", "moderate", "severe")
    ),
)


def harm(study: Study) -> Table:
    """Return one row per model with labelled actions, and one per model and category of actions."""
    rows: list[Row] = []
    for benchmark in study.panels:
        if _COUNTS in study.metrics(benchmark):
            rows += _rows(study, benchmark)
    said = [
        "Errors of the cases that could be read; a case without labels counts as Safety 0 and as a "
        "severe error, failed requests count in no mean and in the worst cases.",
        "Ratings of synthetic cases are not validated by clinicians.",
        "Where no severe error was seen, the interval is the rule of three: in n cases up to 3/n "
        "cannot be excluded.",
    ]
    return make_table(
        "harm",
        "Harm of labelled actions",
        COLUMNS,
        rows,
        [
            *notes.common(study),
            *(said if rows else ["No benchmark here has labelled actions."]),
        ],
        notes.settings(study),
        parts=(
            Part(level="model", title="Harm of labelled actions"),
            Part(level="category", title="Errors by category of actions", group=("model",)),
        ),
    )


def _rows(study: Study, benchmark: str) -> Iterator[Row]:
    found = study.estimates(benchmark, "noharm_overall")
    models = sorted(found, key=lambda m: (-np.nan_to_num(found[m].score, nan=-1.0), m))
    for model in models:
        cell = study.panels[benchmark].cells[model]
        shared: Row = {"benchmark": benchmark, "model": model, "ranked": model in study.ranked}
        counts = _counts(study, benchmark, model)
        yield shared | _over_all(study, benchmark, model, cell) | _errors(counts)
        for place, category in enumerate(CATEGORIES):
            own = counts[:, :, place : place + 1]
            if own.any():
                yield shared | {"level": "category", "category": category, **_errors(own)}


def _counts(
    study: Study, benchmark: str, model: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return errors by kind, severity and category, summed over cases."""
    sums = study.panel(benchmark, _COUNTS).scores(model).stats.sum(0)[2:]
    return np.asarray(sums.reshape(len(_KINDS), len(SEVERITIES), len(CATEGORIES)))


def _over_all(study: Study, benchmark: str, model: str, cell: Cell) -> Row:
    outcomes = cell.scores["noharm_overall"].outcomes
    others = {o: n for o, n in outcomes.items() if o != "scored" and n}
    row: Row = {
        "level": "model",
        "attempted": cell.planned("noharm_overall"),
        "parsed": outcomes.get("scored", 0),
        "not_scored": ", ".join(f"{n:,} {o}" for o, n in others.items()),
        "harm": study.estimates(benchmark, _COUNTS)[model].score,
    }
    for column, metric in _METRICS.items():
        own = study.estimates(benchmark, metric)[model]
        row |= {column: own.score, f"{column}_low": own.interval.low}
        row |= {f"{column}_high": own.interval.high}
    severe = study.estimates(benchmark, "noharm_severe_rate")[model]
    row["severe_rate_method"] = severe.interval.method
    if severe.score > 0:
        row["nnh"] = 1 / severe.score
    for column, metric, worst in (
        ("safety_worst", "noharm_safety", 0.0),
        ("severe_rate_worst", "noharm_severe_rate", 1.0),
    ):
        scores, planned = cell.scores[metric], cell.planned(metric)
        if planned:
            row[column] = (scores.total + worst * (planned - scores.counted)) / planned
    return row


def _errors(counts: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Row:
    total = int(counts.sum())
    row: Row = {"errors": total}
    for k, kind in enumerate(_KINDS):
        row[f"{kind}s"] = int(counts[k].sum())
        for s, severity in enumerate(SEVERITIES):
            row[f"{kind}s_{severity}"] = int(counts[k, s].sum())
    if total:
        row["severe_per_error"] = float(counts[:, SEVERITIES.index("severe")].sum()) / total
    return row
