"""The table of agreement: the jury, its judges and other metrics against clinicians, and
clinicians against each other.

As table 2 of the MedHELM paper: ICC(3,k) with k = 2 after z-scoring within rater, combined and per
benchmark. Of the two raters one is the clinicians' mean, which is standardised again, so that the
figure is 2r / (1 + r). `z_scores="after"` makes the table as the paper does: the mean is of ratings
as they are, and pairs of clinicians need two answers in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from medhelm.errors import UsageError
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.stats import agreement
from medhelm.stats.aggregation import Floats, Ints, mean_of_defined
from medhelm.stats.intervals import Interval, percentile, seed_of
from medhelm.tables.clinicians.corrected import Judged, corrected_table
from medhelm.tables.clinicians.rated_answers import Rated
from medhelm.tables.clinicians.ratings import several
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Settings, Table, Value

ZScores = Literal["before", "after"]
"""Clinicians' ratings are z-scored before averaging, or their plain mean after."""

MIN_COMMON: Mapping[ZScores, int] = {"before": 5, "after": 2}
"""A pair of clinicians needs that many answers in common for an ICC of its own; two as in the paper."""

COMBINED = "combined"
CLINICIANS = "clinicians"

AGREEMENT = form(__file__, "agreement")


@dataclass(frozen=True)
class _Group:
    name: str
    level: str
    ratings: Floats
    measures: dict[str, Floats]
    clusters: Ints
    weights: Floats
    """Of the bootstrap's draws."""
    scale: tuple[int, int]
    z_scores: ZScores

    def consensus(self, weights: Floats) -> Floats:
        """Return what clinicians give each answer, (D, n) or of every draw the same (n,)."""
        return (
            agreement.consensus(self.ratings, weights) if self.z_scores == "before" else self.human
        )

    @property
    def least(self) -> int:
        """Answers that an ICC needs: of two it is 1 or undefined, which only the paper allows."""
        return agreement.LEAST if self.z_scores == "before" else 2

    @property
    def human(self) -> Floats:
        return np.asarray(np.nanmean(self.ratings, axis=1), dtype=np.float64)

    def row(self, measure: str, used: NDArray[np.bool_]) -> Row:
        """Return what every row says: who is compared, on how many answers."""
        rated = ~np.isnan(self.ratings[used])
        return {
            "level": self.level,
            "benchmark": self.name,
            "measure": measure,
            "n": int(used.sum()),
            "answers": len(used),
            "clusters": len(np.unique(self.clusters[used])),
            "raters": int(rated.any(axis=0).sum()),
        }


def agreement_table(
    rated: Rated,
    settings: Settings | None = None,
    *,
    min_common: int | None = None,
    with_judges: bool = False,
    z_scores: ZScores = "before",
) -> Table:
    """Return agreement with clinicians, combined and per benchmark, of the jury and of metrics."""
    settings = settings or Settings()
    min_common = MIN_COMMON[z_scores] if min_common is None else min_common
    judges = set(rated.judges)
    shown = [m for m in rated.measures if with_judges or m not in judges]
    rows: list[Row] = []
    for group in _groups(rated, settings, z_scores):
        measures = [m for m in shown if not np.isnan(group.measures[m]).all()]
        for measure in measures:
            row = _against(group, measure, settings.confidence)
            row["is_stand_in"] = not rated.jury.judges and measure in {JURY, *judges}
            if measure == JURY:
                row |= _votes(group, rated.judges)
            rows.append(row)
        rows.append(_among(group, min_common, settings.confidence))
    chosen: dict[str, Value] = {"min_common": min_common, "z_scores": z_scores}
    return AGREEMENT.table(
        rows,
        [*common_notes(rated), *_agreement_notes(rated, rows, min_common, z_scores)],
        settings.of_draws | chosen | rated_settings(rated),
        title=f"Agreement with clinicians, jury {jury_name(rated)}",
    )


def _groups(rated: Rated, settings: Settings, z_scores: ZScores) -> list[_Group]:
    names = list(dict.fromkeys(rated.benchmarks.tolist()))
    scales = {*rated.scales.values()}
    groups = []
    if len(scales) == 1:
        groups.append((COMBINED, COMBINED, np.ones(len(rated.answers), dtype=np.bool_)))
    groups += [(name, "benchmark", rated.benchmarks == name) for name in names]
    return [
        _Group(
            name=name,
            level=level,
            ratings=rated.ratings[rows],
            measures={m: values[rows] for m, values in rated.measures.items()},
            clusters=(codes := np.unique(rated.clusters[rows], return_inverse=True)[1]),
            weights=agreement.resampled(
                codes, settings.draws, seed_of(settings.bootstrap_seed, "agreement", level, name)
            ),
            scale=rated.scales[name] if level == "benchmark" else min(scales),
            z_scores=z_scores,
        )
        for name, level, rows in groups
    ]


