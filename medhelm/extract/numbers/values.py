"""Completion text -> a number, a date or a duration, or the reason why there is none.

What is marked as final (see `marks`) counts before what is not. Of the rest, `value_statements` finds
what the text commits to. Two different commitments are not an answer.
"""

from __future__ import annotations

import datetime
import re
from itertools import islice
from typing import TypeVar

from medhelm.extract.late import late
from medhelm.extract.marks import Mark, all_marks, own_text, visible_text
from medhelm.extract.numbers.asked import Asked
from medhelm.extract.numbers.calendar_values import DATE, DURATION
from medhelm.extract.numbers.continuations import common_end, worked_on
from medhelm.extract.numbers.item_points import gives_points_one_by_one
from medhelm.extract.numbers.notation import plain, with_points
from medhelm.extract.numbers.numerals import NUMBER
from medhelm.extract.numbers.value_evidence import best_supported, why_weak
from medhelm.extract.numbers.value_settling import agreed, is_magnitude, settle
from medhelm.extract.numbers.value_statements import find_statements
from medhelm.extract.numbers.value_types import Kind, differ
from medhelm.extract.numbers.value_withdrawals import (
    corrected,
    named_before_cut,
    repeated,
    takes_back,
    unless_taken_back,
    values_of,
)
from medhelm.extract.reading import Reading
from medhelm.extract.sentences import split_sentences

T = TypeVar("T")

