"""Prices -> USD, and the budget that a whole sweep may not pass.

A cost that is not known is None, never 0.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

from msgspec.structs import replace

from medhelm.errors import BudgetReached, UsageError
from medhelm.models.identity import in_batches
from medhelm.models.pacing.pool import PoolAccess
from medhelm.models.providers import known_provider
from medhelm.schema.episode import Response, Usage
from medhelm.schema.model import ModelSpec, Price

_MILLION = 1_000_000
_OTHERS_S = 0.5
"""Seconds between two looks at whether other processes have given something back."""


def cost(usage: Usage, price: Price | None) -> float | None:
    """Return the USD of one answered request, None where usage or price is unknown.

    Cached input costs `price.cached`; where that or the number is unknown, the full price.
    """
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return usd(price, usage.input_tokens, usage.cached_tokens or 0, usage.output_tokens)


def upper_bound(input_tokens: int, max_output_tokens: int, price: Price | None) -> float | None:
    """Return the USD if nothing is cached and every answer uses its whole budget.

    This is the paper's cost: input tokens counted, output at the limit.
    """
    return None if price is None else usd(price, input_tokens, 0, max_output_tokens)


def usd(price: Price, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
    """Return the USD of tokens; `cached_tokens` are part of `input_tokens`."""
    cached_price = price.input if price.cached is None else price.cached
    fresh = max(0, input_tokens - cached_tokens)
    total = fresh * price.input + cached_tokens * cached_price + output_tokens * price.output
    return total / _MILLION


def batch_price(price: Price) -> Price:
    """Return the price of what is asked in batches."""
    cached = None if price.cached is None else price.batch * price.cached
    return replace(
        price, input=price.batch * price.input, output=price.batch * price.output, cached=cached
    )


def price_of(spec: ModelSpec) -> Price | None:
    """Return the price at which a model is asked."""
    return batch_price(spec.price) if spec.batch and spec.price is not None else spec.price


def batch_part(spec: ModelSpec) -> float:
    """Return the part of a model's price that is left where it is asked in batches; 1 where it cannot be."""
    can = in_batches(spec).batch and spec.price is not None
    return spec.price.batch if can and spec.price is not None else 1.0


class Reservation:
    """Sets aside the most that one request may cost, until `settle` or `cancel`."""

    def __init__(self, ledger: Ledger, price: Price | None, tokens_in: int, tokens_out: int):
        self._ledger = ledger
        self._price = price
        self.tokens = tokens_in + tokens_out
        self.usd = upper_bound(tokens_in, tokens_out, price) or 0.0
        self._open = True

    def settle(self, usage: Usage, lost: int = 0) -> None:
        """Book what was used; unknown usage and each lost answer count with the upper bound."""
        usd = cost(usage, self._price)
        if usage.input_tokens is None or usage.output_tokens is None:
            tokens, usd = self.tokens, self.usd
        else:
            tokens = usage.input_tokens + usage.output_tokens
        self._close(tokens + lost * self.tokens, (usd or 0.0) + lost * self.usd)

    def settle_response(self, response: Response) -> None:
        """Book what a response used; an error or an unsent request costs its lost answers only."""
        if response.finish in ("error", "oversize") and response.usage.input_tokens is None:
            self.cancel(response.lost)
        else:
            self.settle(response.usage, response.lost)

    def cancel(self, lost: int = 0) -> None:
        """Give back what was set aside for a request that was never answered."""
        self._close(lost * self.tokens, lost * self.usd)

    def _close(self, tokens: int, usd: float) -> None:
        if self._open:
            self._open = False
            self._ledger._book(self, tokens, usd)


