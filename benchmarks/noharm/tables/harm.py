"""Harm of labelled actions: safety beside what it is made of, errors by kind, severity, category.

The paper's table 3 (MedAct) with the counts behind it, and its sums over all models. Scores and
counts of a row are of the same cases: those that every ranked model has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from medhelm import Floats, Study, Table, TableSpec, pooled_share
from medhelm.plugin import aggregation, notes
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import study as studies
from medhelm_benchmarks.noharm.rules.cases import CATEGORIES
from medhelm_benchmarks.noharm.rules.score import COUNTS, KINDS, LABELS, SEVERITIES, harmonic_mean
from medhelm_benchmarks.noharm.tables.harm_notes import Metadata, Validity, harm_notes, validity_of

_METRICS = {
    "overall": "noharm_overall",
    "safety": "noharm_safety",
    "completeness": "noharm_completeness",
    "restraint": "noharm_restraint",
    "severe_rate": "noharm_severe_rate",
}
_STRICT = "noharm_overall_strict"
"""Overall with a case as the worst of which the reply has an action without a valid label."""
_COUNTS = "noharm_harm"
"""The metric whose sums are the harm, the number of cases, the errors and the labels."""

_SPECIALTY = "specialty"
_SHAPE = (len(KINDS), len(SEVERITIES), len(CATEGORIES))
_UNLABELLED = ("missing", "invalid")
"""Those of the `LABELS` that actions without a valid label have."""

_ERROR_COUNTS = kinds.form(__file__, "error_counts").columns
_FORM = kinds.form(__file__, "harm", error_counts=_ERROR_COUNTS)
_COUNTED = frozenset(c.name for c in _ERROR_COUNTS) | {"severe_cases", "read"}
_OF_REPEATS = tuple(
    replace(c, type="number", digits=1, description=f"{c.description}; mean over repeats")
    if c.name in _COUNTED
    else c
    for c in _FORM.columns
)
"""The columns where cases were asked several times: counts are means, with a digit."""


def has_labels(study: Study, benchmark: str) -> bool:
    """Return whether the actions of a benchmark are labelled and its harm is known."""
    return {_COUNTS, *_METRICS.values()} <= set(study.metrics(benchmark))


def harm(study: Study, metadata: Metadata) -> Table:
    """Return rows of each benchmark with labelled actions: per model, category and specialty.

    The last of each kind are over all ranked models. `metadata` reads that of a cell's instances.
    """
    found = [b for b in study.panels if has_labels(study, b)]
    labelled = [_Labelled(study, benchmark) for benchmark in found]
    rows = [row for own in labelled if own.models for row in _rows(own, metadata)]
    form = _FORM
    if any(c.record.spec.repeats > 1 for b in found for c in study.cells[b].values()):
        form = replace(form, columns=_OF_REPEATS)
    if not _has_gaps(rows):
        form = replace(form, parts=tuple(p for p in form.parts if "overall_worst" not in p.columns))
    said = harm_notes([(own.benchmark, own.panel, own.models) for own in labelled], metadata)
    return notes.study_table(
        study,
        form,
        rows,
        said if rows else ["No benchmark here has labelled actions."],
        under=("benchmark",) if len(found) > 1 else (),
    )


def _has_gaps(rows: Sequence[dict[str, object]]) -> bool:
    """Return whether any case of any model has no value, or is partly read."""
    own = [row for row in rows if row["level"] == "model"]
    return any(row["scored"] != row["attempted"] or row.get("partly_read") for row in own)


def validity(study: Study, metadata: Metadata) -> dict[str, Validity]:
    """Return whose the ratings are, by benchmark with labelled actions."""
    return {
        b: validity_of(b, study.panel(b, _COUNTS), metadata)
        for b in study.panels
        if has_labels(study, b)
    }


HARM = TableSpec(
    name=_FORM.name,
    help=_FORM.help,
    columns=_FORM.columns,
    make=lambda asked: harm(asked.study, asked.metadata),
)


@dataclass(frozen=True)
class _Sums:
    """Errors and labels summed over some cases, of one model or of several."""

    n: int
    read: float
    """Replies read, averaged over repeats."""
    errors: NDArray[np.float64]
    labels: Floats | None
    """By `LABELS`; None where they are of no one category."""
    partly: int
    """Cases with a reply in which an action has no valid label."""

    def of_category(self, place: int) -> _Sums:
        """Return those of one category alone."""
        return replace(self, errors=self.errors[:, :, place : place + 1], labels=None)


def _sum(scores: studies.MetricScores, ids: NDArray[np.uint64] | None) -> _Sums:
    """Return the sums over the cases among `ids`, or over all that there are."""
    own = scores.sums[slice(None) if ids is None else scores.among(ids)]
    named = scores.pooling.columns
    return _Sums(
        n=len(own),
        read=float(named(own, ["read"]).sum()),
        errors=named(own, COUNTS).sum(0).reshape(_SHAPE) if len(own) else np.zeros(_SHAPE),
        labels=named(own, LABELS).sum(0),
        partly=int(np.count_nonzero(named(own, _UNLABELLED).sum(1))),
    )


def _pool(sums: Collection[_Sums]) -> _Sums:
    labels = [s.labels for s in sums if s.labels is not None]
    return _Sums(
        n=max(s.n for s in sums),
        read=sum(s.read for s in sums),
        errors=np.sum([s.errors for s in sums], axis=0),
        labels=np.sum(labels, axis=0) if labels else None,
        partly=sum(s.partly for s in sums),
    )


class _Labelled:
    """One benchmark with labelled actions: its models in the order of the table."""

    def __init__(self, study: Study, benchmark: str) -> None:
        self.study, self.benchmark = study, benchmark
        self.panel = study.panel(benchmark, _COUNTS)
        self.estimates = {
            column: study.estimates(benchmark, metric) for column, metric in _METRICS.items()
        }
        self.harm = study.estimates(benchmark, _COUNTS)
        has_strict = _STRICT in study.metrics(benchmark)
        self.strict = study.estimates(benchmark, _STRICT) if has_strict else {}
        severe = pooled_share("severe_per_error", "severe", "errors")
        shares = self.panel.with_reading(severe, _severe_sums)  # errors of a case correlate
        self.severe_per_error = shares.estimates(study.settings, benchmark)
        every = set(self.harm).intersection(*self.estimates.values())
        self.models = [m for m in studies.best_first(self.estimates["overall"]) if m in every]
        fit = [m for m in self.models if m in study.ranked and m not in self.panel.unfit]
        self.whole = self.sums(None)
        self.pooled = [m for m in fit if self.whole[m].read]
        """Models behind the rows over all."""
        self.of_rows = (*self.models, *[None] * bool(self.pooled))
        """Each model, then None for those over all."""

    def sums(self, ids: NDArray[np.uint64] | None) -> dict[str, _Sums]:
        """Return each model's sums over some of the compared cases; None: over all of them."""
        if ids is None and len(self.panel.ids):
            ids = self.panel.ids
        return {m: _sum(self.panel.scores(m), ids) for m in self.models}

    def row(
        self, model: str | None, found: Mapping[str, _Sums], *, is_part: bool
    ) -> dict[str, object]:
        """Return what all rows of a model hold, from the sums of each; None: those over all ranked models.

        `is_part`: they are of a part of its actions or cases.
        """
        behind = self.pooled if model is None else [model]
        row: dict[str, object] = {"benchmark": self.benchmark, "models": len(behind)}
        if model is not None:
            row |= {"models": None, "model": model, "ranked": model in self.study.ranked}
        whole = sum(float(self.whole[m].errors.sum()) for m in behind) if is_part else math.nan
        return row | _counts(_pool([found[m] for m in behind]), whole)


