"""Labels of cases: themes, specialties, difficulty and register, and the other names they have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import yaml

from medhelm.plugin import closest


class Theme(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task theme."""

    family: str
    aliases: tuple[str, ...] = ()


class Specialty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A medical specialty."""

    group: str
    aliases: tuple[str, ...] = ()


class Labels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All labels, as `labels.yaml` has them."""

    themes: dict[str, Theme]
    groups: dict[str, str]
    specialties: dict[str, Specialty]
    difficulties: dict[str, tuple[str, ...]]
    professional_words: tuple[str, ...]
    lay_words: tuple[str, ...]


@cache
def labels() -> Labels:
    """Return the table of labels."""
    text = (resources.files(__package__) / "labels.yaml").read_text("utf-8")
    values: Any = yaml.safe_load(text)
    return msgspec.convert(values, Labels)


def _by_name(named: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {_plain(alias): name for name, aliases in named.items() for alias in (name, *aliases)}


def _plain(label: str) -> str:
    return " ".join(label.replace("_", " ").casefold().split())


@cache
def _known(kind: str) -> dict[str, str]:
    own = labels()
    if kind == "difficulty":
        return _by_name(own.difficulties)
    of: Mapping[str, Theme | Specialty] = own.themes if kind == "theme" else own.specialties
    return _by_name({name: one.aliases for name, one in of.items()})


def theme_of(label: str) -> str | None:
    """Return the theme of a raw label; None where the table has none."""
    return _known("theme").get(_plain(label))


def specialty_of(label: str) -> str | None:
    """Return the specialty of a raw label; None where the table has none."""
    return _known("specialty").get(_plain(label))


def nearest_label(kind: str, label: str) -> str:
    """Return ", did you mean ..." of the themes or specialties; empty where none is like the label."""
    known = _known(kind)
    found = closest(_plain(label), known, 1)
    return f"; did you mean {known[found[0]]!r}?" if found else ""


def difficulty_of(label: str) -> str | None:
    """Return low, medium or high; None for anything else."""
    return _known("difficulty").get(_plain(label))


def register_of(role: str) -> str:
    """Return "professional" or "lay" of who asks.

    Professional is a role with one of the words of those who work in health care, and with none
    of those for patients and their families: "the doctor's patient" is a lay person.
    """
    own = labels()
    if _has_any(role, own.lay_words):
        return "lay"
    return "professional" if _has_any(role, own.professional_words) else "lay"


def _has_any(role: str, words: Sequence[str]) -> bool:
    """Return whether a role has one of the words; a Latin one whole, so that no person is a son."""
    said = set(re.findall(r"[a-z]+", role.casefold()))
    return any(word in said if word.isascii() else word in role for word in words)
