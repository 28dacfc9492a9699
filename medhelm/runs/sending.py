"""The one way to a model: set the budget aside, wait for a slot, send, book, and log the call.

Protocols and judges all ask through a `Desk`. What they are given is bound to one episode besides: a call
that the log holds is given back and not sent again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from itertools import count
from typing import Any

from medhelm.errors import BudgetReached, MedhelmError
from medhelm.models.costs import Ledger, Reservation, price_of
from medhelm.models.identity import is_echoed
from medhelm.models.tokens import estimate_tokens, request_tokens
from medhelm.schema.episode import Call, Request, Response, request_key
from medhelm.schema.model import Model
from medhelm.store.calls import OpenEpisode, call_name
from medhelm.store.loglines import is_answered
from medhelm.store.runlog import RunFolder

GRACE_S = 10.0
"""Seconds that requests in flight get to finish once nothing more is sent."""


class Stopped(BaseException):
    """Nothing more is sent. Not an Exception, so that a protocol cannot take it for a failed call."""

    def __init__(self, reason: MedhelmError) -> None:
        super().__init__(str(reason))
        self.reason = reason


AHEAD = 32
"""Pieces of new work that may wait for a slot, behind all that has begun.

One at a time would cost a round of the event loop for each, in which a third of the throughput is lost.
"""


class Admission:
    """Starts new work only while few pieces, or none, wait for a slot or for the budget."""

    def __init__(self, places: Iterator[int], ahead: int) -> None:
        self._places, self._ahead = places, ahead
        self._waiting = 0
        self._is_free = asyncio.Event()
        self._is_free.set()

    async def enter(self) -> Live:
        """Return new work once there is room for it."""
        await self._is_free.wait()
        return Live(self, next(self._places))

    def count(self, change: int) -> None:
        """Note that so many more wait."""
        self._waiting += change
        if self._waiting > self._ahead:
            self._is_free.clear()
        else:
            self._is_free.set()


class Live:
    """Work that has begun; it counts as waiting until its first request has a slot."""

    def __init__(self, admission: Admission, place: int) -> None:
        self._admission = admission
        self.place = place
        """Number of pieces of work begun before it. In the queue for a slot, the oldest goes first."""
        self._is_new = True
        admission.count(1)

    def __enter__(self) -> None:
        """Count as waiting from here on."""
        if self._is_new:
            self._is_new = False
        else:
            self._admission.count(1)

    def __exit__(self, *error: object) -> None:
        self._admission.count(-1)

    def end(self) -> None:
        """Count no longer, where nothing was ever asked."""
        if self._is_new:
            self._is_new = False
            self._admission.count(-1)


class _Stoppable:
    """A call that waits at a desk and can be stopped; a class, as every request enters one."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def __enter__(self) -> None:
        if (reason := self._desk.stopped) is not None:
            raise Stopped(reason)
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._desk.waiting.add(task)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._desk.waiting.discard(self._task)
        if isinstance(error, asyncio.CancelledError) and self._desk.stopped is not None:
            self._task.uncancel()
            raise Stopped(self._desk.stopped) from None


