"""Requests that go to a service in batches: collected, submitted once, waited for, and fetched.

A request waits as for any answer. What may be at the service is written down before it is submitted, so
that the same command, killed at any moment and started again, waits for that and asks only for the rest.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from medhelm.errors import MedhelmError, ModelError, RecordError, UsageError
from medhelm.files.durable import make_private, why, write_whole
from medhelm.models.access import explain
from medhelm.models.batch_services import BatchJob, BatchState, CallFailed, open_service
from medhelm.models.codecs.batch_lines import CANCELLED, EXPIRED
from medhelm.models.codecs.wire import Answer, Failure, rate_candidates
from medhelm.models.endpoint import answered, unanswered
from medhelm.models.http_endpoint import HttpEndpoint, HttpModel
from medhelm.models.pacing.limits import backoff
from medhelm.schema.episode import Request, Response
from medhelm.schema.model import ModelSpec

MOST_REQUESTS, MOST_BYTES = 50_000, 100_000_000
"""The most that a batch holds: the least of what the services allow."""
QUIET_S = 5.0
"""Seconds without a further request after which a batch is submitted."""
SETTLE_S = 10.0
"""Seconds after which a batch is looked for once more that the service does not list."""
POLL_S = (5.0, 60.0)
"""The first and the longest pause between two looks at a batch."""
PATIENCE_S = 3600.0
"""Seconds of nothing but failures after which a service that has answered is given up."""
_TOO_MANY = "token_limit_exceeded"
"""The code of a batch that would make more tokens wait than the account may have waiting."""
_YIELD_EVERY = 64

_T = TypeVar("_T")


class Came(NamedTuple):
    """What came of one request in a batch."""

    result: Answer | Failure | None
    """None: nothing was sent."""
    is_old: bool
    """True if an earlier command had submitted it."""


@dataclass
class _Batch:
    """A batch, and who waits for which of its results."""

    job: BatchJob
    is_old: bool
    waiting: dict[str, asyncio.Future[Came]] = field(default_factory=dict)
    free: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Ids of requests that nobody waits for yet, by what is asked."""
    results: dict[str, Answer | Failure] | None = None
    """Results that nobody has waited for yet; None: nothing was fetched."""
    missing: Failure = EXPIRED
    given: int = 0
    task: asyncio.Task[None] | None = None

    def give(self, custom_id: str, result: Answer | Failure | None) -> None:
        """Hand a result to who waits for it, or keep it."""
        future = self.waiting.pop(custom_id, None)
        if future is not None and not future.done():
            future.set_result(Came(result, self.is_old))
            self.given += 1
        elif result is not None and self.results is not None:
            self.results[custom_id] = result


