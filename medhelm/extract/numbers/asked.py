"""Read a question's request as evidence of which value of a completion answers it.

A value in another unit than the one that is asked for, and a value that is called by another
quantity's name or worked out by another method, is not the answer, wherever it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

import msgspec

from medhelm.extract.late import late
from medhelm.extract.numbers.notation import plain
from medhelm.extract.numbers.units import RATES, SAME, unit_at
from medhelm.extract.numbers.value_types import Value, ValueKind

T = TypeVar("T")

_ASKS = late(r"\b(?:what|which|how|calculate|compute|estimate|determine|give)\b", re.IGNORECASE)
_UNIT_COMES = late(r"\b(?:in(?:\sterms\sof)?|terms\sof|as\san?|of)\s(?=\S)", re.IGNORECASE)
_CLOSES = late(r"\s{0,2}(?:[.,;:!?()\u2192\u2013\u2014-]|$|\n|which\b|or\b)")
"""Matches the text that may follow a unit where no quantity is named."""
_ROUTE = r"(?:(?:oral|iv|po|im|intravenous|intramuscular|parenteral|daily)\s){0,2}"
_TIMED = late(r"\b(hourly|daily)\b(?:\s[A-Za-z]{1,12}){0,4}[\s=:\u2248]{0,3}$", re.IGNORECASE)
_TIMES_BEHIND = late(r"\s(hourly|daily)\b", re.IGNORECASE)
_DOSED = late(rf"\d\s?(?:mg|mcg|g)\s(?:of\s)?{_ROUTE}$", re.IGNORECASE)
"""The amount of a substance whose name follows."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A quantity that questions ask for or completions name on the way."""

    names: str
    """A pattern of what it is called."""
    unit: str | None = None
    """Its unit where the question gives none; "" for a score or a ratio, None where it has many."""
    parts: Sequence[str] = ()
    """Quantities whose shorter names it is called by as well."""
    share: str = ""
    """A pattern of what a risk is called that is given in percent where no points are counted."""


