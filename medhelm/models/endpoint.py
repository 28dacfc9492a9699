"""Share the limiter, the health of a server and the retries among all networked models."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from medhelm.errors import ModelError
from medhelm.models.access import explain
from medhelm.models.codecs.wire import Answer, Failure, rate_candidates
from medhelm.models.hosts import Access, Host, ServerMessage
from medhelm.models.identity import endpoint_of, is_echoed
from medhelm.models.pacing.limits import (
    CEILING,
    RETRY_AFTER_CAP_S,
    AdaptiveLimiter,
    Sent,
    SlotQueue,
    backoff,
)
from medhelm.models.tokens import estimate_tokens, request_tokens
from medhelm.schema.episode import Finish, Message, Request, Response, Usage
from medhelm.schema.model import ModelSpec

FIRST_CONNECT_S = 8.0
FIRST_CONNECT_TRIES = 4
"""A server that never answered is given up after so many tries or so many seconds."""
DEAD_AFTER = 20
"""Failed tries, or given-up requests, in a row after which an endpoint counts as dead."""
PATIENCE_S = 60.0
"""A row of failed tries must last this long, so that a restart of a server is sat out."""
OUTAGE_PAUSE_CAP_S = 10.0
"""The longest pause between two tries while an endpoint is out."""
AGAIN_AFTER_S = 30.0
"""Seconds until an address is tried again that counts as dead, while others of its model answer."""
_BACKOFF_BASE_S = 0.5
_THROTTLE_BASE_S = 1.0
_JITTER_S, _JITTER = 0.05, 0.1
"""Requests with the same Retry-After are spread over so many seconds, and over that part of it."""
_BYTES_PER_TOKEN = 12
_CUT_FROM_BYTES = 4000
_TIMES, _BESIDE = 4, 4096
"""A count may be so many times what is expected, and so many tokens more."""
_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)


class Endpoint(Host):
    """One server and key: the limiter and the health that its models share.

    A provider adds the connections, which it opens with the first request.
    """

    def __init__(self, access: Access, max_concurrency: int | None) -> None:
        self.access = access
        self.limiter = AdaptiveLimiter(max_concurrency or CEILING)
        self.rng = random.Random()
        self._server_messages: dict[tuple[str, str], ServerMessage] = {}
        self._has_answered = False
        self._first_try: float | None = None
        self._failed_tries = 0
        self._failing_since = 0.0
        self._given_up = 0
        self._is_left_out = False
        """True if it was said that its calls go to other addresses."""

    def trying(self) -> Sent:
        """Note that something is sent."""
        sent = self.limiter.sent()
        if self._first_try is None:
            self._first_try = sent.at
        return sent

    def answered(self, sent: Sent) -> None:
        """Note that the endpoint works."""
        self._has_answered = True
        self._failed_tries = self._given_up = 0
        self.limiter.answered(sent)
        if self._is_left_out:
            self._is_left_out = False
            self.say(f"{self.access.host} answers again")

    def spoke(self, sent: Sent) -> None:
        """Note that the endpoint is there, though it did not take this request."""
        self._failed_tries = self._given_up = 0
        self.limiter.ended(sent)

    def failed(self, failure: Failure, sent: Sent, attempt: int, timeout_s: float) -> None:
        """Note a failed try; declare the endpoint dead when nothing else has come for long."""
        self._has_answered |= failure.status is not None
        outage = 0
        if failure.is_refusal:
            wait_s = failure.wait_s
            is_bearable = wait_s is not None and wait_s <= RETRY_AFTER_CAP_S
            self.limiter.refused(sent, wait_s if is_bearable else None)
        else:
            outage = self.limiter.failed(sent, is_timeout=failure.is_timeout)
        if outage:
            self.limiter.pause(backoff(outage, self.rng, _BACKOFF_BASE_S, OUTAGE_PAUSE_CAP_S))
        if len(self.limiter.queues) > 1 and self.limiter.is_out and not self._is_left_out:
            self._is_left_out = True
            self.say(
                f"{self.access.host} does not answer ({failure.error}): others are asked meanwhile"
            )
        now = asyncio.get_running_loop().time()
        if failure.is_unreachable and not self._has_answered:
            waited = now - (self._first_try or now)
            if max(attempt, outage) >= FIRST_CONNECT_TRIES or waited >= FIRST_CONNECT_S:
                self._declare_dead(failure)
        if failure.wait_s is None:
            if self._failed_tries == 0:
                self._failing_since = now
            self._failed_tries += 1
            is_load = failure.is_refusal or failure.is_timeout
            patience_s = max(PATIENCE_S, 2 * timeout_s) if is_load else PATIENCE_S
            if self._failed_tries >= DEAD_AFTER and now - self._failing_since >= patience_s:
                self._declare_dead(failure)

    def heard(self, spec: ModelSpec, failure: Failure) -> None:
        """Keep the server's words of the first request that failed so; its key is taken out."""
        if words := self.words_of(failure):
            error = f"{failure.error} {failure.code}".strip()
            self._server_messages.setdefault((spec.name, error), ServerMessage(spec, error, words))

    def secrets(self) -> Iterable[str]:
        """Return what no printed text may show."""
        return self.access.secrets

    def words_of(self, failure: Failure) -> str:
        """Return the server's words as one line that a terminal can show, without the key."""
        words = failure.words
        for secret in self.secrets():
            words = words.replace(secret, "***")
        return " ".join("".join(c if c.isprintable() else " " for c in words).split())

    def server_messages(self) -> Sequence[ServerMessage]:
        """Return the words of the server, first of each model and kind of failure."""
        return (*self._server_messages.values(),)

    def next_try_s(self, failure: Failure, attempt: int, wait_s: float) -> float:
        """Return the wait of a request for its next try: the server's time, with jitter."""
        if wait_s:
            return wait_s + self.rng.uniform(0.0, _JITTER_S + _JITTER * wait_s)
        base_s = _THROTTLE_BASE_S if failure.is_refusal else _BACKOFF_BASE_S
        return backoff(attempt, self.rng, base_s)

    def gave_up(self, failure: Failure) -> None:
        """Note a request whose tries all failed; too many in a row, and the endpoint is dead."""
        self._given_up += 1
        if self._given_up >= DEAD_AFTER:
            self._declare_dead(failure)

    def _declare_dead(self, failure: Failure) -> None:
        self.limiter.is_dead = True
        wait = f", it asks to wait {failure.wait_s:.0f} s" if failure.wait_s else ""
        self.fatal = (
            f"the server at {self.access.host} does not answer ({failure.error}{wait}):"
            " see that it runs and that model.base_url is right, then run the same command again"
        )
        raise ModelError(self.fatal)


