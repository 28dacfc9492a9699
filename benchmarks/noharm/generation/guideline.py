"""Read the guideline that cases are grounded in, and draw by a seed the setting of each case."""

from __future__ import annotations

import hashlib
import random
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from itertools import product
from pathlib import Path

import msgspec

from medhelm import DataError
from medhelm.plugin import durable

_LEAST_WORDS = 50
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_WORD = re.compile(r"\w+")
_HIDDEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
_BROKEN = re.compile(r"(?<=\w)-[ \t]*\n\s*(?=\w)")
"""A word that goes on in the next line, as text out of a PDF has it."""
_PASSAGE, _PART = 25, 200
"""Words of a passage that a case may start from, and of the part that it represents."""


@dataclass(frozen=True)
class Guideline:
    """Name with year, and text, of a clinical guideline."""

    name: str
    """As references name it: `ESC 2023 acute coronary syndromes`."""
    text: str

    @cached_property
    def sha256(self) -> str:
        """Return the hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def passages(self) -> tuple[str, ...]:
        """Return words from every part of the text, in its order; at least one passage, each once."""
        own = self.text.split()
        parts = max(1, len(own) // _PART)
        starts = (len(own) * (2 * i + 1) // (2 * parts) for i in range(parts))
        found = (" ".join(own[start : start + _PASSAGE]) for start in starts)
        return tuple(dict.fromkeys(found))

    def contains(self, quote: str) -> bool:
        """Return whether a quote is in the text, whatever its line breaks, case and signs."""
        own = words(quote)
        return bool(own) and any(_joined(own) in text for text in self._texts)

    def shares_run(self, text: str, least: int) -> bool:
        """Return whether a text holds `least` words in a row just as the guideline has them."""
        own = words(text)
        runs = (_joined(own[i : i + least]) for i in range(len(own) - least + 1))
        return any(run in text for run in runs for text in self._texts)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """The words of the text as it is, and with those whole that a line's end has broken."""
        whole = _BROKEN.sub("", self.text)
        return tuple(_joined(words(text)) for text in dict.fromkeys((self.text, whole)))


def _joined(own: Sequence[str]) -> str:
    return f" {' '.join(own)} "


def read_guideline(path: Path, name: str = "") -> Guideline:
    """Return a guideline from a UTF-8 text or Markdown file.

    `name`: what references call it; empty: the file's first line. Raises DataError for a file
    that cannot be read or holds no text, and for a name without a year.
    """
    if path.is_dir():
        raise DataError(f"--guideline {path} is a folder; name one text file in it")
    with durable.os_errors_as(DataError, f"--guideline {path}"):
        raw = path.read_bytes()
    if raw.startswith(b"%PDF") or raw.startswith(b"PK\3\4"):
        raise DataError(f"--guideline {path} is not text: save it as plain text or Markdown first")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except UnicodeDecodeError as e:
        raise DataError(
            f"--guideline {path} is not UTF-8 (byte {e.start}); save it as UTF-8"
        ) from None
    if "\0" in text or len(words(text)) < _LEAST_WORDS:
        raise DataError(
            f"--guideline {path} holds no guideline: {_LEAST_WORDS} words are the least"
        )
    name = " ".join((name or text.split("\n", 1)[0].lstrip("#")).split())
    if not _YEAR.search(name) or len(name) > 150:
        raise DataError(
            f"--guideline {path}: its first line is not a name with a year; give one with "
            '--guideline-name "ESC 2023 acute coronary syndromes"'
        )
    return Guideline(name, text)


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, ligatures and hidden hyphens undone."""
    return _WORD.findall(_HIDDEN.sub("", unicodedata.normalize("NFKC", text)).lower())


# The setting of each case: the same number gives the same patient ----------------------------------

_BLOCK = 100
_FILE = resources.files("medhelm_benchmarks.noharm") / "texts" / "settings.json"
_PLACES, _COMPLICATIONS, _GAPS = msgspec.json.decode(
    _FILE.read_bytes(), type=dict[str, tuple[str, ...]]
).values()


@dataclass(frozen=True)
class Setting:
    """Separates this patient from the last. It is drawn, never chosen by a model."""

    place: str
    complication: str
    gap: str
    """Names the fact that is not known yet."""
    passage: str
    """Words of the guideline on whose subject the case turns, so that not all are on one."""


def most_settings(passages: Sequence[str]) -> int:
    """Return how many settings differ, which is the most cases of one guideline."""
    return len(_PLACES) * len(_COMPLICATIONS) * len(_GAPS) * len(passages)


def draw_setting(seed: int, name: str, number: int, passages: Sequence[str]) -> Setting:
    """Return the setting of case `number` (from 1) of a named series; no two numbers share one.

    Complications come once each before one comes again; so do places, gaps and the guideline's
    passages, in other orders, but where all four would be those of a lower number. `passages`
    differ; `number` is at most `most_settings`.
    """
    upto = min(-(-number // _BLOCK) * _BLOCK, most_settings(passages))
    return _draw(seed, name, tuple(passages), upto)[number - 1]


@lru_cache(maxsize=16)
def _draw(seed: int, name: str, passages: tuple[str, ...], count: int) -> tuple[Setting, ...]:
    """Return the settings of the first cases of a series."""
    lists = (_PLACES, _COMPLICATIONS, _GAPS, passages)
    orders = [
        _order(seed, name, what, len(values), count)
        for what, values in zip(("place", "complication", "gap", "passage"), lists, strict=True)
    ]
    seen: dict[tuple[int, ...], None] = {}  # in the order of the numbers
    for drawn in zip(*orders, strict=True):
        seen[next(own for own in _nearest(drawn, lists) if own not in seen)] = None
    return tuple(
        Setting(*(values[i] for values, i in zip(lists, own, strict=True))) for own in seen
    )


def _order(seed: int, name: str, what: str, size: int, count: int) -> list[int]:
    """Return the places of `count` values, each once before one comes again."""
    found: list[int] = []
    for turn in range(-(-count // size)):
        found += random.Random(f"{seed}\0{name}\0{what}\0{turn}").sample(range(size), size)  # noqa: S311
    return found[:count]


def _nearest(drawn: tuple[int, ...], lists: Sequence[Sequence[str]]) -> Iterator[tuple[int, ...]]:
    """Yield what was drawn, then with another gap, another place, passage, complication."""
    place, complication, gap, passage = drawn
    for c, p, at, g in product(*(range(len(lists[i])) for i in (1, 3, 0, 2))):
        yield (
            (place + at) % len(lists[0]),
            (complication + c) % len(lists[1]),
            (gap + g) % len(lists[2]),
            (passage + p) % len(lists[3]),
        )
