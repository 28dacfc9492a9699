"""Decisions of graders on criteria, as values: who finds which criterion of an answer met.

A row is what one grader decided about one model's answer to one case. Rows of two graders are
matched by what they are about, never by their position in a file: see `alignment`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from medhelm.errors import DataError, UsageError

Verdict = Literal["met", "unmet", "invalid", "none"]
"""`invalid`: a reply came that is not a decision. `none`: nobody decided."""

_UNSEEN = re.compile("[\u200b-\u200f\u2060\ufeff\u00ad]")
_SPACE = re.compile(r"\s+")
_LOOSE_SPACE = re.compile(r"(?<![0-9a-z]) | (?![0-9a-z])")
_NOT_OF_NAMES = re.compile(r"[^\w.+]+|_+")


@dataclass(frozen=True)
class Decision:
    """One criterion of an answer and what a grader says of it."""

    criterion: str
    """The text of the criterion, or its id where a file has no text."""
    verdict: Verdict


@dataclass(frozen=True)
class DecisionRow:
    """The decisions of one grader about one model's answer to one case."""

    where: str
    """File and row."""
    model: str
    case: str
    """The text of the case, or its id where a file has no text."""
    decisions: tuple[Decision, ...]
    case_id: str = ""
    rater: str = ""
    group: str = ""
    """Tells rows of a file apart that holds several decisions on each answer."""


@dataclass(frozen=True)
class Grader:
    """One source of decisions: a judge, or a group of experts."""

    name: str
    is_judge: bool
    rows: tuple[DecisionRow, ...]

    @property
    def raters(self) -> int:
        """Return how many people its rows name."""
        return len({row.rater for row in self.rows if row.rater})


@lru_cache(maxsize=1 << 18)
def plain(text: str) -> str:
    """Return a text by which equal ones are found: one form of each character, no case of letters,
    no spaces but those between letters or digits of Latin script, where they carry meaning."""
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
    return _LOOSE_SPACE.sub("", _SPACE.sub(" ", text).strip())


def plain_name(name: str) -> str:
    """Return a model's name without case of letters, spaces, hyphens and the like."""
    return _NOT_OF_NAMES.sub("", unicodedata.normalize("NFKC", name).casefold())


def known_models(graders: Iterable[Grader], aliases: Mapping[str, str]) -> dict[str, str]:
    """Return the name to show of each plain name of a model; those of the first grader come first.

    `aliases` maps names of files to the name that they stand for. Raises DataError where one file
    spells two names that would become one, since their rows would be taken for repeats.
    """
    shown: dict[str, str] = {}
    unused = dict(aliases)
    for grader in graders:
        spelled: dict[str, str] = {}
        for row in grader.rows:
            unused.pop(row.model, None)
            name = aliases.get(row.model, row.model)
            first = spelled.setdefault(plain_name(name), row.model)
            if first != row.model:
                raise DataError(
                    f"{row.where}: {row.model!r} and {first!r} of {grader.name} would be one model; "
                    "write one name in one way, or say --alias NAME=NAME"
                )
        for key, name in spelled.items():
            shown.setdefault(key, aliases.get(name, name))
    if unused:
        raise UsageError(f"--alias {min(unused)}=...: no row is of a model of this name")
    return shown
