"""Completion text -> a number, a date or a duration, or the reason why there is none.

Statements are found (`statements`), ranked (what is marked as final or called the answer, then what has
the name or the unit that was asked for, then what is worked out or concluded) and settled: two that
differ and of which neither leads to the other are not an answer.
"""

from __future__ import annotations

import datetime
import re
from itertools import islice
from typing import TypeVar

from medhelm.extract.late import Lower, late
from medhelm.extract.marks import Mark, Reading, all_marks, own_text, visible_text
from medhelm.extract.numbers.asked import Asked
from medhelm.extract.numbers.calendar_values import DATE, DURATION
from medhelm.extract.numbers.notation import plain, with_points
from medhelm.extract.numbers.numerals import NUMBER
from medhelm.extract.numbers.settling import agreed, agrees, settle
from medhelm.extract.numbers.statements import find_statements
from medhelm.extract.numbers.value_types import ValueKind, differ
from medhelm.extract.numbers.words import GENERAL_NAMES, INTERPRETS, OTHER, SECONDARY
from medhelm.extract.sentences import split_sentences

T = TypeVar("T")

_LONGEST = 2_000
"""Characters of a text of which the only value counts although nothing states it."""
_LINE = 1_500
_NEAR = 160
"""Characters behind a value in which it may be worked on."""
_SHORT = 150
"""Characters of a text whose only value may answer without a statement."""
_REFUSED = Lower(
    r"\b(?:cannot|can't|could not|unable|not possible|impossible|insufficient|not enough|missing|"
    r"not (?:provided|given|available|stated|mentioned)|unknown|need more|more information|"
    r"not sure|unclear|formula|needs? to|needed|let's|let us|we need|calculate)\b"
)
_SCORE = late(r"\b(?:score|points|rating)\b[^\n.]{0,12}$", re.IGNORECASE)
_COPULA = late(r"\s?(?:\b(?:is|was)|[:=*\s]+)\s*$")
_NAME_END = late(r"[,;:=\u2248\u2192]")
_OPERAND = late(r"(?:[\d.,]{1,20}\s{0,3}[/*x\u00d7\u00f7+^\u2212-]\s{0,3}){1,20}$")
"""The operands before a value that is cut: none of them is the result."""
_VALUE_LEAD = late(r"[^\w\n]{0,12}(?:[A-Za-z]{1,14}\s){0,3}[^\w\n]{0,5}")
_RETRACTED = Lower(
    r"(?:(?<=[.!?]\s)|(?<=[.!?]\n)|(?<=\n\n))(?:correction|edit|update|erratum)\s?[:!]"
    r"|\b(?:wait|actually(?!\s(?:no|not|quite|very|in|has|have|weighs|normal|low|high)\b)|oops|scratch that|on (?:second thought|reflection)|my mistake|"
    r"let me (?:re\w+|double.?check|correct)|i (?:made|was) (?:an? )?(?:mistake|error|wrong)|"
    r"apolog\w+|sorry|(?:could|might|may) (?:also|instead|(?:well |even )?be (?=[^.\n]{0,20}\d))|alternatively)\b"
    r"|(?:^|(?<=[.!?,;\u2026] )|(?<=\n))(?:oh,?\s)?no,\s"
)
"""Words by which a text takes back a result, or offers another one."""
_BACK = (
    *(
        "correction",
        "edit",
        "update",
        "erratum",
        "wait",
        "actually",
        "oops",
        "scratch",
        "reflection",
    ),
    *(
        "thought",
        "mistake",
        "let me",
        "i made",
        "i was",
        "apolog",
        "sorry",
        "could",
        "might",
        "may",
    ),
    *("alternatively", "no,"),
)
"""Parts of them, one of which has to be there."""
_STEP_LEFT = Lower(
    r"\b(?:still|yet|now|next|then)\b[^.\n]{0,30}\bto\s(?:be\s)?(?:(?:multipl\w+|divided?)\s(?:\w+\s){0,2}by|subtract)\b[^=\u2248\u2192\n]{0,100}$"
)
"""A step at the end of a text that is not carried out."""
_WORKS_ON = Lower(
    r"\b(?:factor|times|multipl\w+|adjust\w*|correct\w*|plus|add\w*|of (?:that|this|it))\b|[\u00d7x*+]\s?\d"
)
"""Words behind a value by which a text works it on; the arithmetic has to hold."""
_ADJUSTED = Lower(
    r"\b(?:(?:sex|gender|sodium|female)[- ](?:adjust|correct)\w*|with (?:the )?(?:sodium|na)\b|before (?:the )?(?:\w+ )?(?:factor|correction|adjustment))"
)
"""Words that set a value apart from another one as that before or after a correction."""
_BEFORE_STEP = Lower(
    r"[^.,;\n]{0,16}\bbefore (?:the )?(?:\w+ )?(?:factor|correction|adjustment|term)\b"
)
_SUPPOSED = Lower(r"\b(?:would|were|if|should|could|had)\b")
_UNSURE = Lower(
    r"\b(?:(?:not|un)\s?able to (?:give|state|name) (?:one|a single)|can(?:'t|not) be (?:more exact|pinned|determined exactly)|can't be more exact"
    r"|depends on (?:whether|which|how)|depending on these|index is meant|might be anything|before relying on (?:either|any)|is ambiguous"
    r"|not (?:say|specify) which|typical values)\b"
)
"""Words by which a text says that it knows no single result."""
_NOT_GIVEN = Lower(
    r"\b(?:total|score|sum|index|gcs|result|value)\b[^.\n]{0,30}\b(?:should|can|could|must)(?:\s?not|n't)\sbe\s(?:reported|calculated|computed"
    r"|determined|given|assigned|stated|derived)\b"
)


