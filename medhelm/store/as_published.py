"""`as_published/NAME.json` of a results folder: scores that others published, without instances."""

from __future__ import annotations

from pathlib import Path

import msgspec

from medhelm.schema.episode import SCHEMA
from medhelm.store.records import read_struct, write_struct


class PublishedScore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One score as it was published, in the units of its metric."""

    benchmark: str
    model: str
    metric: str
    """The authors' name of it."""
    score: float


class PublishedScores(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scores of one publication."""

    schema: int = SCHEMA
    source: str
    sha256: str
    """Of the file that they were read from."""
    scores: tuple[PublishedScore, ...]


def write_published(results: Path, name: str, scores: PublishedScores) -> None:
    """Write the scores of a publication, in place of what was there; raises RecordError."""
    write_struct(results / "as_published" / f"{name}.json", scores)


def read_published(results: Path) -> list[PublishedScores]:
    """Return the publications that were imported into a results folder; raises RecordError."""
    found = sorted((results / "as_published").glob("*.json"))
    return [read_struct(path, PublishedScores) for path in found]
