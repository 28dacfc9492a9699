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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, TypeVar

import msgspec
from msgspec.structs import replace

from medhelm.errors import ModelError, RecordError
from medhelm.files.durable import make_private, os_errors_as, write_whole
from medhelm.models.access import explain
from medhelm.models.batch_services import ENDED, BatchJob, BatchState, ServiceError, open_service
from medhelm.models.codecs.batch_lines import CANCELLED, EXPIRED, read_line
from medhelm.models.codecs.wire import Answer, Failure
from medhelm.models.endpoint import EndpointModel
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
PATIENCE = 100
"""Failures in a row, in an hour or so, after which a service that has answered is given up."""
_T = TypeVar("_T")
_Came = Answer | Failure | None
"""The result of a request; None: it is to be asked anew."""


@dataclass
class _Batch:
    """A batch, and who waits for which of its results."""

    job: BatchJob
    is_old: bool
    """True if an earlier command has submitted it, or was about to."""
    waiting: dict[str, asyncio.Future[_Came]] = field(default_factory=dict)
    free: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Ids that nobody waits for yet, by what is asked."""
    results: dict[str, _Came] | None = None
    """Results that nobody has waited for; None: they are not fetched."""
    task: asyncio.Task[None] | None = None

    def give(self, custom_id: str, came: _Came) -> None:
        """Hand a result to who waits for it, or keep it; what failed in an earlier command is asked anew."""
        if self.is_old and isinstance(came, Failure):
            came = None
        future = self.waiting.pop(custom_id, None)
        if future is None and self.results is not None:
            self.results[custom_id] = came
        elif future is not None and not future.done():
            future.set_result(came)


class Batches:
    """The batches of one model of a run: what is being collected, and what is at the service."""

    def __init__(self, endpoint: HttpEndpoint, spec: ModelSpec, folder: Path) -> None:
        self.endpoint, self._spec, self._folder = endpoint, spec, folder
        self._service = open_service(endpoint, spec)
        self.room = asyncio.Semaphore(spec.max_concurrency or MOST_REQUESTS)
        self._has_failed = self._has_answered = False
        self._timer: asyncio.TimerHandle | None = None
        self._batches = [*self._stored()]
        self._begin()

    def _begin(self) -> None:
        self._name, self._size = secrets.token_hex(6), 0
        self._collected: dict[str, asyncio.Future[_Came]] = {}
        self._lines: BinaryIO | None = None

    def _stored(self) -> Iterator[_Batch]:
        """Yield the batches of earlier commands."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                job = msgspec.json.decode(path.read_bytes(), type=BatchJob)
            except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                fix = "restore it, or remove it to pay for its requests again"
                raise RecordError(f"{path}, the note of a batch, cannot be read: {fix}") from None
            if (job.url, job.model) == (self.endpoint.access.url, self._spec.model):
                batch = _Batch(job, is_old=True)
                for custom_id in job.ids:
                    batch.free[custom_id.partition("-")[0]].append(custom_id)
                yield batch

    def ask(self, request: Request, body: bytes) -> asyncio.Future[_Came]:
        """Return what will come of a request: from a batch that holds it already, else from a new one."""
        future: asyncio.Future[_Came] = asyncio.get_running_loop().create_future()
        asked = f"{self.endpoint.access.url}\0{request.instance_id}\0{request.repeat}\0".encode()
        key = hashlib.blake2b(asked + body, digest_size=16).hexdigest()
        for batch in self._batches:
            if batch.free.get(key):
                batch.waiting[custom_id := batch.free[key].pop(0)] = future
                if batch.results is not None:
                    batch.give(custom_id, batch.results.pop(custom_id, None))
                elif batch.task is None or batch.task.done():
                    self._start(batch, self._resume(batch))
                return future
        custom_id = f"{key}-{self._name}-{len(self._collected)}"
        line = self._service.line(custom_id, body) + b"\n"
        if self._collected and self._size + len(line) > MOST_BYTES:
            self._submit()
            return self.ask(request, body)
        self._lines = self._lines or self._file()
        self._lines.write(line)
        self._size += len(line)
        self._collected[custom_id] = future
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(QUIET_S, self._submit)
        if len(self._collected) >= MOST_REQUESTS:
            self._submit()
        return future

    async def close(self, *, is_done: bool, is_whole: bool) -> None:
        """Wait no longer. Where all was answered, forget the batches whose answers are all taken.

        `is_whole`: no other command can want what is left of them.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._lines is not None:
            self._lines.close()
        tasks = [batch.task for batch in self._batches if batch.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for batch in self._batches if is_done and not self._has_failed else ():
            if not batch.waiting and (is_whole or not any(batch.free.values())):
                self._forget(batch.job)
        with suppress(OSError):  # it is not there, or some are left
            self._folder.rmdir()

    def _submit(self) -> None:
        if self._lines is None:
            return
        job = BatchJob(
            name=self._name,
            url=self.endpoint.access.url,
            model=self._spec.model,
            since=time.time(),
            ids=(*self._collected,),
        )
        batch = _Batch(job, is_old=False, waiting=self._collected)
        self._batches.append(batch)
        self._start(batch, self._send(batch, self._lines))
        self._begin()

    def _start(self, batch: _Batch, work: Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # nobody is to wait for it any more
                self._has_failed = True
                for future in batch.waiting.values():
                    if not future.done():
                        future.set_exception(error)
                batch.waiting.clear()

        batch.task = asyncio.create_task(guarded())

    async def _send(self, batch: _Batch, lines: BinaryIO) -> None:
        with lines:
            file = await self._tried(partial(self._service.upload, batch.job.name, lines))
            job = batch.job = replace(batch.job, file=file)
            await asyncio.to_thread(self._write, job)  # from here on it may be at the service
            made = await self._tried(
                partial(self._service.create, job, lines), partial(self._find, job)
            )
        batch.job = replace(job, batch=made)
        await asyncio.to_thread(self._write, batch.job)
        self.endpoint.say(
            f"{self._spec.name}: batch {made} with {len(job.ids):,} request(s) is submitted and may take a "
            "day; this command may be stopped, and started again, at any time"
        )
        await self._fetch(batch)

    async def _resume(self, batch: _Batch) -> None:
        if not batch.job.batch:
            batch.job = replace(batch.job, batch=await self._find(batch.job))
            if not batch.job.batch:
                self._drop(batch)
                return
            await asyncio.to_thread(self._write, batch.job)
        self.endpoint.say(f"{self._spec.name}: waiting for batch {batch.job.batch}")
        await self._fetch(batch)

    async def _find(self, job: BatchJob) -> str:
        """Return the service's name of a batch that may have been submitted; empty: it was not."""
        seen = {batch.job.batch for batch in self._batches}
        for wait_s in (0.0, SETTLE_S):
            await asyncio.sleep(wait_s)
            for said in await self._tried(self._service.listed):
                name, owns = self._service.read(said).batch, self._service.owns(job, said)
                if owns:
                    return name
                if owns is None and name not in seen:
                    seen.add(name)
                    self.endpoint.say(
                        f"{self._spec.name}: waiting for batch {name}, which may be ours"
                    )
                    async for custom_id, _ in self._results(await self._ended(name)):
                        if job.name in custom_id:
                            return name
                        break
        return ""

    async def _ended(self, batch: str) -> BatchState:
        pause_s, longest_s = POLL_S
        while (state := await self._tried(partial(self._service.look, batch))).status not in ENDED:
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, longest_s)
        return state

    async def _results(self, state: BatchState) -> AsyncIterator[tuple[str, Answer | Failure]]:
        """Yield the results of a batch, in whatever order they are."""
        with self._file() as file:
            for path in state.results:
                await self._tried(partial(self._service.fetch, path, file))
                for n, line in enumerate(file):
                    if n % 64 == 0:
                        await asyncio.sleep(0)
                    if line.strip():
                        yield read_line(self._spec, self.endpoint.codec, line)

    async def _fetch(self, batch: _Batch) -> None:
        state = await self._ended(batch.job.batch)
        if state.status == "failed" and not state.results:
            if not batch.is_old:
                self._forget(batch.job)
                raise self._refusal(
                    Failure("error", state.status, code=state.code, words=state.words)
                )
            self._drop(batch)
            return
        batch.results = {}
        known = set(batch.job.ids)
        async for custom_id, came in self._results(state):
            if not custom_id:  # it may have been answered: nothing is asked anew
                raise self._refusal(Failure("error", "results that cannot be read"))
            if custom_id in known:  # of a line that comes twice the first counts
                known.remove(custom_id)
                batch.give(custom_id, came)
        missing = CANCELLED if state.status in ("cancelled", "canceled") else EXPIRED
        for custom_id in [*batch.waiting]:
            batch.give(custom_id, missing)

    def _drop(self, batch: _Batch) -> None:
        """Let the requests of a batch of which nothing was answered be asked anew."""
        self._forget(batch.job)
        self._batches.remove(batch)
        for custom_id in [*batch.waiting]:
            batch.give(custom_id, None)

    async def _tried(
        self,
        call: Callable[[], Awaitable[_T]],
        find: Callable[[], Awaitable[_T]] | None = None,
    ) -> _T:
        """Return what a call returns that is made again after a passing failure; else raises ModelError.

        `find`: returns what the call has made though no answer came.
        """
        for attempt in count(1):
            try:
                found = await call()
            except ServiceError as e:
                if find is not None and e.is_unsure and (made := await find()):
                    return made
                most = PATIENCE if self._has_answered else self._spec.max_attempts
                if attempt >= most or not (e.is_unsure or e.failure.kind == "retry"):
                    raise self._refusal(e.failure) from None
                wait_s = e.failure.wait_s
                await asyncio.sleep(wait_s or backoff(min(attempt, 10), self.endpoint.rng))
            else:
                self._has_answered = True
                return found
        raise AssertionError

    def _refusal(self, failure: Failure) -> ModelError:
        """Return why no batch of the model can be submitted or fetched."""
        self.endpoint.heard(self._spec, failure)
        fix = "run the same command again, it goes on where it was"
        if failure.status in (404, 405):
            fix = "leave batch=true out; for Anthropic set model.provider=anthropic"
        elif failure.kind in ("endpoint", "model"):
            return ModelError(explain(self._spec, self.endpoint.access, failure))
        elif failure.code == "token_limit_exceeded":
            fix = "lower model.max_concurrency, the most requests that wait at a time"
        return ModelError(
            f"{self.endpoint.access.host} does not take or return batches of model {self._spec.name!r} "
            f"in this form ({failure.error}{f' {failure.code}' * bool(failure.code)}): {fix}"
        )

    def _file(self) -> BinaryIO:
        """Return a file beside the batches that leaves nothing behind."""
        with os_errors_as(RecordError, f"cannot write {self._folder}"):
            make_private(self._folder)
            return TemporaryFile(dir=self._folder)

    def _write(self, job: BatchJob) -> None:
        write_whole(self._folder / f"{job.name}.json", msgspec.json.encode(job))

    def _forget(self, job: BatchJob) -> None:
        (self._folder / f"{job.name}.json").unlink(missing_ok=True)