def read_number(text: str, *, is_cut: bool = False, asked: Asked | None = None) -> Reading[float]:
    """Return the number that a completion commits to, else the reason why there is none.

    Read are a sign (also `minus` and `negative`), thousands commas, `1.2e3` and `1.2 x 10^3`;
    units, a percent sign (`12 %` is 12) and `out of 15` may follow, and of `70 / 1.75 = 40` the
    result counts. A score over its maximum (`SIRS = 2/4`) is its points; whole numbers to twenty
    are read in words where they state a result (`three points`); so is a comma that can only be
    a decimal one (`72,5 kg`). Of a worked solution the result that its end states counts. Two
    roundings of one number are one; of a share and its percentage (`0.193`, `19.3 %`) the
    percentage counts. Not read, since they have two meanings: fractions, ratios (`1:1`), `12,5`
    without a unit, bounds (`at least 60`), ranges.

    `asked` is what the question asks for: of several numbers, those that the text calls by another
    quantity's name, or gives in another unit, do not count.

    `is_cut` is for a completion that its budget ended: a number at its end is not a whole one,
    and only what is marked or called the answer counts.
    """
    reading = _read_asked(text, NUMBER, is_cut, asked)
    return Reading(None if reading.value is None else reading.value.value, reading.reason)


def read_date(
    text: str, *, is_cut: bool = False, asked: Asked | None = None
) -> Reading[datetime.date]:
    """Return the date that a completion commits to, else the reason why there is none.

    M/D/Y with or without zeros (also with hyphens), Y-M-D, and an English month name; the year
    has four digits. D/M/Y is not read.
    """
    return _read_asked(text, DATE, is_cut, asked)


def read_weeks_days(
    text: str, *, is_cut: bool = False, asked: Asked | None = None
) -> Reading[tuple[int, int]]:
    """Return the (weeks, days) that a completion commits to, else the reason why there are none.

    `(14 weeks, 1 day)`, quoted or not, `14 weeks and 1 day`, `14w1d`, `14 1/7 weeks`; where it is
    the whole answer also `14 weeks` and `(14, 1)`.
    """
    return _read_asked(text, DURATION, is_cut, asked)


def extract_number(text: str, *, is_cut: bool = False) -> float | None:
    """Return the number that a completion commits to, or None; see `read_number`."""
    return read_number(text, is_cut=is_cut).value


def extract_date(text: str, *, is_cut: bool = False) -> datetime.date | None:
    """Return the date that a completion commits to, or None; see `read_date`."""
    return read_date(text, is_cut=is_cut).value


def extract_weeks_days(text: str, *, is_cut: bool = False) -> tuple[int, int] | None:
    """Return the (weeks, days) that a completion commits to, or None; see `read_weeks_days`."""
    return read_weeks_days(text, is_cut=is_cut).value


