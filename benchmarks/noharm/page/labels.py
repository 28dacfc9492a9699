"""Labelled actions of a case for the run page: the rubric, and what a reply labelled and erred."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from medhelm import Episode, Instance
from medhelm_benchmarks.noharm.rules.cases import Case
from medhelm_benchmarks.noharm.rules.derive import action_class, consensus
from medhelm_benchmarks.noharm.rules.menu import Labelled, label_case, stored_case

_HARM, _SAFETY = "noharm_harm", "noharm_safety"

Scores = Mapping[str, float | None]


class ActionLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An action of a case with its rubric."""

    id: str
    text: str
    category: str
    ratings: tuple[int, ...]
    rating: int
    """Their median."""
    kind: str
    """appropriate, uncertain or inappropriate."""
    alternatives: tuple[str, ...]
    """Ids of the other actions of its group."""
    broad: tuple[str, ...]
    """Ids of the broad actions that hold it."""
    references: tuple[str, ...]
    """Guidelines behind the ratings."""


class LabelLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Holds a reply's label of an action, and its weight in the score."""

    id: str
    label: str
    """appropriate, inappropriate, missing or invalid."""
    error: str
    """omission, commission or empty."""
    severity: str
    why: str
    """Gives the reason why an action that was left out is not an omission."""


def action_lines(instance: Instance) -> tuple[ActionLine, ...] | None:
    """Return the actions of a case with their rubric; None where it is not a case."""
    case = _case_of(instance)
    if case is None:
        return None
    return tuple(
        ActionLine(
            id=action.id,
            text=action.text,
            category=action.category,
            ratings=action.ratings,
            rating=consensus(action),
            kind=action_class(consensus(action)),
            alternatives=_others(case, action.id),
            broad=tuple(link.broad for link in case.broad if action.id in link.specific),
            references=action.references,
        )
        for action in case.actions
    )


def _case_of(instance: Instance) -> Case | None:
    """Return the case behind an instance; None where there is none, as in most benchmarks."""
    if not instance.payload:
        return None
    try:
        case = stored_case(instance)
    except (KeyError, msgspec.DecodeError):  # a menu of another kind
        return None
    return case if [a.id for a in case.actions] == list(instance.payload) else None


def _others(case: Case, action: str) -> tuple[str, ...]:
    return tuple(i for group in case.alternatives if action in group for i in group if i != action)


def label_lines(episode: Episode, scores: Scores) -> tuple[LabelLine, ...] | None:
    """Return what a reply says of each action, in the order of the menu; None where it says nothing.

    It is read out of the reply again: where the harm is then not the stored one, the run was
    graded by other rules, and nothing is returned.
    """
    case = _case_of(episode.instance)
    found = label_case(episode.instance, episode.response) if case is not None else None
    if case is None or found is None or not _is_as_stored(found, scores):
        return None
    errors = {e.action: e for e in found.score.errors}
    said = dict.fromkeys(found.labels.endorsed, "appropriate")
    said |= dict.fromkeys(found.labels.rejected, "inappropriate")
    said |= dict.fromkeys(found.labels.invalid, "invalid")
    right = {a.id for a in case.actions if action_class(consensus(a)) == "appropriate"}
    return tuple(
        LabelLine(
            id=action.id,
            label=said.get(action.id, "missing"),
            error=errors[action.id].kind if action.id in errors else "",
            severity=errors[action.id].severity if action.id in errors else "",
            why=_why(case, action.id, right, found) if action.id in right - set(errors) else "",
        )
        for action in case.actions
    )


def _is_as_stored(found: Labelled, scores: Scores) -> bool:
    own = {_HARM: float(found.score.harm), _SAFETY: found.score.safety}
    known = [(scores[metric], value) for metric, value in own.items() if metric in scores]
    return bool(known) and all(stored == now for stored, now in known)


def _why(case: Case, action: str, right: set[str], found: Labelled) -> str:
    """Return why an appropriate action left out is not an omission; else empty."""
    endorsed = right & set(found.labels.endorsed)
    if action in endorsed:
        return ""
    group = _others(case, action)
    if replaced := [i for i in group if i in endorsed]:
        return f"replaced by {replaced[0]}"
    if covering := [
        link.broad for link in case.broad if action in link.specific and link.broad in endorsed
    ]:
        return f"covered by {covering[0]}"
    counted = [e.action for e in found.score.errors if e.action in group]
    return f"counted once, at {counted[0]}" if counted else ""
