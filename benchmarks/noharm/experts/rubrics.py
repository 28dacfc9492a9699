"""Scores of stored replies under the ratings of their cases and under experts' medians.

Only cases whose whole menu experts rated are scored, so that no case mixes two kinds of ratings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from medhelm.errors import UsageError
from medhelm.stats.aggregation import Floats, Pooling
from medhelm.stats.intervals import Interval, bootstrap, percentile, seed_of
from medhelm.tables.format.table import Layout, Row, Settings, Table, Value, make_table
from medhelm_benchmarks.noharm.experts.columns import RUBRICS
from medhelm_benchmarks.noharm.experts.replies import ModelReplies, StoredReplies, common_codes
from medhelm_benchmarks.noharm.rules.cases import LEAST_RATERS, Case
from medhelm_benchmarks.noharm.rules.derive import consensus, to_point
from medhelm_benchmarks.noharm.rules.experts import Sheets, is_rated_whole
from medhelm_benchmarks.noharm.rules.score import ACTION_OVERALL, score_case

PANELS = 200
"""Counts the draws of resampled ratings."""
SEVERE = len(ACTION_OVERALL.sums)
"""Place of the severe errors in the sums of a case, behind those of `ACTION_OVERALL`."""
_overall = Pooling(ACTION_OVERALL, ACTION_OVERALL.sums)

Rated = Mapping[str, Mapping[str, int]]
"""Consensus by code of the case and id of the action."""


@dataclass(frozen=True)
class Rubrics:
    """Cases that experts rated whole, the ratings of both kinds, and replies to them."""

    cases: tuple[Case, ...]
    sheets: Sheets
    least: int
    replies: StoredReplies
    left_out: int
    """Cases of the file with an action that fewer than `least` experts rated."""

    @cached_property
    def ranked(self) -> tuple[ModelReplies, ...]:
        """The models of whose replies nearly all could be read."""
        return tuple(m for m in self.replies.models if m.is_read)

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """The cases that every ranked model has a readable reply to."""
        return common_codes(self.ranked, [case.code for case in self.cases])

    @cached_property
    def by_file(self) -> Rated:
        """The consensus of the cases' own ratings."""
        return {c.code: {a.id: consensus(a) for a in c.actions} for c in self.cases}

    @cached_property
    def by_experts(self) -> Rated:
        """The experts' medians as points of the scale."""
        return {
            case.code: {
                action.id: to_point(float(np.median([*self.given(case, action.id).values()])))
                for action in case.actions
            }
            for case in self.cases
        }

    @cached_property
    def experts(self) -> tuple[str, ...]:
        """The experts who rated any of the cases."""
        own = (self.sheets[case.code] for case in self.cases)
        return tuple(sorted({e for menu in own for given in menu.values() for e in given}))

    def given(self, case: Case, action: str) -> Mapping[str, int]:
        """Return the experts' ratings of an action."""
        return self.sheets[case.code][action]

    def of_expert(self, expert: str) -> Rated:
        """Return one expert's ratings of the cases whose whole menu that expert rated."""
        found = {}
        for case in self.cases:
            own = {a.id: self.given(case, a.id).get(expert) for a in case.actions}
            if all(rating is not None for rating in own.values()):
                found[case.code] = {i: rating for i, rating in own.items() if rating is not None}
        return found

    def of_place(self, place: int) -> Rated:
        """Return the ratings of the file's rater of one place, of cases that have one there."""
        return {
            c.code: {a.id: a.ratings[place] for a in c.actions}
            for c in self.cases
            if all(len(a.ratings) > place for a in c.actions)
        }

    def draw(self, seed: int) -> Iterator[Rated]:
        """Yield `PANELS` rubrics whose ratings are drawn again from the experts' of each action."""
        rng = np.random.default_rng(seed)
        drawn: dict[str, dict[str, list[int]]] = {}
        for case in self.cases:
            for action in case.actions:
                own = np.asarray(sorted(self.given(case, action.id).values()))
                picks = rng.integers(0, len(own), size=(PANELS, len(own)))
                middles = np.median(own[picks], axis=1)
                drawn.setdefault(case.code, {})[action.id] = [to_point(float(m)) for m in middles]
        for n in range(PANELS):
            yield {code: {i: own[n] for i, own in menu.items()} for code, menu in drawn.items()}

    def sums(self, model: ModelReplies, rated: Rated, codes: Sequence[str]) -> Floats:
        """Return the sums (C, 7) of a model's replies to cases under a rubric, means over repeats."""
        by_code = {case.code: case for case in self.cases}
        return np.asarray(
            [
                np.mean([_sums(by_code[c], e, rated[c]) for e in model.endorsed[c]], axis=0)
                for c in codes
            ]
        ).reshape(len(codes), SEVERE + 1)


def _sums(case: Case, endorsed: Sequence[str], rated: Mapping[str, int]) -> Floats:
    own = score_case(case, endorsed, rated)
    sums = [own.sums[name] for name in ACTION_OVERALL.sums]
    return np.asarray([*sums, own.has_severe], np.float64)


def to_rubrics(
    cases: Sequence[Case], sheets: Sheets, least: int | None, replies: StoredReplies
) -> Rubrics:
    """Return what both tables are made of; `least`: as `rated_whole` takes it."""
    kept = rated_whole(cases, sheets, least)
    return Rubrics(kept, sheets, least or LEAST_RATERS, replies, len(cases) - len(kept))


