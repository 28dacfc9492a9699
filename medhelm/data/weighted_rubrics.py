"""Rows of conversations with weighted criteria -> instances.

The public form of HealthBench (Arora et al., arXiv 2505.08775), which others write, too: `prompt` is a
list of turns, `rubrics` a list of criteria with points (negative for what an answer should not do)
and tags; tags of a row and of a criterion are `name:value`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from medhelm.errors import DataError
from medhelm.schema.data import Criterion, Instance, Row, Turn

_ROLES = ("user", "assistant")


def weighted_rubric_instance(row: Row, *, critical: Collection[str] = ()) -> Instance:
    """Return the instance of one row; raises DataError that names the place, never the text.

    Criteria are named c01, c02, ... in the row's order. Its tags become metadata by their names (the
    values of one name joined with ", "). `critical`: tags of criteria that are critical.
    """
    name = row.get("prompt_id")
    if not isinstance(name, str) or not name:
        raise DataError("a row has no prompt_id")
    where = f"row {name}"
    turns = tuple(_turn(turn, where) for turn in _list(row, "prompt", where))
    if turns[-1].role != "user":
        raise DataError(f"{where}: the last turn is not the user's, so there is nothing to answer")
    criteria = tuple(
        _criterion(number, item, where, critical)
        for number, item in enumerate(_list(row, "rubrics", where), 1)
    )
    return Instance(
        id=name,
        turns=turns,
        criteria=criteria,
        metadata=_metadata(_tags(row.get("example_tags"), where)),
    )


def _list(row: Mapping[str, Any], key: str, where: str) -> Sequence[Any]:
    found = row.get(key)
    if not isinstance(found, list) or not found:
        raise DataError(f"{where}: {key} is not a list with at least one item")
    return found


def _turn(turn: Any, where: str) -> Turn:
    role, content = (turn.get(k) if isinstance(turn, dict) else None for k in ("role", "content"))
    if role not in _ROLES:
        raise DataError(f"{where}: a turn's role is neither user nor assistant")
    if not isinstance(content, str) or not content.strip():
        raise DataError(f"{where}: a turn has no text")
    return Turn(role, content)


def _criterion(number: int, item: Any, where: str, critical: Collection[str]) -> Criterion:
    where = f"{where}, criterion {number}"
    text = item.get("criterion") if isinstance(item, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}: there is no text")
    points = item.get("points")
    if isinstance(points, bool) or not isinstance(points, int | float) or not math.isfinite(points):
        raise DataError(f"{where}: its points are not a number")
    tags = _tags(item.get("tags"), where)
    return Criterion(
        name=f"c{number:02}",
        text=text,
        points=float(points),
        tags=tags,
        is_critical=any(tag in critical for tag in tags),
    )


def _tags(found: Any, where: str) -> tuple[str, ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(tag, str) for tag in found):
        raise DataError(f"{where}: its tags are not a list of texts")
    return tuple(found)


def _metadata(tags: Sequence[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for tag in tags:
        name, _, value = tag.partition(":")
        found.setdefault(name, []).append(value or name)
    return {name: ", ".join(values) for name, values in found.items()}
