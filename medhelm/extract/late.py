"""Patterns that are compiled when they are first used: most commands need none of some hundreds."""

from __future__ import annotations

import re
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
