"""Servers that Ray places: each is started by an actor on a node with the GPUs for it, and ends with that actor."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from medhelm.errors import ModelError
from medhelm.models.server import LOOK_EVERY_S, LocalServer, Server
from medhelm.processes.ray_cluster import describe_nodes, join_cluster, one_line, times_that_fit
from medhelm.schema.model import ModelSpec

_STOP_S = 15.0
_LOST = (RayError, ConnectionError, TimeoutError)


class Replica:
    """The actor: a server on its node, whose log lies there."""

    async def begin(self, spec: ModelSpec, log: str) -> tuple[str, str]:
        """Start it; returns its address, and the place of its log."""
        host, self._made = ray.util.get_node_ip_address(), ""
        if not os.access(os.path.dirname(log), os.W_OK):
            self._made = tempfile.mkdtemp(prefix="medhelm-")
            log = os.path.join(self._made, os.path.basename(log))
        self._server = LocalServer(spec, Path(log), host=host)
        await self._server.begin()
        return self._server.base_url, f"{os.uname().nodename}:{log}" if self._made else log

    async def wait_end(self) -> None:
        """Return once it has ended by itself."""
        while not self._server.has_ended():
            await asyncio.sleep(LOOK_EVERY_S)

    async def last_words(self) -> str:
        """Return the end of its log."""
        return await self._server.last_words()

    async def stop(self) -> None:
        """Stop it. A log that nobody else sees goes with it, unless it ended by itself."""
        has_ended = self._server.has_ended()
        await self._server.stop()
        if self._made and not has_ended:
            shutil.rmtree(self._made, ignore_errors=True)


class RayServer(Server):
    """A server on the node that Ray picks."""

    def __init__(self, spec: ModelSpec, log: Path) -> None:
        super().__init__(spec, str(log))
        # GPUs are kept together for servers that need several, others are spread
        strategy = "DEFAULT" if spec.gpus else "SPREAD"
        options = {"num_cpus": 1, "num_gpus": spec.gpus, "scheduling_strategy": strategy}
        self._actor = ray.remote(Replica).options(**options).remote()
        self._end: asyncio.Future[Any] | None = None

    async def begin(self) -> None:
        """Start it once it has a place; raises ModelError."""
        try:
            self.base_url, self.log = await _reply(self._actor.begin.remote(self.spec, self.log))
        except _LOST as e:
            raise ModelError(
                f"model {self.spec.name!r}: its server cannot be started on Ray: {one_line(e)}"
            ) from None
        self._end = asyncio.ensure_future(_reply(self._actor.wait_end.remote()))

    def has_ended(self) -> bool:
        """Return whether it, its actor or its node has ended."""
        return self._end is not None and self._end.done()

    async def last_words(self) -> str:
        """Return the end of its log, or why there is none."""
        try:
            return str(await _reply(self._actor.last_words.remote()))
        except _LOST as e:
            return one_line(e)

    async def stop(self) -> None:
        """Stop it, and its actor."""
        with suppress(*_LOST):
            if self.base_url:
                await asyncio.wait_for(_reply(self._actor.stop.remote()), _STOP_S)
        with suppress(*_LOST):
            ray.kill(self._actor)
        if self._end is not None:
            await asyncio.wait([self._end])
            self._end.exception()

    def status(self) -> str:
        """Return that it waits for a place, or loads weights."""
        wait = f"waits for a node with a free CPU and {self.spec.gpus} free GPU(s)"
        return super().status() if self.base_url else f"{wait} on Ray"


def _reply(reference: Any) -> Awaitable[Any]:
    return asyncio.wrap_future(reference.future())


class RayNodes:
    """The nodes of a Ray cluster, joined when the first server is to be started."""

    needs_host = True

    def __init__(self, address: str) -> None:
        self._address = address

    def count_gpus(self) -> int:
        """Return how many GPUs the cluster has."""
        join_cluster(self._address, "servers")
        return int(ray.cluster_resources().get("GPU", 0))

    def servers(
        self, spec: ModelSpec, logs: Sequence[Path], up: Iterable[Server]
    ) -> Sequence[Server]:
        """Return servers, each of which waits for a node that is free."""
        join_cluster(self._address, "servers")
        needed = {"GPU": spec.gpus, "CPU": 1}
        if (room := times_that_fit(needed)) < len(logs):
            raise ModelError(
                f"model {spec.name!r}: Ray has room for {room} of {len(logs)} server(s) with {spec.gpus} GPU(s) and a "
                f"CPU each ({describe_nodes(needed)}); set replicas and gpus"
            )
        return [RayServer(spec, log) for log in logs]