class BatchModel(EndpointModel[HttpEndpoint, Request]):
    """A model whose requests go into batches. Those that wait hold no body."""

    def __init__(self, spec: ModelSpec, batches: Batches) -> None:
        super().__init__(spec, batches.endpoint, owns_host=False)
        self._batches = batches
        self._alone = HttpModel(spec, batches.endpoint, owns_host=False)

    async def acquire(self, place: int = 0) -> None:
        """Wait for room among the requests that are held at once."""
        await self._batches.room.acquire()
        self._slots.append(self)

    def release(self) -> None:
        """Give the room back."""
        self._slots.pop()
        self._batches.room.release()

    def write(self, request: Request) -> Request:
        """Return what is sent, once it is known that it can be written."""
        self._alone.write(request)
        return request

    async def send(self, sent: Request) -> Answer | Failure:
        """Let a request go with a batch."""
        while (came := await self._batches.ask(sent, self._alone.write(sent))) is None:
            pass
        return came

    def is_cut(self, request: Request, sent: Request, answer: Answer) -> bool:
        """Return whether the server read less than was sent, without a word."""
        return self._alone.is_cut(request, self._alone.write(sent), answer)

    async def respond(self, request: Request) -> Response:
        """Return what came of one request. How long one of a batch took is not known."""
        response = await super().respond(request)
        return replace(response, price_class="batch", latency_s=0.0)
