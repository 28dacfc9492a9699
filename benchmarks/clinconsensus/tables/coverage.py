"""Coverage of criteria: models, other thresholds, slices, and what length has to do with it.

Rows of a benchmark are of the cases that every ranked model has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from medhelm import Floats, Study, Table, TableRequest, TableSpec
from medhelm.plugin import column_kinds, notes, two_class
from medhelm.plugin import study as studies
from medhelm_benchmarks.clinconsensus.cases import JOIN

THRESHOLDS = (7, 8, 12, 15)
"""The thresholds that the paper compares with its own."""


@dataclass(frozen=True)
class Hits:
    """The hits of each model on the same cases, with the threshold and the number of criteria."""

    k: int
    n: int
    of: Mapping[str, Floats]
    """By model, of each case."""

    @property
    def other_thresholds(self) -> tuple[int, ...]:
        """Return the thresholds that are compared with k."""
        return tuple(k for k in THRESHOLDS if k <= self.n and k != self.k)

    def coverage(self, model: str, k: int) -> float:
        """Return CACS@k of a model, 0 to 100."""
        credit = np.maximum(0.0, self.of[model] - k + 1)
        return float(100 * credit.sum() / (len(credit) * (self.n - k + 1)))

    def counts(self, model: str) -> list[int]:
        """Return how many cases have 0, 1, ... N hits."""
        found = np.bincount(self.of[model].astype(np.int64), minlength=self.n + 1)
        return [int(count) for count in found]


def alternatives(hits: Hits) -> dict[str, dict[str, float]]:
    """Return the scores of each model by other thresholds, by accuracy and by passing."""
    found = {f"CACS@{k}": {m: hits.coverage(m, k) for m in hits.of} for k in hits.other_thresholds}
    found["Rubric Accuracy"] = {m: float(own.mean() / hits.n) for m, own in hits.of.items()}
    found[f"Pass@{hits.k}"] = {m: float((own >= hits.k).mean()) for m, own in hits.of.items()}
    return found


def partial_correlation(x: Floats, y: Floats) -> float:
    """Return the correlation of two arrays (models, cases) given model and case.

    Both are taken less their model's mean and their case's mean: every model has every case.
    """
    x, y = (
        own - own.mean(axis=1, keepdims=True) - own.mean(axis=0, keepdims=True) + own.mean()
        for own in (x, y)
    )
    return two_class.pearson(x.ravel(), y.ravel())


Cells = dict[str, Any]
"""A row of the table, by column."""
MAIN, HITS, LENGTH = "rubric_coverage", "rubric_hits", "answer_characters"
_SHARES = {
    "accuracy": "rubric_accuracy",
    "passed": "rubric_pass_at_k",
    "hits": HITS,
    "invalid": "rubric_invalid",
}
AXES = ("register", "difficulty", "families", "themes", "group", "specialties", "language")
"""Lay against professional first; a case counts in each of its labels."""
NOT_CLEARANCE = (
    "Coverage says how much of what its authors ask for an answer holds. It is not clearance for "
    "clinical use, and its threshold is not a threshold of safety."
)


_SAID = (
    NOT_CLEARANCE,
    "The overlaps of the first three and five are of more models than that: models that tie for the last "
    "place hold equal parts of it. Rank correlations need three models; ties have their mean rank.",
    "Criteria without a valid verdict count as not met.",
    "A difference is of a slice less all other cases; its interval is made of those of both, which are "
    "of different cases (the square-and-add rule).",
)
_FORM = column_kinds.form(__file__, "coverage")


def has_coverage(study: Study, benchmark: str) -> bool:
    """Return whether a benchmark's criteria have a threshold, and its scores are of it."""
    return {MAIN, *_SHARES.values()} <= set(study.metrics(benchmark))


def coverage(asked: TableRequest) -> Table:
    """Return the rows of every benchmark with binary criteria and a threshold."""
    study = asked.study
    found = [b for b in study.cells if has_coverage(study, b)]
    rows = [row for b in found for row in _rows(asked, b)]
    said = [*_SAID] if rows else ["No benchmark here has criteria with a threshold."]
    repeated = [b for b in found if hits_of(study, b) is None]
    if repeated:
        said.append(
            f"{', '.join(repeated)}: without other thresholds and hits, which need one answer a case "
            "and the same number of criteria in all."
        )
    return notes.study_table(study, _FORM, rows, said)


