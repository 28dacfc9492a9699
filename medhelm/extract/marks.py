"""Find the mark of a completion's final answer. Every search is linear in the text's length."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from medhelm.extract.languages import languages_of, words
from medhelm.extract.late import late

T = TypeVar("T")


@dataclass(frozen=True)
class Reading(Generic[T]):
    """The answer that a completion commits to; without one, why not."""

    value: T | None
    reason: str = ""
    """Empty where there is a value."""


_INVISIBLE = late("[\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\u00ad]+")
_ANGLES = dict(zip(map(ord, "\u27e8\u27e9\u2329\u232a\u3008\u3009"), "<><><>", strict=True))
_LINE_ENDS = "\r\v\f\x85\u2028\u2029"
_LINE_END = late(f"\r\n|[{_LINE_ENDS}]")
_STRUCK = late(r"~~[^~\n]{1,500}~~|<(del|strike)>[^<]{0,500}</\1>", re.IGNORECASE)

_THINKING = late(
    # most makers; Mistral; Kimi; gpt-oss, whose channels but the last are thoughts; Cohere;
    # MedGemma; Gemma; Sky-T1 and its kin. The group is what opens a thought.
    r"(<(?:[a-z]{1,8}:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)>"
    r"|\[THINK\]|\u25c1think\u25b7|<\|channel\|>(?!final)[a-z ]{0,40}<\|message\|>"
    r"|<\|START_THINKING\|>|<unused94>(?:thought)?|<\|channel>thought|<\|begin_of_thought\|>)"
    r"|</(?:[a-z]{1,8}:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)>"
    r"|\[/THINK\]|\u25c1/think\u25b7|<\|channel\|>final[a-z ]{0,40}<\|message\|>"
    r"|<\|END_THINKING\|>|<unused95>|<channel\|>|<\|end_of_thought\|>",
    re.IGNORECASE,
)
_THINKING_FIRST = tuple(
    (late(start), late(end, re.MULTILINE))
    for start, end in (
        # HuatuoGPT-o1; Granite; gpt-oss with its special tokens left out
        (
            r"\s*#{1,4} Thinking[ \t]*\n",
            r"^#{1,4} (?:Final )?Response[ \t]*$|^(?=#{1,4} .{0,9}Answer)",
        ),
        (r"\s*Here(?: is|'s) my thought process:", r"^Here(?: is|'s) my response:"),
        (r"\s*analysis(?=[A-Z\n])", r"assistant\s?final"),
    )
)
"""Forms of which a completion of thoughts begins with one, and ends them with the other."""

_TEMPLATE = late(
    r"<\|(?:im_(?:start|end|sep)|eot_id|eom_id|end_of_text|endoftext|start_header_id|end_header_id"
    r"|begin_of_text|end_of_solution|begin_of_solution|begin_of_sentence|end_of_sentence|end|start"
    r"|return|call|user|assistant|system|eot|eos|(?:START|END)_(?:OF_TURN_TOKEN|RESPONSE))\|>"
    r"|</s>|<s>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<eos>|<bos>|<turn\|>|<\|turn>"
    r"|<\uff5c[A-Za-z\u2581]{1,30}\uff5c>"
)
_RUN_ON = late(
    r"^[ \t>*_#\[(-]{0,12}(?:(?:(?:new|next|another|follow-?up|sample)[ \t])?"
    r"(?:(?:question|q|example|problem|exercise|case)[ \t]?#?\d{1,4}|question|q|instructions?)"
    r"|patient(?:['\u2019]s)?[ \t]note|clinical[ \t]vignette|user|human)"
    r"(?:[*_\])]{0,3}[ \t]?(?::|(?<!\bq)\.)(?!\w)|(?:(?<=\w\w)|(?<=\d))[*_\])]{0,3}[ \t]{0,9}$)",
    re.IGNORECASE | re.MULTILINE,
)
_ROLE = late(r"(?:assistant|model)[ \t]{0,3}(?::|\n)\s*", re.IGNORECASE)

# Spaces are counted up to a bound: two unbounded runs side by side would be quadratic.
_SIDE = rf"(?:{words('right')}|{words('article')}|{words('option')})"
_LINE = late(
    r"^[ \t>*_#`|-]{0,16}(?:(?:so|thus|therefore|hence)[ \t,]{1,3})?"
    r"(?:(?:the|my|our|your|correct|best|right|final|selected|chosen|overall)[ \t]{1,9}){0,3}"
    r"(?:"
    r"ans(?:wer)?(?:[ \t]{1,9}(?:choice|option|letter))?[ \t]{0,9}[*_`]{0,3}[ \t]{0,9}"
    r"(?:[:=\uff1a]|-(?=[ \t])|[\u2013\u2014]|\.(?=[ \t])|$|(?=\(?[A-Z]\)?[.)*]{0,4}[ \t]{0,9}$))"
    r"|(?:choice|option|label|verdict|selection|pick|rating)[ \t]{0,9}[*_`]{0,3}[ \t]{0,9}[:=]"
    r")[ \t*_`]{0,16}",
    re.IGNORECASE | re.MULTILINE,
)
_HEADS = ("ans", "choice", "option", "label", "verdict", "selection", "pick", "rating")
"""The words of such lines, one of which has to be there."""
_OTHER_LINE = late(
    rf"^[ \t>*_#`|\u3010-]{{0,16}}(?:{_SIDE}[ \t]{{0,3}}){{0,3}}"
    rf"(?:{words('answer')}|{words('option')}[ \t]{{0,3}}{words('right')})"
    rf"(?:[ \t]{{0,3}}{_SIDE}){{0,2}}[ \t]{{0,3}}[*_`]{{0,3}}[ \t]{{0,3}}"
    r"(?:[:=\uff1a\u1361\u1366\u3011]|[\u2013\u2014]|-(?=[ \t]))[ \t*_`]{0,16}",
    re.IGNORECASE | re.MULTILINE,
)
_PHRASE = late(
    r"\b(?:final|ultimate)[ \t]{1,9}(?:answer|choice|result|score|value|selection|decision|list|codes|labels)"
    r"(?:[ \t]{1,9}(?:choice|option))?"
    r"[ \t]{0,9}[*_`]{0,3}[ \t]{0,9}(?:[:=\uff1a]|is\b(?![ \t]{1,9}not\b)[ \t]{0,9}:?)[ \t*_`]{0,16}",
    re.IGNORECASE,
)
_KEY = late(
    r"""["'](?=[^"'\n]{1,80}["'][ \t]{0,9}:)(?:(?:final|correct|selected|best|chosen|predicted|my)[_ ]?)?"""
    r"""(?:answer|choice|option|prediction|predicted|selection|letter|response|output|result|label|verdict"""
    rf"""|solution|decision|conclusion|classification|{words("answer")})"""
    r"""(?:[_ ]?(?:letter|choice|option|label|idx|index|key))?["'][ \t]{0,9}:\s{0,9}""",
    re.IGNORECASE,
)
_TAG = late(
    r"<(?:(?:final|correct|my|selected|best)[_ ]?)?"
    r"(?:answer|option|choice|prediction|letter|final|solution)>",
    re.IGNORECASE,
)
_DOUBLE = late(r"\[\[(?=[A-Za-z0-9.]{1,12}\]\])")
_BOX = late(r"\\f?boxed[ \t]{0,9}\{")
TOKEN = late(
    r"\d+(?:[.,]\d+)*|[^\W\d_]+|[<>\u2264\u2265+]"
    r"|(?<![\w)])[-\u2212](?=\d)|(?<=\()[-\u2212](?=\))|(?<=\w)[-\u2212](?=[\s.,;)]|$)"
)
"""Matches the parts by which two texts are the same: words, numbers, comparisons and signs."""
_DECORATION = " \t\n*_#>-"
_LONGEST = 4000
"""Characters of a marked answer that are searched."""
_MOST = 50
"""Marks of one form that are read, the last ones."""


