"""Local weights as a model: requests that wait together are generated together, in a thread."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import msgspec

from medhelm.errors import ModelError
from medhelm.models.access import require_packages
from medhelm.models.decoding import BatchRow
from medhelm.models.hosts import LOADING, Host
from medhelm.models.pacing.limits import AdaptiveLimiter
from medhelm.models.weights import Weights, locate, read_options
from medhelm.schema.episode import Request, Response
from medhelm.schema.model import ModelSpec

_GATHER_S = 0.02
"""Longest wait of a batch that is not full, short beside the time that it takes."""
_BATCHES = 2
"""Slots in batches: one is generated while the next one gathers."""
_BATCH = 32
"""Requests of a batch where the user sets no `max_concurrency`."""


def check_local(spec: ModelSpec) -> None:
    """Find out without reading weights whether a local model can be opened.

    Raises ModelError and UsageError.
    """
    read_options(spec)
    _, gguf = locate(spec)
    require_packages(spec, also={"gguf": "gguf"} if gguf else None)


class Batcher(Host):
    """One set of weights and the requests that wait for it."""

    def __init__(self, spec: ModelSpec) -> None:
        self._name = spec.name
        self.weights = Weights(spec)
        self._size = spec.max_concurrency or _BATCH
        self.limiter = AdaptiveLimiter(_BATCHES * self._size, start=_BATCHES * self._size)
        self._waiting: deque[tuple[BatchRow, asyncio.Future[Response]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="medhelm-hf")
        self._task: asyncio.Task[None] | None = None
        self._fatal = ""
        self._is_closing = False
        self._is_loading = False
        self._written_s = 0.0
        self._began: float | None = None
        """The moment at which the batch that is being generated was begun."""

    def status(self) -> str:
        """Return that the weights are being loaded, or how many tokens they have written."""
        if self._is_loading:
            return f"{self._name}: {LOADING}"
        if self._began is None:
            return ""
        return f"{self._name}: writing, {self._pace(time.monotonic() - self._began)}"

    def speed(self) -> str:
        """Return how fast the weights wrote, over the time in which they did."""
        return f"{self._name}: {self._pace()}" if self.weights.tokens else ""

    def _pace(self, running_s: float = 0.0) -> str:
        tokens, seconds = self.weights.tokens, self._written_s + running_s
        pace = f", {tokens / seconds:,.1f} tokens/s" if tokens and seconds else ""
        return f"{tokens:,} tokens{pace}"

    def lower(self, max_concurrency: int | None) -> None:
        """Keep to smaller batches from now on (another model asks for it)."""
        self._size = min(self._size, max_concurrency or self._size)
        self.limiter.lower(_BATCHES * self._size)

    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> HFModel:
        """Return a model of these weights."""
        return HFModel(spec, self, owns_host=owns_host)

    async def ask(self, spec: ModelSpec, request: Request) -> Response:
        """Return what the weights write; raises ModelError where they cannot be used."""
        if self._fatal:
            raise ModelError(self._fatal)
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        def is_dropped() -> bool:
            return self._is_closing or future.cancelled()

        row = BatchRow(request, spec.context_window, spec.timeout_s, is_dropped)
        self._waiting.append((row, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await future

    async def close(self) -> None:
        """End what is being generated and free the memory."""
        self._is_closing = True
        if self._task is not None:
            await asyncio.wait([self._task])
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.weights.unload()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        batch: list[tuple[BatchRow, asyncio.Future[Response]]] = []
        try:
            while self._waiting:
                if len(self._waiting) < self._size:
                    await asyncio.sleep(_GATHER_S)
                count = min(self._size, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
                batch = [(row, future) for row, future in batch if not future.cancelled()]
                if batch:
                    rows = [row for row, _ in batch]
                    answers = await loop.run_in_executor(self._thread, self._generate, rows)
                    for (_, future), answer in zip(batch, answers, strict=True):
                        if not future.done():
                            future.set_result(answer)
                    batch = []
        except ModelError as error:
            self._fatal = str(error)
            for _, future in (*batch, *self._waiting):
                if not future.done():
                    future.set_exception(ModelError(self._fatal))
            self._waiting.clear()
        except asyncio.CancelledError:
            self._is_closing = True  # the thread stops after the token that it is at
            raise

    def _generate(self, rows: list[BatchRow]) -> list[Response]:
        self._is_loading = True
        try:
            self.weights.load()
        finally:
            self._is_loading = False
        self._began = time.monotonic()
        try:
            return self.weights.generate(rows)
        except Exception as error:  # a boundary: one bad batch must not end the run
            # The text of the error may hold the prompt.
            said = f"{type(error).__name__} while generating"
            return [row.request.reply(finish="error", error=said) for row in rows]
        finally:
            self._written_s += time.monotonic() - self._began
            self._began = None


class HFModel:
    """A model whose weights are here."""

    def __init__(self, spec: ModelSpec, batcher: Batcher, *, owns_host: bool) -> None:
        self.spec = spec
        self._batcher = batcher
        self._owns_host = owns_host

    async def acquire(self, place: int = 0) -> None:
        """Wait for a slot in this batch or the next one."""
        await self._batcher.limiter.acquire(place)

    def release(self) -> None:
        """Give the slot back."""
        self._batcher.limiter.release()

    async def respond(self, request: Request) -> Response:
        """Return what the model writes; raises `ModelError` where it cannot be loaded."""
        if not self.spec.send_seed:
            request = msgspec.structs.replace(request, seed=None)
        answer = await self._batcher.ask(self.spec, request)
        weights = self._batcher.weights
        return msgspec.structs.replace(
            answer, served_model=weights.name, fingerprint=weights.fingerprint
        )

    async def close(self) -> None:
        """Free the memory, unless other models of a pool share it."""
        if self._owns_host:
            await self._batcher.close()
