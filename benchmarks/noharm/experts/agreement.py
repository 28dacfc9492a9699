"""Tables of experts' ratings of actions against the ratings that the cases came with.

`actions`: each expert and the experts' median against the synthetic median, both kinds of raters
among themselves, and where the two differ. `differences`: the actions on which they differ most.

A median of an even number of ratings may lie between two points. Kappa (Cohen 1960 and 1968) and
differences take it as it is; its class and harm weight are those of the point above. Kappa is
undefined where one of the two rates all actions the same: whatever the other says, it would be 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from medhelm import Floats, Settings, Table, UsageError
from medhelm.plugin import column_kinds, intervals, measured, ratings
from medhelm_benchmarks.noharm.experts.ratings import Ints, RatedActions
from medhelm_benchmarks.noharm.rules.cases import CATEGORIES
from medhelm_benchmarks.noharm.rules.score import (
    CLASSES,
    WEIGHTS,
    action_class,
    middle,
    severity,
    to_point,
)

_POINTS = np.arange(2, 19) / 2


def median(ratings: Floats, least: int) -> Floats:
    """Return the median (n,) of the ratings (n, k) of each action, NaN where fewer than `least` are."""
    enough = (~np.isnan(ratings)).sum(axis=1) >= max(1, least)
    found = np.full(len(ratings), np.nan)
    if enough.any():
        found[enough] = np.nanmedian(ratings[enough], axis=1)
    return found


def harm_weight(rating: float) -> int:
    """Return what an error about an action weighs: above 0 leaving it out, below 0 endorsing it."""
    grave = severity(to_point(rating))
    if grave is None:
        return 0
    return WEIGHTS[grave] if action_class(to_point(rating)) == "appropriate" else -WEIGHTS[grave]


_CLASS = np.asarray([CLASSES.index(action_class(to_point(p))) for p in _POINTS])
_HARM = np.asarray([harm_weight(p) for p in _POINTS])
_GAP = np.abs(_POINTS[:, None] - _POINTS)
_IS_REVERSED = np.abs(np.subtract.outer(_CLASS, _CLASS)) == 2
_class_kappa = measured.kappa(1 - np.eye(len(CLASSES)))


def classes(ratings: Floats) -> Ints:
    """Return the places in `CLASSES` of ratings without NaN."""
    return np.asarray(_CLASS[_places(ratings)], dtype=np.int64)


def _places(ratings: Floats) -> Ints:
    return np.rint(2 * ratings - 2).astype(np.int64)


def _by_class(table: Floats) -> Floats:
    """Return tables (..., 3, 3) of classes."""
    to_class = np.eye(len(CLASSES))[_CLASS]
    return np.asarray(to_class.T @ table @ to_class)


MEASURES: Mapping[str, Callable[[Floats], Floats]] = {
    "kappa_quadratic": measured.kappa(_GAP**2),
    "same_class": measured.share((_CLASS[:, None] == _CLASS).astype(np.float64)),
    "class_kappa": lambda table: _class_kappa(_by_class(table)),
    "difference": measured.share(_POINTS[:, None] - _POINTS),
    "within_1": measured.share((_GAP <= 1).astype(np.float64)),
    "reversed": measured.share(_IS_REVERSED.astype(np.float64)),
    "harm_changed": measured.share((_HARM[:, None] != _HARM).astype(np.float64)),
}

WITH_INTERVAL = ("kappa_quadratic", "same_class", "difference")


def compare(
    pairs: Sequence[tuple[Floats, Floats]],
    clusters: Ints,
    *,
    draws: int,
    seed: int,
    confidence: float,
) -> measured.Measured:
    """Return the agreement of pairs of raters (n,), first with second; of several pairs the mean.

    An action counts in the pairs that have both ratings; NaN is none. `clusters`: their cases.
    """
    both = [np.flatnonzero(~(np.isnan(a) | np.isnan(b))) for a, b in pairs]
    found = measured.measure(
        [
            measured.Pair(_places(a[u]), _places(b[u]), u)
            for (a, b), u in zip(pairs, both, strict=True)
        ],
        clusters,
        len(_POINTS),
        MEASURES,
        with_interval=WITH_INTERVAL,
        draws=draws,
        seed=seed,
        confidence=confidence,
    )
    if len(pairs) > 1 or not found.draws:
        return found
    (a, b), (used,) = pairs[0], both
    same = (classes(a[used]) == classes(b[used])).astype(np.float64)
    codes = np.unique(clusters[used], return_inverse=True)[1].astype(np.int64)
    ends = intervals.score_interval(
        same, codes, found.draws["same_class"], span=(0, 1), is_mean=True, confidence=confidence
    )
    return replace(found, intervals={**found.intervals, "same_class": ends})


MIN_EXPERTS = 2
"""Fewer ratings of an action make no median, where there are as many experts."""

LARGEST = 20
MEDIAN = "experts' median"
_SEVERE = 25

_Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class _Study:
    """Rated actions with what all tables take from them."""

    rated: RatedActions
    settings: Settings
    least: int
    min_common: int

    @cached_property
    def median(self) -> Floats:
        return median(self.rated.ratings, self.least)

    def compare(
        self, pairs: Sequence[tuple[Floats, Floats]], rows: _Rows, *names: str
    ) -> measured.Measured:
        """Return the agreement of pairs of raters on some of the actions."""
        return compare(
            [(a[rows], b[rows]) for a, b in pairs],
            self.rated.clusters[rows],
            draws=self.settings.draws,
            seed=intervals.seed_of(self.settings.bootstrap_seed, "actions", *names),
            confidence=self.settings.confidence,
        )


def fewest_ratings(rated: RatedActions, given: int | None) -> int:
    """Return how many ratings make a median; raises UsageError for more than there are experts."""
    there = int((~np.isnan(rated.ratings)).any(axis=0).sum())
    if given is None:
        return min(MIN_EXPERTS, there)
    if given > there:
        s = "" if there == 1 else "s"
        raise UsageError(f"min_experts={given}: the files hold ratings of {there} expert{s}")
    return given


def actions_table(
    rated: RatedActions, settings: Settings, *, least: int | None, min_common: int
) -> Table:
    """Return agreement with the synthetic ratings: overall, by category, specialty and class.

    `least`: ratings that make an experts' median; `min_common`: actions that a pair of experts
    must both have rated to be compared.
    """
    study = _Study(rated, settings, fewest_ratings(rated, least), min_common)
    rows = [*_overall(study), *_parts(study)]
    return column_kinds.form(__file__, "actions").table(
        rows,
        _notes(study, rows),
        settings.of_draws
        | {
            "min_experts": study.least,
            "min_common": min_common,
            "median": "halves go up a point for class and harm weight",
        },
    )


def _overall(study: _Study) -> Iterator[dict[str, object]]:
    rated, everything = study.rated, np.ones(len(study.rated.actions), dtype=np.bool_)
    row = _against(study, study.median, everything, "median")
    yield {"level": "overall", "who": "median", "rater": MEDIAN, **row}
    for place, name in enumerate(rated.experts):
        row = _against(study, rated.ratings[:, place], everything, "expert", name)
        row |= {"level": "overall", "who": "expert", "rater": name}
        yield row | {"asked": int(rated.asked[place])}
    yield {"rater": "experts, in pairs"} | _among(study, rated.ratings, "experts", study.min_common)
    seen = np.asarray((~np.isnan(rated.ratings)).any(axis=1))
    synthetic = np.where(seen[:, None], rated.synthetic, np.nan)
    yield {"rater": "synthetic, in pairs"} | _among(study, synthetic, "synthetic", 1)


def _against(study: _Study, ratings: Floats, rows: _Rows, *names: str) -> dict[str, object]:
    """Return the row of ratings against the synthetic median, on some of the actions."""
    found = study.compare([(ratings, study.rated.middles)], rows, *names)
    used = rows & ~np.isnan(ratings)
    own, other = (
        np.abs(_HARM[_places(x[used])]) == _SEVERE for x in (ratings, study.rated.middles)
    )
    row = _measured(found) | {"asked": int(rows.sum())}
    if not found.n:
        return row
    turned = round(found.values["reversed"] * found.n)
    low, high, method = intervals.exact_rate(turned, found.n, study.settings.confidence)
    return row | {
        "reversed": turned,
        "reversed_rate_low": low,
        "reversed_rate_high": high,
        "reversed_rate_method": method,
        "severe_missed": int((own & ~other).sum()),
        "severe_added": int((other & ~own).sum()),
    }


def _measured(found: measured.Measured) -> dict[str, object]:
    values = {**found.row, "n": found.n, "cases": found.clusters}
    values["reversed_rate"] = values.pop("reversed", None)
    return values | {"kappa_quadratic_method": found.intervals["kappa_quadratic"].method}


def _among(study: _Study, ratings: Floats, who: str, min_common: int) -> dict[str, object]:
    """Return the row of raters among themselves: means over pairs, which have no sign."""
    pairs = measured.common_pairs(ratings, min_common)
    row: dict[str, object] = {
        "level": "overall",
        "who": who,
        "pairs": len(pairs),
        "alpha": measured.krippendorff_alpha(ratings, "ordinal"),
    }
    if not pairs:
        why = f"none (no pair with {min_common} actions in common)"
        return row | {"n": 0, "cases": 0, "kappa_quadratic_method": why}
    own = [(ratings[:, i], ratings[:, j]) for i, j in pairs]
    found = study.compare(own, np.ones(len(ratings), dtype=np.bool_), who)
    agreed = {k: v for k, v in _measured(found).items() if not k.startswith("difference")}
    return row | agreed | {"pairs_undefined": found.undefined["kappa_quadratic"]}


def _parts(study: _Study) -> Iterator[dict[str, object]]:
    """Yield where the experts' median and the synthetic one differ."""
    rated = study.rated
    categories = np.asarray([a.category for a in rated.actions])
    specialties = np.asarray(rated.specialties)
    synthetic = np.asarray(CLASSES)[classes(study.rated.middles)]
    for level, names, of in (
        ("category", CATEGORIES, categories),
        ("specialty", sorted({*rated.specialties}), specialties),
        ("class", CLASSES, synthetic),
    ):
        for name in names:
            rows = np.asarray(of == name)
            if not (rows & ~np.isnan(study.median)).any():
                continue
            row = _against(study, study.median, rows, level, name)
            row |= {"level": level, "who": "median", "part": name}
            yield row | _confusion(study, rows) if level == "class" else row


