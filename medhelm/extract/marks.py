"""Where a completion marks its final answer. Every search is linear in the text's length."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\u00ad]+")
_LINE_END = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_THINKING = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)

# Spaces are counted up to a bound: two unbounded runs side by side would be quadratic.
_LINE = re.compile(
    r"^[ \t>*_#`|-]{0,16}(?:(?:so|thus|therefore|hence)[ \t,]{1,3})?"
    r"(?:(?:the|my|our|your|correct|best|right|final|selected|chosen|overall)[ \t]{1,9}){0,3}"
    r"(?:"
    r"ans(?:wer)?(?:[ \t]{1,9}(?:choice|option|letter))?[ \t]{0,9}[*_`]{0,3}[ \t]{0,9}"
    r"(?:[:=]|-(?=[ \t])|[\u2013\u2014]|\.(?=[ \t])|$|(?=\(?[A-Z]\)?[.)*]{0,4}[ \t]{0,9}$))"
    r"|(?:choice|option)[ \t]{0,9}[*_`]{0,3}[ \t]{0,9}[:=]"
    r")[ \t*_`]{0,16}",
    re.IGNORECASE | re.MULTILINE,
)
_PHRASE = re.compile(
    r"\b(?:final|ultimate)[ \t]{1,9}(?:answer|choice|result|score|value)(?:[ \t]{1,9}(?:choice|option))?"
    r"[ \t]{0,9}[*_`]{0,3}[ \t]{0,9}(?:[:=]|is\b(?![ \t]{1,9}not\b)[ \t]{0,9}:?)[ \t*_`]{0,16}",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"""["'](?:(?:final|correct|selected|best)[_ ]?)?(?:answer|choice|option)"""
    r"""(?:[_ ]?(?:letter|choice|option))?["'][ \t]{0,9}:\s{0,9}""",
    re.IGNORECASE,
)
_TAG = re.compile(r"<(?:final[_ ]?)?answer>", re.IGNORECASE)
_BOX = re.compile(r"\\f?boxed[ \t]{0,9}\{")
TOKEN = re.compile(
    r"\d+(?:[.,]\d+)*|[^\W\d_]+|[<>\u2264\u2265+]"
    r"|(?<![\w)])[-\u2212](?=\d)|(?<=\()[-\u2212](?=\))|(?<=\w)[-\u2212](?=[\s.,;)]|$)"
)
"""What makes two texts the same: words, numbers, comparisons and signs."""
_LONGEST = 4000
"""How much of a marked answer is looked at."""


@dataclass(frozen=True)
class Mark:
    """One place where a completion marks its answer as final."""

    start: int
    """Where what is marked begins."""
    end: int
    """Where its line, braces or quotes end."""
    value: str
    """What stands between, stripped."""


def visible_text(text: str) -> str:
    """Return a completion without thinking blocks and invisible characters, lines ended by LF.

    Thinking is also what stands before a closing tag without an opening one, and what stands
    after an opening tag that is never closed.
    """
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    text = _LINE_END.sub("\n", text)
    kept: list[str] = []
    start, is_hidden = 0, False
    for tag in _THINKING.finditer(text):
        if tag[1] and not is_hidden:
            kept.clear()
        elif not tag[1] and not is_hidden:
            kept.append(text[start : tag.start()])
        is_hidden = not tag[1]
        start = tag.end()
    if not is_hidden:
        kept.append(text[start:])
    return "".join(kept).strip()


def unify(text: str) -> str:
    """Return `text` with compatibility forms (full-width letters, no-break spaces) made plain."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def tokens(text: str) -> tuple[str, ...]:
    """Return the words, numbers, comparisons and signs of a text, in lower case."""
    return tuple(TOKEN.findall(fold(unify(text))))


def fold(text: str) -> str:
    """Return `text` without case, with plain minus signs."""
    return text.casefold().replace("\u2212", "-")


def last_mark(text: str) -> Mark | None:
    """Return the last mark of a final answer that is not empty, or None.

    Marks are a line that begins with `Answer:` or is headed so, the words `final answer is`
    (or result, score, value), a LaTeX box, an answer tag and the JSON key `answer`.
    """
    lower = text.lower()
    found: list[Mark | None] = []
    if any(word in lower for word in ("ans", "choice", "option", "final", "ultimate")):
        found += [_last(_LINE, text, _line_end), _last(_PHRASE, text, _line_end)]
        found += [_last(_KEY, text, _value_end), _last(_TAG, text, _tag_end)]
    if "boxed" in lower:
        found.append(_last(_BOX, text, _brace_end))
    return max((m for m in found if m), key=lambda mark: mark.start, default=None)


def final_answer(text: str) -> str:
    """Return what a completion marks as its final answer, else all of its visible text."""
    visible = visible_text(text)
    mark = last_mark(visible)
    return mark.value if mark else visible


def _last(
    pattern: re.Pattern[str], text: str, find_end: Callable[[str, int], tuple[int, int]]
) -> Mark | None:
    """Return the last match that marks something; a completion may end at an empty one."""
    ends = [match.end() for match in pattern.finditer(text)][-2:]
    for at in reversed(ends):
        start, end = find_end(text, at)
        if value := text[start:end].strip():
            return Mark(start, end, value)
    return None


def _line_end(text: str, start: int) -> tuple[int, int]:
    """Return the rest of the line, or the next line that is not blank."""
    stop = min(len(text), start + _LONGEST)
    while start < stop and text[start].isspace():
        start += 1
    end = text.find("\n", start, stop)
    return start, stop if end < 0 else end


def _value_end(text: str, start: int) -> tuple[int, int]:
    """Return a JSON value without its quotes."""
    stop = min(len(text), start + _LONGEST)
    quote = text[start : start + 1]
    if quote in ('"', "'"):
        start += 1
        end = start
        while end < stop and text[end] != quote:
            end += 2 if text[end] == "\\" else 1
        return start, min(end, stop)
    ends = (text.find(c, start, stop) for c in ("]" if quote == "[" else ",}\n"))
    return start, min((e for e in ends if e >= 0), default=stop)


def _tag_end(text: str, start: int) -> tuple[int, int]:
    stop = min(len(text), start + _LONGEST)
    end = text.find("</", start, stop)
    return start, stop if end < 0 else end


def _brace_end(text: str, start: int) -> tuple[int, int]:
    depth = 1
    for end in range(start, min(len(text), start + _LONGEST)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return start, end
    return start, start  # never closed: nothing is marked
