"""Patterns that are compiled when they are first used: most commands need none of some hundreds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


class _Late:
    """Stands for a pattern until one of its methods is called, which it has itself from then on."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self.flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled by its first use; an error in it is found only then."""
    return cast("re.Pattern[str]", _Late(pattern, flags))


class Lower:
    """A pattern written in lower case that is looked for in a text whatever its case.

    `re.IGNORECASE` tries a long list of words one by one at every place, and takes several times as long.
    """

    def __init__(self, pattern: str) -> None:
        """Take the pattern, which is compiled by its first use."""
        self.pattern = pattern
        self._compiled = late(pattern)

    def search(self, text: str, *span: int) -> re.Match[str] | None:
        """Return the first match; its groups are in lower case, as in all of these."""
        return self._compiled.search(text.lower(), *span)

    def match(self, text: str, *span: int) -> re.Match[str] | None:
        """Return the match that begins at a place."""
        return self._compiled.match(text.lower(), *span)

    def fullmatch(self, text: str, *span: int) -> re.Match[str] | None:
        """Return the match that is all of a text."""
        return self._compiled.fullmatch(text.lower(), *span)

    def finditer(self, text: str, *span: int) -> Iterator[re.Match[str]]:
        """Return all matches."""
        return self._compiled.finditer(text.lower(), *span)
