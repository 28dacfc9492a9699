"""The statements of a text -> the one value that it commits to, or the reason why there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from medhelm.extract.marks import Reading
from medhelm.extract.numbers.value_types import Statement, ValueKind, differ
from medhelm.extract.numbers.words import GENERAL_NAMES

T = TypeVar("T")

_POINTS = (("point",), ("points",))
"""The names of what findings count each."""
_ENDS = ": at "
"""Part of the reason of a bound that says what is known of a result (at least, at most)."""
_LIMITS = ("only a bound", "a range")
_STEPS = ("multipl", "divid", "subtract", "add")
"""The beginnings of verbs of a step on the way (`for the index we multiply ...`)."""
_GIVEN = frozenset(("actual", "measured", "reported", "recorded", "rate"))


def agreed(found: list[tuple[T | None, str]], kind: ValueKind[T]) -> Reading[T]:
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


def settle(found: list[Statement[T]], kind: ValueKind[T], *, is_cut: bool = False) -> Reading[T]:
    """Return the value that the statements of a text come down to, else why there is none.

    What is called the answer counts before all else. Then the last result counts, unless another
    one, that no later sentence takes up, contradicts it.
    """
    explicit = [s for s in found if s.level == 3]
    if explicit:
        reading = agreed([(s.value, s.reason) for s in explicit], kind)
        return reading if is_cut else _unless_otherwise(reading, explicit[-1], found, kind)
    if is_cut:
        opening = next((s for s in found if s.is_opening and s.level == 2 and not s.key), None)
        if opening is not None and opening.value is not None:
            return Reading(opening.value)
        return _named_before_cut(found, kind)
    results = [s for s in found if s.level >= 1 and not s.is_secondary]
    results = results or [s for s in found if s.fits and not (s.is_secondary or s.is_supposed)]
    results = results or [s for s in found if s.level >= 1]
    results = _without_parts(_without_subtotals(results, kind), kind)
    results = _best_named(results, kind)
    if not results:
        return Reading(None, f"no single {kind.noun} is stated")
    if results[-1].is_supposed and len(results) > 1:
        beside = results[-2]
        is_near = beside.is_named and beside.at[0] == results[-1].at[0]
        is_aside = beside.is_computed or beside.is_asked or is_near
        results = results[: -1 if is_aside and not beside.is_supposed else None]
    last = results[-1]
    if last.value is None:
        return Reading(None, last.reason or f"no single {kind.noun} is stated")
    for s in results:
        if s.value is None and s.at[0] == last.at[0] and s.reason.startswith("two results"):
            return Reading(None, s.reason)
    if _is_of_an_item(last, kind):
        return Reading(None, "points of several findings, and no total")
    value, is_confirmed = _confirmed(last.value, last, results[:-1], kind)
    if (other := _rival(value, last, results, is_confirmed, kind)) is not None:
        return Reading(None, differ(other, value, kind))
    if any(_may_be_result(s, last, value, kind) for s in found):
        return Reading(None, f"what follows {kind.show(value)} may be the result")
    for s in found:  # a later repetition may be more precise
        if s.at > last.at and s.value is not None:
            value = kind.merge(s.value, value) or value
    return Reading(value)


def agrees(s: Statement[T], value: T, kind: ValueKind[T]) -> bool:
    """Return whether a statement is of a value, or of a rounding of it."""
    return s.value is not None and kind.merge(s.value, value) is not None


def _named_before_cut(found: list[Statement[T]], kind: ValueKind[T]) -> Reading[T]:
    """Return what a cut text has called by the asked name and worked out, if nothing behind differs."""
    named = [s for s in found if s.is_asked and s.level and not (s.is_secondary or s.is_running)]
    value = agreed([(s.value, s.reason) for s in named], kind).value
    is_led_to = len(named) > 1 or any(s.level >= 2 or s.is_computed for s in named)
    if value is None or not is_led_to or any(s.is_supposed for s in named):
        return Reading(None, "the answer was cut before a result is stated")
    behind = [s for s in found if s.at > named[0].at and s.level and not s.is_secondary]
    if not all(agrees(s, value, kind) for s in behind):
        return Reading(None, "the answer was cut before a result is stated")
    return Reading(value)


def _is_of_an_item(s: Statement[T], kind: ValueKind[T]) -> bool:
    """Return whether points are those of one finding, by all that a text says of them."""
    is_told = s.is_asked or s.level > 1 or s.is_computed or GENERAL_NAMES & {*s.key}
    return kind.is_score and bool(s.key) and not is_told


def _unless_otherwise(
    reading: Reading[T], answer: Statement[T], found: list[Statement[T]], kind: ValueKind[T]
) -> Reading[T]:
    """Return the reading, unless what follows the answer works out to another value."""
    after = [s for s in found if s.at > answer.at]
    value = reading.value
    if value is None or not any(s.is_computed or (s.level == 2 and s.key) for s in after):
        return reading
    other = settle(after, kind).value
    if other is None or any(agrees(s, value, kind) for s in after):
        return reading
    return Reading(None, differ(value, other, kind))


def _without_subtotals(results: list[Statement[T]], kind: ValueKind[T]) -> list[Statement[T]]:
    """Return the results without those of a count that goes on, where the last one is its end."""
    counts = [s for s in results if s.is_running and s.value is not None]
    if (
        len(counts) < 3
        or counts[-1].value is None
        or not agrees(results[-1], counts[-1].value, kind)
    ):
        return results
    earlier = [s.value for s in counts if not agrees(s, counts[-1].value, kind)]
    return [s for s in results if not any(v is not None and agrees(s, v, kind) for v in earlier)]


def _without_parts(results: list[Statement[T]], kind: ValueKind[T]) -> list[Statement[T]]:
    """Return the results without those that the last one is the sum of."""
    parts = [s for s in results[:-1] if s.is_computed and not s.is_asked]
    values = [s.value for s in parts if s.value is not None]
    total = results[-1].value if results else None
    is_total = total is not None and len(values) > 1 and kind.is_sum(values, total)
    return [s for s in results if s not in parts] if is_total else results


def _best_named(results: list[Statement[T]], kind: ValueKind[T]) -> list[Statement[T]]:
    """Return the results in the unit or by the name that was asked for, and what may correct them.

    Otherwise what is worked out or totalled counts as well. A bound is not one beside a value. Points
    that are given one by one are not a total.
    """
    items = [s for s in results if s.key in _POINTS]
    stated = [s for s in results if len(items) < 2 or s not in items]
    limits = _LIMITS if kind.is_known else _LIMITS[:1]
    stated = [s for s in stated if not s.reason.startswith(limits) or _ENDS in s.reason] or stated
    stated = [s for s in stated if not (_is_step(s) and s is not stated[-1])] or stated
    strong = [s for s in stated if (s.is_asked or s.fits) and not s.is_supposed]
    strong = [s for s in strong if not s.is_running] or strong[-1:]
    if not strong:
        return stated
    named = [s for s in strong if s.is_asked and not s.is_running]
    if named and len({kind.same(s.value) for s in named if s.value is not None}) == 1:
        value = named[-1].value
        others = [s for s in stated if s.is_computed and s.at <= named[-1].at]
        if value is not None and any(agrees(s, value, kind) for s in others):
            return [replace(s, is_final=True) for s in named]
    last = max(s.at for s in strong)
    kept = [
        s
        for s in stated
        if s in strong
        or (s.is_computed and s.at > last)
        or (GENERAL_NAMES & {*s.key} and not (s.is_supposed or s.is_used))
    ]
    return [s for s in kept if s.value is not None] or kept


def _is_step(s: Statement[T]) -> bool:
    return s.is_used and not s.fits and any(word.startswith(_STEPS) for word in s.key)


def _confirmed(
    value: T, last: Statement[T], before: list[Statement[T]], kind: ValueKind[T]
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


def _rival(
    value: T,
    last: Statement[T],
    results: list[Statement[T]],
    is_confirmed: bool,
    kind: ValueKind[T],
) -> T | None:
    """Return an earlier result that speaks against the last one, None without one."""
    for s in results[:-1]:
        if s.value is None or kind.merge(s.value, value) is not None or s.is_running:
            continue
        is_same = bool(s.key) and s.key == last.key
        if s.at[0] == last.at[0] and last.is_computed and last.fits >= s.fits and not s.is_computed:
            continue  # it is put in
        is_total = bool(s.key) and {*s.key} <= GENERAL_NAMES and s.level >= 2 and not s.is_used
        if is_total and last.is_asked:
            return s.value
        if (
            s.is_asked
            and s.is_opening
            and last.is_asked
            and not last.is_computed
            and last.level < 2
        ):
            return s.value
        if s.is_opening and (is_same or not (s.is_used or _is_other(s, last, is_confirmed))):
            return s.value
        is_told_apart = not (last.is_asked or GENERAL_NAMES & {*last.key}) and s.key != last.key
        if s.fits and last.fits and s.is_computed and is_told_apart and not s.is_used:
            return s.value
        if s.is_asked and s.fits and last.is_computed and is_told_apart and not last.fits:
            return s.value
        if s.is_used and not is_same:
            continue
        is_beside = s.at[0] == last.at[0] and not s.is_computed and s.is_named >= last.is_named
        if (s.level >= last.level or not is_confirmed) and (
            is_same or is_beside or not is_confirmed
        ):
            return s.value
    return None


def _is_other(opening: Statement[T], last: Statement[T], is_confirmed: bool) -> bool:
    """Return whether what opens a text is another thing than what it concludes."""
    is_told_apart = bool(last.key and opening.key) and not {*last.key} & {*opening.key}
    is_concluded = is_confirmed and last.level == 2 and last.is_named
    is_input = opening.level < 2 or not opening.is_named
    is_general = bool(GENERAL_NAMES & {*last.key, *opening.key})
    return is_told_apart and is_concluded and is_input and not is_general


def _may_be_result(s: Statement[T], last: Statement[T], value: T, kind: ValueKind[T]) -> bool:
    """Return whether something that is stated later may be the result that a text leads to."""
    if s.at <= last.at or s.value is None or s.is_supposed or agrees(s, value, kind):
        return False
    if s.is_secondary:
        return s.level == 2 and s.at[0] > last.at[0]
    if s.fits and not last.is_final:
        return not kind.show(value).startswith("-") or kind.show(s.value).startswith("-")
    is_on_the_way = last.is_computed and last.level == 1 and not last.is_asked
    return is_on_the_way and s.level == 0 and bool(s.key) and not _GIVEN & {*s.key}
