"""Rows of decisions -> the parts of a training, split by the model whose answers were decided on.

A row has `model` (who gave the answer) and `case` (so that all decisions on an answer stay together).
Either it is a decision, `request`, `answer`, `criterion` and `criteria_met`, with an `explanation` where
there is one: it becomes what the grader of criteria sends and reads. Or it holds what a judge is sent,
`messages` or one `instruction`, and the reply to learn, `output`. Errors name file and row, never a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from medhelm import DataError, UsageError
from medhelm.plugin import closest, decision_messages, decision_of, plain_name, readers

_Messages = tuple[Mapping[str, str], ...]
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class TrainingRow:
    """Holds one decision: the messages to the judge, and the reply that is right."""

    where: str
    model: str
    case: str
    messages: tuple[Mapping[str, str], ...]
    output: str
    is_met: bool


def read_rows(paths: Sequence[str]) -> list[TrainingRow]:
    """Return the rows of files of JSON lines; raises DataError."""
    found = [row for name in paths for row in _read(Path(name))]
    if not found:
        raise DataError(f"{', '.join(paths)}: no row")
    return found


def _read(path: Path) -> Iterator[TrainingRow]:
    try:
        for number, row in readers.read_file(path):
            yield _row(row, f"{path.name}, row {number}")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None


def _row(row: Mapping[str, Any], where: str) -> TrainingRow:
    _need_texts(row, ("model",), where)
    messages, output = _of_decision(row, where) if "criterion" in row else _as_it_is(row, where)
    is_met = decision_of(output)
    if is_met is None:
        raise DataError(
            f"{where}: output is not an object with an explanation and a boolean criteria_met"
        )
    case = str(row.get("case", row.get("case_id", "")))
    return TrainingRow(where, row["model"], case, messages, output, is_met)


def _need_texts(row: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in keys:
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise DataError(f"{where}: {key} is missing, or not a text")


def _as_it_is(row: Mapping[str, Any], where: str) -> tuple[_Messages, str]:
    _need_texts(row, ("output",), where)
    given = row.get("messages", [{"role": "user", "content": row.get("instruction")}])
    is_list = isinstance(given, list) and given and all(isinstance(m, dict) for m in given)
    if not is_list or any(
        m.get("role") not in _ROLES or not isinstance(m.get("content"), str) for m in given
    ):
        raise DataError(f"{where}: neither an instruction nor messages of role and content")
    if given[-1]["role"] != "user":
        raise DataError(
            f"{where}: the last message is not the user's: the output is the reply to it"
        )
    return tuple({"role": m["role"], "content": m["content"]} for m in given), row["output"]


def _of_decision(row: Mapping[str, Any], where: str) -> tuple[_Messages, str]:
    """Return what the grader of criteria sends about a decision, and the reply that it reads."""
    _need_texts(row, ("request", "answer", "criterion"), where)
    if not isinstance(row.get("criteria_met"), bool):
        raise DataError(f"{where}: criteria_met is neither true nor false")
    if not isinstance(row.get("explanation", ""), str):
        raise DataError(f"{where}: explanation is not a text")
    sent = decision_messages(row["request"], row["answer"], row["criterion"])
    reply = {"explanation": row.get("explanation", ""), "criteria_met": row["criteria_met"]}
    messages = tuple({"role": m.role, "content": m.content} for m in sent)
    return messages, json.dumps(reply, ensure_ascii=False)


def split(
    rows: Sequence[TrainingRow], held_out: Sequence[str], development_share: float, seed: int
) -> dict[str, tuple[TrainingRow, ...]]:
    """Return the rows of training, development and held_out, whose models are in no other part.

    Models are told apart without case of letters, spaces and hyphens, so that no spelling takes a
    model to the other side. Raises UsageError for a model that no row has, or an empty part.
    """
    names = {plain_name(row.model): row.model for row in rows}
    wanted = {plain_name(name) for name in held_out}
    for name in held_out:
        if plain_name(name) not in names:
            near = "".join(f"; did you mean {n!r}?" for n in closest(name, names.values(), 1))
            raise UsageError(f"held_out: no row is of the model {name[:60]!r}{near}")
    parts: dict[str, list[TrainingRow]] = {"training": [], "development": [], "held_out": []}
    for row in rows:
        model = plain_name(row.model)
        place = Random(f"{seed}\0{model}\0{row.case or row.where}").random()
        other = "development" if place < development_share else "training"
        parts["held_out" if model in wanted else other].append(row)
    for name, own in parts.items():
        if not own:
            raise UsageError(f"no row is left for {name}: {len(rows)} rows of {len(names)} models")
    return {name: tuple(own) for name, own in parts.items()}
