"""`imported.json`: where the answers of a run came from that another tool asked, and its scores of them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from medhelm.schema.episode import SCHEMA
from medhelm.store.records import read_struct

IMPORTED = "imported.json"


class TheirScore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One score that another tool gave an answer."""

    metric: str
    value: float | None
    """None: it gave none, or one that is no number."""
    read: str = ""
    """The answer that it read in the reply, where its file says so."""


class TheirAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scores of one answer by another tool, and the gold that it had."""

    instance_id: str
    repeat: int
    target: str
    scores: tuple[TheirScore, ...]


class Imported(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The origin of an imported run."""

    schema: int = SCHEMA
    tool: str
    version: str
    files: dict[str, str]
    """SHA-256 of each file, by its path."""
    tasks: tuple[str, ...]
    """The tool's names of what it asked."""
    unmatched: dict[str, str]
    """By the tool's name of a question: why its answer is not in the run."""
    answers: tuple[TheirAnswer, ...]


def read_imported(run: Path) -> Imported | None:
    """Return where a run came from; None of one that was asked here. Raises RecordError."""
    path = run / IMPORTED
    return read_struct(path, Imported) if path.exists() else None
