"""JSON as models write it: read for its whole parts, whatever is wrong around it.

Passed over: commas too many or missing, single quotes, names without quotes, comments, closing
brackets that never come. One pass from left to right, linear in the text's length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from medhelm.extract import without_halves

_START = re.compile(r"\{|\[(?=\s{0,99}[\[{])")
_TOKEN = re.compile(
    r'"(?P<double>(?:[^"\\\n]|\\.)*+(?:\n(?!\s{0,99}["\'}\]])(?:[^"\\\n]|\\.)*+){0,5})"'
    r"|'(?P<single>(?:[^'\\\n]|\\.)*+)'"
    r"|(?P<comment>//[^\n]*)"
    r"|(?P<broken>[\"'][^\n]*)"
    r"|(?P<sign>[{}\[\]:,])"
    r"|(?P<bare>[^\s{}\[\]:,\"'][^{}\[\]:,\"'\n]*)"
)
"""`broken`: a quote that is never closed. A string goes on for a few lines at most, and not over one
that begins a name or ends an object, so that a stray quote costs one line."""

_MOST = 50_000
"""Tokens after which a text is given up: a menu of 300 actions with reasons needs a tenth."""


@dataclass(eq=False)
class Container:
    """An object or a list: its members, those of a list and stray words without a name."""

    start: int
    end: int = 0
    members: list[tuple[str | None, str | Container]] = field(default_factory=list)

    def inside_out(self) -> Iterator[Container]:
        """Yield all containers in this one, each behind those inside it, and itself last."""
        order, left = [], [self]
        while left:
            order.append(left.pop())
            left += [m for _, m in order[-1].members if isinstance(m, Container)]
        yield from reversed(order)


class _Open:
    """A container that is being read, and a word in it that is a name or a member."""

    def __init__(self, start: int) -> None:
        self.value = Container(start)
        self._word: str | None = None
        self._is_key = False

    def add(self, member: str | Container) -> None:
        if self._is_key:
            self.value.members.append((self._word, member))
            self._word, self._is_key = None, False
        elif isinstance(member, Container):
            self.settle()
            self.value.members.append((None, member))
        else:
            self.settle()
            self._word = member

    def colon(self) -> None:
        self._is_key = self._word is not None

    def settle(self) -> None:
        """Take the word that waits as a member. A key without a value is given an empty one."""
        if self._word is not None:
            key, word = (self._word, "") if self._is_key else (None, self._word)
            self.value.members.append((key, word))
        self.drop()

    def drop(self) -> None:
        """Forget the word that waits: what belongs to it is cut."""
        self._word, self._is_key = None, False


def containers(text: str, *, is_cut: bool = False) -> Iterator[Container]:
    """Yield the outermost objects and lists of a text; a list only where one of either begins it.

    What the end of the text cuts is left out, with `is_cut` also a bare word that touches it.
    """
    at, left = 0, _MOST
    while left > 0 and (start := _START.search(text, at)) is not None:
        value, left = _read(text, start.start(), is_cut, left - 1)
        yield value
        at = value.end


def _read(text: str, start: int, is_cut: bool, left: int) -> tuple[Container, int]:
    """Return the container that begins at `start`, and how many more tokens may be read."""
    stack = [_Open(start)]
    at = start + 1
    while left > 0 and (token := _TOKEN.search(text, at)) is not None:
        at, left = token.end(), left - 1
        kind, top = token.lastgroup, stack[-1]
        if kind == "broken":
            top.drop()
        elif kind == "bare":
            if not (is_cut and at == len(text)):
                top.add(token["bare"].partition("//")[0].strip())
            else:
                top.drop()
        elif kind in ("double", "single"):
            top.add(_unescape(token[kind]))
        elif kind == "sign":
            sign = token["sign"]
            if sign in "{[":
                stack.append(_Open(token.start()))
            elif sign == ":":
                top.colon()
            elif sign == ",":
                top.settle()
            elif _close(stack, at):
                return stack[0].value, left
    stack[-1].drop()
    while not _close(stack, len(text)):
        stack[-1].drop()
    return stack[0].value, left


def _close(stack: list[_Open], end: int) -> bool:
    """Close the innermost container; return whether it was the outermost."""
    top = stack[-1]
    top.settle()
    top.value.end = end
    if len(stack) == 1:
        return True
    stack.pop()
    stack[-1].add(top.value)
    return False


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        found = json.loads(without_halves(f'"{text}"'), strict=False)
    except ValueError:
        return text
    return found if isinstance(found, str) else text