def _read_asked(text: str, kind: ValueKind[T], is_cut: bool, asked: Asked | None) -> Reading[T]:
    """Return what a text commits to of what is asked for; points without a total are none of it."""
    visible = own_text(text)
    is_cut = is_cut and visible_text(text).endswith(visible[-20:])  # not by a run-on's end
    visible = with_points(visible)
    if is_cut and text[-1:].isspace():
        visible += "\n"
    if asked is None:
        return _read_value(visible, kind, is_cut)
    shares = [_read_value(visible, share.narrow(kind), is_cut) for share in asked.shares(visible)]
    if any(share.value is None for share in shares):
        return shares[0]
    narrowed = asked.narrow(kind)
    reading = _read_value(visible, narrowed, is_cut)
    values = [r.value for r in (*shares, reading) if r.value is not None]
    if len(values) == 2 and kind.merge(values[0], values[1]) is None:
        return Reading(None, differ(values[0], values[1], kind))
    if not values:
        return reading
    value, region = values[0], plain(visible)
    if narrowed.is_score:
        shown = kind.show(value)
        if shown.isdigit() and gives_points_one_by_one(visible, int(shown), asked):
            return Reading(None, "points of several findings, and no total")
    own = [s for s in find_statements(region, narrowed) if agrees(s, value, kind)]
    if any(s.is_asked or s.level == 3 for s in own) or all_marks(visible):
        return Reading(value)
    for s in find_statements(region, asked.by_name(kind)):
        is_named = s.is_asked and s.level and not (s.is_running or s.is_secondary or s.is_supposed)
        if is_named and s.value is not None and not agrees(s, value, kind):
            return Reading(None, differ(s.value, value, kind))
    is_bare = not any(s.fits or s.level > 1 for s in own)
    if is_bare and any(s.fits for s in find_statements(region, narrowed)):
        return Reading(
            None, f"no {kind.noun} in the unit that is asked for is stated as the answer"
        )
    if not own and len(region) > _SHORT:
        return Reading(None, f"no {kind.noun} by the name that was asked for is stated")
    if (
        any(s.level > 1 and (s.fits or GENERAL_NAMES & {*s.key}) and s.is_named for s in own)
        and not narrowed.is_score
    ):
        return Reading(value)
    return _unless_followed(value, max((s.at[0] for s in own), default=-1), region, narrowed)


def _unless_followed(value: T, at: int, text: str, kind: ValueKind[T]) -> Reading[T]:
    """Return a value without the asked name, unless a later mention with its name or unit differs."""
    for sentence, _ in islice(split_sentences(text), at + 1, None):
        is_beside = any(p.search(sentence) for p in (OTHER, INTERPRETS, SECONDARY, _SUPPOSED))
        for v in () if is_beside else kind.find(sentence):
            is_meant = v.fits or not kind.has_unit
            is_meant = is_meant or kind.is_asked(sentence[max(0, v.start - 60) : v.start]) is True
            if v.value is None or v.is_operand or not is_meant:
                continue
            merged = kind.merge(v.value, value)
            if merged is None:
                return Reading(None, differ(value, v.value, kind))
            value = merged
    return Reading(value)


def _read_value(visible: str, kind: ValueKind[T], is_cut: bool) -> Reading[T]:
    is_value_cut = is_cut and (
        not visible.endswith("\n") or visible.rstrip()[-1:] in "+-*/=(\u2212\u00d7\u00f7"
    )
    visible = visible.rstrip()
    marks = all_marks(visible)
    marked: list[tuple[T | None, str]] = []
    for mark in marks:
        value, cut = plain(_marked(visible, mark)), ""
        if is_value_cut and mark.end >= len(visible):
            value, cut = _without_cut_value(value, kind)
        if cut and not kind.find(value):
            if not any(v is not None and kind.show(v).startswith(cut) for v, _ in marked):
                marked.append((None, f"the answer was cut in the middle of a {kind.noun}"))
            continue
        reading = _unless_taken_back(_read_plain(value, kind), value, kind)
        if reading.value is not None or _begins_with_value(value, kind):
            marked.append((reading.value, reading.reason))
    region = plain(visible[marks[-1].start if marks else 0 :])
    if not marked:
        cut = ""
        if is_value_cut:
            region, cut = _without_cut_value(region, kind)
        if cut and not region.strip():
            return Reading(None, f"the answer was cut in the middle of a {kind.noun}")
        return _unless_taken_back(_read_plain(region, kind, is_cut=is_cut), region, kind, is_cut)
    reading = agreed(marked, kind)
    if reading.value is not None and (
        named := _named_before(visible, marks[0], reading.value, kind)
    ):
        return Reading(None, differ(named, reading.value, kind))
    if reading.value is None or is_cut:
        return _unless_taken_back(reading, region, kind)
    other = settle(find_statements(region, kind)[1:], kind).value
    if other is not None:
        mentioned = values_of(region[len(plain(marks[-1].value)) :], kind)
        if all(kind.merge(reading.value, value) is None for value in [other, *mentioned]):
            return Reading(None, differ(reading.value, other, kind))
    return _unless_taken_back(reading, region, kind)