@dataclass(frozen=True)
class Mark:
    """One place where a completion marks its answer as final."""

    start: int
    """Start of the marked text."""
    end: int
    """End of its line, braces or quotes."""
    value: str
    """The text between both, stripped."""


def visible_text(text: str) -> str:
    """Return a completion without thoughts and invisible characters, lines ended by LF.

    Thoughts are also the text before a closing mark without an opening one, and the text
    after an opening mark that is never closed. The marks of many makers are known.
    """
    return split_thoughts(text)[1]


def split_thoughts(text: str) -> tuple[str, str]:
    """Return the thoughts of a completion, and its `visible_text`."""
    text = without_invisible(text)
    if any(end in text for end in _LINE_ENDS):
        text = _LINE_END.sub("\n", text)
    thoughts: list[str] = []
    for start, end in _THINKING_FIRST:
        if begun := start.match(text):
            ended = end.search(text, begun.end())
            at = ended.end() if ended else len(text)
            thoughts.append(text[:at])
            text = text[at:]
    kept: list[str] = []
    at, is_hidden = 0, False
    if "<" in text or "[" in text or "\u25c1" in text:
        for mark in _THINKING.finditer(text):
            (thoughts if is_hidden else kept).append(text[at : mark.start()])
            if not mark[1] and not is_hidden:
                thoughts += kept
                kept.clear()
            is_hidden = bool(mark[1])
            at = mark.end()
    (thoughts if is_hidden else kept).append(text[at:])
    return "\n".join(filter(None, map(str.strip, thoughts))), "".join(kept).strip()