class Desk:
    """Sends the requests of one command within one budget, until it is stopped.

    A `part` of it fails alone; what stops the whole stops its parts.
    """

    def __init__(self, ledger: Ledger, whole: Desk | None = None) -> None:
        self.ledger = ledger
        self.failed: MedhelmError | None = None
        """The reason why this desk was stopped. None where it goes on, or the whole was stopped."""
        self.errors: Counter[str] = Counter()
        """Failed requests, by reason."""
        self.window = 0
        """The largest of the requests that did not fit their model's window, in tokens; 0: none."""
        self.waiting: set[asyncio.Task[Any]] = set()
        """Tasks that wait for a slot or for the budget."""
        self._parts: list[Desk] = []
        self._in_flight: dict[asyncio.Task[Any], Model] = {}
        self._given_up: set[asyncio.Task[Any]] = set()
        """Tasks whose request in flight is not waited for any longer."""
        self._begun = 0
        """Episodes of many calls that are under way."""
        self._whole = whole
        self.places: Iterator[int] = whole.places if whole else count()

    def part(self) -> Desk:
        """Return a desk with the same budget, which may fail without the others."""
        part = Desk(self.ledger, self)
        self._parts.append(part)
        return part

    @property
    def stopped(self) -> MedhelmError | None:
        """Return the reason why no further request is sent. None while the work goes on."""
        return self.failed or (self._whole.stopped if self._whole else None)

    @property
    def _is_begun(self) -> bool:
        """Return whether any episode of the whole work is under way."""
        whole = self._whole or self
        return bool(whole._begun or any(part._begun for part in whole._parts))

    def stop(self, reason: MedhelmError) -> None:
        """Send nothing more; requests in flight may still finish."""
        self.failed = self.failed or reason
        for desk in (self, *self._parts):
            for task in desk.waiting:
                if not task.cancelling():
                    task.cancel()

    def fail(self, reason: MedhelmError, model: Model | None = None) -> None:
        """Stop for a failure of this part of the work.

        Requests in flight to a model that cannot be asked are given up, with None all are; those to
        other models, or to one with several addresses, get some seconds, so that nothing is paid for twice.
        """
        if self.stopped is reason or (model is None and self.failed):
            return
        self.stop(reason)
        if model is None or max(len(model.spec.addresses), model.spec.replicas) < 2:
            self._give_up([t for t, asked in self._in_flight.items() if model in (None, asked)])
        if self._in_flight:
            asyncio.get_running_loop().call_later(GRACE_S, self._give_up, self._in_flight)

    def _give_up(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        for task in tasks:
            if task is not asyncio.current_task() and not task.cancelling():
                self._given_up.add(task)
                task.cancel()

    def stoppable(self) -> _Stoppable:
        """Wait no longer once the work has stopped; raises Stopped."""
        return _Stoppable(self)

    @asynccontextmanager
    async def room(self, usd: float, tokens: int) -> AsyncIterator[None]:
        """Begin an episode once its forecast fits beside what is spent and set aside; hold nothing.

        So a budget that ends leaves few episodes unfinished. Raises Stopped where nothing is under way
        any more and it does not fit.
        """
        with self.stoppable():
            while True:
                try:
                    self.ledger.refuse(usd, tokens)
                    break
                except BudgetReached as e:
                    if not self._is_begun and not self.ledger.may_fit():
                        raise self._out_of_budget(e) from None
                await self.ledger.change()
        self._begun += 1
        try:
            yield
        finally:
            self._begun -= 1
            self.ledger.changed()

    def _out_of_budget(self, reason: BudgetReached) -> Stopped:
        """Stop all work, as its parts share the budget."""
        (self._whole or self).stop(reason)
        return Stopped(reason)

    async def send(
        self, model: Model, request: Request, live: Live | None = None, *, is_rule: bool = False
    ) -> Response:
        """Return what came for a request. A slot is held only while the request is in flight.

        `is_rule`: it is answered here and for nothing, so that it takes no part in a budget.

        The budget is set aside before a slot is waited for, so that nobody waits for money while
        holding one. Raises Stopped where a cap is reached or the work was stopped, and with the
        reason where the endpoint cannot be asked at all (a wrong key, a dead server).
        """
        tokens = 0 if is_rule else request_tokens(request, is_echoed=is_echoed(model.spec))
        limit = 0 if is_rule else request.max_output_tokens
        price = price_of(model.spec)
        reservation: Reservation | None = None
        try:
            with self.stoppable(), live or _NOBODY:
                reservation = await self.ledger.wait(price, tokens, limit)
                await model.acquire(live.place if live else 0)
        except BudgetReached as e:
            raise self._out_of_budget(e) from None
        except BaseException:
            if reservation is not None:
                reservation.cancel()
            raise
        lost = 0
        task = asyncio.current_task()
        assert task is not None
        try:
            if self.stopped is not None:
                raise Stopped(self.stopped)
            lost = 1  # sent, perhaps billed, and not answered where what follows is cancelled
            self._in_flight[task] = model
            response = await model.respond(request)
            reservation.settle_response(response)
            if response.finish == "error":
                self.errors[response.error] += 1
            elif response.finish == "oversize":
                tokens = estimate_tokens(request.messages) + request.max_output_tokens
                self.window = max(self.window, tokens)
        except MedhelmError as e:
            lost = 0
            self.fail(e, model)
            raise Stopped(e) from None
        except asyncio.CancelledError:
            if task not in self._given_up or self.stopped is None:
                raise
            task.uncancel()
            raise Stopped(self.stopped) from None
        finally:
            self._in_flight.pop(task, None)
            self._given_up.discard(task)
            reservation.cancel(lost)  # nothing, where it was settled
            model.release()
        return response

    @contextmanager
    def border(self) -> Iterator[None]:
        """End a task that was stopped. Where its own failure was the reason, all work here stops."""
        try:
            yield
        except BaseException as e:
            stopped = find_stop(e)
            if stopped is None:
                raise
            self.fail(stopped.reason)


def find_stop(error: BaseException) -> Stopped | None:
    """Return what stopped a task, also out of a group of tasks; None for anything else.

    A defect beside a stop is found again when the work goes on.
    """
    if isinstance(error, Stopped):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_stop, error.exceptions)), None)
    return None


