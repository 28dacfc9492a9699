"""Tokens and USD that are estimated of runs: of each, of its parties, and of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec


class RunEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one benchmark."""

    model: str
    benchmark: str
    data: str
    split: str
    instances: int
    repeats: int
    answered: int
    """Requests that the results folder holds the answers of."""
    to_ask: int
    """Requests that are left; everything below is of these."""
    input_tokens: int
    output_tokens_limit: int
    output_tokens_expected: int
    basis: str
    """The basis of the expected output."""
    usd_limit: float | None
    """None where the price is unknown."""
    usd_expected: float | None
    cast: tuple[RoleEstimate, ...] = ()
    """The cost of each other role of the protocol."""
    jury: str | None = None
    """Name of the jury that rates the answers; None where nobody does."""
    judges: tuple[JudgeEstimate, ...] = ()
    """The cost of each judge. Empty where no model judges."""
    variant: str = ""
    """The form in which the questions are asked; empty: as they are."""
    batch_part: float = 1.0
    """The part of the USD that is paid in batches; 1: the service takes none."""


class PartyEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and USD of one model that is asked besides the one under test."""

    input_tokens_expected: int
    input_tokens_limit: int
    output_tokens_expected: int
    output_tokens_limit: int
    usd_expected: float | None
    """None where the price is unknown."""
    usd_limit: float | None
    batch_part: float = 1.0
    """The part of the USD that is paid in batches; 1: the service takes none."""


class RoleEstimate(PartyEstimate, frozen=True, kw_only=True):
    """One model in another role than that under test, over the episodes of one run."""

    role: str
    model: str
    calls_expected: int
    calls_limit: int


class JudgeEstimate(PartyEstimate, frozen=True, kw_only=True):
    """One judge on the answers of one run."""

    judge: str
    calls: int
    """Calls that are still to be made: one an answer for a jury, as many as a grader needs."""
    calls_limit: int
    """Calls if each of them needed every repair."""
    cached_tokens_expected: int = 0
    """Part of the expected input that began an earlier call, too."""
    usd_expected_cached: float | None = None
    """If the provider caches that part."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over runs; USD is None where a price that matters is unknown."""

    to_ask: int
    input_tokens: int
    output_tokens_limit: int
    output_tokens_expected: int
    usd_limit: float | None
    usd_expected: float | None
    judge_calls: int
    judge_calls_limit: int
    jury_input_tokens_expected: int
    jury_input_tokens_limit: int
    jury_output_tokens_expected: int
    jury_output_tokens_limit: int
    jury_usd_limit: float | None
    jury_usd_expected: float | None
    jury_usd_expected_cached: float | None
    """If providers cache what calls begin with alike."""
    cast_usd_limit: float | None
    """All other roles together."""
    cast_usd_expected: float | None
    total_usd_limit: float | None
    """Models, other roles and judges together."""
    total_usd_expected: float | None
    batch_usd_limit: float | None
    """All of them where services that take batches are asked in batches."""
    batch_usd_expected: float | None
    unpriced: tuple[str, ...]
    """Models, roles and judges without a price that have something left to ask."""


def sum_up(estimates: Sequence[RunEstimate]) -> Totals:
    """Return the totals of several runs."""
    asked = [e for e in estimates if e.to_ask]
    judged = [j for e in estimates for j in e.judges if j.calls]
    cast = [role for e in asked for role in e.cast]
    parties: list[RunEstimate | PartyEstimate] = [*asked, *judged, *cast]
    limits = [add_up(own.usd_limit for own in part) for part in (asked, judged, cast)]
    expected = [add_up(own.usd_expected for own in part) for part in (asked, judged, cast)]
    unpriced = [e.model for e in asked if e.usd_limit is None]
    unpriced += [role.model for role in cast if role.usd_limit is None]
    unpriced += [j.judge for j in judged if j.usd_limit is None]

    def in_batches(field: str) -> float | None:
        parts = ((getattr(own, field), own.batch_part) for own in parties)
        return add_up(None if usd is None else part * usd for usd, part in parts)

    return Totals(
        to_ask=sum(e.to_ask for e in asked),
        input_tokens=sum(e.input_tokens for e in asked),
        output_tokens_limit=sum(e.output_tokens_limit for e in asked),
        output_tokens_expected=sum(e.output_tokens_expected for e in asked),
        usd_limit=limits[0],
        usd_expected=expected[0],
        judge_calls=sum(j.calls for j in judged),
        judge_calls_limit=sum(j.calls_limit for j in judged),
        jury_input_tokens_expected=sum(j.input_tokens_expected for j in judged),
        jury_input_tokens_limit=sum(j.input_tokens_limit for j in judged),
        jury_output_tokens_expected=sum(j.output_tokens_expected for j in judged),
        jury_output_tokens_limit=sum(j.output_tokens_limit for j in judged),
        jury_usd_limit=limits[1],
        jury_usd_expected=expected[1],
        jury_usd_expected_cached=add_up(j.usd_expected_cached for j in judged),
        cast_usd_limit=limits[2],
        cast_usd_expected=expected[2],
        total_usd_limit=add_up(limits),
        total_usd_expected=add_up(expected),
        batch_usd_limit=in_batches("usd_limit"),
        batch_usd_expected=in_batches("usd_expected"),
        unpriced=tuple(dict.fromkeys(unpriced)),
    )


def add_up(usd: Iterable[float | None]) -> float | None:
    """Return the sum of costs; None where one of them is unknown."""
    known = list(usd)
    return None if None in known else sum(c for c in known if c is not None)
