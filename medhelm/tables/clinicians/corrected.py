"""The table `corrected`: what a judge gave all answers, corrected by the part that people judged too.

The prediction-powered mean adds the mean gap of people and judge to the judge's mean. Of shares,
Rogan and Gladen take sensitivity and specificity from the labelled part. Both intervals carry the
doubt in the judge's values and in the labels, summed over whole clusters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medhelm.stats import agreement
from medhelm.stats.aggregation import Floats
from medhelm.stats.two_class import corrected_share
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Settings, Table, Value

SHARES = form(__file__, "corrected")
_ALWAYS_SHARES = ("sensitivity", "specificity")
SCORES = replace(
    SHARES,
    columns=tuple(
        c if c.name in _ALWAYS_SHARES else replace(c, unit=c.unit and "metric")
        for c in SHARES.columns
    ),
)


@dataclass(frozen=True, eq=False)
class Judged:
    """All values i = 1..n of a judge on the answers of one model, beside those of people."""

    head: Mapping[str, Value]
    """Columns that say what it is."""
    judge: Floats
    human: Floats
    """NaN where people gave none."""
    clusters: Sequence[object]
    scale: tuple[float, float] = (0, 1)

    def over(self, threshold: float) -> Judged:
        """Return whether values reach a threshold, 1 or 0, in place of the values."""
        human = np.where(np.isnan(self.human), np.nan, self.human >= threshold)
        return Judged(self.head, (self.judge >= threshold).astype(float), human, self.clusters)


def corrected_table(
    title: str,
    groups: Sequence[Sequence[Judged]],
    notes: Sequence[str],
    settings: Settings,
    *,
    is_share: bool = True,
    is_pooled: bool = False,
    more: Mapping[str, Value] | None = None,
) -> Table:
    """Return what each group's judge gave each model, corrected.

    Of shares, sensitivity and specificity are of the model's own labels, else of all others, or of
    all of the group where they are pooled.
    """
    rows = [
        _row(own, _sources(own, group, is_pooled), is_share, settings.confidence)
        for group in groups
        for own in group
    ]
    said = SHARES.say(powered=settings.confidence, rogan_gladen=is_share)
    named = ("benchmark", "judge", "reference")
    group = tuple(name for name in named if rows and rows[0].get(name))
    return replace(SHARES if is_share else SCORES, group=group).table(
        rows, [*said, *notes], {"confidence": settings.confidence, **(more or {})}, title=title
    )


def _sources(
    own: Judged, group: Sequence[Judged], is_pooled: bool
) -> tuple[str | None, list[Judged]]:
    """Return whose labels give sensitivity and specificity."""
    labelled = [j for j in group if not np.isnan(j.human).all()]
    if is_pooled:
        return "all", labelled
    if any(j is own for j in labelled):
        return "own", [own]
    return ("others" if labelled else None), labelled


def _row(
    own: Judged,
    sources: tuple[str | None, Sequence[Judged]],
    is_share: bool,
    confidence: float,
) -> Row:
    labelled = ~np.isnan(own.human)
    whose, others = sources
    every = [(own.clusters, np.ones(len(own.judge), dtype=np.bool_))]
    every += [(j.clusters, ~np.isnan(j.human)) for j in others]
    names = [str(c) for clusters, kept in every for c, k in zip(clusters, kept, strict=True) if k]
    codes = np.unique(names, return_inverse=True)[1].astype(np.int64)
    clusters, rest = codes[: len(own.judge)], codes[len(own.judge) :]
    row: Row = {
        **own.head,
        "decisions": len(own.judge),
        "cases": len(np.unique(clusters)),
        "labelled": int(labelled.sum()),
        "labelled_cases": len(np.unique(clusters[labelled])),
    }
    if not len(own.judge):
        return row | {"powered_method": "none (no value)", "corrected_method": "none (no value)"}
    row["mean"] = own.judge.mean()
    if labelled.any():
        row["labelled_mean"] = own.human[labelled].mean()
        powered = agreement.powered_mean(own.judge, own.human, clusters)
        held = len(np.unique(clusters[labelled]))
        row |= _ends("powered", powered, held, confidence, own.scale)
    else:
        row["powered_method"] = f"none (no label{' of this model' * bool(others)})"
    if not is_share:
        return row
    if not others:
        return row | {"corrected_method": "none (no label)"}
    judge, truth = (
        np.concatenate([x[~np.isnan(j.human)] for j, x in pairs]) > 0
        for pairs in ([(j, j.judge) for j in others], [(j, j.human) for j in others])
    )
    found = corrected_share(own.judge > 0, clusters, judge, truth, rest)
    return row | {
        "labels_of": whose,
        "sensitivity": judge[truth].mean() if truth.any() else None,
        "specificity": (~judge[~truth]).mean() if not truth.all() else None,
        **_ends("corrected", found, len(np.unique(rest)), confidence, own.scale),
    }


def _ends(
    name: str,
    found: agreement.Corrected,
    clusters: int,
    confidence: float,
    scale: tuple[float, float],
) -> Row:
    ends = agreement.t_interval(found, clusters, confidence)
    row = {name: found.value} | ends.columns(name)
    low, high = scale
    return {n: min(high, max(low, v)) if isinstance(v, float) else v for n, v in row.items()}