class Batches:
    """The batches of one model of a run: what is being collected, and what is at the service."""

    def __init__(
        self, endpoint: HttpEndpoint, spec: ModelSpec, folder: Path, *, is_again: bool
    ) -> None:
        self._endpoint, self._spec, self._folder = endpoint, spec, folder
        self._is_again = is_again
        self._service = open_service(endpoint, spec, folder)
        self.room = asyncio.Semaphore(spec.max_concurrency or MOST_REQUESTS)
        self._most = MOST_REQUESTS
        self._is_single = False
        """True if the service takes one batch at a time."""
        self._batches = [*self._stored()]
        self._is_ending = self._has_failed = self._has_answered = False
        endpoint.when_ending.append(self.end)
        self._asked_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._begin()

    @property
    def is_idle(self) -> bool:
        """Return whether nobody waits for anything at the service."""
        return not any(batch.job.batch and batch.waiting for batch in self._batches)

    def ask(self, request: Request, body: bytes) -> asyncio.Future[Came]:
        """Return what will come of a request: from a batch that holds it already, else from a new one."""
        asked = (self._endpoint.access.url, request.instance_id, str(request.repeat))
        digest = hashlib.blake2b("\0".join(asked).encode(), digest_size=16)
        digest.update(body)
        key = digest.hexdigest()
        future: asyncio.Future[Came] = asyncio.get_running_loop().create_future()
        if self._is_ending:
            future.cancel()
            return future
        for batch in self._batches:
            if batch.free.get(key):
                self._wait_for(batch, batch.free[key].pop(0), future)
                return future
        custom_id = f"{key}-{self._name}-{len(self._collected)}"
        line = self._service.form.line(custom_id, self._service.path, body) + b"\n"
        if self._collected and self._size + len(line) > MOST_BYTES:
            self._submit()
            return self.ask(request, body)
        if self._lines is None:
            self._lines = self._file()
        self._lines.write(line)
        self._size += len(line)
        self._collected[custom_id] = future
        if len(self._collected) >= self._most:
            self._submit()
        else:
            self._submit_soon()
        return future

    def end(self) -> None:
        """Submit nothing more and wait for nothing; what is at the service stays there."""
        if not self._is_ending and (n := sum(len(b.waiting) for b in self._batches)):
            self._endpoint.say(
                f"{n:,} request(s) are in batches at {self._endpoint.access.host}, which goes on with them; "
                "the same command fetches their answers"
            )
        self._is_ending = True
        for futures in (self._collected, *(batch.waiting for batch in self._batches)):
            for future in futures.values():
                future.cancel()

    async def close(self, *, is_done: bool, is_whole: bool) -> None:
        """Wait no longer. Where all was answered, forget the batches whose answers are all taken.

        `is_whole`: no other command can want what is left of them.
        """
        self._is_ending = True
        if self._timer is not None:
            self._timer.cancel()
        if self._lines is not None:
            self._lines.close()
        tasks = [batch.task for batch in self._batches if batch.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._endpoint.when_ending.remove(self.end)
        for batch in self._batches if is_done and not self._has_failed else ():
            if is_whole or self._is_again or batch.given == len(batch.job.ids):
                self._forget(batch.job)
        with suppress(OSError):  # it is not there, or some are left
            self._folder.rmdir()

    def _stored(self) -> Iterator[_Batch]:
        """Yield the batches that an earlier command has submitted, or was about to."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                job = msgspec.json.decode(path.read_bytes(), type=BatchJob)
            except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                raise RecordError(
                    f"{path} says which batch was submitted, and cannot be read: restore it, or remove "
                    "it to ask and pay for its requests again"
                ) from None
            if (job.url, job.model) != (self._endpoint.access.url, self._spec.model):
                continue
            if self._is_again and not job.is_again:
                raise UsageError(
                    f"answers that were asked for in batches are not all fetched ({path}): run it once "
                    "without asking again, and with all its instances"
                )
            if job.is_again == self._is_again:
                batch = _Batch(job, is_old=True)
                for custom_id in job.ids:
                    batch.free[custom_id.partition("-")[0]].append(custom_id)
                yield batch

    def _wait_for(self, batch: _Batch, custom_id: str, future: asyncio.Future[Came]) -> None:
        """Let a request wait for its result in a batch of an earlier command."""
        batch.waiting[custom_id] = future
        if batch.results is not None:
            batch.give(custom_id, batch.results.pop(custom_id, batch.missing))
        elif batch.task is None:
            batch.task = asyncio.create_task(self._guarded(batch, self._resume(batch)))

    def _begin(self) -> None:
        """Begin to collect a batch."""
        self._name = secrets.token_hex(6)
        self._collected: dict[str, asyncio.Future[Came]] = {}
        self._size = 0
        self._lines: BinaryIO | None = None

    def _file(self) -> BinaryIO:
        """Return a file beside the batches that leaves nothing behind; raises RecordError."""
        try:
            make_private(self._folder)
            return TemporaryFile(dir=self._folder)
        except OSError as e:
            raise RecordError(f"cannot write {self._folder}: {why(e)}") from None

    def _submit_soon(self) -> None:
        loop = asyncio.get_running_loop()
        self._asked_at = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(QUIET_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if (rest_s := self._asked_at + QUIET_S - loop.time()) > 0:
            self._timer = loop.call_later(rest_s, self._on_timer)
        else:
            self._submit()

    def _submit(self) -> None:
        """Submit what is collected, and begin to collect anew."""
        if self._is_ending or self._lines is None:
            return
        job = BatchJob(
            name=self._name,
            url=self._endpoint.access.url,
            model=self._spec.model,
            is_again=self._is_again,
            since=time.time(),
            ids=tuple(self._collected),
        )
        batch = _Batch(job, is_old=False, waiting=self._collected)
        batch.task = asyncio.create_task(self._guarded(batch, self._send(batch, self._lines)))
        self._batches.append(batch)
        self._begin()

    async def _guarded(self, batch: _Batch, work: Awaitable[None]) -> None:
        """Let nobody wait for a batch that has failed."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._has_failed = True
            for future in batch.waiting.values():
                if not future.done():
                    future.set_exception(error)
            batch.waiting.clear()

    async def _send(self, batch: _Batch, lines: BinaryIO) -> None:
        with lines:
            job, n = batch.job, len(batch.job.ids)
            before = self._batches[: self._batches.index(batch)]
            while self._is_single and any(earlier.waiting for earlier in before):
                await asyncio.sleep(QUIET_S)
            file = await self._tried(lambda: self._service.upload(job.name, lines))
            if self._is_ending:
                return
            batch.job = replace(job, file=file)
            await asyncio.to_thread(self._write, batch.job)
            batch.job = replace(batch.job, batch=await self._create(batch.job, lines))
        await asyncio.to_thread(self._write, batch.job)
        self._endpoint.say(
            f"{self._spec.name}: batch {batch.job.batch} with {n:,} request(s) is submitted and may take a "
            "day; this command may be stopped, and started again, at any time"
        )
        await self._fetch(batch)

    async def _resume(self, batch: _Batch) -> None:
        job = batch.job
        if not job.batch:
            job = batch.job = replace(job, batch=await self._find(job))
            if not job.batch:
                self._drop(batch)
                return
            await asyncio.to_thread(self._write, job)
        self._endpoint.say(f"{self._spec.name}: waiting for batch {job.batch}")
        await self._fetch(batch)

    async def _create(self, job: BatchJob, lines: BinaryIO) -> str:
        """Submit a batch once: where no answer came, it is looked for before it is submitted again."""
        for attempt in count(1):
            try:
                return await self._service.create(job, lines)
            except CallFailed as e:
                failed = e
            if failed.is_unsure and (batch := await self._find(job)):
                return batch
            is_last = (
                attempt >= self._spec.max_attempts and self.is_idle
            )  # else one that ends makes room
            if is_last or not (failed.is_unsure or failed.failure.kind == "retry"):
                if not failed.is_unsure:
                    self._forget(job)
                raise self._refusal(failed.failure)
            await self._pause(failed.failure, attempt)
        raise AssertionError

    async def _find(self, job: BatchJob) -> str:
        """Return the service's name of a batch that may have been submitted; empty: it was not."""
        tried: set[str] = {batch.job.batch for batch in self._batches}
        for is_second in (False, True):
            if is_second:
                await asyncio.sleep(SETTLE_S)
            for said in await self._tried(self._listed):
                owns, state = self._service.owns(job, said), self._service.read(said)
                if owns:
                    return state.batch
                if owns is None and state.batch not in tried:
                    tried.add(state.batch)
                    self._endpoint.say(
                        f"{self._spec.name}: batch {state.batch} may be one that was submitted before a "
                        "stop; its results will tell"
                    )
                    if await self._is_of(job, await self._ended(state.batch)):
                        return state.batch
        return ""

    async def _listed(self) -> list[dict[str, object]]:
        return [dict(said) async for said in self._service.listed()]

    async def _is_of(self, job: BatchJob, state: BatchState) -> bool:
        """Return whether the results of a batch are those of a job, by the id of one."""
        with self._file() as file:
            for path in state.results:
                await self._download(path, file)
                for line in file:
                    custom_id, _ = self._service.form.read(self._spec, self._endpoint.codec, line)
                    return job.name in custom_id
        return False

    async def _ended(self, batch: str) -> BatchState:
        """Return the state of a batch once it has ended."""
        pause_s, longest_s = POLL_S
        while not (state := await self._tried(lambda: self._service.look(batch))).is_ended:
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, longest_s)
        return state

    async def _fetch(self, batch: _Batch) -> None:
        """Wait for a batch and hand its results out, in whatever order they are."""
        state = await self._ended(batch.job.batch)
        if state.status == "failed" and not state.results:
            self._end_failed(batch, state)
            return
        batch.missing = CANCELLED if state.status in ("cancelled", "canceled") else EXPIRED
        batch.results = {}
        known = set(batch.job.ids)
        with self._file() as file:
            for path in state.results:
                await self._download(path, file)
                for n, line in enumerate(file):
                    if n % _YIELD_EVERY == 0:
                        await asyncio.sleep(0)
                    read = self._service.form.read(self._spec, self._endpoint.codec, line)
                    if read[0] in known:  # of a line that comes twice the first counts
                        known.remove(read[0])
                        batch.give(*read)
        for custom_id in [*batch.waiting]:
            batch.give(custom_id, batch.missing)

    def _end_failed(self, batch: _Batch, state: BatchState) -> None:
        """Ask anew, in smaller batches, where too much waits at the service; else raise the reason."""
        n = len(batch.job.ids)
        others = any(b.job.batch and b.waiting for b in self._batches if b is not batch)
        if batch.is_old or (state.code == _TOO_MANY and (n > 1 or others)):
            if not batch.is_old:
                self._is_single, self._most = True, max(1, n // 2)
            self._drop(batch)
            return
        self._forget(batch.job)
        raise self._refusal(Failure("error", "batch failed", code=state.code, words=state.words))

    def _drop(self, batch: _Batch) -> None:
        """Let the requests of a batch of which nothing was answered be asked anew."""
        self._forget(batch.job)
        batch.free.clear()
        self._batches.remove(batch)
        for custom_id in [*batch.waiting]:
            batch.give(custom_id, None)

    async def _download(self, path: str, file: BinaryIO) -> None:
        await self._tried(lambda: self._service.fetch(path, file))
        file.seek(0)

    async def _tried(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Return what a call returns that may be made again; raises ModelError where it cannot succeed."""
        began = time.monotonic()
        for attempt in count(1):
            try:
                found = await call()
            except CallFailed as e:
                waited_s = time.monotonic() - began
                is_last = attempt >= self._spec.max_attempts and not (
                    self._has_answered and waited_s < PATIENCE_S
                )
                if e.failure.kind != "retry" or is_last:
                    raise self._refusal(e.failure) from None
                await self._pause(e.failure, attempt)
            else:
                self._has_answered = True
                return found
        raise AssertionError

    async def _pause(self, failure: Failure, attempt: int) -> None:
        wait_s = backoff(min(attempt, 10), self._endpoint.rng)
        await asyncio.sleep(failure.wait_s if failure.wait_s is not None else wait_s)

    def _refusal(self, failure: Failure) -> MedhelmError:
        """Return why no batch of the model can be submitted or fetched."""
        self._endpoint.heard(self._spec, failure)
        if failure.status in (404, 405):
            return ModelError(
                f"{self._endpoint.access.host} takes no batches of model {self._spec.name!r}, or not in this "
                f"form ({failure.error}): leave batch=true out; for Anthropic set model.provider=anthropic"
            )
        if failure.kind in ("endpoint", "model"):
            return ModelError(explain(self._spec, self._endpoint.access, failure))
        what = f"{failure.error} {failure.code}".strip()
        return ModelError(
            f"{self._endpoint.access.host} does not take or return batches of model {self._spec.name!r} "
            f"({what}): run the same command again, it goes on where it was"
        )

    def _write(self, job: BatchJob) -> None:
        write_whole(self._folder / f"{job.name}.json", msgspec.json.encode(job))

    def _forget(self, job: BatchJob) -> None:
        (self._folder / f"{job.name}.json").unlink(missing_ok=True)


class BatchModel(HttpModel):
    """A model whose requests go into batches."""

    def __init__(self, spec: ModelSpec, batches: Batches, endpoint: HttpEndpoint) -> None:
        super().__init__(spec, endpoint, owns_host=False)
        self._batches = batches

    async def acquire(self, place: int = 0) -> None:
        """Wait for room among the requests that are held at once."""
        await self._batches.room.acquire()

    def release(self) -> None:
        """Give the room back."""
        self._batches.room.release()

    async def respond(self, request: Request) -> Response:
        """Return what came of one request; one that was not answered goes into another batch."""
        early = self._too_long(request)
        if early is not None:
            return early
        attempt = lost = 0
        while True:
            if self._fatal:
                raise ModelError(self._fatal)
            try:
                coming = self._batches.ask(request, self.write(request))
            except UnicodeEncodeError:
                return unanswered(request, "error", "the prompt is not valid Unicode", 0, 0)
            result, is_old = await coming
            if result is None:
                continue
            if request.candidates and isinstance(result, Answer):
                result = rate_candidates(request, result, gave_some=self._gave_likelihoods)
            if isinstance(result, Answer):
                self._gave_likelihoods |= bool(result.likelihoods)
                result = self._believed(request, self.write(request), result)
                response = answered(request, result, attempt + 1, lost, 0.0)
                return replace(response, price_class="batch")
            if is_old:  # what failed then is asked anew, as after any failure
                continue
            attempt += 1
            lost += result.lost
            self.endpoint.heard(self.spec, result)
            if result.kind in ("endpoint", "model"):
                self._fatal = explain(self.spec, self.endpoint.access, result)
            elif result.kind != "retry" or attempt >= self.spec.max_attempts:
                error = " ".join(filter(None, (result.error, result.code)))
                kind = result.kind if result.kind in ("oversize", "refusal") else "error"
                return unanswered(request, kind, error, attempt, lost)