def own_text(text: str) -> str:
    """Return the visible text as far as it is the completion's own answer to what was asked.

    Base models run on: into a next question, the other speaker's turn, or the tokens of a chat
    template. The text there is left out, and so is what is struck through. A question in the
    first line, or behind a colon, is the one that was asked.
    """
    visible = visible_text(text)
    if "~~" in visible or "</" in visible:
        visible = _STRUCK.sub("", visible)
    at = 0
    while token := _TEMPLATE.match(visible, at):
        at = token.end()
        while at < len(visible) and visible[at].isspace():
            at += 1
    if role := _ROLE.match(visible, at):
        at = role.end()
    token = _TEMPLATE.search(visible, at)
    visible = visible[at : token.start() if token else None].strip()
    for line in _RUN_ON.finditer(visible):
        before = visible[: line.start()].rstrip(_DECORATION)
        if before and not before.endswith(":"):
            return before.rstrip()
        if before:
            break
    return visible


def without_invisible(text: str) -> str:
    """Return `text` without invisible characters, such as zero-width spaces."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def unify(text: str) -> str:
    """Return `text` with compatibility forms (full-width letters, no-break spaces) made plain."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_ANGLES)


def tokens(text: str) -> tuple[str, ...]:
    """Return the words, numbers, comparisons and signs of a text, in lower case."""
    return tuple(TOKEN.findall(fold(unify(text))))


def fold(text: str) -> str:
    """Return `text` without case, with plain minus signs."""
    return text.casefold().replace("\u2212", "-")


def all_marks(text: str) -> tuple[Mark, ...]:
    """Return the marks of a final answer that are not empty, in order.

    Marks are a line that begins with `Answer:` or is headed so, the words `final answer is`
    (or result, score, value), a LaTeX box, an answer tag and the JSON key `answer`. Of each form
    the last `_MOST` are returned. A mark of a completion that was cut may itself be cut where it
    ends with the text.
    """
    lower = text.lower()
    found = _all(_LINE, text, _line_end) if any(word in lower for word in _HEADS) else []
    if "final" in lower or "ultimate" in lower:
        found += _all(_PHRASE, text, _line_end)
    if ":" in text and ('"' in text or "'" in text):
        found += _all(_KEY, text, _value_end)
    if "<" in text:
        found += _all(_TAG, text, _tag_end)
    if "boxed" in text:
        found += _all(_BOX, text, _brace_end)
    if "[[" in text:
        found += _all(_DOUBLE, text, lambda text, at: (at, text.find("]]", at)))
    if languages_of(text):
        found += _all(_OTHER_LINE, text, _line_end)
    return tuple(sorted(found, key=lambda mark: mark.start))


def marked_answers(text: str) -> tuple[str, ...]:
    """Return what a text marks as final, in order."""
    return tuple(mark.value for mark in all_marks(text))


def last_mark(text: str) -> Mark | None:
    """Return the last mark of a final answer that is not empty, or None."""
    return next(reversed(all_marks(text)), None)


def final_answer(text: str) -> str:
    """Return what a completion marks as its final answer, the last one, else all of its own text."""
    own = own_text(text)
    mark = last_mark(own)
    return mark.value if mark else own


def read_answer(text: str, *, is_cut: bool = False) -> Reading[str]:
    """Return the text that a completion marks as its final answer, else all of its own text.

    Marks that differ are not an answer, and neither is text that touches the cut of a reply.
    """
    own = own_text(text)
    marks = all_marks(own)
    if is_cut and (not marks or marks[-1].end >= len(own)):
        return Reading(None, "the reply was cut before its answer was whole")
    if not own:
        return Reading(None, "no answer of its own")
    if len({tokens(mark.value) for mark in marks}) > 1:
        return Reading(None, "several answers are marked as final")
    return Reading(marks[-1].value if marks else own)


def _all(
    pattern: re.Pattern[str], text: str, find_end: Callable[[str, int], tuple[int, int]]
) -> list[Mark]:
    """Return the last matches that mark something; what is marked may be empty and is left out."""
    ends = deque((match.end() for match in pattern.finditer(text)), maxlen=_MOST)
    found = (find_end(text, at) for at in ends)
    return [Mark(start, end, value) for start, end in found if (value := text[start:end].strip())]


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
