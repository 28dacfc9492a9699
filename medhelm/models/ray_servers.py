"""Servers that Ray places: each is started by an actor on a node with the GPUs for it, and ends with that actor."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from medhelm.errors import ModelError, one_line
from medhelm.models.hosts import LOADING
from medhelm.models.serving import EXAMPLE, LOOK_EVERY_S, Machine, Server
from medhelm.processes.ray_cluster import join_cluster, ray, room_for
from medhelm.schema.model import ModelSpec

_LOST = (ray.exceptions.RayError, ConnectionError)


class RayNodes(Machine):
    """The nodes of a Ray cluster, which is joined when it is first needed."""

    def __init__(self, address: str) -> None:
        self._address = address

    def count_gpus(self) -> int:
        """Return how many GPUs the nodes have."""
        join_cluster(self._address)
        return int(ray.cluster_resources().get("GPU", 0))

    def servers(self, spec: ModelSpec, logs: Sequence[Path], up: Iterable[Server]) -> list[Server]:
        """Return servers, each of which waits for a node that is free."""
        if "{host}" not in spec.serve:
            raise ModelError(
                f"model {spec.name!r}: on Ray serve needs {{host}} where the server takes the address that it listens "
                f"at, for example {EXAMPLE}"
            )
        join_cluster(self._address)
        # GPUs of a node are kept for who needs several
        spread = "DEFAULT" if spec.gpus else "SPREAD"
        options = {"num_cpus": 1, "num_gpus": spec.gpus, "scheduling_strategy": spread}
        room, nodes = room_for(options)
        if room < len(logs):
            raise ModelError(
                f"model {spec.name!r}: Ray has room for {room} of {len(logs)} server(s) with {spec.gpus} GPU(s) and a "
                f"CPU each ({nodes}); set replicas and gpus"
            )
        place = ray.remote(_Replica).options(**options)
        return [_RayServer(spec, log, place) for log in logs]


class _RayServer(Server):
    def __init__(self, spec: ModelSpec, log: Path, place: Any) -> None:
        super().__init__(spec, log)
        self._actor, self._end = place.remote(spec, self.log, os.getcwd()), Future[None]()
        self.status = f"waits for a node of Ray with a free CPU and {spec.gpus} free GPU(s)"

    async def begin(self) -> None:
        self.base_url, self.log, self.gpu_names = await self._reply("start")
        self.status = f"{LOADING}, log {self.log}"
        self._end = self._actor.wait_end.remote().future()

    def has_ended(self) -> bool:
        return self._end.done()

    async def last_words(self) -> str:
        return str(await self._reply("last_words"))

    async def stop(self) -> None:
        with suppress(ModelError, TimeoutError):
            async with asyncio.timeout(15.0 if self.base_url else 0.0):
                await self._reply("stop")
        with suppress(*_LOST):
            ray.kill(self._actor)

    async def _reply(self, method: str) -> Any:
        try:
            return await asyncio.wrap_future(getattr(self._actor, method).remote().future())
        except _LOST as e:
            raise ModelError(
                f"model {self.spec.name!r}: its server is lost on Ray: {one_line(e)}"
            ) from None


class _Replica(Server):
    """The actor: a server of its node. Its log lies in the node's temporary folder where the run's is not seen."""

    def __init__(self, spec: ModelSpec, log: str, cwd: str) -> None:
        with suppress(OSError):  # where relative paths of the command lie, if that is here
            os.chdir(cwd)
        self._made, self._node = "", os.getppid()
        if not os.access(os.path.dirname(log), os.W_OK):
            self._made = tempfile.mkdtemp(prefix="medhelm-")
        log = os.path.join(self._made or os.path.dirname(log), os.path.basename(log))
        super().__init__(spec, log, host=ray.util.get_node_ip_address())

    async def start(self) -> tuple[str, str, str]:
        """Start it; returns its address, the place of its log and the names of its GPUs."""
        await self.begin()
        log = f"{os.uname().nodename}:{self.log}" if self._made else self.log
        return self.base_url, log, self.gpu_names

    async def wait_end(self) -> None:
        while not self.has_ended():
            if os.getppid() != self._node:  # Ray is lost here, and would wait for its head
                await self.stop()
            await asyncio.sleep(LOOK_EVERY_S)

    async def stop(self) -> None:
        is_wanted = self.has_ended()  # by itself, and its log says why
        await super().stop()
        if self._made and not is_wanted:
            shutil.rmtree(self._made, ignore_errors=True)