def _named_before(visible: str, mark: Mark, value: T, kind: ValueKind[T]) -> T | None:
    """Return what a text calls by the asked name where nothing before a mark leads to the marked value."""
    before = plain(visible[: mark.start])
    stated = [
        s for s in find_statements(before, kind) if s.is_asked and s.level and s.value is not None
    ]
    stated = [s for s in stated if not (s.is_secondary or s.is_supposed or s.is_running)]
    if not stated or any(kind.merge(v, value) is not None for v in values_of(before, kind)):
        return None
    return stated[-1].value


def _marked(visible: str, mark: Mark) -> str:
    """Return what is marked, with the word `score` of its label, and with all of its bracket."""
    value = mark.value
    if value.count("(") > value.count(")"):
        value = visible[mark.start : mark.start + _LONGEST].partition("\n")[0]
    is_score = _SCORE.search(visible, max(0, mark.start - 40), mark.start)
    return f"Score: {value}" if is_score else value


def _without_cut_value(text: str, kind: ValueKind[T]) -> tuple[str, str]:
    """Return `text` without the value at its end, which may be cut, and that value."""
    match = kind.cut.search(text[-60:])
    if match is None:
        return text, ""
    text = _OPERAND.sub("", text[: len(text) - len(match[0])])
    remark = text.rfind(" (")
    if remark > 0 and ")" not in text[remark:] and kind.find(text[max(0, remark - 40) : remark]):
        text = text[:remark]
    return text, match[0].strip()


def _begins_with_value(text: str, kind: ValueKind[T]) -> bool:
    """Return whether a marked text begins with a value, readable or not."""
    line = text.lstrip().partition("\n")[0][:_LINE]
    values = kind.find(line)
    return bool(values) and _VALUE_LEAD.fullmatch(line[: values[0].start]) is not None


def _read_plain(text: str, kind: ValueKind[T], *, is_cut: bool = False) -> Reading[T]:
    found = find_statements(text, kind)
    reading = settle(found, kind, is_cut=is_cut)
    if reading.value is not None or any(s.level >= 1 for s in found) or is_cut:
        return reading
    return _only_value(text, kind)


def _only_value(text: str, kind: ValueKind[T]) -> Reading[T]:
    """Return the one value of a short text that states nothing in particular."""
    sentences = [sentence for sentence, _ in split_sentences(text[:_LONGEST])]
    found = [kind.find(sentence) for sentence in sentences]
    if all(
        v.is_operand
        or kind.is_asked(_NAME_END.split(_COPULA.sub("", sentence[: v.start]))[-1]) is False
        for sentence, line in zip(sentences, found, strict=True)
        for v in line
    ) and any(not v.is_operand for line in found for v in line):
        return Reading(None, f"no {kind.noun} by the name that was asked for is stated")
    values = [v for line in found for v in line]
    results = [v for v in values if not v.is_operand]
    if values and not results:
        return Reading(None, "a calculation without its result")
    if not values:
        return Reading(None, f"no {kind.noun} is stated")
    if len(text) > _LONGEST or _REFUSED.search(text):
        return Reading(None, f"no single {kind.noun} is stated")
    reading = agreed([(v.value, v.reason) for v in results], kind)
    if reading.value is None and len(results) > 2 and all(v.value is not None for v in results):
        return Reading(None, f"several values and no single {kind.noun} is stated as the answer")
    return reading


def _unless_taken_back(
    reading: Reading[T], text: str, kind: ValueKind[T], is_cut: bool = False
) -> Reading[T]:
    """Return the reading, unless the text takes it back, or says that there is more to do."""
    value = reading.value
    if value is None:
        return reading
    if _STEP_LEFT.search(text[-300:]) or _is_worked_on(value, text, kind, is_cut):
        return Reading(None, "a step is announced whose result is not stated")
    if _UNSURE.search(text):
        return Reading(None, f"no single {kind.noun} is stated")
    if _NOT_GIVEN.search(text):
        return Reading(None, "the text says that no result is to be given")
    lower = text.lower()
    is_back = any(word in lower for word in _BACK)
    backs = [match.end() for match in _RETRACTED.finditer(text)] if is_back else []
    if not backs:
        return reading
    after = values_of(text[backs[-1] :], kind)
    is_kept = any(kind.merge(value, v) is not None for v in after)
    earlier = find_statements(text[: backs[-1]], kind)
    later = find_statements(text[backs[-1] :], kind)
    before = settle(earlier, kind).value
    known = values_of(text[: backs[-1]], kind) if before is None else [before]
    is_new = bool(known) and all(kind.merge(value, v) is None for v in known)
    was_concluded = any(s.level >= 2 and s.value == before for s in earlier)
    is_named = any(s.is_asked and s.level and not s.is_secondary for s in later)
    if is_kept and (not is_new or (is_named and not was_concluded)):
        return reading
    return Reading(None, "a result is stated and then taken back")


