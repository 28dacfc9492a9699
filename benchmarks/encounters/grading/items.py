"""The frozen items of a case, and the encounters whose verdicts on them are known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from medhelm import DataError, Episode, Instance
from medhelm.plugin import grader
from medhelm_benchmarks.encounters.data.rubrics import FrozenRubric, read_rubrics
from medhelm_benchmarks.encounters.packets import Deed, RubricItem, packets_of
from medhelm_benchmarks.encounters.record import COMPLETED, Encounter, Turn, as_state, text_of

RUBRIC = "rubric"
"""Setting of the evaluator that names a file of rubrics."""


def items_of(instance: Instance, rubric: str = "") -> tuple[RubricItem, ...]:
    """Return the frozen items of a case: its own, or those that a file of rubrics has for it."""
    if not rubric:
        items = packets_of(instance).evaluator.items
        if not items:
            raise DataError(f"case {instance.id!r} has no items, so that nothing can be scored")
        return items
    try:
        there = Path(rubric).stat()
        own = _rubrics(rubric, there.st_mtime_ns, there.st_size).get(instance.id)
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(f"rubrics {rubric} cannot be read: {e}; give grader.rubric=FILE") from None
    if own is None or not own.items:
        raise DataError(f"{rubric}: no rubric of case {instance.id!r}")
    return own.items


@lru_cache(maxsize=4)
def _rubrics(path: str, changed: int, size: int) -> Mapping[str, FrozenRubric]:
    """Return the rubrics of a file as it is; `changed` and `size` tell it from what it was."""
    return read_rubrics(Path(path), is_whole=False)


def _items(instance: Instance, settings: Mapping[str, Any]) -> list[grader.Item]:
    return [
        grader.Item(text=item.text, is_in_right=grader.needs_content(item.text))
        for item in items_of(instance, settings[RUBRIC])
    ]


def _decided(state: Mapping[str, Any]) -> list[bool | None]:
    return [verdict.get("met") for verdict in state["items"]]


def _played(instance: Instance, *turns: Turn) -> Episode:
    """Return an encounter in which the clinician does this, and nothing comes of it."""
    labels = [state.label for state in packets_of(instance).controller.states]
    reached = max((turn.state for turn in turns), default=0) + 1
    encounter = Encounter(turns=turns, states=tuple(labels[:reached]))
    state = as_state(encounter)
    return grader.answer(instance, text_of(encounter), ending=COMPLETED, state=state)


def _scripted(instance: Instance, settings: Mapping[str, Any]) -> Episode:
    """Return the encounter in which every deed of the rubric is done; an item without one as an action of
    its own words."""
    done: dict[int, tuple[list[str], list[str]]] = {}
    for item in items_of(instance, settings[RUBRIC]):
        if item.deed is None and not grader.needs_content(item.text):
            continue
        deed = item.deed or Deed(channel="actions", wordings=(item.text,))
        said, acted = done.setdefault(deed.state, ([], []))
        (said if deed.channel == "speak" else acted).append(deed.wordings[0])
    turns = [
        Turn(state=n, speak=" ".join(f"{words}." for words in said), actions=tuple(acted), eos=True)
        for n, (said, acted) in sorted(done.items())
    ]
    return _played(instance, *turns)


def _material(instance: Instance) -> str:
    packets = packets_of(instance)
    return f"{instance.context} {packets.patient.text} {packets.controller.text}"


CONTROLS = grader.Controls(
    items=_items,
    decide=_decided,
    empty=lambda instance: _played(instance, Turn(eos=True)),
    right=_scripted,
    material=_material,
)