_LONGEST = 2_000
"""Characters of a text of which the only value counts although nothing states it."""
_LINE = 1_500
_REFUSED = late(
    r"\b(?:cannot|can't|could not|unable|not possible|impossible|insufficient|not enough|missing|"
    r"not (?:provided|given|available|stated|mentioned)|unknown|need more|more information|"
    r"not sure|unclear|formula|needs? to|needed|let's|let us|we need|calculate)\b",
    re.IGNORECASE,
)
_SCORE = late(r"\b(?:score|points|rating)\b[^\n.]{0,12}$", re.IGNORECASE)
_LESS_OR_MORE = late(r"[<>\u2264\u2265]=?\s{0,2}(?=[\d.])")
_UNKNOWN = late(
    r"\b(?:cannot|can['\u2019]t|(?:might|may|could) be any|anything|all (?:I|we) can)\b",
    re.IGNORECASE,
)
_COPULA = late(r"\s?(?:\b(?:is|was)|[:=*\s]+)\s*$")
_NAME_END = late(r"[,;:=\u2248\u2192]")
_OPERAND = late(r"(?:[\d.,]{1,20}\s{0,3}[/*x\u00d7\u00f7+^\u2212-]\s{0,3}){1,20}$")
"""The operands before a value that is cut: none of them is the result."""
_SENTENCE_END = late(r"[.;!](?=\s+[A-Z])")
_NEXT_QUESTION = late(
    r"\n[#*\s]{0,9}(?:(?:next|new)\s)?(?:question|q|patient note|problem|human|user|instruction|exercise)"
    r"\s?\d{0,3}[*\s]{0,4}[:.]|\n#{1,4}\s(?:next\s|new\s)?(?:question|problem|exercise|patient note)\b",
    re.IGNORECASE,
)
_INTERPRETED = late(
    r"\n[#*_ \t]{0,9}(?:clinical\s|score\s|risk\s)?(?:interpretation|significance|implications?|notes?|remarks?|comments?"
    r"|limitations?|caveats?|disclaimer|recommendations?|considerations?|management|what\s(?:this|it|that)\smeans(?:\s\w+){0,2})"
    r"(?:[*_: \t]{0,6}\n|\*{0,2}:[* ]{1,4})(?=[^=\u2248\u2192]{60,}$)",
    re.IGNORECASE,
)
"""The heading of a last section that says what a result means."""
_INNER = late(r"<(?:value|result|number)>([^<\n]{1,60})", re.IGNORECASE)
"""The value within a marked answer that says more."""
_REMARKS = late(
    r"(?:(?<=[.!?*]\s)|(?<=\n))\W{0,4}(?:(?P<general>values?|scores?|levels?|ratios?|normal|reference|"
    r"(?:clinical )?(?:interpretation|significance)|note|an?(?:\s[\w'/-]{1,20}){1,5}\s(?:of|above|below|over|under|[<>\u2265\u2264]))"
    r"|this (?:means|indicates|suggests|is|falls|lies|corresponds|places|reflects))(?=\W)",
    re.IGNORECASE,
)
_ALL_BOLD = late(r"\*\*[^*\n.=:]{1,60}[=:][^*\n]{1,30}\*\*")
_GOES_ON = late(
    r"[=\u2248]|\b(?:step|next|now|used?(?!\sof\b)|using|calculat\w+|weight|formula|equation|need\w*|substitut\w+|so|then|thus|"
    r"hence|therefore|correct\w*|adjust\w*)\b",
    re.IGNORECASE,
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
    and only what is marked or called the answer counts, or what a finished line states in bold
    before general remarks, or the reply that ends before another question begins.
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


def _read_asked(text: str, kind: Kind[T], is_cut: bool, asked: Asked | None) -> Reading[T]:
    """Return what a text commits to of what is asked for; points without a total are none of it."""
    if asked is None:
        return _read(text, kind, is_cut)
    reading = _read_named(text, kind, is_cut, asked)
    if reading.value is not None and asked.narrow(kind).is_score:
        shown = kind.show(reading.value)
        if shown.isdigit() and gives_points_one_by_one(own_text(text), int(shown), asked):
            return Reading(None, "points of several findings, and no total")
    return reading


def _read_named(text: str, kind: Kind[T], is_cut: bool, asked: Asked) -> Reading[T]:
    """Return what a text commits to by the name and the unit of what is asked for.

    Where neither the name nor the unit of what is asked for says so, the text has to give the same
    value when the values in other units are not left out.
    """
    asked = asked.in_units_of(text)
    percent = asked.in_percent(text)
    is_share = percent is not asked
    if is_share and (share := _read_asked(text, kind, is_cut, percent)).value is not None:
        return share
    narrowed, other = asked.narrow(kind), asked.by_name(kind)
    reading = _read(text, narrowed, is_cut)
    if is_cut and reading.value is None:
        own = own_text(text)
        best = repeated(own, narrowed)
        return Reading(named_before_cut(own, narrowed) if best is None else best, reading.reason)
    if is_cut:
        return _as_told(reading, text, narrowed, other, is_cut)
    visible = own_text(text)
    is_marked = bool(all_marks(visible))
    if reading.value is None:
        best = None if is_marked else corrected(plain(visible), narrowed)
        if best is not None:
            return Reading(best)
        best = None if is_marked else best_supported(visible, narrowed)
        if best is None and not is_marked:
            best = common_end(plain(visible), narrowed, other)
        if best is None:
            return reading
        onward = worked_on(best, plain(visible), narrowed, other)
        return unless_taken_back(onward, plain(visible), narrowed)
    if not is_marked:
        onward = worked_on(reading.value, plain(visible), narrowed, other)
        if onward.value is None or narrowed.merge(onward.value, reading.value) is None:
            return unless_taken_back(onward, plain(visible), narrowed)
    reason = why_weak(reading.value, visible, narrowed, is_share=is_share)
    if not is_marked and reason:
        return Reading(None, reason)
    return _as_told(reading, text, narrowed, other, is_cut)


def _as_told(
    reading: Reading[T], text: str, narrowed: Kind[T], kind: Kind[T], is_cut: bool
) -> Reading[T]:
    """Return a reading, unless the other units count and the text gives another value with them."""
    assert reading.value is not None
    for s in find_statements(plain(own_text(text)), narrowed):
        is_input = s.is_worked_on and bool(s.key)
        is_told = s.value is not None and (s.is_asked or (s.fits and not is_input))
        if is_told and s.value is not None and kind.merge(s.value, reading.value) is not None:
            return reading
    other = _read(text, kind, is_cut).value
    if other is None or kind.merge(reading.value, other) is not None:
        return reading
    if narrowed.is_score and getattr(other, "unit", "") == "%":
        return reading
    return Reading(None, differ(reading.value, other, kind))


def _read(text: str, kind: Kind[T], is_cut: bool) -> Reading[T]:
    visible = own_text(text)
    is_cut = is_cut and visible_text(text).endswith(visible[-20:])  # not by a run-on's end
    visible = with_points(visible)
    if is_cut and (whole := _before_rest(visible, kind)).value is not None:
        return whole
    is_value_cut = is_cut and (
        not text[-1:].isspace() or visible[-1:] in "+-*/=(\u2212\u00d7\u00f7"
    )
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
        if takes_back(value, kind):
            return Reading(None, "a result is stated and then taken back")
        reading = _read_plain(value, kind)
        if reading.value is None:
            reading = _of_first_sentence(value, kind, reading)
        if reading.value is not None or _begins_with_value(value, kind):
            marked.append((reading.value, reading.reason))
    region = plain(visible[marks[-1].start if marks else 0 :])
    if not marked:
        cut = ""
        if is_value_cut:
            region, cut = _without_cut_value(region, kind)
        if cut and not region.strip():
            return Reading(None, f"the answer was cut in the middle of a {kind.noun}")
        reading = _read_plain(region, kind, is_cut=is_cut)
        return unless_taken_back(_unless_bound(reading, region, kind), region, kind)
    reading = agreed(marked, kind)
    if reading.value is not None:
        named = _named_otherwise(reading.value, visible[: marks[0].start], kind)
        if named is not None:
            return Reading(None, differ(named, reading.value, kind))
    later = [] if is_cut else find_statements(region, kind)[1:]
    if reading.value is not None:
        later = [s for s in later if not is_magnitude(s, reading.value, kind)]
    if reading.value is not None and (other := settle(later, kind).value) is not None:
        mentioned = values_of(region[len(plain(marks[-1].value)) :], kind)
        if all(kind.merge(reading.value, value) is None for value in [other, *mentioned]):
            return Reading(None, differ(reading.value, other, kind))
    return unless_taken_back(reading, region, kind)


def _before_rest(visible: str, kind: Kind[T]) -> Reading[T]:
    """Return what a cut text commits to before it runs on into another question, or into remarks."""
    question = _NEXT_QUESTION.search(visible)
    if question and (all_marks(head := visible[: question.start()]) or _is_worked_out(head, kind)):
        return _read(head, kind, is_cut=False)
    if all_marks(visible):
        return Reading(None)
    meaning = _INTERPRETED.search(visible)
    if meaning and _is_worked_out(head := visible[: meaning.start()], kind):
        return _read(head, kind, is_cut=False)
    remarks = list(islice(_REMARKS.finditer(visible), 50))
    for remark in remarks:
        head, rest = visible[: remark.start()].rstrip(), visible[remark.start() :]
        line = head.rpartition("\n")[2]
        if "**" not in line or _GOES_ON.search(rest):
            continue
        stated = find_statements(plain(line), kind)
        if (
            remark["general"]
            and any(s.level >= 1 for s in stated)
            or any(s.level == 2 for s in stated)
            or (_ALL_BOLD.fullmatch(line) and any(s.level and s.is_named for s in stated))
        ):
            return _read(head, kind, is_cut=False)
    return Reading(None)


def _is_worked_out(text: str, kind: Kind[T]) -> bool:
    """Return whether a text works out a result, or ends with a line that names it."""
    found = find_statements(plain(text), kind)
    line = plain(text.rstrip().rpartition("\n")[2])
    return any(s.is_computed or s.level >= 2 for s in found) or any(
        s.level >= 1 and s.is_named for s in find_statements(line, kind)
    )


def _named_otherwise(marked: T, before: str, kind: Kind[T]) -> T | None:
    """Return what a text calls by the name that was asked for where nothing leads to the mark."""
    found = find_statements(plain(before), kind)
    stated = [s for s in found if s.is_asked and s.level >= 1 and s.value is not None]
    stated = [s for s in stated if not (s.is_secondary or s.is_supposed or s.is_running)]
    if not stated or any(
        kind.merge(value, marked) is not None for value in values_of(plain(before), kind)
    ):
        return None
    return stated[-1].value


def _of_first_sentence(value: str, kind: Kind[T], otherwise: Reading[T]) -> Reading[T]:
    """Return what the first sentence of a marked text states where the others state no result."""
    end = _SENTENCE_END.search(value)
    if end is None:
        return otherwise
    rest = find_statements(value[end.end() :], kind)
    if any(s.fits or s.is_asked or s.level >= 2 or s.is_computed for s in rest):
        return otherwise
    reading = _read_plain(value[: end.start() + 1], kind)
    return otherwise if reading.value is None else reading


def _marked(visible: str, mark: Mark) -> str:
    """Return what is marked, with the word `score` of its label, and with all of its bracket."""
    value = mark.value
    if inner := _INNER.search(value):
        value = inner[1]
    if value.count("(") > value.count(")"):
        value = visible[mark.start : mark.start + _LONGEST].partition("\n")[0]
    is_score = _SCORE.search(visible, max(0, mark.start - 40), mark.start)
    return f"Score: {value}" if is_score else value


def _without_cut_value(text: str, kind: Kind[T]) -> tuple[str, str]:
    """Return `text` without the value at its end, which may be cut, and that value."""
    match = kind.cut.search(text[-60:])
    if match is None:
        return text, ""
    text = _OPERAND.sub("", text[: len(text) - len(match[0])])
    remark = text.rfind(" (")
    if remark > 0 and ")" not in text[remark:] and kind.find(text[max(0, remark - 40) : remark]):
        text = text[:remark]
    return text, match[0].strip()


def _begins_with_value(text: str, kind: Kind[T]) -> bool:
    """Return whether a marked text begins with a value, readable or not."""
    line = text.lstrip().partition("\n")[0][:_LINE]
    values = kind.find(line)
    return (
        bool(values)
        and re.fullmatch(
            r"[^\w\n]{0,12}(?:[A-Za-z]{1,14}\s){0,3}[^\w\n]{0,5}", line[: values[0].start]
        )
        is not None
    )


def _read_plain(text: str, kind: Kind[T], *, is_cut: bool = False) -> Reading[T]:
    found = find_statements(text, kind)
    reading = settle(found, kind, is_cut=is_cut)
    if reading.value is not None or any(s.level >= 1 for s in found) or is_cut:
        return reading
    return _only_value(text, kind)


def _only_value(text: str, kind: Kind[T]) -> Reading[T]:
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
    is_stated = any(v.value is not None and not v.is_operand for line in found for v in line)
    values = [
        v
        for line in found
        if line and not (is_stated and line[0].value is None and line[0].start < 4)  # thresholds
        for v in line
    ]
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


def _unless_bound(reading: Reading[T], text: str, kind: Kind[T]) -> Reading[T]:
    """Return the reading, unless the text says that it knows no more than this bound."""
    if reading.value is None or not _UNKNOWN.search(text[-_LONGEST:]):
        return reading
    for sign in islice(_LESS_OR_MORE.finditer(text, max(0, len(text) - _LONGEST)), 20):
        found = kind.find(re.split(r"[\s,;)]", text[sign.end() : sign.end() + 40].strip())[0])
        if any(
            v.value is not None and kind.same(v.value) == kind.same(reading.value) for v in found
        ):
            return Reading(None, f"only a bound: {sign[0].strip()} {kind.show(reading.value)}")
    return reading