def _is_worked_on(value: T, text: str, kind: ValueKind[T], is_cut: bool) -> bool:
    """Return whether a text goes on from a value to another one by a step, in its last line with it."""
    end = len(text)
    for line in reversed(text[-_LONGEST:].split("\n")):
        start, end = end - len(line), end - len(line) - 1
        own = [(v.value, v.end) for v in kind.find(line[-_LINE:])]
        places = [at for v, at in own if v is not None and kind.merge(v, value) is not None]
        if places:
            at = start + max(0, len(line) - _LINE)
            rests = [text[at + place : at + place + _NEAR] for place in {places[0], places[-1]}]
            return any(_leads_on(value, rest, kind, is_cut) for rest in rests)
    return False


def _leads_on(value: T, rest: str, kind: ValueKind[T], is_cut: bool) -> bool:
    """Return whether the text behind a value comes to another one, by arithmetic that holds."""
    if _BEFORE_STEP.match(rest):
        return True
    after = [v for v in kind.find(rest) if v.value is not None and not v.is_operand]
    if not after or _SUPPOSED.search(rest):
        return is_cut and _WORKS_ON.search(rest) is not None
    last = after[-1]
    if _ADJUSTED.search(rest[: last.start]):
        return True
    values = (kind.find_any or kind.find)(rest)
    parts = [v.value for v in values if v.value is not None and v.start < last.start]
    is_step = _WORKS_ON.search(rest[: last.end]) is not None
    return is_step and any(
        kind.leads_to(value, parts, v) for v in (a.value for a in after) if v is not None
    )


def values_of(text: str, kind: ValueKind[T]) -> list[T]:
    """Return the values at both ends of a text, line by line."""
    text = text[:_LONGEST] + "\n" + text[max(_LONGEST, len(text) - 5 * _LONGEST) :]
    found = (v.value for line in text.split("\n") for v in kind.find(line[:_LINE]))
    return [value for value in found if value is not None]


_MOST = 3
"""Points of one finding."""
_POINTS = late(
    r"(?<![\w.,/+-])(?P<plus>\+)?(?P<n>\d{1,2}|one|two|three)(?![\w/%]|[.,]\d|\s?[<>=])",
    re.IGNORECASE,
)
_IN_WORDS = {"one": 1, "two": 2, "three": 3}
_FOR = late(
    r"\s?(?:points?\s)?(?:for|due\sto|because\sof|from)\s(?:an?\s|the\s)?([a-z][\w/-]*)", re.I
)
_PLUS_OF = late(r"\s([a-z][\w/-]*)", re.IGNORECASE)
_BEFORE = late(
    r"([a-z][\w/-]*)\s?(?:[:=(\u2013\u2014-]\s?|\s(?:gives|adds|gets|counts)\s)?\(?$", re.IGNORECASE
)
_ENDED = late(r"\)?\s?(?:[,;.+|\n]|points?\b|$)", re.IGNORECASE)
_NO_FINDING = frozenset(
    word
    for line in (
        "a an and are at be by class equals final get gets give gives giving grade has have index is",
        "it just make makes of only or overall receives result score scores so stage sum than the",
        "therefore thus to total totals was with answer",
    )
    for word in line.split()
)
"""Words that are not a finding, beside the general names of a result."""


def gives_points_one_by_one(text: str, value: float, asked: Asked) -> bool:
    """Return whether a value is in a text only as the points of single findings, two or more."""
    findings: set[str] = set()
    for match in _POINTS.finditer(text) if 0 < value <= _MOST else ():
        size = match["n"].lower()
        if _IN_WORDS.get(size) != value and size != f"{value:g}":
            continue
        finding = _finding(text, match)
        if not finding or finding in _NO_FINDING | GENERAL_NAMES or asked.is_named(finding):
            return False
        findings.add(finding)
    return len(findings) > 1


def _finding(text: str, match: re.Match[str]) -> str:
    """Return the word for which points are given; empty where there is none beside them."""
    named = _FOR.match(text, match.end())
    if named is None and match["plus"]:
        named = _PLUS_OF.match(text, match.end())
    if named is None and _ENDED.match(text, match.end()):
        named = _BEFORE.search(text, max(0, match.start() - 60), match.start())
    return named[1].lower() if named else ""
