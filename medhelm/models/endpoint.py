"""What all models behind a network share: the limiter, the health of a server, the retries."""

from __future__ import annotations

import dataclasses
import random
import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from medhelm.costs import estimate_tokens
from medhelm.errors import ModelError
from medhelm.models.access import Access, explain
from medhelm.models.limits import RETRY_AFTER_CAP_S, AdaptiveLimiter, backoff
from medhelm.models.wire import Answer, Failure
from medhelm.schema import Finish, Model, ModelSpec, Request, Response

FIRST_CONNECT_S = 8.0
FIRST_CONNECT_TRIES = 4
"""A server that never answered is given up after so many tries or so many seconds."""
DEAD_AFTER = 20
"""Failed tries, or given-up requests, in a row after which an endpoint counts as dead."""
PATIENCE_S = 60.0
"""A row of failed tries must last this long, so that a restart of a server is sat out."""
OUTAGE_PAUSE_CAP_S = 10.0
"""The longest pause between two tries while an endpoint is out."""
_BACKOFF_BASE_S = 0.5
_THROTTLE_BASE_S = 1.0


class Host(ABC):
    """What models share that are served by one thing: its places, and how it is closed."""

    limiter: AdaptiveLimiter

    def lower(self, max_concurrency: int) -> None:
        """Keep to a smaller number at once from now on (another model asks for it)."""
        self.limiter.lower(max_concurrency)

    @abstractmethod
    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> Model:
        """Return a model served here; with `owns_host` its `close` closes this."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections, or free the memory."""


class Endpoint(Host):
    """One server and key: the limiter and the health that its models share.

    A provider adds the connections, which it opens with the first request.
    """

    def __init__(self, access: Access, max_concurrency: int) -> None:
        self.access = access
        self.limiter = AdaptiveLimiter(max_concurrency)
        self.fatal = ""
        """Why nothing more is sent, once that is so."""
        self.rng = random.Random()
        self._has_answered = False
        self._first_try: float | None = None
        self._failed_tries = 0
        self._failing_since = 0.0
        self._given_up = 0

    def trying(self) -> None:
        """Note that something is sent."""
        if self._first_try is None:
            self._first_try = time.monotonic()

    def answered(self) -> None:
        """Note that the endpoint works."""
        self._has_answered = True
        self.spoke()
        self.limiter.succeeded()

    def spoke(self) -> None:
        """Note that the endpoint is there, though it did not take this request."""
        self._failed_tries = self._given_up = 0

    def failed(self, failure: Failure, sent_in_round: int, attempt: int, timeout_s: float) -> None:
        """Note a failed try; declare the endpoint dead when nothing else has come for long."""
        self._has_answered |= failure.status is not None
        if failure.wait_s is not None and failure.wait_s <= RETRY_AFTER_CAP_S:
            self.limiter.pause(failure.wait_s)
        outage = self.limiter.failed(sent_in_round, is_load=failure.is_load)
        if outage:
            self.limiter.pause(backoff(outage, self.rng, _BACKOFF_BASE_S, OUTAGE_PAUSE_CAP_S))
        now = time.monotonic()
        if failure.is_unreachable and not self._has_answered:
            waited = now - (self._first_try or now)
            if max(attempt, outage) >= FIRST_CONNECT_TRIES or waited >= FIRST_CONNECT_S:
                self._declare_dead(failure)
        if failure.wait_s is None:
            if self._failed_tries == 0:
                self._failing_since = now
            self._failed_tries += 1
            patience_s = max(PATIENCE_S, 2 * timeout_s) if failure.is_load else PATIENCE_S
            if self._failed_tries >= DEAD_AFTER and now - self._failing_since >= patience_s:
                self._declare_dead(failure)

    def gave_up(self, failure: Failure) -> None:
        """Note a request whose tries all failed; too many in a row, and the endpoint is dead."""
        self._given_up += 1
        if self._given_up >= DEAD_AFTER:
            self._declare_dead(failure)

    def _declare_dead(self, failure: Failure) -> None:
        wait = f", it asks to wait {failure.wait_s:.0f} s" if failure.wait_s else ""
        self.fatal = (
            f"the server at {self.access.host} does not answer ({failure.error}{wait}):"
            " see that it runs and that model.base_url is right, then run the same command again"
        )
        raise ModelError(self.fatal)


_E = TypeVar("_E", bound=Endpoint)
_Sent = TypeVar("_Sent")