_E = TypeVar("_E", bound=Endpoint)
_Sent = TypeVar("_Sent")


class EndpointModel(ABC, Generic[_E, _Sent]):
    """A model behind an endpoint: a provider brings how a request is written and sent once.

    One with several addresses has an endpoint at each, and one queue for all. A try that failed may
    be followed by one at another address.
    """

    def __init__(self, spec: ModelSpec, endpoint: _E, *, owns_host: bool) -> None:
        self.spec = spec
        self.endpoint = endpoint
        self._owns_host, self._address = owns_host, endpoint_of(spec)
        self._fatal = ""
        self._gave_likelihoods = False
        self._ways: dict[AdaptiveLimiter, EndpointModel[Any, _Sent]] = {endpoint.limiter: self}
        self._queue = endpoint.limiter.queues[0]
        self._slots: deque[EndpointModel[Any, _Sent]] = deque()
        """Slots that no request in flight holds. One is as good as another."""

    def join(self, spec: ModelSpec, others: Iterable[EndpointModel[Any, _Sent]]) -> None:
        """Be the model of a spec with several addresses: `others` are the same at the other ones."""
        self.spec = spec
        self._ways |= {way.endpoint.limiter: way for way in others}
        limiters = tuple(self._ways)
        known = (queue for queue in limiters[0].queues if queue.limiters == limiters)
        self._queue = next(known, None) or SlotQueue(*limiters)

    @abstractmethod
    def write(self, request: Request) -> _Sent:
        """Return what is sent; raises UnicodeEncodeError for a prompt with lone surrogates."""

    @abstractmethod
    async def send(self, sent: _Sent) -> Answer | Failure:
        """Send it once and return what came of it."""

    def is_cut(self, request: Request, sent: _Sent, answer: Answer) -> bool:
        """Return whether the server read less than was sent, without a word."""
        return False

    async def acquire(self, place: int = 0) -> None:
        """Wait for a slot among the endpoint's requests in flight, at the least busy address."""
        self._slots.append(self._ways[await self._queue.acquire(place)])

    def release(self) -> None:
        """Give the slot back."""
        self._slots.pop().endpoint.limiter.release()

    async def respond(self, request: Request) -> Response:
        """Return what came of one request after the endpoint's retries. The caller holds a slot.

        Raises `ModelError` where no request of this model or endpoint can succeed.
        """
        early = self._too_long(request)
        if early is not None:
            return early
        try:
            sent = self.write(request)
        except UnicodeEncodeError:
            return unanswered(request, "error", "the prompt is not valid Unicode", 0, 0)
        way = self._slots.popleft()
        attempt = lost = 0
        try:
            while True:
                endpoint = way.endpoint
                if self._fatal or (endpoint.fatal and not self._leave_out(endpoint)):
                    raise ModelError(self._fatal or endpoint.fatal)
                attempt += 1
                stamp = endpoint.trying()
                result = await way.send(sent)
                if request.candidates and isinstance(result, Answer):
                    result = rate_candidates(request, result, gave_some=self._gave_likelihoods)
                if isinstance(result, Answer):
                    self._gave_likelihoods |= bool(result.likelihoods)
                    endpoint.answered(stamp)
                    seconds = asyncio.get_running_loop().time() - stamp.at
                    result = self._believed(request, sent, result)
                    response = request.reply(
                        text=result.text,
                        finish=result.finish,
                        error=result.error,
                        usage=result.usage,
                        attempts=attempt,
                        lost=lost,
                        latency_s=seconds,
                        served_model=result.model,
                        fingerprint=result.fingerprint,
                        likelihoods=result.likelihoods,
                    )
                    if len(self._ways) > 1:
                        response = replace(response, address=way._address)
                    return response
                lost += result.lost
                endpoint.heard(self.spec, result)
                if result.kind != "retry":
                    finish = self._refused(endpoint, result, stamp)
                    error = " ".join(filter(None, (result.error, result.code)))
                    return unanswered(request, finish, error, attempt, lost)
                rest_s = self._failed(endpoint, result, stamp, attempt)
                if rest_s is None:
                    wait = f", retry after {result.wait_s:.0f} s" if result.wait_s else ""
                    return unanswered(request, "error", result.error + wait, attempt, lost)
                way = self._ways[await self._queue.back_off(endpoint.limiter, rest_s)]
        finally:
            self._slots.append(way)

    async def close(self) -> None:
        """Close the connections, unless other models of a pool share them."""
        for way in self._ways.values() if self._owns_host else ():
            await way.endpoint.close()

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

    def _believed(self, request: Request, sent: _Sent, answer: Answer) -> Answer:
        """Return an answer with the usage that can be, without its text where the prompt was cut."""
        most = max(request.max_output_tokens, len(answer.text))
        sent_tokens = request_tokens(request, is_echoed=is_echoed(self.spec))
        usage = believable(answer.usage, sent_tokens, most)
        answer = dataclasses.replace(answer, usage=usage)
        if not self.is_cut(request, sent, answer):
            return answer
        error = "prompt cut by the server"
        return dataclasses.replace(answer, text="", finish="oversize", error=error)

    def _failed(self, at: Endpoint, failure: Failure, sent: Sent, attempt: int) -> float | None:
        """Return the seconds until the next try, wherever it is made; None where there is none."""
        others = (limiter for limiter in self._ways if limiter is not at.limiter)
        is_open_elsewhere = any(limiter.is_open for limiter in others)
        wait_s = 0.0 if is_open_elsewhere else failure.wait_s or 0.0
        is_last = attempt >= self.spec.max_attempts or wait_s > RETRY_AFTER_CAP_S
        try:
            at.failed(failure, sent, attempt, self.spec.timeout_s)
            if is_last:
                at.gave_up(failure)
        except ModelError:
            if not self._leave_out(at):
                raise
        return None if is_last else at.next_try_s(failure, attempt, wait_s)

    def _leave_out(self, endpoint: Endpoint) -> bool:
        """Ask a dead address nothing for a while; False where it is not that, or all are dead."""
        if not endpoint.limiter.is_dead or all(limiter.is_dead for limiter in self._ways):
            return False
        endpoint.fatal = ""
        endpoint.limiter.pause(AGAIN_AFTER_S)
        return True

    def _refused(self, endpoint: Endpoint, failure: Failure, sent: Sent) -> Finish:
        """Return how a request ends that is not tried again; raises ModelError where none can succeed."""
        if failure.kind == "endpoint":
            endpoint.limiter.is_dead = False  # it says why, and asking elsewhere would hide it
            endpoint.fatal = explain(self.spec, endpoint.access, failure)
            raise ModelError(endpoint.fatal)
        if failure.kind == "model":
            self._fatal = explain(self.spec, endpoint.access, failure)
            raise ModelError(self._fatal)
        endpoint.spoke(sent)
        return failure.kind if failure.kind in ("oversize", "refusal") else "error"