def _severe_sums(own: studies.MetricScores) -> Floats:
    """Return the numbers of severe and of all errors of each case."""
    errors = own.pooling.columns(own.sums, COUNTS).reshape(len(own.sums), *_SHAPE).sum((1, 3))
    return np.stack([errors[:, SEVERITIES.index("severe")], errors.sum(1)], axis=1)


def _rows(own: _Labelled, metadata: Metadata) -> Iterator[dict[str, object]]:
    """Yield the rows of a benchmark; of each level last those over all ranked models."""
    for model in own.of_rows:
        row = own.row(model, own.whole, is_part=False)
        yield row | ({"level": "all models"} if model is None else _over_all(own, model))
    seen = np.sum([s.errors.sum((0, 1)) for s in own.whole.values()], axis=0)
    groups: dict[str, dict[str | None, dict[str, _Sums]]] = {
        "category": {
            c: {m: s.of_category(place) for m, s in own.whole.items()}
            for place, c in enumerate(CATEGORIES)
            if seen[place]
        },
        "specialty": {
            specialty: own.sums(ids)
            for specialty, ids in _by_specialty(own.panel.instance_tags(metadata)).items()
        },
    }
    for level, parts in groups.items():
        for model in own.of_rows:
            for name, found in parts.items():
                yield own.row(model, found, is_part=True) | {"level": level, level: name}