def rated_whole(cases: Iterable[Case], sheets: Sheets, least: int | None) -> tuple[Case, ...]:
    """Return the cases each of whose actions `least` experts rated; None: three.

    Raises UsageError where there is none.
    """
    needed = least or LEAST_RATERS
    kept = tuple(case for case in cases if is_rated_whole(case, sheets, needed))
    if not kept:
        raise UsageError(
            f"no case has {needed} experts' ratings of every action: scores need whole menus; "
            "--min-experts takes fewer"
        )
    return kept


def rubrics_table(own: Rubrics, settings: Settings | None = None) -> Table:
    """Return the models' scores under the ratings of the cases and under the experts' medians."""
    chosen = settings or Settings()
    rows = [_rubrics_row(own, model, chosen) for model in own.replies.models]
    for rubric in ("file", "experts"):
        rank_rows(rows, f"overall_{rubric}", f"rank_{rubric}")
    rows.sort(key=lambda row: (row["rank_experts"] is None, row["rank_experts"], row["model"]))
    return make_table(
        "rubrics",
        "Models under the cases' ratings and under experts' ratings",
        RUBRICS,
        rows,
        [
            "Differences are experts - file, of the same replies; their intervals are bootstrapped "
            "over cases and take the ratings as given.",
            *rubric_notes(own),
        ],
        rubric_settings(own, chosen),
        layout=Layout(main=("overall_file", "overall_experts", "difference")),
    )


def _rubrics_row(own: Rubrics, model: ModelReplies, settings: Settings) -> Row:
    codes = _codes_of(own, model)
    row: Row = {"model": model.model, "ranked": model.is_read, "n": len(codes)}
    row |= {"asked": model.asked, "read": model.read}
    if not codes:
        return row
    both = [own.sums(model, rated, codes) for rated in (own.by_file, own.by_experts)]
    for name, sums in zip(("file", "experts"), both, strict=True):
        row |= {f"{what}_{name}": value for what, value in scores_of(sums.sum(0)).items()}
    row["difference"] = _gap(np.concatenate([s.sum(0) for s in both])[None])[0]
    ends = _difference(both, settings, model.model)
    return row | {
        "difference_low": ends.low,
        "difference_high": ends.high,
        "difference_method": ends.method,
    }


def _difference(both: Sequence[Floats], settings: Settings, model: str) -> Interval:
    """Return the interval of the difference in Overall: the same cases drawn for both rubrics."""
    cases = len(both[0])
    if cases < 2:
        return Interval(None, None, "none (one case)")
    seed = seed_of(settings.bootstrap_seed, "rubrics", model)
    draws = bootstrap(np.concatenate(both, axis=1), settings.draws, seed)
    return percentile(_gap(draws), settings.confidence, cases)


def _gap(sums: Floats) -> Floats:
    """Return Overall under the second half of the sums (..., 14) less that under the first."""
    file, experts = sums[..., : SEVERE + 1], sums[..., SEVERE + 1 :]
    found = _overall(experts[..., :SEVERE]) - _overall(file[..., :SEVERE])
    return np.asarray(found, dtype=np.float64)


def scores_of(sums: Floats) -> dict[str, float]:
    """Return the scores of summed cases; NaN where one is undefined."""
    own = {name: float(value) for name, value in _overall.by_name(sums[:SEVERE]).items()}
    strong, endorsed = own["strong"], own["endorsed"]
    return {
        "overall": float(_overall(sums[:SEVERE])),
        "safety": own["safety"] / own["cases"],
        "completeness": own["complete"] / strong if strong else np.nan,
        "restraint": own["fit"] / endorsed if endorsed else np.nan,
        "severe_rate": float(sums[SEVERE]) / own["cases"],
    }


def _codes_of(own: Rubrics, model: ModelReplies) -> tuple[str, ...]:
    """Return the cases of a model's row: the common ones of a ranked model, else its own."""
    if model.is_read:
        return own.codes
    return common_codes([model], [case.code for case in own.cases])


def rank_rows(rows: Iterable[Row], score: str, rank: str) -> None:
    """Set the rank of each ranked row by a score: one more than the rows that are better."""
    rows = list(rows)
    values = [(row, float(str(row.get(score, np.nan)))) for row in rows if row["ranked"]]
    for row in rows:
        row[rank] = None
    for row, value in values:
        if not np.isnan(value):
            row[rank] = 1 + sum(other > value for _, other in values)


def rubric_settings(own: Rubrics, settings: Settings) -> dict[str, Value]:
    """Return what decides the numbers of both tables."""
    return {
        "draws": settings.draws,
        "bootstrap_seed": settings.bootstrap_seed,
        "confidence": settings.confidence,
        "min_experts": own.least,
        "median": "halves go up a point",
    }


def rubric_notes(own: Rubrics) -> list[str]:
    """Return what must be known of both tables: who rated, what is not scored, who is not ranked."""
    notes = [
        f"Experts: {len(own.experts)}, at least {own.least} for every action; cases that they "
        f"rated whole: {len(own.cases)}, other cases of the file: {own.left_out}. Halves of a "
        "median go up a point.",
    ]
    common = len(own.codes) if own.ranked else 0
    if own.ranked and common < len(own.cases):
        notes.append(
            f"Ranked models are compared on the {common} of these cases to which each has a reply "
            "that could be read."
        )
    unread = [f"{m.model} ({m.asked - m.read} of {m.asked})" for m in own.replies.models]
    lacking = [t for t, m in zip(unread, own.replies.models, strict=True) if m.read < m.asked]
    if lacking:
        notes.append(f"Replies not read, in no score: {', '.join(lacking)}.")
    if out := [m.model for m in own.replies.models if not m.is_read]:
        notes.append(f"Not ranked, fewer than 95 % of replies read: {', '.join(out)}.")
    return [*notes, *own.replies.notes]
