"""Plain text -> its sentences, without bullets, remarks in brackets and interpreting sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from medhelm.extract.late import late

_HEAD, _TAIL = 3_000, 15_000
"""Characters at the beginning and at the end of a text that are looked through."""
_SENTENCE = 1_500
"""Characters of a sentence that are read, the last ones."""
SENTENCE_END = late(
    r"[\n;\u3002\uff61\u0964\u1362]|[!?]\s|\.(?:(?<!(?<!['\u2019])\b[A-Za-z]\.)\s|(?<=[a-z,] [A-Z]\.)\s(?=[A-Z]))"
)
_ASIDE = late(r"\(([^()]{0,400})\)|\[([^\[\]]{0,400})\]")
_REMARK = late(r"\([^\d()][^()]*\)\W*")
"""A sentence that is in brackets after another one."""
_SPELLED = late(
    r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten)\s(?:points?|criteria)\b",
    re.IGNORECASE,
)
_INNER = late(r"(?<=[-+*/\u00d7]\s)\(([^()=]{1,80}?)\s?[=\u2248][^()=]{1,20}\)")
"""A part of a calculation in brackets, with its own result."""
_LIMITS = late(
    r"[(\[](?:[a-z ]{0,20}\s)?[<>\u2264\u2265]?\s?\d[\d.,]*(?:\s?[-\u2013]\s?\d[\d.,]*)\s?[^\d()\[\]]{0,15}[)\]]"
)
_PERCENT_ASIDE = late(r"\s?\(\s?[\u2248~=]?\s?(\d{1,3}(?:\.\d{1,6})?)\s?%\)")
_BEFORE_OPERAND = late(
    r"(?:[-+*\u00d7/^=\u2248(\[:\u221a\u2192]|\b(?:sqrt|ln|log|exp|is|of|was|or|and|to|versus|answer))\s*$"
)
_AFTER_OPERAND = late(r"\s*[-+*\u00d7/^]\s*[(\[\d]")

_FURNITURE = late(
    r"(?:[#\s]|>(?!\s*\d))*(?:[-+\u2022\u25e6\u25aa\u00b7]\s+(?!\s*\d)|\(?\d{1,2}[.)]\s+(?=[^\W\d])|step\s\d{1,2}\s?[:.)\u2013-]\s*)*",
    re.IGNORECASE,
)
_COLUMN = late(r"(?<=[\w)\]])[ \t]{3,}(?=[-+]?\d{1,4}(?:\.\d{1,3})?$)")
"""The space before the last column of a table that is set with spaces."""
_NOTE = late(
    r"\((?=[^\W\d]{2})(?!.*\b(?:answer|result|total|score|points?|final|so the|therefore|weeks?|rounded|actually|correction)\b)"
    r"[^()]*\)\W*",
    re.IGNORECASE,
)
"""A line in brackets that adds a note to a result."""
_NAMED_LINE = late(r"([^\W\d][\w ()/-]{0,40}?)\s*(?=[=\u2248])")
_UNFINISHED = late(
    r"([^\W\d][\w ()/-]{0,40}?)\s*[=\u2248](?:[\d\s.,()*/+\u00d7\u2212^=-]*[*/+\u00d7\u2212^-])[\d\s.,()]*"
)
"""A calculation whose result is not there yet."""
_WEEKS_ASIDE = late(r"\s?\((\d{1,2}\sweeks?,?\s(?:and\s)?[0-6]\sdays?)\)", re.IGNORECASE)
_DAYS = late(r"\d\s?d(?:ays?)?\b|\d/7|\d\+\d", re.IGNORECASE)
_ASIDE_HEADING = late(
    r"(?:clinical\s|score\s|risk\s|quick\s)?(?:interpretation|interpreting|significance|notes?|reference|"
    r"normal|classification|categories|recommendations?|management|limitations?|caveats?|"
    r"assumptions?|disclaimer|context|meaning|comparison|caution|important|risk|implications?|"
    r"next steps?|verification|sanity check)\b[^:.\d]{0,40}",
    re.IGNORECASE,
)
_RESUMES = late(
    r"\W*(?:the )?(?:therefore|thus|hence|so|final|answer|result|total|conclusion|calculation)\b",
    re.IGNORECASE,
)
_WORKING = late("[=\u2248*\u00d7^(]|[\\d)]\\s?[-+/]|[+/]\\s?[\\d(]|\u2192")
_CALCULATION = late("[=\u2248*\u00d7^]|[\\d)]\\s?[-+/]|[+/]\\s?[\\d(]")
_EXPRESSION = late(r"[\d\s.()]*\d\s?[-+*/\u00d7\u2212\u2013^][\d\s.()*/+\u00d7\u2212^-]*\d[\s)]*")
_OPEN_END = late(r"(?:[=\u2248:]|\b(?:is|of|are|equals|approximately|to))\s*$", re.IGNORECASE)
_LEADING_VALUE = late(r"[-+(\s]{0,4}[\d.,]+|(?=[^\W\d])")
_LABEL = late(r"[^\W\d][^\d=\u2248:]{1,40}:\s")
"""The name of a part of a formula, which its colon announces."""
_STATED = late(
    r"(?:[=\u2248]|\b(?:is|at|of|equals|to))\s(?:about\s)?[\d.,]+\s?[\w/^%]{0,16}(?:\s[\w/^]{1,6})?\s?:$"
)
"""A finished statement whose working follows."""
_THEN_WORKING = late(
    r"((?:=|\b(?:is|equals|works\sout\s(?:at|to)|comes\s(?:out\s)?(?:at|to)|amounts\sto))\s(?:about\s|approximately\s|roughly\s)?"
    r"[-\u2212]?\d[\d.,]*\s?[\w/^%\u00b2]{0,16}(?:\s\([^()\n]{1,30}\))?):\s(?=[A-Za-z][a-z]+\s)",
    re.IGNORECASE,
)
"""A result, a colon, and how it comes about."""
_STOP = late(r"[.!?;](?=[\sA-Z])")
"""The sign before each break."""
_BREAK = late(
    r";\s|(?<=[.!?])\s+(?=[A-Z\u0391-\u03a9\u221a(\[\"'\u2192])|(?<=[a-z)%\d]\.)(?=[A-Z][a-z])|(?<=[a-z]\.)\s+(?=[a-z]{2})"
    r"|(?<=[a-z]{5}\.)(?<!approx\.)\s+(?=\d)|(?<=%\.)\s+(?=\d)"
    r"|(?:(?<=\d\d\.)|(?<=\d\.\d\.)|(?<=\)\.)|(?<=[a-z/ ]L\.)|(?<=\bkg\.)|(?<=[=\u2192]\s\d\.))\s+(?=\d)"
)


@lru_cache(maxsize=8)
def split_sentences(text: str) -> tuple[tuple[str, bool], ...]:
    """Return the sentences of a plain text, and whether each is a line of its own.

    Of a long text the beginning and the end are looked through. Sections that interpret a result
    are left out.
    """
    return tuple(_split(text))


def _split(text: str) -> Iterator[tuple[str, bool]]:
    if len(text) > _HEAD + _TAIL:
        text = text[:_HEAD].rpartition("\n")[0] + "\n" + text[-_TAIL:].partition("\n")[2]
    is_left_out = False
    for line in _lines(text):
        head, colon, rest = line.partition(":")
        if (colon or len(line) < 40) and _ASIDE_HEADING.fullmatch(head.strip(" .")):
            is_left_out = not rest.strip()
            continue
        if is_left_out:
            if not (colon and not rest.strip()) and not _RESUMES.match(line):
                continue
            is_left_out = False
        if ": " in line:
            line = _THEN_WORKING.sub(r"\1; ", line)
        first, *others = _BREAK.split(line) if _STOP.search(line) else [line]
        has_value = any(c.isdigit() for c in first) or len(first) < 40
        parts = [first, *(p for p in others if not (has_value and _REMARK.fullmatch(p)))]
        for part in parts:
            yield _without_asides(part[-_SENTENCE:]), len(parts) == 1


def _lines(text: str) -> Iterator[str]:
    """Yield the lines without bullets and numbers; one that is not finished takes in the next."""
    held = ""
    for raw in text.split("\n"):
        line = raw.strip()
        if "   " in line:
            line = _COLUMN.sub(": ", line)
        is_item = False
        if line.startswith("|") or line.count("|") > 1:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            cells = [cell for cell in cells if cell.strip("-: ")]
            line = "".join(cell + _joint(cell) for cell in cells[:-1]) + "".join(cells[-1:])
        else:
            found = _FURNITURE.match(line)
            is_item = found is not None and bool(found[0].strip("# "))
            line = line[found.end() :] if found else line
        if not line.strip("-_=. "):
            continue
        if held and any(c.isdigit() for c in held) and _NOTE.fullmatch(line):
            continue
        again, working = _NAMED_LINE.match(line), _UNFINISHED.fullmatch(held)
        if again and working and again[1].strip() == working[1].strip():
            line = line[len(again[1]) :].lstrip()
        is_open = _OPEN_END.search(held[-20:]) is not None and not is_item
        if held.endswith(":"):
            is_part = "=" in held and _LABEL.match(line) is not None
            is_open = is_open and not (is_part or _STATED.search(held[-60:])) and _is_result(line)
        leads = _CALCULATION if line[0] == "\u2192" else _WORKING
        if held and (is_open or (line[0] in "=\u2248\u2192" and leads.search(held))):
            held = held + " " + line if len(held) < _SENTENCE else line
            continue
        if held:
            yield held
        held = line
    if held:
        yield held


def _is_result(line: str) -> bool:
    """Return whether a line can be what the one above, which ends with a colon, announces."""
    found = _LEADING_VALUE.match(line)
    return found is None or "=" in line or "\u2248" in line or len(line) - found.end() < 25


def _joint(cell: str) -> str:
    """Return what joins the cell of a table to the next one."""
    return " = " if _EXPRESSION.fullmatch(cell) else ": "


def _without_asides(sentence: str) -> str:
    """Return a sentence without brackets that add a remark; those of a calculation stay."""
    if "(" not in sentence and "[" not in sentence:
        return sentence
    sentence = _PERCENT_ASIDE.sub(r", i.e. \1 %", sentence)
    weeks = _WEEKS_ASIDE.search(sentence)
    if weeks and weeks.start() and not _DAYS.search(sentence, 0, weeks.start()):
        sentence = _WEEKS_ASIDE.sub(r", i.e. \1", sentence, count=1)
    if "=" in sentence:
        sentence = _INNER.sub(r"(\1)", sentence)
    bare = sentence
    for _ in range(2):
        bare = _ASIDE.sub(lambda m: m[0] if _is_calculation(m) else " ", bare)
    return (
        bare
        if any(c.isdigit() for c in bare) or _SPELLED.search(bare)
        else _LIMITS.sub(" ", sentence)
    )


def _is_calculation(match: re.Match[str]) -> bool:
    text = match.string
    before = text[max(0, match.start() - 12) : match.start()]
    if not any(c.isdigit() for c in match[0]):
        is_factor = before.rstrip()[-1:] in ("*", "\u00d7", "/")
        is_factor |= text[match.end() : match.end() + 4].lstrip()[:1] in ("*", "\u00d7", "/")
        return not match[0][1:-1].strip() or is_factor
    if not before.strip() or _BEFORE_OPERAND.search(before) or before[-1:].isalnum():
        return True
    return _AFTER_OPERAND.match(text, match.end()) is not None and not before.strip()[-1:].isdigit()
