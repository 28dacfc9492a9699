"""The guideline that cases are grounded in: a text or Markdown file of the user."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

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
    try:
        raw = path.read_bytes()
    except IsADirectoryError:
        raise DataError(f"--guideline {path} is a folder; name one text file in it") from None
    except OSError as e:
        raise DataError(f"--guideline {path}: {durable.why(e)}") from None
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
