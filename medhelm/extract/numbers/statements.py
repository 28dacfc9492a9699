"""Plain text -> what its sentences state.

The readers of numbers, dates and durations find their values in a sentence (`ValueKind.find`). Here
each sentence is looked through for the values that something is set equal to, by a word (`is`,
`gives`), a sign or a calculation. `values` decides which of them the whole text comes down to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

from medhelm.extract.late import Lower
from medhelm.extract.marks import Reading
from medhelm.extract.numbers.value_types import Statement, Value, ValueKind, differ
from medhelm.extract.numbers.words import (
    AFTER_EQUALS,
    ALL,
    ALTERNATIVE,
    ARITHMETIC,
    ATTAINED,
    BESIDE,
    BETWEEN_WORDS,
    CLAUSE,
    CLOSE,
    CONCLUDED,
    CONCLUDES,
    COUNTED,
    DENIED,
    EQUALS,
    EXPLICIT,
    FILLER,
    FORMULA,
    GENERAL_NAMES,
    HOLDS,
    IF,
    INDEFINITE,
    INPUT,
    INTERPRETS,
    ITEM,
    ITEM_POINTS,
    LISTED,
    NAME_BEFORE,
    NAMED,
    OF_EACH,
    OTHER,
    OWN_SCORE,
    PARALLEL,
    PART_NAME,
    PARTICIPLES,
    PARTS,
    POINTS,
    PUT_IN,
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
    WOULD,
)
from medhelm.extract.sentences import split_sentences

T = TypeVar("T")

_ONLY_FILLER = Lower(r"\W{0,12}" + FILLER)


class _Found(NamedTuple):
    """A value that a clause states, by which word, of what, and whether it is computed there."""

    value: Value  # type: ignore[type-arg]
    verb: str
    name: str
    is_computed: bool


def find_statements(text: str, kind: ValueKind[T]) -> list[Statement[T]]:
    """Return what the sentences of a plain text state, in order. Those of recent texts are kept."""
    return list(cast("tuple[Statement[T], ...]", _found(text, kind)))


@lru_cache(maxsize=16)
def _found(text: str, kind: ValueKind[T]) -> tuple[Statement[T], ...]:
    found: list[Statement[T]] = []
    mentions: dict[Hashable, tuple[int, int]] = {}
    first: int | None = None
    for i, (sentence, is_line) in enumerate(split_sentences(text)):
        values, stated = _in_sentence(sentence, is_line, kind)
        if not values:
            continue
        first = i if first is None else first
        found += (replace(s, at=(i, s.at[1])) for s in stated)
        mentions |= {kind.same(v.value): (i, v.start) for v in values if v.value is not None}
    named = {s.key for s in found if s.is_computed and s.key}
    return tuple(
        replace(
            s,
            is_used=s.value is not None and mentions.get(kind.same(s.value), s.at) > s.at,
            is_opening=s.at[0] == first
            and not s.is_computed
            and (s.level >= 1 or s.key not in named),
            is_named=s.is_named or s.key in named,
            level=max(s.level, 1) if s.key in named else s.level,
        )
        for s in found
    )


@lru_cache(maxsize=256)
def _in_sentence(
    text: str, is_line: bool, kind: ValueKind[T]
) -> tuple[Sequence[Value[T]], Sequence[Statement[T]]]:
    """Return the values of a sentence and what it states. Texts around one answer share their sentences."""
    values = kind.find(text)
    stated = list(_of_sentence(text, values, kind, is_line)) if values else []
    if values and not stated and TOTALLING.match(text) and not values[0].is_other:
        stated = [_of_total(values, kind)]
    return values, stated


def _of_total(values: list[Value[T]], kind: ValueKind[T]) -> Statement[T]:
    """Return what a sentence that adds up states where no word joins its value to a name."""
    total, at = values[0], (0, values[0].start)
    if len(values) > 1 or total.value is None or total.is_operand:
        reason = total.reason if len(values) == 1 else ""
        return Statement(None, reason or "a total that cannot be read", at, 2, is_named=True)
    key = ("total",) if total.fits or kind.is_score else ()
    return Statement(total.value, "", at, 2, key=key, is_named=True, fits=total.fits)


def _of_sentence(
    text: str, values: list[Value[T]], kind: ValueKind[T], is_line: bool
) -> Iterator[Statement[T]]:
    first = values[0]
    if len(values) == 1 and not first.is_operand and _is_bare(text, first, is_line):
        at = (0, first.start)
        key = _words(text[: first.start])
        yield Statement(first.value, first.reason, at, 2, key=key, is_named=True, fits=first.fits)
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
        if found is None or found.value.is_other or _is_put_in(text, opening, found):
            continue
        is_same = opening in ("which", "that") and not found.value.fits
        if is_same and found.value.unit != first.unit != "":
            continue  # the same in another unit
        value, verb, name, is_computed = found
        is_count = verb in HOLDS and PARTS.match(value.unit) and kind.is_asked(name)
        if is_count or PART_NAME.search(name.partition(":")[0]):
            continue
        is_computed |= verb not in WEAK and ARITHMETIC.search(name.lstrip(" ,;")) is not None
        is_computed |= text[0] in "=\u2248" and len(values) == 1
        is_computed |= _is_sum(value, values, kind)
        is_inherited = not _words(name) and not EXPLICIT.search(name)
        if is_inherited:
            name = subject + " " + name
        subject = name
        lead = "" if opening in CONCLUDES else text[start : inside[0].start]
        is_asked = _is_asked(lead if is_inherited and _words(lead) else name, kind)
        if is_asked is False:
            continue
        offered = _alternatives(text, value, values, kind)
        said = _Found(value, verb, name, is_computed)
        stated = _weighed(text, start, values, said, is_inherited, kind)
        if is_asked and RISK_SCORE.search(name):
            stated = replace(stated, is_secondary=False)
        if ATTAINED.fullmatch(verb) or (value.fits and SHARE.match(text, value.end)):
            is_asked = is_asked or kind.is_asked(text[value.end : value.end + 40])
        yield replace(
            stated,
            value=offered.value,
            reason=offered.reason,
            level=max(stated.level, 1) if is_asked and not stated.is_secondary else stated.level,
            is_asked=bool(is_asked),
            fits=value.fits,
        )


def _is_bare(text: str, value: Value[T], is_line: bool) -> bool:
    """Return whether a sentence does nothing but give a value."""
    before, rest = text[: value.start], text[value.end :].strip()
    is_short = len(rest) <= 25 and not rest.endswith(" each") and not {*rest} & {*":=\u2248"}
    is_only = is_line and _ONLY_FILLER.fullmatch(before) is not None
    is_concluded = SOLELY.fullmatch(before) is not None and CLOSE.fullmatch(text, value.end)
    is_all = not before.strip(" \"'([{\u2192=") and ALL.fullmatch(text, value.end) is not None
    return (is_short and is_only) or bool(is_concluded) or is_all


def _is_put_in(text: str, opening: str, found: _Found) -> bool:
    """Return whether a value is put into a formula, denied, or a patient's age."""
    is_given = found.verb in WEAK and (opening in PARTICIPLES or DENIED.search(found.name))
    is_age = found.verb in ("she's", "he's") and not POINTS.match(text, found.value.end)
    return bool(is_given or is_age or PUT_IN.match(text, found.value.end))


