"""The guideline that cases are grounded in: a text or Markdown file of the user."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from medhelm.durable import why
from medhelm.errors import DataError

_LEAST_WORDS = 50
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Guideline:
    """Name with year, and text, of a clinical guideline."""

    name: str
    """As references name it: `ESC 2023 acute coronary syndromes`."""
    text: str

    @property
    def sha256(self) -> str:
        """Return the hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Return the words of the text in lower case."""
        return tuple(words(self.text))

    @cached_property
    def _joined(self) -> str:
        return f" {' '.join(self.words)} "

    def contains(self, quote: str) -> bool:
        """Return whether a quote stands in the text, whatever its line breaks, case and signs."""
        own = words(quote)
        return bool(own) and f" {' '.join(own)} " in self._joined

    def shares_run(self, text: str, least: int) -> bool:
        """Return whether a text holds `least` words in a row just as the guideline has them."""
        own = words(text)
        return any(
            f" {' '.join(own[i : i + least])} " in self._joined for i in range(len(own) - least + 1)
        )


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
        raise DataError(f"--guideline {path}: {why(e)}") from None
    if raw.startswith(b"%PDF") or raw.startswith(b"PK"):
        raise DataError(f"--guideline {path} is no text: save it as plain text or Markdown first")
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
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())
