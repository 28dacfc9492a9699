"""The form of each stage's reply."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import msgspec

from medhelm.plugin import reply_form
from medhelm_benchmarks.noharm.generation.views import Kind
from medhelm_benchmarks.noharm.rules.cases import Category, RedFlag

_T = TypeVar("_T")


class _Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A form of reply: no key may be missing, and there are no others."""


class SceneReply(_Reply, frozen=True, kw_only=True):
    """Stage 1."""

    vignette: str
    question: str
    knowns: tuple[str, ...]
    unknowns: tuple[str, ...]
    red_flags: tuple[RedFlag, ...]


class OptionReply(_Reply, frozen=True, kw_only=True):
    """One action of stage 2."""

    text: str
    category: Category


class OptionsReply(_Reply, frozen=True, kw_only=True):
    """Stage 2."""

    options: tuple[OptionReply, ...]


class TrapReply(_Reply, frozen=True, kw_only=True):
    """One action of stage 3."""

    text: str
    category: Category
    kind: Kind


class TrapsReply(_Reply, frozen=True, kw_only=True):
    """Stage 3."""

    options: tuple[TrapReply, ...]


class BroadReply(_Reply, frozen=True, kw_only=True):
    """A broad action and those that it holds."""

    broad: str
    specific: tuple[str, ...]


class GroupsReply(_Reply, frozen=True, kw_only=True):
    """Lists the actions that replace each other."""

    alternatives: tuple[tuple[str, ...], ...]
    broad: tuple[BroadReply, ...]


class RatingReply(_Reply, frozen=True, kw_only=True):
    """One action as one rater sees it."""

    id: str
    rating: int
    """By the harm or benefit to the patient, whether the guideline covers the action or not."""
    covered: bool
    """True if the guideline covers the action or the principle that decides it."""
    quote: str
    """Words of the guideline that the rating rests on; empty where it covers nothing of it."""
    implausible: bool


class RatingsReply(_Reply, frozen=True, kw_only=True):
    """One rater's sheet."""

    ratings: tuple[RatingReply, ...]


class QuoteReply(_Reply, frozen=True, kw_only=True):
    """Words of the guideline for one action; empty where it is silent."""

    id: str
    quote: str


class QuotesReply(_Reply, frozen=True, kw_only=True):
    """One rater's second look for references."""

    quotes: tuple[QuoteReply, ...]


class AdviceReply(_Reply, frozen=True, kw_only=True):
    """A judge's reply on a patient's text."""

    advises: bool
    words: str


def read_reply(text: str, form: type[_T]) -> _T:
    """Return a reply of a form; raises BadReply. What makes a case may hold no half of a character."""
    reply, written = reply_form.read_form(text, form)
    if reply_form.without_halves(written) != written:
        raise reply_form.BadReply("it holds half a character, a \\u escape without its other half")
    return reply


def check_ids(asked: Collection[str], given: Collection[str], what: str) -> None:
    """Raise BadReply where the ids of a reply are not exactly those that were asked."""
    if missing := [i for i in asked if i not in set(given)]:
        raise reply_form.BadReply(f"no {what} of {_some(missing)}")
    if unknown := [i for i in given if i not in set(asked)]:
        raise reply_form.BadReply(f"a {what} of {_some(unknown)!r}, which is not on the list")
    if len(given) > len(asked):
        raise reply_form.BadReply(f"some ids have two {what}s")


def _some(names: Collection[str]) -> str:
    shown = [name[:20] for name in names][:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