def _confusion(study: _Study, rows: _Rows) -> dict[str, object]:
    """Return how the experts class actions of one synthetic class, in place of the kappas: chance
    agreement within one class means nothing."""
    given = classes(study.median[rows & ~np.isnan(study.median)])
    row: dict[str, object] = {name: int((given == i).sum()) for i, name in enumerate(CLASSES)}
    row |= {f"kappa_quadratic{end}": None for end in ("", "_low", "_high")}
    return row | {"class_kappa": None, "kappa_quadratic_method": "none (within one class)"}


# What must be said beside the numbers -----------------------------------------------------------


def _notes(study: _Study, rows: Sequence[dict[str, object]]) -> Iterator[str]:
    rated, least = study.rated, study.least
    there = ~np.isnan(rated.ratings)
    panel = "one rating" if least == 1 else f"at least {least} ratings"
    yield (
        f"Experts' median of {panel} against the median of the three synthetic ones. Halves go up "
        "for class and harm weight: 3.5 is uncertain, 6.5 appropriate. 7 to 9, 4 to 6, 1 to 3 count "
        "the experts' classes."
    )
    yield (
        "Kappa has quadratic weights; intervals are bootstrapped over whole cases. In pairs: mean "
        "over pairs of raters, what single raters reach with each other; a median has less noise."
    )
    if rated.validations:
        vouched = "; ".join(map(str, rated.validations))
        yield f"Ratings of the file that are called synthetic here are experts': {vouched}."
    alphas = {r.get("who"): r.get("alpha") for r in rows if not _is_missing(r.get("alpha"))}
    if alphas:
        said = ", ".join(f"{who} {value:.2f}" for who, value in alphas.items())
        yield f"Krippendorff's alpha (ordinal): {said}."
    if (median := rows[0])["n"]:
        low, high = (100 * float(str(median[f"reversed_rate_{end}"])) for end in ("low", "high"))
        yield (
            f"Reversed, appropriate to one and inappropriate to the other: {median['reversed']} of "
            f"{median['n']} ({median['reversed_rate_method']} {low:.1f} to {high:.1f} %, which takes "
            "actions for independent)."
        )
    if rated.blank:
        yield f"Rows without a rating: {rated.blank}."
    if few := int(((there.sum(axis=1) < least) & there.any(axis=1)).sum()):
        yield (
            f"Actions without a median, rated by fewer than {least} experts: {few}; "
            "min_experts takes fewer."
        )
    if silent := [e for e, own in zip(rated.experts, there.T, strict=True) if not own.any()]:
        yield f"Without any rating: {ratings.several(silent)}."
    lacking: dict[str, list[str]] = {}
    for row in rows:
        if row["level"] == "overall" and _is_missing(row.get("kappa_quadratic")):
            why = str(row["kappa_quadratic_method"]).removeprefix("none ")
            lacking.setdefault(why, []).append(str(row["rater"]))
    yield from (f"No kappa {why}: {ratings.several(of)}." for why, of in lacking.items())


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


