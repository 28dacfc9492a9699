"""A pool in a file that several processes share: each reads and writes it under a lock."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from medhelm.errors import RecordError
from medhelm.files.durable import why
from medhelm.models.pacing.pool import Block, Lease, Pool, Report


class PoolFile:
    """The way of one process to the pool in a file (`pool.PoolAccess`)."""

    def __init__(self, path: Path, worker: str, new: Pool) -> None:
        """`new`: the pool where the file does not hold one yet."""
        self.path, self.worker, self.workers = path, worker, new.workers
        self._new = new

    async def lease(self, endpoint: str, report: Report) -> Lease:
        """Report what was sent, and get the next lease."""
        return await asyncio.to_thread(self._lease, endpoint, report)

    def _lease(self, endpoint: str, report: Report) -> Lease:
        with self._pool() as pool:
            return pool.lease(self.worker, endpoint, report, time.time())

    def reserve(self, usd: float, tokens: int) -> Block:
        """Get a block of the budget."""
        with self._pool() as pool:
            return pool.reserve(self.worker, usd, tokens, time.time())

    def give_back(self, usd: float, tokens: int) -> None:
        """Give back all that was not spent of the blocks."""
        with self._pool() as pool:
            pool.give_back(self.worker, usd, tokens)

    def leave(self) -> None:
        """End all leases."""
        with self._pool() as pool:
            pool.leave(self.worker)

    def tell(self, said: bytes) -> None:
        """Say how far the work is."""
        with self._pool() as pool:
            pool.told[self.worker] = msgspec.Raw(said)

    def told(self) -> Mapping[str, bytes]:
        """Return what each process said last."""
        return {worker: bytes(said) for worker, said in self.read().told.items()}

    def read(self) -> Pool:
        """Return the pool as it is now."""
        with self._pool() as pool:
            return pool

    @contextmanager
    def _pool(self) -> Iterator[Pool]:
        """Yield the pool under its lock; what was changed is kept, and never half of it."""
        try:
            with open(self.path.with_suffix(".lock"), "ab", opener=_private) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                before = self.path.read_bytes() if self.path.exists() else b""
                pool = msgspec.json.decode(before, type=Pool) if before else self._new
                yield pool
                after = msgspec.json.encode(pool)
                if after != before:
                    with open(
                        part := self.path.with_suffix(".part"), "wb", opener=_private
                    ) as file:
                        file.write(after)
                    part.replace(self.path)
        except (OSError, msgspec.DecodeError) as e:
            said = why(e) if isinstance(e, OSError) else "damaged"
            raise RecordError(
                f"the limits that all workers share are lost ({self.path}: {said}); nothing more is sent"
            ) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
