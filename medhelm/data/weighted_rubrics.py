"""Rows of conversations with weighted criteria -> instances.

The public form of HealthBench (Arora et al., arXiv 2505.08775), which others write, too: `prompt` is a
list of turns, `rubrics` a list of criteria with points (negative for what an answer should not do)
and tags; tags of a row and of a criterion are `name:value`.

Labels of people have a form of their own: one answer and one criterion a row, `prompt`, `completion`,
`rubric`, and in `binary_labels` what each of several people decided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Annotated, Literal, TypeVar

import msgspec

from medhelm.errors import DataError
from medhelm.schema.data import Criterion, Instance, Row, Turn
from medhelm.schema.type_errors import explain

_Text = Annotated[str, msgspec.Meta(pattern=r"\S")]
_ONE = msgspec.Meta(min_length=1)


class _Turn(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: _Text


class _Item(msgspec.Struct):
    criterion: _Text
    points: Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
    tags: tuple[str, ...] | None = None


class _Row(msgspec.Struct):
    prompt_id: _Text
    prompt: Annotated[tuple[_Turn, ...], _ONE]
    rubrics: Annotated[tuple[_Item, ...], _ONE]
    example_tags: tuple[str, ...] | None = None


class _Labelled(msgspec.Struct):
    completion: _Text
    rubric: _Text
    category: str | None = None


class _Labels(msgspec.Struct):
    binary_labels: Annotated[list[bool], _ONE]


_T = TypeVar("_T", bound=msgspec.Struct)


def _read(row: Row, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(dict(row), kind)
    except msgspec.ValidationError as e:
        raise DataError(f"row {row.get('prompt_id', '')}: {explain(e, kind)}") from None


def weighted_rubric_instance(row: Row, *, critical: Collection[str] = ()) -> Instance:
    """Return the instance of one row; raises DataError that names the place, never the text.

    Criteria are named c01, c02, ... in the row's order. Its tags become metadata by their names (the
    values of one name joined with ", "). `critical`: tags of criteria that are critical. A row with
    labels of people becomes the instance of its answer and criterion.
    """
    if "completion" in row:
        return labelled_instance(row)
    own = _read(row, _Row)
    if own.prompt[-1].role != "user":
        raise DataError(
            f"row {own.prompt_id}: the last turn is not the user's, so there is nothing to answer"
        )
    criteria = tuple(
        Criterion(
            name=f"c{number:02}",
            text=item.criterion,
            points=item.points,
            tags=item.tags or (),
            is_critical=any(tag in critical for tag in item.tags or ()),
        )
        for number, item in enumerate(own.rubrics, 1)
    )
    metadata: dict[str, list[str]] = {}
    for tag in own.example_tags or ():
        name, _, value = tag.partition(":")
        metadata.setdefault(name, []).append(value or name)
    return Instance(
        id=own.prompt_id,
        turns=tuple(Turn(turn.role, turn.content) for turn in own.prompt),
        criteria=criteria,
        metadata={name: ", ".join(values) for name, values in metadata.items()},
    )


LABELS = "binary_labels"
"""Column with the labels of a criterion of an answer, one of each person."""


def labelled_instance(row: Row) -> Instance:
    """Return the instance of one labelled answer and criterion, with the answer as its gold.

    `model=baseline/oracle` so gives the answer that people labelled, and judges decide on it, too.
    """
    own = _read(row, _Labelled)
    content = msgspec.json.encode([row.get("prompt"), own.completion, own.rubric])
    instance = weighted_rubric_instance(
        {
            "prompt_id": hashlib.sha256(content).hexdigest()[:16],
            "prompt": row.get("prompt"),
            "rubrics": [{"criterion": own.rubric, "points": 1}],
            "example_tags": [f"category:{own.category}"] if own.category is not None else [],
        }
    )
    return msgspec.structs.replace(instance, references=(own.completion,))


def labels_of(row: Row) -> list[bool]:
    """Return the labels of a row; raises DataError where they are not a list of true and false."""
    return _read(row, _Labels).binary_labels
