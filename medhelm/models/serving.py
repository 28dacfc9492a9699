"""Servers of models with `serve`: started when the first request needs them, ended when none does any more.

Work begins in turns, so that no more servers are up than the memory is known to hold, and each is started
once.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from medhelm.errors import ModelError, UsageError
from medhelm.files.durable import why
from medhelm.models.hosts import Host
from medhelm.models.server import (
    EXAMPLE,
    GPUS,
    LOOK_EVERY_S,
    LocalServer,
    Server,
    command_of,
    takes_host,
)
from medhelm.schema.model import ModelSpec, Order

_FOREVER_S = 1e7


def _key(spec: ModelSpec) -> str:
    return shlex.join(command_of(spec))


class Place(Protocol):
    """The machine, or machines, that servers are started on."""

    needs_host: bool
    """True if a server has to be told where to listen."""

    def count_gpus(self) -> int:
        """Return how many GPUs there are, in use or not."""

    def servers(
        self, spec: ModelSpec, logs: Sequence[Path], up: Iterable[Server]
    ) -> Sequence[Server]:
        """Return the servers of a model, one for each log, to be started beside those that are up.

        Raises ModelError where there is no room for them.
        """


class ThisMachine:
    """Servers at addresses that only this machine sees."""

    needs_host = False

    def count_gpus(self) -> int:
        """Return how many GPUs this process sees."""
        return len(_gpus())

    def servers(
        self, spec: ModelSpec, logs: Sequence[Path], up: Iterable[Server]
    ) -> Sequence[Server]:
        """Return servers with GPUs that no other has."""
        wanted, there = len(logs) * spec.gpus, _gpus()
        used = {gpu for server in up if isinstance(server, LocalServer) for gpu in server.gpus}
        free = [gpu for gpu in there if gpu not in used]
        if len(free) < wanted:
            raise ModelError(
                f"model {spec.name!r}: {len(logs)} server(s) with {spec.gpus} GPU(s) each need {wanted}, "
                f"and {len(free)} of {len(there)} are free; set replicas and gpus, or {GPUS}"
            )
        own = (free[n * spec.gpus : (n + 1) * spec.gpus] for n in range(len(logs)))
        return [LocalServer(spec, log, gpus) for log, gpus in zip(logs, own, strict=True)]


def _gpus() -> list[str]:
    """Return the GPUs that this process sees."""
    seen = os.environ.get(GPUS)
    there = [str(n) for n in range(len([*Path("/dev").glob("nvidia[0-9]*")]))]
    return there if seen is None else [gpu for gpu in seen.split(",") if gpu]


def place_of(servers: str) -> Place:
    """Return the place that `servers=` names; raises UsageError where its package is not installed."""
    if not servers:
        return ThisMachine()
    try:
        from medhelm.models.ray_servers import RayNodes
    except ModuleNotFoundError as e:
        raise UsageError(
            f"servers={servers} needs {e.name}: run in the checkout: pip install '.[ray]'"
        ) from None
    return RayNodes("" if servers == "ray" else servers)


class Work(NamedTuple):
    """The asking, or the judging, of runs that need the same servers."""

    is_judging: bool
    servers: frozenset[str] = frozenset()


class Servers:
    """The servers of a sweep, and whose turn it is."""

    def __init__(self, order: Order | None = None, place: str = "") -> None:
        """`order`: None: by the GPUs that models declare. `place`: the value of `servers=`."""
        self._order, self._place = order, place_of(place)
        self._up: dict[str, list[Server]] = {}
        """The replicas of each command."""
        self._failed: dict[str, ModelError] = {}
        """Servers that are not started again."""
        self._specs: dict[str, ModelSpec] = {}
        self._left: Counter[Work] = Counter()
        """The number of runs with each work that is not done, in the order of turns."""
        self._changing = asyncio.Lock()
        """Held while servers are started or stopped."""
        self._next = asyncio.Event()
        self._starting: Sequence[Server] = ()

    def work(self, specs: Collection[ModelSpec], *, is_judging: bool) -> Work:
        """Return the work of one run more, that needs the servers of these models."""
        served = {_key(spec): spec for spec in specs if spec.serve}
        self._specs |= served
        return Work(is_judging, frozenset(served))

    def expect(self, works: Collection[Work]) -> None:
        """Note all work that is to come; raises UsageError where its servers cannot be up side by side."""
        for work in sorted(works, key=lambda work: work.is_judging):
            self._left[work] += bool(work.servers)
        for spec in self._specs.values():
            if self._place.needs_host and not takes_host(spec):
                raise UsageError(
                    f"model {spec.name!r}: on Ray serve needs {{host}} where the server takes the address that "
                    f"it listens at, for example {EXAMPLE}"
                )
        judges = self._of_judges(self._left)
        most = [work.servers | judges for work in self._left if not work.is_judging]
        if self._order is None:
            self._order = "runs" if all(map(self._fit, most)) else "roles"
        needed = max(map(self._needed, most), default=0)
        if judges and self._order == "runs" and needed > (there := self._place.count_gpus()):
            raise UsageError(
                f"order=runs needs {needed} GPUs for a model's servers beside its judges', and there are "
                f"{there}; take order=roles"
            )

    async def turn(self, work: Work) -> None:
        """Wait until the servers of this work may be up beside those of all work before it."""
        while work.servers and self._must_wait(work):
            await self._next.wait()

    def _must_wait(self, work: Work) -> bool:
        left = [other for other, n in self._left.items() if n]
        before = left[: left.index(work)]
        beside: frozenset[str] = frozenset()
        if self._order == "runs":
            if work.is_judging:
                return False
            beside = self._of_judges(left)
        elif work.is_judging and not all(other.is_judging for other in before):
            return True
        sets = [other.servers | beside for other in (*before, work)]
        together = frozenset[str]().union(*sets)
        return together not in sets and not self._fit(together)

    async def leave(self, work: Work) -> None:
        """Note that one run has done such work. Servers that no other needs are stopped."""
        if not work.servers:
            return
        self._left[work] -= 1
        if not self._left[work]:
            async with self._changing:
                needed = {key for other, n in self._left.items() if n for key in other.servers}
                await self._stop(self._up.keys() & work.servers - needed)
            self._next.set()
            self._next = asyncio.Event()

    @staticmethod
    def _of_judges(works: Iterable[Work]) -> frozenset[str]:
        return frozenset[str]().union(*(work.servers for work in works if work.is_judging))

    def _needed(self, servers: Iterable[str]) -> int:
        """Return how many GPUs are declared for servers."""
        return sum(self._specs[key].replicas * self._specs[key].gpus for key in servers)

    def _fit(self, servers: Collection[str]) -> bool:
        """Return whether declared GPUs hold all of these servers at a time."""
        is_declared = all(self._specs[key].gpus for key in servers)
        return is_declared and self._needed(servers) <= self._place.count_gpus()

    async def take(self, specs: Collection[ModelSpec], folder: Path) -> None:
        """Have the servers of these models up, whose turn it is; their logs lie in `folder`.

        For one that cannot be started `failure` returns the reason.
        """
        async with self._changing:
            at_work = [work for work, n in self._left.items() if n and not self._must_wait(work)]
            idle = self._up.keys() - {key for work in at_work for key in work.servers}
            if idle and not self._fit({*self._up, *map(_key, specs)}):
                await self._stop(idle)
            for spec in specs:
                if (key := _key(spec)) not in self._up and key not in self._failed:
                    await self._start(key, spec, folder)

    def failure(self, spec: ModelSpec) -> ModelError | None:
        """Return why a model's server is not up."""
        return self._failed.get(_key(spec)) if spec.serve else None

    def reached(self, spec: ModelSpec) -> dict[str, Any]:
        """Return the settings in place of `serve` by which a server that is up is reached."""
        urls = tuple(server.base_url for server in self._up[_key(spec)])
        base_url = urls if len(urls) > 1 else urls[0]
        return {"base_url": base_url, "serve": "", "replicas": 1, "gpus": 0}

    def at(self, address: str | None) -> Server | None:
        """Return the server that is up at an address; another one may get its port later."""
        own = (s for several in self._up.values() for s in several if s.base_url == address)
        return next(own, None)

    def tell(self, spec: ModelSpec, address: str | None, host: Host) -> None:
        """Give up these connections where a model's server at an address ends by itself."""
        for server in self._up[_key(spec)]:
            if server.base_url == address:
                server.hosts.append(host)

    def status(self) -> list[str]:
        """Return that servers are being started."""
        return [f"{server.spec.name}: {server.status()}" for server in self._starting]

    async def close(self) -> None:
        """Stop all of them."""
        async with self._changing:
            await self._stop([*self._up])

    async def _start(self, key: str, spec: ModelSpec, folder: Path) -> None:
        name = re.sub(r"[^\w.+-]+", "_", spec.name)
        logs = [folder / f"server-{name}{f'-{n}' if n else ''}.log" for n in range(spec.replicas)]
        up = [server for several in self._up.values() for server in several]
        try:
            self._starting = await asyncio.to_thread(self._place.servers, spec, logs, up)
            await asyncio.gather(*(server.wait_ready() for server in self._starting))
        except BaseException as e:
            await asyncio.gather(*(server.stop() for server in self._starting))
            if isinstance(e, OSError):
                e = ModelError(f"model {spec.name!r}: its server cannot be started: {why(e)}")
            if not isinstance(e, ModelError):
                raise
            self._failed[key] = e
            return
        else:
            self._up[key] = [*self._starting]
        finally:
            self._starting = ()
        for server in self._up[key]:
            server.watching = asyncio.create_task(self._watch(key, server))

    async def _watch(self, key: str, server: Server) -> None:
        """Note where a server ends by itself: who asks it hears the reason at once."""
        while server in (replicas := self._up.get(key, [])):
            if server.has_ended():
                await server.stop()
                reason = (
                    f"model {server.spec.name!r}: its server ended while it was asked; "
                    f"{server.log} says why; the same command goes on"
                )
                replicas.remove(server)
                if not replicas:
                    self._failed[key] = ModelError(reason)
                    del self._up[key]
                for host in server.hosts:
                    host.fatal, host.limiter.is_dead = reason, True
                    if replicas:  # which do its work
                        host.limiter.pause(_FOREVER_S)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _stop(self, keys: Collection[str]) -> None:
        await asyncio.gather(*(server.stop() for key in keys for server in self._up.pop(key)))