def unanswered(request: Request, finish: Finish, error: str, attempts: int, lost: int) -> Response:
    """Return the response of a request that has no answer."""
    return request.reply(finish=finish, error=error, attempts=attempts, lost=lost)


def believable(usage: Usage, input_tokens: int, output_tokens: int) -> Usage:
    """Return a usage without the counts that cannot be, which are unknown as if they were missing.

    `input_tokens` is the estimate of what was sent, `output_tokens` the most that was asked for. Real
    counts exceed them: tokenizers differ, servers add templates and prompts, some count thoughts
    beyond the limit.
    """

    def known(count: int | None, expected: float) -> int | None:
        return count if count is not None and count <= expected else None

    read = known(usage.input_tokens, _TIMES * input_tokens + _BESIDE)
    written = known(usage.output_tokens, _TIMES * output_tokens + _BESIDE)
    cached = usage.cached_tokens
    if read is not None and cached is not None and cached > read:
        read = None  # one of the two is wrong
    return Usage(
        input_tokens=read,
        cached_tokens=known(cached, -1 if read is None else read),
        output_tokens=written,
        reasoning_tokens=known(usage.reasoning_tokens, -1 if written is None else written),
    )


def is_cut(messages: Sequence[Message], body_bytes: int, usage: Usage, window: int | None) -> bool:
    """Return whether the server read clearly less than was sent, as Ollama does without a word.

    Either it reports a prompt as large as the whole declared window, which leaves no room for
    an answer; or more than 12 bytes of text per token. Real text has 2 to 5 (clinical English
    4.2 to 4.7, at most 7 for other languages), and runs of one character, which one token can
    cover, are squeezed before counting. Prompts below 4,000 bytes fit every window.
    """
    tokens = usage.input_tokens
    if tokens is None:
        return False
    if window is not None and tokens >= window:
        return True
    if body_bytes <= max(_CUT_FROM_BYTES, _BYTES_PER_TOKEN * tokens):
        return False
    squeezed = sum(len(_RUN.sub(r"\1\1\1", m.content).encode()) for m in messages)
    return squeezed > max(_CUT_FROM_BYTES, _BYTES_PER_TOKEN * tokens)