COVERAGE = TableSpec(name=_FORM.name, help=_FORM.help, columns=_FORM.columns, make=coverage)


def hits_of(study: Study, benchmark: str) -> Hits | None:
    """Return the hits of the models on the compared cases; None where there is no one threshold."""
    panel = study.panel(benchmark, MAIN)
    record = next(iter(panel.cells.values())).record
    if record.spec.repeats > 1 or not len(panel.ids):
        return None
    own = study.panel(benchmark, HITS)
    models = [m for m in panel.cells if np.isin(panel.ids, own.scores(m).ids).all()]
    if not models:
        return None
    main = panel.scores(models[0])
    shares = study.panel(benchmark, _SHARES["accuracy"]).scores(models[0])
    most = main.columns["most"][main.among(panel.ids)]
    size = shares.columns["criteria"][shares.among(panel.ids)]
    if len(set(most)) != 1 or len(set(size)) != 1:
        return None
    n = int(size[0])
    return Hits(k=n - int(most[0]) + 1, n=n, of={m: _values(own, m, panel) for m in models})


def _values(panel: studies.Panel, model: str, of: studies.Panel) -> Floats:
    scores = panel.scores(model)
    return np.asarray(scores.values[scores.among(of.ids)], dtype=np.float64)


def _rows(asked: TableRequest, benchmark: str) -> Iterator[Cells]:
    study, hits = asked.study, hits_of(asked.study, benchmark)
    for row in _scores(study, benchmark, "model", study.estimates(benchmark, MAIN)):
        yield row | _more(study, benchmark, str(row["model"]), hits)
    if hits is not None:
        panel = study.panel(benchmark, MAIN)
        for k in hits.other_thresholds:  # all models at the other thresholds, most at each first
            found = _at_threshold(panel, hits, k).estimates(study.settings, benchmark)
            for row in _scores(study, benchmark, "score", found):
                yield row | {"measure": f"CACS@{k}", "k": k}
        ranked = {m: h for m, h in hits.of.items() if m in study.ranked}
        yield from _thresholds(benchmark, Hits(hits.k, hits.n, ranked))
    yield from _slices(asked, benchmark)
    yield from _lengths(study, benchmark)


def _scores(
    study: Study, benchmark: str, level: str, found: Mapping[str, studies.Estimate]
) -> Iterator[Cells]:
    """Yield a row of each model, the ranked ones first, the highest coverage first."""
    for model in sorted(found, key=lambda m: (m not in study.ranked, -found[m].score, m)):
        own = found[model]
        yield {
            "benchmark": benchmark,
            "level": level,
            "model": model,
            "ranked": model in study.ranked,
            "n": own.n,
            **own.cells("coverage"),
        }


def _more(study: Study, benchmark: str, model: str, hits: Hits | None) -> Cells:
    """Return the cells of a model besides its coverage."""
    others = {name: study.estimates(benchmark, metric)[model] for name, metric in _SHARES.items()}
    row: Cells = {name: own.score for name, own in others.items()}
    for name in ("accuracy", "passed"):
        row |= others[name].cells(name)
    if hits is not None and model in hits.of:
        values = hits.of[model]
        low, median, high = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
        reaching = values[values >= hits.k]
        row |= {"k": hits.k, "hits_median": median}
        # N times those of the accuracy: the metric itself does not know N, and so has no upper bound.
        share = others["accuracy"].interval
        row["hits_low"] = None if share.low is None else hits.n * share.low
        row["hits_high"] = None if share.high is None else hits.n * share.high
        row |= {"hits_first_quartile": low, "hits_third_quartile": high}
        row["reaching"] = float(reaching.mean()) / hits.n if len(reaching) else None
    return row


def _at_threshold(panel: studies.Panel, hits: Hits, k: int) -> studies.Panel:
    """Return the panel with the sums that the hits of its cases give at another threshold."""
    most = hits.n - k + 1
    cells = {}
    for model, own in hits.of.items():
        scores = panel.scores(model)
        credit = np.maximum(0.0, own - k + 1)
        sums = {"credit": credit, "most": np.full(len(credit), float(most))}
        changed = replace(
            scores,
            ids=panel.ids,
            values=100 * credit / most,
            sums=np.stack([sums[name] for name in scores.pooling.names], axis=-1),
        )
        cells[model] = replace(panel.cells[model], scores={MAIN: changed})
    return replace(panel, cells=cells)


