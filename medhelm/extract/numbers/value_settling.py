"""The statements of a text -> the one value that it commits to, or the reason why there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, cast

from medhelm.extract.numbers.value_types import Kind, Statement, differ
from medhelm.extract.numbers.value_words import GENERAL_NAMES
from medhelm.extract.reading import Reading

T = TypeVar("T")

POINTS = (("point",), ("points",))
"""The names of what findings count each."""
_STEPS = ("multipl", "divid", "subtract", "add")
"""The beginnings of verbs of a step."""
_THRESHOLDS = tuple(f"only a bound: {sign}" for sign in "<>\u2264\u2265")
_ENDS = ": at "
"""Part of the reason of a bound that says what is known of a result (at least, at most)."""
_LIMITS = ("only a bound", "a range")


def agreed(found: list[tuple[T | None, str]], kind: Kind[T]) -> Reading[T]:
    """Return the value that all agree on, else why there is none."""
    result: T | None = None
    for value, reason in found:
        if value is None:
            return Reading(None, reason or f"no single {kind.noun} is stated")
        merged = value if result is None else kind.merge(result, value)
        if merged is None and result is not None:
            return Reading(None, differ(result, value, kind))
        result = merged
    return Reading(result) if result is not None else Reading(None, f"no {kind.noun} is stated")


def settle(found: list[Statement[T]], kind: Kind[T], *, is_cut: bool = False) -> Reading[T]:
    """Return the value that the statements of a text come down to, else why there is none.

    What is called the answer counts before all else. Then the last result counts, unless another
    one, that no later sentence takes up, contradicts it.
    """
    explicit = [s for s in found if s.level == 3]
    if explicit:
        reading = agreed([(s.value, s.reason) for s in explicit], kind)
        return (
            reading if is_cut else _unless_worked_out_otherwise(reading, explicit[-1], found, kind)
        )
    if is_cut:
        opening = next((s for s in found if s.is_opening and s.level == 2 and not s.key), None)
        if opening is not None and opening.value is not None:
            return Reading(opening.value)
        if (stated := _opening_alone(found, kind)) is not None:
            return Reading(stated)
        return Reading(None, "the answer was cut before a result is stated")
    results = [s for s in found if s.level >= 1 and not s.is_secondary]
    results = results or [s for s in found if s.fits and not (s.is_secondary or s.is_supposed)]
    results = results or [s for s in found if s.level >= 1]
    results = _best_named(_without_parts(_without_subtotals(results, kind), kind), kind)
    if not results:
        return Reading(None, f"no single {kind.noun} is stated")
    last = results[-1]
    if last.is_supposed and len(results) > 1 and _is_aside(last, results[:-1], kind):
        results.pop()
        last = results[-1]
    if (other := _supposed_beside(last, results[:-1], kind)) is not None:
        return other
    if last.value is None:
        return Reading(None, last.reason or f"no single {kind.noun} is stated")
    value = last.value
    for s in found:
        is_later = s.at[0] > last.at[0] and s.is_secondary and s.level == 2
        if is_later and s.value is not None and kind.merge(s.value, value) is None:
            return Reading(None, differ(value, s.value, kind))
    if (named := _named_before(last, results, kind)) is not None:
        return Reading(None, differ(named, value, kind))
    value, is_confirmed = _confirmed(value, last, results[:-1], kind)
    if (other := _differing(value, last, results, is_confirmed, kind)) is not None:
        return other
    if any(_is_later_in_unit(s, last, kind, value) for s in found):
        return Reading(None, f"what follows {kind.show(value)} may be the result")
    is_on_the_way = last.is_computed and last.level == 1 and not last.is_asked
    if is_on_the_way and any(_is_unclear(s, last, kind, value) for s in found):
        return Reading(None, f"what follows {kind.show(value)} may be the result")
    return Reading(_as_repeated(value, last, found, kind))


def _opening_alone(found: list[Statement[T]], kind: Kind[T]) -> T | None:
    """Return what a cut text opens with by its name, where a total is the same or findings follow."""
    opening, others = found[:1], found[1:]
    if not opening or not (opening[0].is_opening and opening[0].is_asked and opening[0].level):
        return None
    value, last = opening[0].value, others[-1:]
    is_total = bool(last) and last[0].level >= 2 and bool(GENERAL_NAMES & {*last[0].key})
    if value is not None and is_total and _agrees(last[0], value, kind):
        return value
    is_list = kind.is_score and len(others) > 2 and all(s.level == 0 for s in others)
    return value if is_list else None


def _without_subtotals(results: list[Statement[T]], kind: Kind[T]) -> list[Statement[T]]:
    """Return the results without those of a count that goes on, where the last one is its end."""
    counts = [s for s in results if s.is_running and s.value is not None]
    if len(counts) < 3 or not counts[-1].value or not _agrees(results[-1], counts[-1].value, kind):
        return results
    earlier = [s.value for s in counts if not _agrees(s, counts[-1].value, kind)]
    return [s for s in results if not any(v is not None and _agrees(s, v, kind) for v in earlier)]


def _without_parts(results: list[Statement[T]], kind: Kind[T]) -> list[Statement[T]]:
    """Return the results without those that the last one is the sum of."""
    if not results or (total := results[-1].value) is None:
        return results
    opening = results[0]
    if opening.is_opening and opening.fits and opening.value is not None and len(results) > 2:
        terms = [s.value for s in results[1:] if s.value is not None and not s.is_asked]
        if len(terms) == len(results) - 1 and kind.is_sum(terms, opening.value):
            return [opening]
    parts = [s for s in results[:-1] if s.is_computed and not s.is_asked]
    values = [s.value for s in parts if s.value is not None]
    if len(values) < 2 or not kind.is_sum(values, total):
        return results
    return [s for s in results if s not in parts]


def _differing(
    value: T, last: Statement[T], results: list[Statement[T]], is_confirmed: bool, kind: Kind[T]
) -> Reading[T] | None:
    """Return why the last result is not read where an earlier one speaks against it."""
    for s in results[:-1]:
        if s.value is None or kind.merge(s.value, value) is not None or s.is_running:
            continue
        is_same = bool(s.key) and s.key == last.key
        if s.key and {*s.key} <= GENERAL_NAMES and s.level >= 2 and last.is_asked and not s.is_used:
            return Reading(None, differ(s.value, value, kind))
        if s.is_opening and (is_same or _is_restated(s, results, kind)):
            return Reading(None, differ(s.value, value, kind))
        if s.is_opening and (is_same or not (s.is_used or _is_other(s, last, is_confirmed))):
            return Reading(None, differ(s.value, value, kind))
        if s.fits and last.fits and s.is_computed and _is_another(s, last):
            return Reading(None, differ(s.value, value, kind))
        if s.is_used and not is_same:
            continue
        is_beside = s.at[0] == last.at[0] and not s.is_computed and s.is_named >= last.is_named
        if (s.level >= last.level or not is_confirmed) and (
            is_same or is_beside or not is_confirmed
        ):
            return Reading(None, differ(s.value, value, kind))
    return None


def _leads_on(
    s: Statement[T], strong: list[Statement[T]], stated: list[Statement[T]], kind: Kind[T]
) -> bool:
    """Return whether the sentence of a total goes on to work out a value that is named later."""
    behind = [o.value for o in stated if o.at[0] == s.at[0] and o.at > s.at and o.value is not None]
    return any(_agrees(n, value, kind) for n in strong if n.at > s.at for value in behind)


def _best_named(results: list[Statement[T]], kind: Kind[T]) -> list[Statement[T]]:
    """Return the results in the unit or by the name that was asked for, and what may correct them.

    What is stated by its name and confirmed elsewhere is final. Otherwise what is worked out or
    totalled counts as well. A bound is not one beside a value. Points that are given one by one
    are not a total.
    """
    items = [s for s in results if s.key in POINTS]
    stated = [s for s in results if len(items) < 2 or s not in items]
    if kind.is_score and stated and GENERAL_NAMES & {*stated[-1].key}:
        stated = [s for s in stated if not _is_item(s)] or stated
    limits = _LIMITS if kind.is_known else _THRESHOLDS
    stated = [s for s in stated if not s.reason.startswith(limits) or _ENDS in s.reason] or stated
    strong = [s for s in stated if (s.is_asked or s.fits) and not s.is_supposed]
    strong = [s for s in strong if not s.is_running] or strong[-1:]
    if not strong:
        return stated
    named = [s for s in strong if s.is_asked and not s.is_running]
    named = [s for s in named if not leads_to_other(s, stated, kind)] or named
    if named and len({kind.same(s.value) for s in named if s.value is not None}) == 1:
        value = named[-1].value
        others = [s for s in stated if s.is_computed and s.at <= named[-1].at]
        is_last = not leads_to_other(named[-1], stated, kind)
        if value is not None and is_last and any(_agrees(s, value, kind) for s in others):
            return [replace(s, is_final=True) for s in named]
    last = max(s.at for s in strong)
    kept = [
        s
        for s in stated
        if s in strong
        or (s.is_computed and s.at > last)
        or (
            GENERAL_NAMES & {*s.key}
            and not (s.is_supposed or s.is_used or _leads_on(s, strong, stated, kind))
        )
    ]
    return [s for s in kept if s.value is not None] or kept


def leads_to_other(s: Statement[T], stated: list[Statement[T]], kind: Kind[T]) -> bool:
    """Return whether a step on the way (`for the index we multiply ...`) is worked on to a result."""
    is_step = any(word.startswith(_STEPS) for word in s.key)
    if not (is_step and s.is_worked_on and s.is_computed) or s.fits or s.value is None:
        return False
    value = s.value
    return any(o.is_computed and o.at > s.at and not _agrees(o, value, kind) for o in stated)


def _is_item(s: Statement[T]) -> bool:
    """Return whether a text gives points to a finding (`tender nodes get one point`)."""
    is_points = str(getattr(s.value, "unit", "")).startswith("point")
    return is_points and bool(s.key) and not (s.is_asked or GENERAL_NAMES & {*s.key})


def _named_before(last: Statement[T], results: list[Statement[T]], kind: Kind[T]) -> T | None:
    """Return what is called by the name that was asked for where a mere calculation follows it."""
    if last.is_asked or last.fits or not last.is_computed or GENERAL_NAMES & {*last.key}:
        return None
    for s in results:
        is_named = s.is_asked and s.fits and last.value is not None and s.value is not None
        if is_named and not _agrees(s, cast("T", last.value), kind):
            return s.value
    return None


def _is_another(s: Statement[T], last: Statement[T]) -> bool:
    """Return whether a result in the unit that was asked for is called by a name of its own."""
    return not (last.is_asked or s.is_used or GENERAL_NAMES & {*last.key}) and s.key != last.key


def _agrees(s: Statement[T], value: T, kind: Kind[T]) -> bool:
    return s.value is not None and kind.merge(s.value, value) is not None


def _confirmed(
    value: T, last: Statement[T], before: list[Statement[T]], kind: Kind[T]
) -> tuple[T, bool]:
    """Return the last result as precise as others state it, and whether anything confirms it."""
    is_general = {*last.key} <= GENERAL_NAMES
    is_confirmed = last.is_computed or (last.level == 2 and (last.is_named or is_general))
    nearest = next((s for s in reversed(before) if s.is_computed), None)
    for s in before:
        if s.value is not None and (merged := kind.merge(s.value, value)) is not None:
            is_confirmed |= s.is_computed or s.level == 2
            if not last.is_rounded and (s is nearest or s.key == last.key or s.at[0] == last.at[0]):
                value = merged
    return value, is_confirmed


def _as_repeated(value: T, last: Statement[T], found: list[Statement[T]], kind: Kind[T]) -> T:
    """Return a value as later statements repeat it: more precise, a share as its percentage."""
    for s in found:
        if s.at > last.at and s.value is not None:
            merged = kind.merge(s.value, value)
            value = value if merged is None else merged
    return value


def _is_restated(opening: Statement[T], results: list[Statement[T]], kind: Kind[T]) -> bool:
    """Return whether a text calls a score what it opened with once it has another result."""
    if opening.value is None or not opening.is_named or "score" not in opening.key:
        return False
    has_other = False
    for s in results:
        if s.value is None or s.is_secondary:
            continue
        is_opening_value = kind.merge(opening.value, s.value) is not None
        if has_other and is_opening_value and "score" in s.key and not s.is_computed:
            return True
        has_other |= not is_opening_value and s.level == 2
    return False


def _supposed_beside(
    last: Statement[T], before: list[Statement[T]], kind: Kind[T]
) -> Reading[T] | None:
    """Return why nothing is read where what would be so differs from all that is worked out."""
    if not last.is_supposed or last.value is None:
        return None
    stated = [s.value for s in before if s.is_computed and s.value is not None]
    if not stated or any(kind.merge(value, last.value) is not None for value in stated):
        return None
    return Reading(None, differ(stated[-1], last.value, kind))


def _is_other(opening: Statement[T], last: Statement[T], is_confirmed: bool) -> bool:
    """Return whether what opens a text is another thing than what it concludes."""
    is_told_apart = last.key and opening.key and not {*last.key} & {*opening.key}
    is_concluded = is_confirmed and last.level == 2 and last.is_named
    is_input = opening.level < 2 or not opening.is_named
    return bool(
        is_told_apart
        and is_concluded
        and is_input
        and not GENERAL_NAMES & {*last.key, *opening.key}
    )


def _is_unclear(s: Statement[T], last: Statement[T], kind: Kind[T], value: T) -> bool:
    """Return whether a later sentence may state the result that a calculation leads to."""
    is_later = (
        s.at[0] > last.at[0] and s.level == 0 and s.key and not (s.is_secondary or s.is_supposed)
    )
    is_given = {"actual", "measured", "reported", "recorded", "rate"} & {*s.key}
    differs = s.value is not None and kind.merge(s.value, value) is None
    return bool(is_later and differs and not is_given)


def is_magnitude(s: Statement[T], value: T, kind: Kind[T]) -> bool:
    """Return whether a mention is a negative result without its sign (`6 L of excess`)."""
    return s.level == 0 and s.value is not None and kind.show(value) == f"-{kind.show(s.value)}"


def _is_later_in_unit(s: Statement[T], last: Statement[T], kind: Kind[T], value: T) -> bool:
    """Return whether something else is stated later in the unit that was asked for."""
    return (
        s.fits
        and not last.is_final
        and s.at > last.at
        and not (s.is_secondary or s.is_supposed)
        and s.value is not None
        and kind.merge(s.value, value) is None
        and not (last.value is not None and is_magnitude(s, last.value, kind))
    )


def _is_aside(last: Statement[T], before: list[Statement[T]], kind: Kind[T]) -> bool:
    """Return whether a hypothetical value is beside a result that the text has worked out."""
    beside = before[-1]
    if beside.at[0] != last.at[0] or beside.is_supposed or beside.value is None:
        return False
    if beside.is_named and not last.is_named:
        return True
    value = beside.value
    return any(
        s.is_computed and s.value is not None and kind.merge(s.value, value) is not None
        for s in before
    )


def _is_total(s: Statement[T]) -> bool:
    return s.level == 2 and bool(GENERAL_NAMES & {*s.key}) and not s.is_secondary


def _unless_worked_out_otherwise(
    reading: Reading[T], answer: Statement[T], found: list[Statement[T]], kind: Kind[T]
) -> Reading[T]:
    """Return the reading, unless what follows the answer works out to another value."""
    after = [s for s in found if s.at > answer.at]
    if reading.value is None or not any(s.is_computed or _is_total(s) for s in after):
        return reading
    other = settle(after, kind).value
    if other is None:
        return reading
    stated = [other, *(s.value for s in after if s.value is not None)]
    if any(kind.merge(reading.value, value) is not None for value in stated):
        return reading
    return Reading(None, differ(reading.value, other, kind))