@dataclass(frozen=True)
class Glossary:
    """The quantities and methods of a field. Of two names at one place the first quantity's counts."""

    quantities: Mapping[str, Quantity]
    methods: Sequence[str] = ()
    """Patterns of methods that give different values of one quantity."""
    substances: Sequence[str] = ()
    """Patterns of substances of which a question asks for an amount of one."""

    @classmethod
    def of_toml(cls, content: bytes) -> Glossary:
        """Return those of a TOML file."""
        return msgspec.toml.decode(content, type=cls)

    @cached_property
    def names(self) -> re.Pattern[str]:
        """Match the name of any quantity. The group names it, at its end: opening one takes time at each place."""
        found = (f"(?:{q.names})(?P<q{i}>)" for i, q in enumerate(self.quantities.values()))
        return late(rf"(?<![A-Za-z])(?:{'|'.join(found)})(?![A-Za-z])", re.IGNORECASE)

    @cached_property
    def ways(self) -> re.Pattern[str]:
        """Match the name of any method. The group names it."""
        found = (f"(?:{method})(?P<m{i}>)" for i, method in enumerate(self.methods))
        return late(rf"\b(?:{'|'.join(found)})\b", re.IGNORECASE)

    @cached_property
    def amounts(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """Match a substance before its amount, and one behind it. The group names it."""
        found = "|".join(f"(?P<s{i}>{name})" for i, name in enumerate(self.substances)) or "(?!)"
        before = rf"\b(?:{found})\s?(?:\([^()]{{0,12}}\)\s?)?(?:(?:oral|iv|po|total|dose|daily)\s?){{0,3}}:?\s?$"
        behind = (
            rf"\s{{0,2}}[\w/]{{0,6}}\s{{0,2}}(?:\([^()]{{0,12}}\)\s?)?(?:of\s)?{_ROUTE}(?:{found})"
        )
        return late(before, re.IGNORECASE), late(behind, re.IGNORECASE)

    def asked_by(self, question: str) -> Asked:
        """Return what a question asks for: the first quantity it names, in the first unit."""
        text = plain(question)
        asks = _ASKS.search(text)
        named = self.names.search(text, asks.start() if asks else 0) or self.names.search(text)
        own = ""
        unit = asked_unit(question)
        if named is not None and named.lastgroup is not None:
            own = tuple(self.quantities)[int(named.lastgroup[1:])]
            unit = self.quantities[own].unit if unit is None else unit
        return Asked(
            self,
            quantity=own,
            units=None if unit is None else _with_same(unit or "point"),
            methods=frozenset(m.lastgroup or "" for m in self.ways.finditer(text)),
            substance=self._substance_in(text[asks.start() if asks else 0 :]),
        )

    def _substance_in(self, text: str) -> int | None:
        """Return the place in the list of the substance that a text names first."""
        found = (
            (match.start(), i)
            for i, name in enumerate(self.substances)
            if (match := re.search(rf"\b(?:{name})", text, re.IGNORECASE))
        )
        return min(found, default=(0, None))[1]


@dataclass(frozen=True)
class Asked:
    """The quantity, the unit and the method that a question asks for."""

    glossary: Glossary
    quantity: str = ""
    units: frozenset[str] | None = None
    """The units of an answer; None where any may be meant."""
    methods: frozenset[str] = frozenset()
    substance: int | None = None
    """The substance whose amount a question asks for, by its place in the glossary."""
    share: re.Pattern[str] | None = None
    """Matches other names of a risk that is asked for in percent."""

    def shares(self, text: str) -> Iterator[Asked]:
        """Yield what is asked for as a percentage, where a risk may be that is also counted in points."""
        own = self.glossary.quantities.get(self.quantity)
        if own is not None and own.share and "%" in text:
            share = late(rf"\b(?:{own.share})\b", re.IGNORECASE)
            yield replace(self, units=frozenset("%"), share=share)

    def is_named(self, name: str) -> bool | None:
        """Return whether a name is that of what is asked for; None where it says nothing."""
        if name.count("_") > 1:  # a key of JSON
            name = name.replace("_", " ")
        if self.share and self.share.search(name):
            return True
        ways = {m.lastgroup for m in self.glossary.ways.finditer(name)} if self.methods else set()
        if ways and not ways & self.methods:
            return False
        spelled = tuple(self.glossary.quantities)
        found = {
            spelled[int(m.lastgroup[1:])] for m in self.glossary.names.finditer(name) if m.lastgroup
        }
        if not self.quantity or found <= {*self.glossary.quantities[self.quantity].parts}:
            return None
        return self.quantity in found

    def _is_of_other(self, text: str, value: Value[T]) -> bool:
        """Return whether a text says of what another substance a value is the amount."""
        if self.substance is None or value.is_operand:
            return False
        before, behind = self.glossary.amounts
        own = f"s{self.substance}"
        if found := behind.match(text, value.end):
            return found.lastgroup != own
        lead = text[max(0, value.start - 60) : value.start]
        found = before.search(lead)
        is_dosed = found is not None and _DOSED.search(lead, 0, found.start())
        return found is not None and not is_dosed and found.lastgroup != own

    def by_name(self, kind: ValueKind[T]) -> ValueKind[T]:
        """Return the kind with the names of what is asked for."""
        return replace(kind, is_known=True, is_asked=self.is_named)

    def narrow(self, kind: ValueKind[T]) -> ValueKind[T]:
        """Return the kind without the values that cannot answer, and with the names that do."""

        units = self.units
        if units is None or not kind.has_unit:
            return self.by_name(kind)

        def find(text: str) -> list[Value[T]]:
            found: list[Value[T]] = []
            values = kind.find(text)
            for value in _in_percent(text, values, kind) if self.share else values:
                if self._is_of_other(text, value):
                    found.append(replace(value, is_other=True))
                    continue
                if units == {"point"} and value.value is None and value.end - value.start < 6:
                    value = kind.of_maximum(text, value)
                unit, end = unit_at(text, value.end)
                unit = _per_time(unit, text[max(0, value.start - 60) : value.start], text[end:])
                if value.is_operand or not unit or unit in units:
                    is_own = unit not in ("", "point")
                    fits = is_own and not value.is_operand
                    is_alone = fits and _CLOSES.match(text, end) is not None
                    found.append(replace(value, fits=fits, is_alone=is_alone) if fits else value)
            return found

        return replace(
            self.by_name(kind), find=find, find_any=kind.find, is_score=units == {"point"}
        )


def _in_percent(text: str, values: list[Value[T]], kind: ValueKind[T]) -> list[Value[T]]:
    """Return percentages, each from where its share begins (`0.081, i.e. 8.1 %`), and operands."""
    found: list[Value[T]] = []
    for before, value in zip([None, *values], values, strict=False):
        if not value.is_operand and unit_at(text, value.end)[0] == "%":
            share = before and before.value
            is_same = share is not None and value.value is not None
            is_same = is_same and kind.merge(cast("T", share), cast("T", value.value)) is not None
            start = before.start if before and is_same else value.start
            found.append(replace(value, start=start, unit="%"))
        elif value.is_operand:
            found.append(value)
    return found


def _per_time(unit: str, before: str, behind: str) -> str:
    """Return the unit of a rate whose time is a word beside it (`the hourly volume is 94 mL`)."""
    if not any(unit == timed for timed, _ in RATES):
        return unit
    word = _TIMED.search(before) or _TIMES_BEHIND.match(behind)
    return RATES.get((unit, word[1].lower()), unit) if word else unit


def asked_unit(question: str) -> str | None:
    """Return the first unit in which a question asks for its answer, None where it names none."""
    text = plain(question)
    asks = _ASKS.search(text)
    for match in _UNIT_COMES.finditer(text, asks.start() if asks else 0):
        if unit := unit_at(text, match.end())[0]:
            return unit
    return None


def _with_same(unit: str) -> frozenset[str]:
    return frozenset((unit, *SAME.get(unit, ())))
