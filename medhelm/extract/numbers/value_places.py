"""The place of a value in its sentence: alone, put into a formula, led to by a sign, an age."""

from __future__ import annotations

import re
from typing import TypeVar

from medhelm.extract.numbers.value_types import Value
from medhelm.extract.numbers.value_words import (
    ALL,
    CLOSE,
    DAILY,
    DENIED,
    FILLER,
    HOURLY,
    LED,
    OPERATION,
    PARTICIPLES,
    POINTS,
    PUT_IN,
    SOLELY,
    WEAK,
)

T = TypeVar("T")


def is_bare(text: str, value: Value[T], is_line: bool) -> bool:
    """Return whether a sentence does nothing but give a value."""
    rest = text[value.end :].strip()
    is_short = (
        len(rest) <= 25 and not rest.endswith(" each") and not any(c in rest for c in ":=\u2248")
    )
    before = text[: value.start]
    is_only = is_line and re.fullmatch(r"\W{0,12}" + FILLER, before) is not None
    is_concluded = SOLELY.fullmatch(before) is not None and CLOSE.fullmatch(text, value.end)
    is_all = not before.strip(" \"'([{\u2192=") and ALL.fullmatch(text, value.end) is not None
    return (is_short and is_only) or bool(is_concluded) or is_all


def is_put_in(
    text: str, opening: str, found: tuple[Value[T], str, str, bool], first: Value[T]
) -> bool:
    """Return whether a value is put into a formula, denied, or a rate that is given per day too."""
    value, verb, name, _ = found
    if verb in WEAK and (opening in PARTICIPLES or DENIED.search(name)):
        return True
    is_daily = value is not first and HOURLY.match(text, first.end) and DAILY.match(text, value.end)
    return bool(is_daily or PUT_IN.match(text, value.end))


def is_led_to(text: str, value: Value[T]) -> bool:
    """Return whether a sign leads from a calculation to a value."""
    is_led = LED.search(text, max(0, value.start - 4), value.start)
    return bool(is_led and OPERATION.search(text, 0, is_led.start()))


def is_age(text: str, verb: str, value: Value[T]) -> bool:
    """Return whether a value is what a patient is (`she's 73`), and not points."""
    return verb in ("she's", "he's") and not POINTS.match(text, value.end)
