"""Experts' ratings in place of those that cases came with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from medhelm import DataError
from medhelm_benchmarks.noharm.rules.cases import LEAST_RATERS, Action, Case, Validation
from medhelm_benchmarks.noharm.rules.derive import action_class, best_alternatives, consensus

Sheets = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Ratings by code of the case, id of the action and expert."""


@dataclass(frozen=True)
class Rerated:
    """Cases under experts' ratings, and what could not be taken over."""

    cases: tuple[Case, ...]
    unrated: tuple[str, ...]
    """Codes of cases without any rating of an expert."""
    partly_rated: tuple[str, ...]
    """Codes of cases with an action that too few experts rated."""


def is_rated_whole(case: Case, sheets: Sheets, least: int) -> bool:
    """Return whether every action of a case has at least `least` ratings of experts."""
    own = sheets.get(case.code, {})
    return all(len(own.get(action.id, {})) >= least for action in case.actions)


def rerate_cases(cases: Iterable[Case], sheets: Sheets, validation: Validation) -> Rerated:
    """Return the cases whose menus experts rated whole, with the experts' ratings.

    Every action needs `LEAST_RATERS` ratings, since no case mixes two kinds of ratings. Raises
    DataError where no case has them.
    """
    made: list[Case] = []
    unrated: list[str] = []
    partly: list[str] = []
    for case in cases:
        if is_rated_whole(case, sheets, LEAST_RATERS):
            made.append(_rerate(case, sheets[case.code], validation))
        else:
            (partly if sheets.get(case.code) else unrated).append(case.code)
    if not made:
        raise DataError(
            f"no case has {LEAST_RATERS} experts' ratings of every action; have more experts rate, "
            "or whole menus (a sheet without --per-case)"
        )
    return Rerated(tuple(made), tuple(unrated), tuple(partly))


def _rerate(case: Case, given: Mapping[str, Mapping[str, int]], validation: Validation) -> Case:
    actions = tuple(_with_ratings(a, sorted(given[a.id].values())) for a in case.actions)
    rated = {action.id: consensus(action) for action in actions}
    return msgspec.structs.replace(
        case,
        actions=actions,
        best_alternatives=best_alternatives(case.alternatives, rated),
        validation=validation,
    )


def _with_ratings(action: Action, ratings: Sequence[int]) -> Action:
    """Return an action under other ratings, without references that speak for another class."""
    changed = msgspec.structs.replace(action, ratings=tuple(ratings))
    if action_class(consensus(changed)) == action_class(consensus(action)):
        return changed
    return msgspec.structs.replace(changed, references=())


def validation_text(validation: Validation) -> str:
    """Return by whom ratings were validated, and when."""
    return f"validated by {validation.by}, {validation.date}"