class EndpointModel(ABC, Generic[_E, _Sent]):
    """A model behind an endpoint: a provider says how a request is written and sent once."""

    def __init__(self, spec: ModelSpec, endpoint: _E, *, owns_host: bool) -> None:
        self.spec = spec
        self._endpoint = endpoint
        self._owns_host = owns_host
        self._fatal = ""

    @abstractmethod
    def _write(self, request: Request) -> _Sent:
        """Return what is sent; raises UnicodeEncodeError for a prompt with lone surrogates."""

    @abstractmethod
    async def _send(self, sent: _Sent) -> Answer | Failure:
        """Send it once and return what came of it."""

    def _is_cut(self, request: Request, sent: _Sent, answer: Answer) -> bool:
        """Return whether the server read less than was sent, without a word."""
        return False

    async def acquire(self) -> None:
        """Wait for a place among the endpoint's requests in flight."""
        await self._endpoint.limiter.acquire()

    def release(self) -> None:
        """Give the place back."""
        self._endpoint.limiter.release()

    async def respond(self, request: Request) -> Response:
        """Return what came of one request after the endpoint's retries; the caller holds a place.

        Raises `ModelError` where no request of this model or endpoint can succeed.
        """
        early = self._too_long(request)
        if early is not None:
            return early
        try:
            sent = self._write(request)
        except UnicodeEncodeError:
            return unanswered(request, "error", "the prompt is not valid Unicode", 0, 0)
        endpoint, limiter = self._endpoint, self._endpoint.limiter
        attempt = lost = 0
        while True:
            if self._fatal or endpoint.fatal:
                raise ModelError(self._fatal or endpoint.fatal)
            attempt += 1
            sent_in_round, started = limiter.round, time.monotonic()
            endpoint.trying()
            result = await self._send(sent)
            if isinstance(result, Answer):
                endpoint.answered()
                seconds = time.monotonic() - started
                if self._is_cut(request, sent, result):
                    result = dataclasses.replace(
                        result, text="", finish="oversize", error="prompt cut by the server"
                    )
                return _answered(request, result, attempt, lost, seconds)
            lost += result.lost
            if result.kind != "retry":
                return self._refused(request, result, attempt, lost)
            endpoint.failed(result, sent_in_round, attempt, self.spec.timeout_s)
            wait_s = result.wait_s or 0.0
            if attempt >= self.spec.max_attempts or wait_s > RETRY_AFTER_CAP_S:
                endpoint.gave_up(result)
                error = result.error + (f", retry after {wait_s:.0f} s" if wait_s else "")
                return unanswered(request, "error", error, attempt, lost)
            base_s = _THROTTLE_BASE_S if result.status == 429 and not wait_s else _BACKOFF_BASE_S
            await limiter.back_off(wait_s + backoff(attempt, endpoint.rng, base_s))

    async def close(self) -> None:
        """Close the connections, unless other models of a pool share them."""
        if self._owns_host:
            await self._endpoint.close()

    def _too_long(self, request: Request) -> Response | None:
        window = self.spec.context_window
        if window is None:
            return None
        tokens = estimate_tokens(request.messages)
        if tokens + request.max_output_tokens <= window:
            return None
        error = (
            f"about {tokens} tokens of prompt and {request.max_output_tokens} of answer"
            f" exceed the window of {window}"
        )
        return unanswered(request, "oversize", error, 0, 0)

    def _refused(self, request: Request, failure: Failure, attempts: int, lost: int) -> Response:
        endpoint = self._endpoint
        if failure.kind == "endpoint":
            endpoint.fatal = explain(self.spec, endpoint.access, failure)
            raise ModelError(endpoint.fatal)
        if failure.kind == "model":
            self._fatal = explain(self.spec, endpoint.access, failure)
            raise ModelError(self._fatal)
        endpoint.spoke()
        finish: Finish = "error"
        if failure.kind == "oversize" or failure.kind == "refusal":
            finish = failure.kind
        return unanswered(request, finish, failure.error, attempts, lost)


def unanswered(request: Request, finish: Finish, error: str, attempts: int, lost: int) -> Response:
    """Return the response of a request that has no answer."""
    return Response(
        instance_id=request.instance_id,
        repeat=request.repeat,
        finish=finish,
        error=error,
        attempts=attempts,
        lost=lost,
        finished_at=time.time(),
    )


def _answered(
    request: Request, answer: Answer, attempts: int, lost: int, seconds: float
) -> Response:
    return Response(
        instance_id=request.instance_id,
        repeat=request.repeat,
        text=answer.text,
        finish=answer.finish,
        error=answer.error,
        usage=answer.usage,
        attempts=attempts,
        lost=lost,
        latency_s=seconds,
        served_model=answer.model,
        fingerprint=answer.fingerprint,
        finished_at=time.time(),
    )