_NOBODY = nullcontext()
Start = Callable[[Live], Coroutine[Any, Any, None]]
"""Begins one piece of work, which asks as what it is given."""


async def start_all(
    desk: Desk, work: AsyncIterator[Start], group: asyncio.TaskGroup, ahead: int | None = None
) -> None:
    """Start one piece of work after the other.

    `ahead`: how many may wait for a slot. None: some, but none where a budget may end in the middle
    of work of many calls.
    """
    if ahead is None:
        ahead = 0 if desk.ledger.is_capped else AHEAD
    admission = Admission(desk.places, ahead)
    with desk.border(), desk.stoppable():
        async for start in work:
            live = await admission.enter()
            group.create_task(start(live))


class Sender:
    """Asks for one episode: replays what the log holds, sends the rest and appends it."""

    def __init__(
        self,
        desk: Desk,
        models: Mapping[str, Model],
        episode: OpenEpisode,
        live: Live | None,
        log: RunFolder | None,
        *,
        rules: Collection[str] = (),
        is_brief: bool = False,
    ) -> None:
        """Bind an episode. `is_brief`: the log keeps the hash of what was sent, and not its messages."""
        self._is_brief = is_brief
        self._desk, self._models, self._live, self._rules = desk, models, live, rules
        self._episode, self._log = episode, log
        """`log`: None for an episode of one call, whose line is written when it has ended."""
        self.asked: set[str] = set()
        """Names of the calls that were asked for."""
        self.open: set[asyncio.Task[Any]] = set()
        """Tasks of the protocol that wait for a response."""
        self.is_over = False
        """True if there are no more calls to come."""
        self._idle: asyncio.Future[None] | None = None
        """Done when the last of the calls that a protocol left behind is."""

    async def __call__(
        self, role: str, request: Request, *, step: str, attempt: int = 0
    ) -> Response:
        """Return the response to a call (`protocols.protocol.Send`).

        Raises ValueError where a protocol asks one call twice: each needs a name of its own. Only
        Stopped comes of a log that cannot be written, as no protocol goes on without it.
        """
        if self.is_over:  # asked by a task that its protocol left behind
            raise asyncio.CancelledError
        name = call_name(role, step, attempt)
        if name in self.asked:
            raise ValueError(f"{role} is asked {step!r} (attempt {attempt}) twice in one episode")
        self.asked.add(name)
        sent = "" if self._log is None else request_key(request)
        stored = self._episode.calls.get(name)
        if stored is None or stored.sent != sent or not is_answered(stored.response):
            stored = self._episode.answered(name, sent, request.messages)
            if stored is not None and is_answered(stored.response):
                self._keep(name, stored)
        if stored is not None and is_answered(stored.response) and stored.sent == sent:
            return stored.response
        task = asyncio.current_task()
        assert task is not None
        self.open.add(task)
        try:
            response = await self._desk.send(
                self._models[role], request, self._live, is_rule=role in self._rules
            )
            self._keep(
                name,
                Call(
                    role=role,
                    step=step,
                    attempt=attempt,
                    sent=sent,
                    messages=() if self._is_brief else request.messages,
                    response=response,
                ),
            )
        except MedhelmError as e:  # of the log
            raise Stopped(e) from None
        finally:
            self.open.discard(task)
            if self._idle is not None and not self.open:
                self._idle.set_result(None)
        return response

    def _keep(self, name: str, call: Call) -> None:
        if self._log is None:
            self._episode.calls[name] = call
            return
        self.begin(self._log)
        self._log.append_part(self._episode.called(call))

    def begin(self, log: RunFolder) -> None:
        """Write the episode's first line, where the log does not hold it, and what another log holds."""
        for line in () if self._episode.is_begun else self._episode.begin():
            log.append_part(line)

    async def end(self, *, is_cancelled: bool = False) -> None:
        """Wait for the calls in flight once it is over: what they bring is kept.

        A protocol that fails, or asks for several things at once and is stopped, may leave tasks
        behind. Those that still wait for a slot or for the budget are cancelled; with
        `is_cancelled` all are.
        """
        for task in self.open if is_cancelled else self.open & self._desk.waiting:
            task.cancel()
        if self.open:
            self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)