def _against(group: _Group, measure: str, confidence: float) -> Row:
    values = group.measures[measure]
    mean = np.atleast_2d(group.consensus(agreement.once(len(values))))[0]
    used = ~(np.isnan(values) | np.isnan(mean))
    row = group.row(measure, used)
    if measure == JURY or measure.startswith(f"{JURY}["):
        row["n_scale"] = int((~np.isnan(values)).sum())
        row |= _on_the_scale(values, group.human, group.scale)
    r = float(agreement.correlation(mean, values, agreement.once(len(values)))[0])
    if np.isnan(r):
        is_few = used.sum() < agreement.LEAST
        of = "answers with a z-score" if group.z_scores == "before" else "answers"
        why = f"fewer than {agreement.LEAST} {of}" if is_few else "no spread"
        return row | {"boot_method": f"none ({why})"}
    if not np.isfinite(agreement.two_rater_icc(np.asarray(r))):
        return row | {"correlation": r, "boot_method": "none (exact contradiction)"}
    two = agreement.z_scores(np.stack([mean[used], values[used]], axis=1))
    icc = agreement.icc3k(two, confidence)
    drawn = agreement.correlation(group.consensus(group.weights), values, group.weights)
    ends = agreement.two_rater_interval(drawn, confidence, len(np.unique(group.clusters[used])))
    f = agreement.informative(Interval(icc.low, icc.high, "F"))
    row |= {"icc": icc.value, "correlation": r}
    return row | f.columns("icc") | ends.columns("boot")


def _on_the_scale(a: Floats, b: Floats, scale: tuple[int, int]) -> Row:
    """Return what needs both raters on one scale."""
    steps = range(scale[0], scale[1] + 1)
    one, other = np.floor(a + 0.5), np.floor(b + 0.5)
    return {
        "mae": agreement.mean_absolute_error(a, b),
        "bias": float(np.nanmean(a - b)),
        "kappa_quadratic": agreement.kappa_of_ratings(one, other, steps),
    }


def _votes(group: _Group, judges: Sequence[str]) -> Row:
    """Return how many independent judges those are worth that rated any answer of a group."""
    heard = [group.measures[j] for j in judges if not np.isnan(group.measures[j]).all()]
    if len(heard) < 2:
        return {"judges": len(heard)}
    r = agreement.mean_correlation(np.stack(heard, axis=1) - group.human[:, None])
    return {"judges": len(heard), "effective_votes": agreement.effective_votes(len(heard), r)}


def _among(group: _Group, min_common: int, confidence: float) -> Row:
    """Return the row of clinicians against each other, averaged over pairs."""
    ratings = group.ratings
    common = agreement.common_pairs(ratings, min_common)
    iccs = agreement.pair_iccs(ratings, common, agreement.once(len(ratings)), least=group.least)[0]
    pairs = [pair for pair, icc in zip(common, iccs, strict=True) if np.isfinite(icc)]
    iccs = iccs[np.isfinite(iccs)]
    used = np.zeros(len(ratings), dtype=np.bool_)
    for i, j in pairs:
        used |= ~(np.isnan(ratings[:, i]) | np.isnan(ratings[:, j]))
    heard = np.flatnonzero(~np.isnan(ratings).all(axis=0)).tolist()
    without = [agreement.alpha_without(ratings, rater, "ordinal") for rater in heard]
    known = [alpha for alpha in without if not np.isnan(alpha)]
    row = group.row(CLINICIANS, used) | {
        "pairs": len(pairs),
        "pairs_undefined": len(common) - len(pairs),
        "pairs_of_two": sum(
            int((~np.isnan(ratings[:, pair]).any(axis=1)).sum()) < agreement.LEAST for pair in pairs
        ),
        "is_stand_in": False,
        "raters": len({rater for pair in pairs for rater in pair}),
        "alpha": agreement.krippendorff_alpha(ratings, "ordinal"),
        "alpha_without_least": min(known, default=None),
        "alpha_without_most": max(known, default=None),
    }
    if not pairs:
        why = "no pair with a defined ICC" if common else f"no pair with {min_common} in common"
        return row | {"boot_method": f"none ({why})"}
    drawn = agreement.pair_iccs(ratings, pairs, group.weights, least=group.least)
    means = mean_of_defined(np.where(np.isfinite(drawn), drawn, np.nan))
    count = len(np.unique(group.clusters[used]))
    none = Interval(None, None, "none (one cluster)")
    ends = percentile(means, confidence, count) if count > 1 else none
    row |= agreement.informative(ends).columns("boot")
    each = [_on_the_scale(ratings[:, i], ratings[:, j], group.scale) for i, j in pairs]
    for name in ("mae", "kappa_quadratic"):
        row[name] = mean_of_defined(np.array([own[name] for own in each], dtype=np.float64))
    return row | {"icc": float(iccs.mean())}


