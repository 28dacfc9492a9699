"""The workers of a command: who computes what takes long, all cores of this machine unless it names others."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from medhelm.schema.data import DataClass

if TYPE_CHECKING:
    from medhelm.processes.process_pool import ProcessPool
    from medhelm.processes.ray_pool import RayPool

Pool: TypeAlias = "ProcessPool | RayPool"


@dataclass(frozen=True)
class Workers:
    """Processes of this machine, or tasks of the Ray cluster that this process has joined."""

    count: int = 0
    """Of them at a time; 0: one a core of this machine."""
    is_ray: bool = False
    text_of: Collection[DataClass] = ()
    """Classes of data, beside public, whose texts Ray may carry though its traffic is not encrypted."""

    cpus: int = 1
    """Of Ray's count, for each; 0 for those of a task of Ray, which could wait for each other's for ever."""
    is_open: bool = True
    """False for workers on texts that are to be kept out of Ray's store."""

    def pool(self, count: int, prepare: Callable[..., Any], *args: Any) -> Pool:
        """Return at most `count` of them; see `RayPool`."""
        from medhelm.processes import process_pool, ray_pool

        if self.is_ray:
            return ray_pool.RayPool(count, self.is_open, prepare, *args, cpus=self.cpus)
        return process_pool.ProcessPool(count, prepare, *args)


_used = [Workers()]


@contextmanager
def use_workers(workers: Workers) -> Iterator[None]:
    """Let these workers compute what takes long."""
    _used.append(workers)
    try:
        yield
    finally:
        _used.pop()


def workers_for(data_class: DataClass = "public") -> Workers:
    """Return the workers that may have texts of a class of data; those of this machine where others may not."""
    workers = _used[-1]
    is_encrypted = os.environ.get("RAY_USE_TLS") == "1"
    if not workers.is_ray or is_encrypted or data_class in ("public", *workers.text_of):
        return replace(workers, is_open=data_class == "public")
    from medhelm.processes.ray_pool import say_once

    say_once(f"medhelm: {data_class} texts stay here: Ray does not encrypt them (RAY_USE_TLS=1)")
    return Workers()
