"""Rows of conversations with weighted criteria -> instances.

The public form of HealthBench (Arora et al., arXiv 2505.08775), which others write, too: `prompt` is a
list of turns, `rubrics` a list of criteria with points (negative for what an answer should not do)
and tags; tags of a row and of a criterion are `name:value`.

Labels of people have a form of their own: one answer and one criterion a row, `prompt`, `completion`,
`rubric`, and in `binary_labels` what each of several people decided.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from medhelm.errors import DataError
from medhelm.schema.data import Criterion, Instance, Row, Turn

_ROLES = ("user", "assistant")


def weighted_rubric_instance(row: Row, *, critical: Collection[str] = ()) -> Instance:
    """Return the instance of one row; raises DataError that names the place, never the text.

    Criteria are named c01, c02, ... in the row's order. Its tags become metadata by their names (the
    values of one name joined with ", "). `critical`: tags of criteria that are critical. A row with
    labels of people becomes the instance of its answer and criterion.
    """
    if "completion" in row:
        return labelled_instance(row)
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


LABELS = "binary_labels"
"""Column with the labels of a criterion of an answer, one of each person."""


def labelled_instance(row: Row) -> Instance:
    """Return the instance of one labelled answer and criterion, with the answer as its gold.

    `model=baseline/oracle` so gives the answer that people labelled, and judges decide on it, too.
    """
    texts = [row.get(name) for name in ("completion", "rubric")]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError("a row has no completion or no rubric")
    answer, criterion = map(str, texts)
    content = msgspec.json.encode([row.get("prompt"), answer, criterion])
    category = row.get("category")
    instance = weighted_rubric_instance(
        {
            "prompt_id": hashlib.sha256(content).hexdigest()[:16],
            "prompt": row.get("prompt"),
            "rubrics": [{"criterion": criterion, "points": 1}],
            "example_tags": [f"category:{category}"] if isinstance(category, str) else [],
        }
    )
    return msgspec.structs.replace(instance, references=(answer,))


def labels_of(row: Row) -> list[bool]:
    """Return the labels of a row; raises DataError where they are not a list of true and false."""
    found = _list(row, LABELS, "a row of labels")
    if not all(isinstance(label, bool) for label in found):
        raise DataError(f"{LABELS} is not a list of true and false")
    return [*found]


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