# Where they differ most -------------------------------------------------------------------------


def differences_table(
    rated: RatedActions, *, least: int | None, largest: int | None, with_text: bool
) -> Table:
    """Return the actions whose experts' median is farthest from the synthetic one, farthest first.

    `largest`: how many at most, None: all; `with_text` adds the text of the actions.
    """
    least = fewest_ratings(rated, least)
    medians = median(rated.ratings, least)
    apart = {i: own for i, own in enumerate(medians.tolist()) if own != rated.middles[i]}

    def gap(i: int) -> tuple[float, int]:  # by points, then by weight of an error
        own, other = apart[i], float(rated.middles[i])
        return -abs(own - other), -abs(harm_weight(own) - harm_weight(other))

    order = sorted((i for i, own in apart.items() if not np.isnan(own)), key=gap)
    rows = [_difference(rated, i, apart[i], with_text) for i in order[:largest]]
    notes = [f"Experts: {', '.join(rated.experts)}; their median is of at least {least}."]
    if more := len(order) - len(rows):
        notes.append(f"{more} more actions differ; a file of data, as --out FILE.csv, has all.")
    return column_kinds.form(__file__, "differences").table(
        rows,
        notes if rows else ["Experts' medians and synthetic ones are equal, or there are none."],
        {"min_experts": least, "largest": largest},
    )


def _difference(rated: RatedActions, i: int, own: float, with_text: bool) -> dict[str, object]:
    action = rated.actions[i]
    other = middle(action)
    its, theirs = (action_class(to_point(x)) for x in (other, own))
    return {
        "case": rated.codes[i],
        "action": action.id,
        "category": action.category,
        "specialty": rated.specialties[i],
        "synthetic": " ".join(map(str, action.ratings)),
        "synthetic_median": other,
        "synthetic_class": its,
        "experts": " ".join("-" if np.isnan(r) else str(int(r)) for r in rated.ratings[i]),
        "experts_median": own,
        "experts_class": theirs,
        "difference": own - other,
        "reversed": {its, theirs} == {"appropriate", "inappropriate"},
        "synthetic_harm": harm_weight(other),
        "experts_harm": harm_weight(own),
        "text": ratings.guard(action.text) if with_text else None,
    }