def judged_runs(rated: Rated) -> list[list[Judged]]:
    """Return the jury's scores of whole runs beside the clinicians' means, by benchmark."""
    groups: dict[str, list[Judged]] = {}
    for own in rated.runs:
        human = np.full(len(own.places), np.nan)
        for answer, value in zip(rated.answers, rated.human(), strict=True):
            if answer[:2] == (own.run.benchmark, own.run.model):
                human[own.place(answer)] = value
        there = ~np.isnan(own.values[JURY])
        head: dict[str, Value] = {"benchmark": own.run.benchmark, "model": own.run.model}
        head["asked"] = len(there)
        judged = Judged(
            head,
            own.values[JURY][there],
            human[there],
            own.clusters[there].tolist(),
            rated.scales[own.run.benchmark],
        )
        groups.setdefault(own.run.benchmark, []).append(judged)
    return [*groups.values()]


def scores_table(rated: Rated, settings: Settings, threshold: float | None = None) -> Table:
    """Return the jury's mean of each rated run, or its share above a threshold, corrected by clinicians."""
    groups = judged_runs(rated)
    of, more = "Scores", rated_settings(rated)
    if threshold is not None:
        if not any(low < threshold <= high for low, high in rated.scales.values()):
            raise UsageError(
                f"threshold={threshold:g} parts no answers: it must lie above the lowest score, and "
                "not above the highest"
            )
        groups = [[own.over(threshold) for own in group] for group in groups]
        of, more = f"Shares of answers of {threshold:g} or more", more | {"threshold": threshold}
    return corrected_table(
        f"{of} corrected by clinicians' ratings, jury {jury_name(rated)}",
        groups,
        common_notes(rated),
        settings,
        is_share=threshold is not None,
        is_pooled=True,
        more=more,
    )


# What must be said beside the numbers -----------------------------------------------------------


def jury_name(rated: Rated) -> str:
    """Return who rated, as titles say it."""
    return rated.jury.name if rated.jury.judges else f"{rated.jury.name} (a stand-in)"


def common_notes(rated: Rated) -> list[str]:
    """Return the notes of every table that is made of ratings."""
    is_sample = rated.data == "sample"
    return [*AGREEMENT.say(stand_in=not rated.jury.judges, sample=is_sample), *rated.notes]


def _agreement_notes(
    rated: Rated, rows: Sequence[Row], min_common: int, z_scores: ZScores
) -> list[str]:
    silent = int(np.isnan(agreement.z_scores(rated.ratings)).all(axis=0).sum())
    is_before = z_scores == "before"
    lacking: dict[str, list[str]] = {}
    for row in rows:
        if row.get("icc") is None:
            why = str(row["boot_method"]).removeprefix("none ")
            lacking.setdefault(why, []).append(f"{row['benchmark']} x {row['measure']}")
    wide = [
        f"{row['benchmark']} x {row['measure']} {kind} {str(row[column])[6:-1]}"
        for row in rows
        for column, kind in (("icc_method", "F"), ("boot_method", "bootstrap"))
        if "says nothing" in str(row.get(column, ""))
    ]
    more = [r for r in rows if r["measure"] == JURY and r["n_scale"] != r["n"]]
    combined = [row for row in rows if row["level"] == COMBINED]
    return AGREEMENT.say(
        before=is_before,
        after=not is_before,
        clinicians=min_common,
        not_combined=len({*rated.scales.values()}) > 1,
        silent=(silent, rated.ratings.shape[1]) if silent and is_before else None,
        no_icc=[(why, several(of)) for why, of in lacking.items()],
        wide=(agreement.NEAR_IDENTITY, several(wide)) if wide else None,
        scale=several(_counted(more, "n_scale")),
        undefined=several(_counted(rows, "pairs_undefined")),
        of_two=several(_counted(rows, "pairs_of_two")),
        worth=[
            (row["judges"], row["effective_votes"])
            for row in combined
            if _is_number(row, "effective_votes")
        ],
        alpha=[(row["alpha"],) for row in combined if _is_number(row, "alpha")],
        without=[
            (row["alpha_without_least"], row["alpha_without_most"])
            for row in combined
            if _is_number(row, "alpha_without_least")
        ],
    )


def _is_number(row: Row, name: str) -> bool:
    value = row.get(name)
    return isinstance(value, float) and not np.isnan(value)


def _counted(rows: Sequence[Row], column: str) -> list[str]:
    return [f"{row[column]} of {row['benchmark']}" for row in rows if row.get(column)]


def rated_settings(rated: Rated) -> dict[str, Value]:
    """Return what the numbers of every table of ratings depend on."""
    return {
        "data": rated.data,
        "scoring": rated.scoring,
        "jury": rated.jury.name,
        "judges": ", ".join(j.name for j in rated.jury.judges) or "offline graders",
    }
