"""Plain text -> what its sentences state.

The readers of numbers, dates and durations find their values in a sentence (`Kind.find`). Here
each sentence is looked through for the values that something is set equal to, by a word (`is`,
`gives`), a sign or a calculation. `value_settling` decides which of them the whole text comes down to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar, cast

from medhelm.extract.numbers.value_pairs import alternatives, is_rounded, same_amount
from medhelm.extract.numbers.value_places import is_age, is_bare, is_led_to, is_put_in
from medhelm.extract.numbers.value_types import Kind, Statement, Value
from medhelm.extract.numbers.value_words import (
    ADDED_LINE,
    ADDS_THIS,
    AFTER_EQUALS,
    ALTERNATIVE,
    ARITHMETIC,
    ATTAINED,
    BETWEEN_WORDS,
    CLAUSE,
    CLOSE,
    CONCLUDED,
    CONCLUDES,
    COUNTED,
    EQUALS,
    EXPLICIT,
    FOR_RESULT,
    FORMULA,
    GENERAL,
    GENERAL_NAMES,
    HOLDS,
    IF,
    INDEFINITE,
    INPUT,
    INTERPRETS,
    ITEM,
    ITEM_POINTS,
    LISTED,
    MEANS,
    NAME_BEFORE,
    NAME_BEHIND,
    NAMED,
    OF_EACH,
    OF_SUBJECT,
    OPERATION,
    OTHER,
    OWN_SCORE,
    PART_NAME,
    PARTS,
    POINTS,
    REACHED,
    RECEIVES,
    RELATION,
    REMARKED,
    RISK_SCORE,
    ROUNDED,
    RUNNING,
    SECONDARY,
    SHARE,
    SOLELY,
    STOP,
    SUBORDINATE,
    TOTALLING,
    WEAK,
    WITH_MORE,
    WORD,
    WORKED_ON,
    WOULD,
)
from medhelm.extract.sentences import split_sentences

T = TypeVar("T")


def find_statements(text: str, kind: Kind[T]) -> list[Statement[T]]:
    """Return what the sentences of a plain text state, in order. Those of recent texts are kept."""
    return list(cast("tuple[Statement[T], ...]", _found(text, kind)))


@lru_cache(maxsize=16)
def _found(text: str, kind: Kind[T]) -> tuple[Statement[T], ...]:
    found: list[Statement[T]] = []
    mentions: dict[Hashable, tuple[int, int]] = {}
    operands: dict[Hashable, tuple[int, int]] = {}
    first: int | None = None
    goes_on, taken_up = set(), set()
    for i, (sentence, is_line) in enumerate(split_sentences(text)):
        if ADDED_LINE.match(sentence):
            goes_on.add(i - 1)
        elif ADDS_THIS.match(sentence):
            taken_up.add(i - 1)
        values = kind.find(sentence)
        if not values:
            continue
        first = i if first is None else first
        stated = list(_of_sentence(sentence, i, values, kind, is_line))
        if not stated and TOTALLING.match(sentence) and not values[0].is_other:
            stated = [_of_total(values, i, kind)]
        found += stated
        mentions |= {kind.same(v.value): (i, v.start) for v in values if v.value is not None}
        operands |= {
            kind.same(v.value): (i, v.start)
            for v in values
            if v.value is not None and (v.is_operand or WORKED_ON.search(sentence, 0, v.start))
        }
    named = {s.key for s in found if s.is_computed and s.key}
    return tuple(
        replace(
            s,
            is_used=s.value is not None and mentions.get(kind.same(s.value), s.at) > s.at,
            is_worked_on=s.value is not None and operands.get(kind.same(s.value), s.at) > s.at,
            is_opening=s.at[0] == first
            and not s.is_computed
            and (s.level >= 1 or s.key not in named),
            is_named=s.is_named or s.key in named,
            level=max(s.level, 1) if s.key in named else s.level,
            is_running=s.is_running
            or (s.is_computed and s.at[0] in goes_on)
            or (s.is_computed and s.at[0] in taken_up and not s.is_asked),
        )
        for s in found
    )


def _of_total(values: list[Value[T]], index: int, kind: Kind[T]) -> Statement[T]:
    """Return what a sentence that adds up states where no word joins its value to a name."""
    total, at = values[0], (index, values[0].start)
    if len(values) > 1 or total.value is None or total.is_operand:
        reason = total.reason if len(values) == 1 else ""
        return Statement(None, reason or "a total that cannot be read", at, 2, is_named=True)
    key = ("total",) if total.fits or kind.is_score else ()
    return Statement(total.value, "", at, 2, key=key, is_named=True, fits=total.fits)


def _of_sentence(
    text: str, index: int, values: list[Value[T]], kind: Kind[T], is_line: bool
) -> Iterator[Statement[T]]:
    first = values[0]
    if len(values) == 1 and not first.is_operand and is_bare(text, first, is_line):
        yield Statement(
            first.value, first.reason, (index, first.start), 2, is_named=True, fits=first.fits
        )
        return
    subject = ""
    for start, end in _clauses(text):
        opener = WORD.match(text, start)
        opening = opener[0].lower() if opener else ""
        if opening in SUBORDINATE:
            continue
        inside = [v for v in values if start <= v.start < end and not _is_item(text, v, kind)]
        if not inside:
            if text[start:end].strip(" ,;"):
                subject = text[start:end]
            continue
        found = _of_clause(text, start, end, inside, kind)
        if found is None or found[0].is_other or is_put_in(text, opening, found, first):
            continue
        value, verb, name, is_computed = found
        is_count = verb in HOLDS and PARTS.match(value.unit) and kind.is_asked(name)
        if is_count or PART_NAME.search(name.partition(":")[0]):
            continue
        is_computed |= verb not in WEAK and ARITHMETIC.search(name.lstrip(" ,;")) is not None
        is_computed |= text[0] in "=\u2248" and len(values) == 1
        is_computed |= not kind.has_unit and is_led_to(text, value)
        is_computed |= _is_sum(value, values, kind)
        is_inherited = not _words(name) and not EXPLICIT.search(name)
        is_last = len(text) - value.end <= 12 and text[start] == "\u2192"
        is_led_on = bool(value.fits and is_last and OPERATION.search(text, 0, start))
        is_computed |= is_led_on
        if is_inherited and not is_led_on:
            name = subject + " " + name
        subject = name
        lead = "" if opening in CONCLUDES else text[start : inside[0].start]
        is_asked = _is_asked(lead if is_inherited and _words(lead) else name, kind)
        if is_asked is False or is_age(text, verb, value):
            continue
        if is_asked and verb == "of" and OF_SUBJECT.match(text):
            name = OF_SUBJECT.sub("", text[: value.start])
        offered = alternatives(text, value, values, kind)
        stated = _weighed(text, start, values, (value, verb, name, is_computed), is_inherited, kind)
        if is_asked and RISK_SCORE.search(name):
            stated = replace(stated, is_secondary=False)
        if ATTAINED.fullmatch(verb) or (value.fits and SHARE.match(text, value.end)):
            is_asked = is_asked or _is_asked_around(text, value, "", kind)
        yield replace(
            stated,
            value=offered.value,
            reason=offered.reason,
            at=(index, value.start),
            level=max(stated.level, 1) if is_asked and not stated.is_secondary else stated.level,
            is_asked=bool(is_asked),
            fits=value.fits,
        )


def _is_item(text: str, value: Value[T], kind: Kind[T]) -> bool:
    """Return whether a value is one of a list, or the points that each of several items gives."""
    is_each = kind.is_score and OF_EACH.match(text, value.end) is not None
    return is_each or LISTED.match(text, value.end) is not None


def _is_asked_around(text: str, value: Value[T], name: str, kind: Kind[T]) -> bool:
    """Return whether a value has the name of what was asked for, before or behind it."""
    return bool(kind.is_asked(name) or kind.is_asked(text[value.end : value.end + 40]))


def _is_sum(value: Value[T], values: list[Value[T]], kind: Kind[T]) -> bool:
    """Return whether a value is what at least three values before it in its sentence add up to."""
    before = [v.value for v in values if v.start < value.start and v.value is not None]
    return len(before) >= 3 and value.value is not None and kind.is_sum(before, value.value)


def _is_asked(name: str, kind: Kind[T]) -> bool | None:
    """Return whether a name is that of what was asked for. The names in a formula say nothing."""
    head, _, own = WITH_MORE.sub(r"\1", name).partition(":")
    if _words(own) and not ({*_words(own)} & GENERAL_NAMES or FORMULA.search(own)):
        return kind.is_asked(own)
    for part in dict.fromkeys((head, WITH_MORE.sub(r"\1", name))):
        is_asked = kind.is_asked(part)
        if is_asked or (is_asked is False and not FORMULA.search(part)):
            return is_asked
    return None


def _weighed(
    text: str,
    start: int,
    values: list[Value[T]],
    found: tuple[Value[T], str, str, bool],
    is_inherited: bool,
    kind: Kind[T],
) -> Statement[T]:
    """Return a statement with how much the sentence commits to it."""
    value, verb, name, is_computed = found
    first, before = values[0], text[: value.start]
    is_explicit = EXPLICIT.search(name) is not None and not OTHER.search(name)
    is_explicit |= verb.startswith(("report", "quote")) and not _words(name)
    is_item = IF.search(before) or ITEM.match(text, value.end)
    is_attained = ATTAINED.fullmatch(verb) is not None and not is_item
    is_attained |= bool(RECEIVES.match(text) and POINTS.match(text, value.end))
    is_last = all(v.is_operand for v in values if v.start > value.start)
    is_summed = TOTALLING.match(text) is not None and (is_last or verb not in WEAK)
    is_total = is_summed or COUNTED.match(text, value.end) is not None
    is_named = NAMED.search(name) is not None
    is_led_to = is_named and not is_inherited and text[start] == "\u2192"
    is_share = value.fits and value.unit == "%" and _is_asked_around(text, value, name, kind)
    is_risk = value is not first and not is_share and SHARE.match(text, value.end) is not None
    is_led = value.is_alone and not before.strip(" ,;\u2192") and not is_item
    least = 2 if is_total or is_led_to else 1 if is_attained or is_led else 0
    is_percent_beside = is_inherited and value.unit == "%" != first.unit and value is not first
    is_result = FOR_RESULT.search(text, 0, value.start) is not None and bool(kind.is_asked(name))
    is_secondary = (
        _is_secondary(text, value, name, is_computed or is_share)
        or (verb in WEAK and INPUT.search(name) is not None and not is_result)
        or (is_percent_beside and not is_computed)
    )
    return Statement(
        value.value,
        value.reason,
        (0, value.start),
        3
        if is_explicit
        else 0
        if is_risk and not is_computed
        else max(least, _level(before, verb, name, is_computed)),
        key=_words(name),
        is_named=is_named or is_attained or is_total,
        is_computed=is_computed,
        is_secondary=is_secondary and not is_explicit,
        is_rounded=ROUNDED.search(text) is not None or is_rounded(before, value, kind),
        is_running=RUNNING.search(before) is not None,
        is_supposed=WOULD.search(text, 0, value.end + 20) is not None,
    )


def _level(before: str, verb: str, name: str, is_computed: bool) -> int:
    """Return how much a sentence commits to a value that it does not call the answer."""
    if OTHER.search(_own(name)) or IF.search(before) or ALTERNATIVE.search(before):
        return 0
    is_named = NAMED.search(name) is not None
    if verb in WEAK and INPUT.search(name):
        return 0
    is_weak = verb in WEAK and not is_named and not CONCLUDED.search(name)
    if CONCLUDED.search(before) and not is_weak:
        return 2
    return 1 if is_named or is_computed else 0


def _is_secondary(text: str, value: Value[T], name: str, is_computed: bool) -> bool:
    """Return whether a value is put beside a result: a limit, a risk, what a score would mean."""
    remark = REMARKED.search(text, value.end)
    own = text[: remark.start()] if remark else text
    if IF.search(own) or OTHER.search(_own(name)) or ALTERNATIVE.search(text):
        return True
    if is_computed:
        return False
    interprets = INTERPRETS.search(text)
    return (
        (interprets is not None and interprets.start() < value.start)
        or (interprets is not None and GENERAL.match(text) is not None)
        or INDEFINITE.match(text) is not None
        or SECONDARY.search(name) is not None
        or SHARE.match(text, value.end) is not None
    )


def _own(name: str) -> str:
    """Return the part of a name that follows its introduction (`The gap less the norm: gap`)."""
    own = name.rpartition(":")[2]
    return own if NAMED.search(own) else name


def _clauses(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in CLAUSE.finditer(text):
        yield start, match.start()
        start = match.start() + (match[0][0] in ",;")
    yield start, len(text)


def _of_clause(
    text: str, start: int, end: int, values: list[Value[T]], kind: Kind[T]
) -> tuple[Value[T], str, str, bool] | None:
    """Return the value that a clause states, by which word, of what, and whether computed."""
    equals = [match.start() for match in EQUALS.finditer(text, start, end)]
    borders = [start, *equals, end]
    parts = [
        [v for v in values if a <= v.start < b] for a, b in zip(borders, borders[1:], strict=False)
    ]
    filled = [part for part in parts if part]
    if parts[0] and not equals or len(filled) == 1 and filled[0] is parts[0]:
        found = [r for v in parts[0] if (r := _related(text, start, v, kind)) is not None]
        return next((r for r in found if r[1] not in WEAK), found[0] if found else None)
    last = filled[-1]
    value = last[0]
    if not any(v.is_operand for v in values) and ITEM_POINTS.match(text, value.end):
        return None
    border = max((e for e in equals if e < value.start), default=start)
    if any(v.is_operand for v in last) or not AFTER_EQUALS.fullmatch(text[border : value.start]):
        return None
    is_computed = any(v.is_operand for part in filled[:-1] for v in part)
    is_computed |= BETWEEN_WORDS.search(text, start, border) is not None
    if (
        len(filled) > 1
        and len(filled[-2]) == 1
        and not filled[-2][0].is_operand
        and parts[0] is not filled[-2]
    ):
        value = same_amount(filled[-2][0], value, kind)
    elif len(filled) > 1 and parts[0] is filled[-2] and not is_computed and len(parts[0]) == 1:
        is_conversion = value.unit and parts[0][0].unit
        return None if is_conversion else (value, "=", text[start : equals[0]], False)
    return value, "=", text[start : equals[0]], is_computed


def _related(
    text: str, start: int, value: Value[T], kind: Kind[T]
) -> tuple[Value[T], str, str, bool] | None:
    """Return a value with the word that joins it to its name, and the name."""
    if value.is_operand or ITEM_POINTS.match(text, value.end):
        return None
    at = max(start, value.start - 90)
    relation = RELATION.search(text[at : value.start])
    if relation is not None:
        named, verb = text[start : at + relation.start()], relation["verb"].lower()
        if verb not in WEAK and OWN_SCORE.search(relation["filler"]):
            named += " score"
        if verb in WEAK and (reached := REACHED.search(named)):
            return value, reached[0], named[reached.end() :], False
        if means := MEANS.match(named):
            return value, verb, named[means.end() :], verb not in WEAK
        return value, verb, named + " due date" * (kind.is_known and verb == "due"), False
    is_of_asked = "/" in text[value.start : value.end] and kind.is_asked(text[value.end :][:25])
    if is_of_asked or COUNTED.match(text, value.end):
        return value, "total", "total", False
    lead = text[start : value.start].strip(" ,;\u2192")
    if (
        kind.is_known
        and lead in ("", "and", "so")
        and (behind := NAME_BEHIND.match(text, value.end))
    ):
        return value, "is", behind["name"], False
    if not lead and (value.is_alone or POINTS.match(text, value.end)):
        return value, "", value.unit, False
    if SOLELY.fullmatch(text[start : value.start].lstrip(" ,;")) and CLOSE.fullmatch(
        text, value.end
    ):
        return value, "so", "", False
    before = text[max(start, value.start - 40) : value.start]
    is_named = NAME_BEFORE.search(before) or kind.is_asked_by(before)
    return (value, "", text[start : value.start], False) if is_named else None


def _words(name: str) -> tuple[str, ...]:
    words = (word.lower() for word in WORD.findall(name[-120:]))
    return tuple(word for word in words if word not in STOP and not word.isdigit())