def _thresholds(benchmark: str, hits: Hits) -> Iterator[Cells]:
    main = np.array([hits.coverage(m, hits.k) for m in hits.of])
    of = {f"CACS@{k}": k for k in hits.other_thresholds} | {f"Pass@{hits.k}": hits.k}
    for measure, scores in alternatives(hits).items():
        row: Cells = {"benchmark": benchmark, "level": "threshold", "measure": measure}
        row["k"] = of.get(measure)
        other = np.array([scores[m] for m in hits.of])
        row["correlation"] = two_class.spearman(main, other)
        for size in (3, 5):
            shared = two_class.top_overlap(main, other, size)
            row[f"top{size}"] = None if math.isnan(shared) else f"{round(shared, 2):g}/{size}"
        yield row


def _slices(asked: TableRequest, benchmark: str) -> Iterator[Cells]:
    study = asked.study
    panel = study.panel(benchmark, MAIN)
    tags = panel.instance_tags(asked.metadata)
    for axis in AXES:
        members: dict[str, list[int]] = {}
        for case, tag in tags.items():
            for value in filter(None, tag.get(axis, "").split(JOIN)):
                members.setdefault(value, []).append(case)
        for value in sorted(members):
            inside = np.array(sorted(members[value]), dtype=np.uint64)
            outside, names = np.setdiff1d(panel.ids, inside), (axis, value)
            own = panel.restrict(inside).estimates(study.settings, benchmark, *names)
            rest: Mapping[str, studies.Estimate] = {}
            if len(outside):
                others = panel.restrict(outside)
                rest = others.estimates(study.settings, benchmark, *names, "others")
            rows = {row["model"]: row for row in _scores(study, benchmark, "slice", own)}
            for model in sorted(own, key=lambda m: (m not in study.ranked, m)):
                row = rows[model] | {"axis": axis, "value": value}
                if model in rest and min(own[model].n, rest[model].n) > 1:
                    row |= _difference(own[model], rest[model])
                yield row


def _difference(a: studies.Estimate, b: studies.Estimate) -> Cells:
    """Return the difference of two independent scores, with the interval of their own intervals.

    Not of draws: where no case reaches the threshold all draws are 0, and so would be their ends.
    """
    value = a.score - b.score
    ends = (a.interval.low, a.interval.high, b.interval.low, b.interval.high)
    a_low, a_high, b_low, b_high = (math.nan if end is None else end for end in ends)
    return {
        "difference": value,
        "difference_low": value - math.hypot(a.score - a_low, b_high - b.score),
        "difference_high": value + math.hypot(a_high - a.score, b.score - b_low),
    }


def _lengths(study: Study, benchmark: str) -> Iterator[Cells]:
    if LENGTH not in study.metrics(benchmark):
        return
    panel = study.panel(benchmark, MAIN)
    lengths, shares = study.panel(benchmark, LENGTH), study.panel(benchmark, _SHARES["accuracy"])
    models = [
        m
        for m in panel.cells
        if m in study.ranked
        and all(np.isin(panel.ids, p.scores(m).ids).all() for p in (panel, lengths, shares))
    ]
    if not models or not len(panel.ids):
        return
    x, main, share = (
        np.stack([_values(p, m, panel) for m in models]) for p in (lengths, panel, shares)
    )
    measures = {
        "Pearson, length and coverage": two_class.pearson(x.ravel(), main.ravel()),
        "Spearman, length and coverage": two_class.spearman(x.ravel(), main.ravel()),
        "Pearson, length and accuracy": two_class.pearson(x.ravel(), share.ravel()),
        "Spearman, length and accuracy": two_class.spearman(x.ravel(), share.ravel()),
        "given model and case, length and coverage": partial_correlation(x, main),
    }
    row: Cells = {"benchmark": benchmark, "level": "length", "n": int(x.size)}
    yield from (row | {"measure": m, "correlation": value} for m, value in measures.items())
