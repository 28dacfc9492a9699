"""Costs worked out by hand, and a budget that holds whatever the order of events."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import BudgetReached, UsageError
from medhelm.models.costs import Ledger, cost, upper_bound
from medhelm.models.tokens import estimate_tokens
from medhelm.schema.episode import Finish, Message, Response, Usage
from medhelm.schema.model import ModelSpec, Price

GPT4O = Price(input=2.5, output=10.0, date="2025-05-12")
CACHED = Price(input=2.0, output=8.0, cached=0.5, date="2025-05-12")


FREE = Price(input=0, output=0, date="x")
FREE_CACHE = Price(input=2.0, output=8.0, cached=0.0, date="2025-05-12")


@pytest.mark.parametrize(
    ("price", "usage", "expected"),
    [
        (GPT4O, (1000, None, 200), 1000 * 2.5 + 200 * 10),
        (CACHED, (1000, 600, 100), 400 * 2 + 600 * 0.5 + 100 * 8),
        (GPT4O, (1000, 600, 0), 1000 * 2.5),  # no price of its own for what is cached
        (FREE_CACHE, (1000, 600, 0), 400 * 2.0),
        (FREE, (9, None, 9), 0),
        (None, (1, None, 1), None),  # what is not known is none, and never zero
        (GPT4O, (1, None, None), None),
        (GPT4O, (None, None, 1), None),
    ],
)
def test_cost_of_a_request(
    price: Price | None, usage: tuple[int | None, ...], expected: float | None
) -> None:
    read, cached, written = usage
    found = cost(Usage(input_tokens=read, cached_tokens=cached, output_tokens=written), price)
    assert found == (None if expected is None else pytest.approx(expected / 1e6))


def test_upper_bound_is_the_papers_cost() -> None:
    # A million tokens in at 2.50, 1,000 answers of at most 4,000 tokens at 10 USD per million.
    assert upper_bound(1_000_000, 4_000_000, GPT4O) == pytest.approx(42.5)
    assert upper_bound(10, 10, None) is None


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("The patient was seen in clinic.", 8),  # 30 letters and spaces / 4.5 + 1 sign / 1.6
        ("12.5 mg", 4),  # 3 / 4.5 + 4 / 1.6
        ("患者", 3),  # 6 bytes / 2.4
    ],
)
def test_estimate_by_hand(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "cl100k"),
    [
        # Real counts of the tokenizer cl100k_base.
        ("A 65-year-old man comes to the clinic because of three weeks of progressive shortness of"
         " breath on exertion and swelling of both ankles.", 29),
        ("患者，男，65岁，因反复胸闷气促三年，加重一周入院。", 31),
        ("El paciente presentó una evolución clínica favorable.", 12),
    ],
)  # fmt: skip
def test_estimate_is_near_a_real_count(text: str, cl100k: int) -> None:
    assert 0.7 * cl100k <= estimate_tokens(text) <= 1.5 * cl100k


def test_messages_have_a_frame() -> None:
    messages = (Message("system", "a"), Message("user", "a"))
    assert estimate_tokens(messages) == 3 + 2 * (4 + 1)


@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(one: str, other: str) -> None:
    assert estimate_tokens(one + other) >= estimate_tokens(one) >= 0
    assert estimate_tokens(one + other) <= estimate_tokens(one) + estimate_tokens(other)


def spec(name: str, price: Price | None, provider: str = "openai") -> ModelSpec:
    return ModelSpec(name=name, provider=provider, price=price)


def test_a_cap_in_usd_needs_every_price() -> None:
    specs = [spec("a", GPT4O), spec("b", None), spec("baseline/x", None, "baseline")]
    with pytest.raises(UsageError, match=r"'b'.*model\.price"):
        Ledger(cap_usd=5).check(specs)
    Ledger(cap_usd=5).check([specs[0], specs[2]])
    Ledger(cap_tokens=5).check(specs)
    Ledger().check(specs)


@pytest.mark.parametrize("cap", [0, -1, math.nan, math.inf])
def test_a_cap_is_a_positive_number(cap: float) -> None:
    with pytest.raises(UsageError):
        Ledger(cap_usd=cap)
    with pytest.raises(UsageError):
        Ledger(cap_tokens=cap)  # type: ignore[arg-type]


def test_the_cap_stops_before_sending() -> None:
    # Each request: 1,000 in and 100 out at most = 0.0035 USD; 0.01 USD hold two of them.
    ledger = Ledger(cap_usd=0.01)
    first = ledger.reserve(GPT4O, 1000, 100)
    ledger.reserve(GPT4O, 1000, 100)
    with pytest.raises(BudgetReached, match=r"0\.01 USD.*0\.0070 in flight"):
        ledger.reserve(GPT4O, 1000, 100)
    assert ledger.open == 2
    # It used 10 of its 100 tokens: 0.0026 + 0.0035 + 0.0035 fit.
    first.settle(Usage(input_tokens=1000, output_tokens=10))
    assert ledger.spent_usd == pytest.approx(0.0026)
    ledger.reserve(GPT4O, 1000, 100)


def test_a_budget_may_be_spent_to_its_last_cent_and_token() -> None:
    price = Price(input=1.0, output=1.0, date="2026-01-01")
    for cap in ({"cap_usd": 1.5}, {"cap_tokens": 1_500_000}):
        ledger = Ledger(**cap)
        ledger.reserve(price, 500_000, 500_000)
        ledger.reserve(price, 250_000, 250_000)
        with pytest.raises(BudgetReached):
            ledger.reserve(price, 1, 0)


def test_the_cap_on_tokens_needs_no_price() -> None:
    ledger = Ledger(cap_tokens=250)
    ledger.reserve(None, 100, 20).settle(Usage(input_tokens=90, output_tokens=5))
    assert ledger.spent_tokens == 95
    ledger.reserve(None, 100, 20)
    with pytest.raises(BudgetReached, match="250 tokens"):
        ledger.reserve(None, 100, 20)


def test_unknown_usage_and_lost_answers_count_with_the_upper_bound() -> None:
    ledger = Ledger(cap_usd=1)
    ledger.reserve(GPT4O, 1000, 100).settle(Usage())
    assert ledger.spent_tokens == 1100
    assert ledger.spent_usd == pytest.approx(0.0035)
    ledger.reserve(GPT4O, 1000, 100).settle(Usage(input_tokens=900, output_tokens=0), lost=2)
    assert ledger.spent_tokens == 1100 + 900 + 2200
    assert ledger.spent_usd == pytest.approx(0.0035 + 0.00225 + 0.007)


@pytest.mark.parametrize(
    ("finish", "usage", "lost", "tokens"),
    [
        ("stop", Usage(input_tokens=80, output_tokens=4), 0, 84),
        ("length", Usage(), 0, 120),  # answered, usage not said
        ("refusal", Usage(), 0, 120),
        ("error", Usage(), 0, 0),
        ("error", Usage(), 2, 240),
        ("oversize", Usage(), 0, 0),  # not sent, or refused unread
        ("oversize", Usage(input_tokens=40, output_tokens=1), 0, 41),  # cut, and billed
    ],
)
def test_what_a_response_costs(finish: Finish, usage: Usage, lost: int, tokens: int) -> None:
    ledger = Ledger()
    response = Response(instance_id="1", finish=finish, usage=usage, lost=lost)
    ledger.reserve(None, 100, 20).settle_response(response)
    assert ledger.spent_tokens == tokens
    assert (ledger.reserved_tokens, ledger.reserved_usd, ledger.open) == (0, 0.0, 0)


def test_a_reservation_is_booked_once() -> None:
    ledger = Ledger()
    held = ledger.reserve(GPT4O, 10, 10)
    held.settle(Usage(input_tokens=1, output_tokens=1))
    held.cancel()
    held.settle(Usage(input_tokens=1, output_tokens=1))
    assert (ledger.spent_tokens, ledger.open) == (2, 0)


@pytest.mark.slow
@given(
    cap=st.integers(1, 400),
    steps=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 60), st.floats(0, 1), st.booleans()),
        max_size=40,
    ),
)
def test_the_cap_holds_while_answers_keep_to_their_bounds(
    cap: int, steps: list[tuple[int, int, float, bool]]
) -> None:
    ledger = Ledger(cap_usd=cap * 1e-6, cap_tokens=cap)
    price = Price(input=1.0, output=1.0, date="x")
    waiting = []
    for tokens_in, tokens_out, share, now in steps:
        try:
            held = ledger.reserve(price, tokens_in, tokens_out)
        except BudgetReached:
            assert ledger.spent_tokens + ledger.reserved_tokens + tokens_in + tokens_out > cap * (
                1 - 1e-9
            )
        else:
            waiting.append(
                (held, Usage(input_tokens=tokens_in, output_tokens=int(tokens_out * share)))
            )
        if now and waiting:
            held, usage = waiting.pop(0)
            held.settle(usage)
        assert ledger.spent_tokens + ledger.reserved_tokens <= cap
        assert ledger.spent_usd <= cap * 1e-6 * (1 + 1e-9)
    for held, usage in waiting:
        held.settle(usage)
    assert (ledger.open, ledger.reserved_tokens, ledger.reserved_usd) == (0, 0, 0.0)
    assert ledger.spent_usd == pytest.approx(ledger.spent_tokens * 1e-6)