def _by_specialty(tags: Mapping[int, Mapping[str, str]]) -> dict[str | None, NDArray[np.uint64]]:
    """Return the cases of each specialty, those without one last; none where no case has one."""
    found: dict[str | None, list[int]] = {}
    for case, tag in tags.items():
        found.setdefault(tag.get(_SPECIALTY), []).append(case)
    if not set(found) - {None}:
        return {}
    names = sorted(found, key=lambda v: (v is None, v or ""))
    return {name: np.array(sorted(found[name]), dtype=np.uint64) for name in names}


def _counts(sums: _Sums, whole: float) -> dict[str, object]:
    """Return the counts of a row; missing where no case was read. `whole`: all the model's errors, or NaN."""
    row: dict[str, object] = {"n": sums.n, "read": sums.read}
    if not sums.read:
        return row
    errors = sums.errors
    total = float(errors.sum())
    row |= {"errors": total, "errors_per_case": total / sums.read}
    for s, severity in enumerate(SEVERITIES):
        row[severity] = errors[:, s].sum()
    for k, kind in enumerate(KINDS):
        row[f"{kind}s"] = errors[k].sum()
        for s, severity in enumerate(SEVERITIES):
            row[f"{kind}s_{severity}"] = errors[k, s].sum()
    severe = SEVERITIES.index("severe")
    grave = float(errors[:, severe].sum())
    row["severe_per_error"] = _part(grave, total)
    for k, kind in enumerate(KINDS):
        row[f"{kind}_share"] = _part(errors[k].sum(), total)
        row[f"severe_{kind}_share"] = _part(errors[k, severe].sum(), grave)
    row["share"] = _part(total, whole)
    if sums.labels is not None:
        row |= {f"labels_{name}": n for name, n in zip(LABELS, sums.labels, strict=True)}
        row["partly_read"] = sums.partly
    return row


def _part(part: float, whole: float) -> float | None:
    return float(part) / whole if whole else None


def _over_all(own: _Labelled, model: str) -> dict[str, object]:
    cell = own.study.panels[own.benchmark].cells[model]
    scores = cell.scores[_METRICS["overall"]]
    outcomes = scores.outcomes
    others = {o: n for o, n in outcomes.items() if o != "scored" and n}
    row: dict[str, object] = {
        "level": "model",
        "attempted": cell.planned(_METRICS["overall"]),
        "parsed": outcomes.get("scored", 0),
        "scored": scores.counted,
        "not_scored": ", ".join(f"{n:,} {o}" for o, n in others.items()),
        "harm": own.harm[model].score,
        "without_strong": _without_strong(own, scores),
    }
    for column, estimates in own.estimates.items():
        row |= estimates[model].cells(column)
    if strict := own.strict.get(model):
        row["overall_strict"] = strict.score
    row |= own.severe_per_error[model].interval.ends("severe_per_error")
    return row | _severe(own.estimates["severe_rate"][model]) | _worst(cell)


def _without_strong(own: _Labelled, scores: studies.MetricScores) -> int:
    at = scores.among(own.panel.ids) if len(own.panel.ids) else slice(None)
    return int((scores.columns["strong"][at] == 0).sum()) if scores.counted else 0


def _severe(rate: studies.Estimate) -> dict[str, object]:
    """Return what follows from the severe harm rate: its method, cases, and NNH with its interval."""
    row: dict[str, object] = {"severe_rate_method": rate.interval.method}
    if rate.n:
        row["severe_cases"] = round(rate.score * rate.n, 6)
    if rate.score > 0:
        row["nnh"] = 1 / rate.score
    if rate.interval.high:
        row["nnh_low"] = 1 / rate.interval.high
    if rate.interval.low:
        row["nnh_high"] = 1 / rate.interval.low
    return row


def _worst(cell: studies.Cell) -> dict[str, object]:
    """Return scores over all cases asked, those without a value at their worst."""
    found = {}
    for column, worst in (("safety", 0.0), ("completeness", 0.0), ("severe_rate", 1.0)):
        scores, planned = cell.scores[_METRICS[column]], cell.planned(_METRICS[column])
        missing = planned - scores.counted
        found[column] = aggregation.worst_case(scores.total, scores.counted, missing, worst)
    pooled = cell.scores[_METRICS["restraint"]]
    restraint = float(pooled.pooling(pooled.sums.sum(0))) if pooled.counted else math.nan
    found["overall"] = float(harmonic_mean(found["safety"], found["completeness"], restraint))
    return {f"{column}_worst": value for column, value in found.items()}
