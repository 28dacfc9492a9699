"""A pool in a file that several processes share: each reads and writes it under a lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from medhelm.files.durable import why
from medhelm.models.pacing.pool import Pool, PoolAccess, ask, lost_pool


class PoolFile(PoolAccess):
    """A pool in a file."""

    def __init__(self, path: Path, worker: str, new: Pool) -> None:
        """`new`: the pool where the file does not hold one yet."""
        super().__init__(worker, new.workers)
        self._path, self._new = path, new

    def call(self, name: str, *args: Any) -> Any:
        """Return what a method of the pool gives, called under the lock."""
        with self._pool() as pool:
            return ask(pool, name, *args)

    def read(self) -> Pool:
        """Return the pool as it is now."""
        with self._pool() as pool:
            return pool

    @contextmanager
    def _pool(self) -> Iterator[Pool]:
        """Yield the pool under its lock; what was changed is kept, and never half of it."""
        try:
            with open(self._path.with_suffix(".lock"), "ab", opener=_private) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                before = self._path.read_bytes() if self._path.exists() else b""
                pool = msgspec.json.decode(before, type=Pool) if before else self._new
                yield pool
                after = msgspec.json.encode(pool)
                if after != before:
                    with open(
                        part := self._path.with_suffix(".part"), "wb", opener=_private
                    ) as file:
                        file.write(after)
                    part.replace(self._path)
        except (OSError, msgspec.DecodeError) as e:
            said = why(e) if isinstance(e, OSError) else "damaged"
            raise lost_pool(f"{self._path}: {said}") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