def _is_item(text: str, value: Value[T], kind: ValueKind[T]) -> bool:
    """Return whether a value is one of a list, or the points that each of several items gives."""
    if LISTED.match(text, value.end):
        return True
    return kind.is_score and OF_EACH.match(text, value.end) is not None


def _is_sum(value: Value[T], values: list[Value[T]], kind: ValueKind[T]) -> bool:
    """Return whether a value is what at least three values before it in its sentence add up to."""
    before = [v.value for v in values if v.start < value.start and v.value is not None]
    return len(before) >= 3 and value.value is not None and kind.is_sum(before, value.value)


def _is_asked(name: str, kind: ValueKind[T]) -> bool | None:
    """Return whether a name is that of what was asked for. The names in a formula say nothing."""
    more = WITH_MORE.search(name)
    name = name[: more.end(1)] if more else name
    head, _, own = name.partition(":")
    if _words(own) and not ({*_words(own)} & GENERAL_NAMES or FORMULA.search(own)):
        return kind.is_asked(own)
    for part in dict.fromkeys((head, name)):
        is_asked = kind.is_asked(part)
        if is_asked or (is_asked is False and not FORMULA.search(part)):
            return is_asked
    return None


def _weighed(
    text: str,
    start: int,
    values: list[Value[T]],
    found: _Found,
    is_inherited: bool,
    kind: ValueKind[T],
) -> Statement[T]:
    """Return a statement with how much the sentence commits to it."""
    value, verb, name, is_computed = found
    first, before = values[0], text[: value.start]
    is_explicit = EXPLICIT.search(name) is not None and not OTHER.search(name)
    is_item = IF.search(before) or ITEM.match(text, value.end)
    is_attained = ATTAINED.fullmatch(verb) is not None and not is_item
    is_attained |= bool(RECEIVES.match(text) and POINTS.match(text, value.end))
    is_last = all(v.is_operand for v in values if v.start > value.start)
    is_total = TOTALLING.match(text) is not None and (is_last or verb not in WEAK)
    is_total |= COUNTED.match(text, value.end) is not None
    is_named = NAMED.search(name) is not None
    is_led_to = is_named and not is_inherited and text[start] == "\u2192"
    is_share = value.fits and value.unit == "%" and bool(kind.is_asked(name))
    is_risk = value is not first and not is_share and SHARE.match(text, value.end) is not None
    is_led = value.is_alone and not before.strip(" ,;\u2192") and not is_item
    least = 2 if is_total or is_led_to else 1 if is_attained or is_led else 0
    is_percent_beside = is_inherited and value.unit == "%" != first.unit and value is not first
    is_secondary = (
        _is_secondary(text, value, name, is_computed or is_share)
        or (verb in WEAK and INPUT.search(name) is not None)
        or (is_percent_beside and not is_computed)
    )
    level = max(least, _level(before, verb, name, is_computed))
    return Statement(
        value.value,
        value.reason,
        (0, value.start),
        3 if is_explicit else 0 if is_risk and not is_computed else level,
        key=_words(name),
        is_named=is_named or is_attained or is_total,
        is_computed=is_computed,
        is_secondary=is_secondary and not is_explicit,
        is_rounded=ROUNDED.search(text) is not None or _is_whole(before, value, kind),
        is_running=RUNNING.search(before) is not None,
        is_supposed=WOULD.search(text[: value.end + 20]) is not None,
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
    remark = REMARKED.search(text[value.end :])
    own = text[: value.end + remark.start()] if remark else text
    if IF.search(own) or OTHER.search(_own(name)):
        return True
    if is_computed:
        return False
    interprets = INTERPRETS.search(text[: value.start])
    return (
        interprets is not None
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
    text: str, start: int, end: int, values: list[Value[T]], kind: ValueKind[T]
) -> _Found | None:
    """Return the value that a clause states, with its name; the result of a chain is the last member."""
    equals = [match.start() for match in EQUALS.finditer(text, start, end)]
    borders = [start, *equals, end]
    parts = [
        [v for v in values if a <= v.start < b] for a, b in zip(borders, borders[1:], strict=False)
    ]
    filled = [part for part in parts if part]
    if parts[0] and not equals or len(filled) == 1 and filled[0] is parts[0]:
        found = [r for v in parts[0] if (r := _related(text, start, v)) is not None]
        return next((r for r in found if r.verb not in WEAK), found[0] if found else None)
    last = filled[-1]
    value = last[0]
    if not any(v.is_operand for v in values) and ITEM_POINTS.match(text, value.end):
        return None
    border = max((e for e in equals if e < value.start), default=start)
    if any(v.is_operand for v in last) or not AFTER_EQUALS.fullmatch(text[border : value.start]):
        return None
    is_computed = any(v.is_operand for part in filled[:-1] for v in part)
    is_computed |= BETWEEN_WORDS.search(text[start:border]) is not None
    before = filled[-2] if len(filled) > 1 else []
    if len(before) == 1 and not before[0].is_operand and parts[0] is not before:
        value = _same_amount(before[0], value, kind)
    elif len(filled) > 1 and parts[0] is filled[-2] and not is_computed and len(parts[0]) == 1:
        is_conversion = value.unit and parts[0][0].unit
        return None if is_conversion else _Found(value, "=", text[start : equals[0]], False)
    return _Found(value, "=", text[start : equals[0]], is_computed)


def _related(text: str, start: int, value: Value[T]) -> _Found | None:
    """Return a value with the word that joins it to its name, and the name."""
    if value.is_operand or ITEM_POINTS.match(text, value.end):
        return None
    at = max(start, value.start - 90)
    relation = RELATION.search(text[at : value.start])
    if relation is not None:
        named, verb = text[start : at + relation.start()], relation["verb"]
        if verb not in WEAK and OWN_SCORE.search(relation["filler"]):
            named += " score"
        if verb in WEAK and (reached := REACHED.search(named)):
            return _Found(value, reached[0], named[reached.end() :], False)
        return _Found(value, verb, named, False)
    if COUNTED.match(text, value.end):
        return _Found(value, "total", "total", False)
    lead = text[start : value.start].strip(" ,;\u2192")
    if not lead and (value.is_alone or POINTS.match(text, value.end)):
        return _Found(value, "", value.unit, False)
    is_alone = SOLELY.fullmatch(text[start : value.start].lstrip(" ,;")) is not None
    if is_alone and CLOSE.fullmatch(text, value.end):
        return _Found(value, "so", "", False)
    is_named = NAME_BEFORE.search(text[max(start, value.start - 40) : value.start])
    return _Found(value, "", text[start : value.start], False) if is_named else None


def _same_amount(before: Value[T], value: Value[T], kind: ValueKind[T]) -> Value[T]:
    """Return the result of a chain whose last two members are both values."""
    if before.value is None or value.value is None:
        return value
    merged = kind.merge(before.value, value.value)
    if merged is None:
        return replace(value, value=None, reason=differ(before.value, value.value, kind))
    return value if _is_whole("\u2248", value, kind) else replace(value, value=merged)


def _is_whole(before: str, value: Value[T], kind: ValueKind[T]) -> bool:
    """Return whether a score is rounded to whole points; one digit may be part of a ratio."""
    shown = "" if value.value is None or not kind.is_score else kind.show(value.value)
    return len(shown) > 1 and shown.isdigit() and before.rstrip()[-1:] in ("\u2248", "\u2192")


def _alternatives(
    text: str, value: Value[T], values: list[Value[T]], kind: ValueKind[T]
) -> Reading[T]:
    """Return the value, or why it is none where another is offered beside it (`12 or 13`)."""
    following = next((v for v in values if v.start >= value.end), None)
    if following is None or value.value is None:
        return Reading(value.value, value.reason)
    between = text[value.end : following.start]
    is_beside = len(between) <= 40 and BESIDE.fullmatch(between) is not None
    if not is_beside and not (len(between) < 120 and PARALLEL.fullmatch(between)):
        return Reading(value.value, value.reason)
    if following.value is None:
        return Reading(None, following.reason)
    merged = kind.merge(value.value, following.value)
    if merged is None and following.unit == "%" != value.unit:
        return Reading(value.value)  # a score and what it means
    if merged is None:
        return Reading(None, differ(value.value, following.value, kind))
    return Reading(merged)


def _words(name: str) -> tuple[str, ...]:
    words = (word.lower() for word in WORD.findall(name[-120:]))
    return tuple(word for word in words if word not in STOP and not word.isdigit())