class Ledger:
    """The budget of a sweep: what is spent, what is set aside, and the caps on their sum.

    Caps hold up to the error of the token estimates and up to answers that are lost after
    sending, which are booked but cannot be foreseen. Of a pool the ledger takes blocks of what all its
    processes may spend together.
    """

    def __init__(
        self,
        cap_usd: float | None = None,
        cap_tokens: int | None = None,
        pool: PoolAccess | None = None,
    ) -> None:
        for unit, cap in (("USD", cap_usd), ("tokens", cap_tokens)):
            if cap is not None and not (math.isfinite(cap) and cap > 0):
                raise UsageError(f"a cap of {cap} {unit} is not a budget: give a positive number")
        self.cap_usd, self.cap_tokens = cap_usd, cap_tokens
        self._pool, self._taken_usd, self._taken_tokens = pool, 0.0, 0
        self._may_come = False
        """True if other processes of the pool may give something back."""
        self.spent_usd, self.spent_tokens = 0.0, 0
        self.reserved_usd, self.reserved_tokens = 0.0, 0
        self.open = 0
        """Reservations not settled yet; while there are any, a refused request may fit later."""
        self._turns: list[asyncio.Event] = []
        self._watchers: list[asyncio.Future[None]] = []

    @property
    def is_capped(self) -> bool:
        """Return whether there is a cap at all."""
        return self.cap_usd is not None or self.cap_tokens is not None

    def check(self, specs: Iterable[ModelSpec]) -> None:
        """Refuse a cap in USD where the price of a model is not known."""
        if self.cap_usd is None:
            return
        unpriced = [
            spec.name
            for spec in specs
            if spec.price is None
            if (provider := known_provider(spec.provider)) is None or not provider.is_embedded
        ]
        if unpriced:
            raise UsageError(
                f"a cap in USD needs the price of {', '.join(map(repr, unpriced))}: set model.price"
                " (input, output, date; 0 for a server of your own), or cap tokens instead"
            )

    def reserve(
        self, price: Price | None, input_estimate: int, max_output_tokens: int
    ) -> Reservation:
        """Set aside the upper bound of one request before it is sent.

        Raises `BudgetReached` when this, what is spent and what is set aside pass a cap.
        """
        held = Reservation(self, price, input_estimate, max_output_tokens)
        self.refuse(held.usd, held.tokens)
        self.reserved_usd += held.usd
        self.reserved_tokens += held.tokens
        self.open += 1
        return held

    def refuse(self, usd: float, tokens: int) -> None:
        """Raise BudgetReached where so much more, what is spent and what is set aside pass a cap."""
        all_usd = self.spent_usd + self.reserved_usd + usd
        all_tokens = self.spent_tokens + self.reserved_tokens + tokens
        if self._is_within(all_usd, all_tokens):
            return
        whose = "one command"
        if self._pool is not None:
            whose = "all workers of one command"
            lacking = max(0.0, all_usd - self._taken_usd), max(0, all_tokens - self._taken_tokens)
            block = self._pool.reserve(*lacking)
            self._taken_usd += block.usd
            self._taken_tokens += block.tokens
            self._may_come = block.may_come
            if self._is_within(all_usd, all_tokens):
                return
        if not self._is_within(all_usd, 0):
            cap, unit = f"{self.cap_usd:g}", "USD"
            sums = f"{self.spent_usd:.4f}", f"{self.reserved_usd:.4f}", f"{usd:.4f}"
        else:
            cap, unit = str(self.cap_tokens), "tokens"
            sums = str(self.spent_tokens), str(self.reserved_tokens), str(tokens)
        raise BudgetReached(
            f"the cap of {cap} {unit} is reached: {sums[0]} spent{' here' * bool(self._pool)}, {sums[1]} in flight,"
            f" {sums[2]} asked for; it holds for {whose}, and the same one again goes on"
        )

    def _is_within(self, usd: float, tokens: int) -> bool:
        """Return whether sums are within the caps, or of a pool within what was taken of them."""
        most_usd = self.cap_usd if self._pool is None else self._taken_usd
        most_tokens = self.cap_tokens if self._pool is None else self._taken_tokens
        is_usd_within = self.cap_usd is None or most_usd is None or usd <= most_usd
        return is_usd_within and (
            self.cap_tokens is None or most_tokens is None or tokens <= most_tokens
        )

    def may_fit(self) -> bool:
        """Return whether a request that was refused may fit later.

        A process that has nothing in flight gives back what it holds, so that several do not wait for each other.
        """
        if not self.open:
            self.give_back()
        return bool(self.open) or self._may_come

    def give_back(self) -> None:
        """Give back to the pool what was taken and not spent."""
        usd = max(0.0, self._taken_usd - self.spent_usd) if self.cap_usd else 0.0
        tokens = max(0, self._taken_tokens - self.spent_tokens) if self.cap_tokens else 0
        if self._pool is not None and (usd or tokens):
            self._pool.give_back(usd, tokens)
            self._taken_usd -= usd
            self._taken_tokens -= tokens

    async def change(self) -> None:
        """Wait for the next request that is settled, or work that ends, or for what others may give back."""
        future = asyncio.get_running_loop().create_future()
        self._watchers.append(future)
        if self._may_come and not self.open:
            asyncio.get_running_loop().call_later(_OTHERS_S, self.changed)
        await future

    def changed(self) -> None:
        """Wake all who wait for a change."""
        for future in self._watchers:
            if not future.done():
                future.set_result(None)
        self._watchers.clear()

    async def wait(
        self, price: Price | None, input_estimate: int, max_output_tokens: int
    ) -> Reservation:
        """Set the upper bound of one request aside once it fits. Those who wait are served in order.

        What is in flight may cost less than was set aside for it. Call it without holding a slot:
        requests in flight need slots to end. Raises BudgetReached once nothing is in flight and the
        request still does not fit.
        """
        turn = asyncio.Event()
        self._turns.append(turn)
        if len(self._turns) == 1:
            turn.set()
        try:
            while True:
                await turn.wait()
                try:
                    return self.reserve(price, input_estimate, max_output_tokens)
                except BudgetReached:
                    if not self.may_fit():
                        raise
                if self.open:
                    turn.clear()
                else:
                    await asyncio.sleep(_OTHERS_S)
        finally:
            self._turns.remove(turn)
            for first in self._turns[:1]:
                first.set()

    def _book(self, held: Reservation, tokens: int, usd: float) -> None:
        for first in self._turns[:1]:
            first.set()
        self.open -= 1
        self.reserved_tokens -= held.tokens
        self.reserved_usd = self.reserved_usd - held.usd if self.open else 0.0
        self.spent_tokens += tokens
        self.spent_usd += usd
        if self._watchers:
            self.changed()


def capped_ledger(
    models: Iterable[ModelSpec],
    cap_usd: float | None,
    cap_tokens: int | None,
    pool: PoolAccess | None = None,
    *,
    parts: int = 1,
) -> Ledger:
    """Return the ledger of a command that asks these models; of one of several parts with its share of the caps.

    Raises UsageError for a cap in USD where a price is missing.
    """
    usd = cap_usd / parts if cap_usd is not None else None
    ledger = Ledger(usd, cap_tokens // parts if cap_tokens is not None else None, pool)
    ledger.check(models)
    return ledger
