"""Start the servers of a run's models before its first request, and stop it where they serve other weights.

A request to such a server often names no weights: what is behind the address may have changed since
the stored answers were made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec.structs import replace

from medhelm.errors import MedhelmError, ModelError, UsageError
from medhelm.models import ModelPool, is_instance_model
from medhelm.models.identity import each_address, endpoint_of, is_served_here
from medhelm.runs.run import Run
from medhelm.runs.sending import Start, Stopped
from medhelm.schema.episode import Request, Response
from medhelm.schema.model import InstanceModel, Model, ModelSpec
from medhelm.store.records import read_served, write_struct

if TYPE_CHECKING:
    from medhelm.models.batches import Batches
    from medhelm.models.http_endpoint import HttpEndpoint


class ServedCheck:
    """Compares what servers say with what they said when the run was asked before, and stores it.

    Servers that a command starts are up from the first work that is `started` on.
    """

    def __init__(self, run: Run, pool: ModelPool) -> None:
        self._run, self._pool = run, pool
        self._batches: dict[tuple[Path, HttpEndpoint, str], Batches] = {}
        self.is_done = False
        """True once all that is to be asked was answered."""
        self._to_start: list[_Checked] = []
        self._taking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        is_whole = not (self._run.spec.max_instances or self._run.shard or self._run.is_own)
        for batches in self._batches.values():
            await batches.close(is_done=self.is_done, is_whole=is_whole)
        if self._taking is None:
            return
        if not self._taking.done():
            self._taking.cancel()
            await asyncio.wait([self._taking])

    def open(self, spec: ModelSpec, folder: Path) -> Model | InstanceModel:
        """Return a model of the pool; one of the user's own server is checked by its first request.

        `folder`: the place of the log of what it is asked.
        """
        if spec.serve:
            self._to_start.append(_Checked(spec, self._refusal))
            return self._to_start[-1]
        if self._run.ask_again or self._run.judge_again:  # a batch may hold what is to be replaced
            spec = replace(spec, batch=False)
        for note in () if spec.batch else sorted((folder / "batches").glob("*.json")):
            if msgspec.json.decode(note.read_bytes())["model"] == spec.model:
                raise UsageError(
                    f"requests to {spec.name} are in a batch and would be paid for again ({note}): "
                    "fetch it by the command that submitted it, or remove this note"
                )
        model = self._pool.open(spec)
        if spec.batch:
            model = self._in_batches(model, folder)
        if is_instance_model(model) or not any(map(is_served_here, each_address(spec))):
            return model
        return _Checked(spec, self._refusal, model)

    def _in_batches(self, model: Model | InstanceModel, folder: Path) -> Model:
        """Return a model that asks in batches what it would ask at once; equal ones share theirs."""
        from medhelm.models.batches import Batches, BatchModel
        from medhelm.models.http_endpoint import HttpModel

        assert isinstance(model, HttpModel)
        key = (folder, model.endpoint, model.spec.model)
        if key not in self._batches:
            self._batches[key] = Batches(model.endpoint, model.spec, folder / "batches")
        return BatchModel(model.spec, self._batches[key])

    async def started(self, work: AsyncIterator[Start], *models: ModelSpec) -> AsyncIterator[Start]:
        """Yield work, the first of it once all servers are up; raises Stopped where one of `models` has none.

        Before any of the work has a part of the budget: others, who use servers now, may wait for that.
        """
        async for start in work:
            if self._to_start:
                self._taking = self._taking or asyncio.create_task(self._take())
                await asyncio.shield(self._taking)
                for failure in filter(None, map(self._pool.servers.failure, models)):
                    raise Stopped(failure)
            yield start

    async def _take(self) -> None:
        servers = self._pool.servers
        await servers.take([model.spec for model in self._to_start], self._run.path)
        for model in self._to_start:
            if servers.failure(model.spec) is None:
                self._note(model.spec)
                opened = self._pool.open(model.spec)
                assert not is_instance_model(opened)  # it has a server
                model.model = opened

    def _note(self, spec: ModelSpec) -> None:
        """Store what serves a model, beside what did before."""
        stored = read_served(self._run.path)
        named = [*stored.servers.get(spec.name, ()), *self._pool.servers.describe(spec)]
        servers = stored.servers | {spec.name: [*dict.fromkeys(named)]}
        write_struct(self._run.path / "served.json", replace(stored, servers=servers))

    async def _refusal(self, spec: ModelSpec) -> MedhelmError | None:
        """Return why a model may not be asked; None where it may, or its server does not say."""
        ways = [way for way in each_address(spec) if is_served_here(way)]
        said = await asyncio.gather(*map(self._pool.served, ways))
        try:
            for way, now in zip(ways, said, strict=True):
                self._compare(dict(now), way, *(other for other in ways if other is not way))
        except MedhelmError as e:
            return e
        return None

    def _compare(self, now: dict[str, str], spec: ModelSpec, *others: ModelSpec) -> None:
        """Refuse weights that are not those of before or of the model's other addresses."""
        served = read_served(self._run.path)
        stored = served.models
        place, *beside = (f"{endpoint_of(way)} {way.model}" for way in (spec, *others))
        then = stored.get(place, {})
        # of other addresses the last part: the same weights may lie elsewhere there
        for name, value in (item for p in beside for item in stored.get(p, {}).items()):
            if value.rpartition("/")[2] != now.get(name, value).rpartition("/")[2]:
                then = {name: value} | then
        differ = [name for name in now if now[name] != then.get(name, now[name])]
        # whoever has just given a new name to what is stored has not seen yet that the weights differ
        if differ and not (self._run.is_same_model and self._run.found is None):
            said = ", ".join(f"{n} {then[n]!r} then, {now[n]!r} now" for n in differ)
            raise ModelError(
                f"model {spec.name!r}: {endpoint_of(spec)} serves other weights than when this run was "
                f"asked before, or than another address ({said}). Nothing is asked. Start the server with "
                f"the weights of then, or give those of now another model.model (now {spec.model!r}); if "
                "they are the same, run it again with model.rename=true"
            )
        if then != then | now:
            models = stored | {place: then | now}
            write_struct(self._run.path / "served.json", replace(served, models=models))


class _Checked:
    """A model that is asked nothing before its check has ended."""

    model: Model
    """Absent until its server is up."""

    def __init__(
        self,
        spec: ModelSpec,
        refusal: Callable[[ModelSpec], Awaitable[MedhelmError | None]],
        model: Model | None = None,
    ) -> None:
        self.spec, self._refusal = spec, refusal
        if model is not None:
            self.model = model
        self._check: asyncio.Future[MedhelmError | None] | None = None
        self._is_checked = False

    async def acquire(self, place: int = 0) -> None:
        """Wait for a slot."""
        await self.model.acquire(place)

    def release(self) -> None:
        """Give the slot back."""
        self.model.release()

    async def respond(self, request: Request) -> Response:
        """Return what came; raises the refusal."""
        if not self._is_checked:
            if self._check is None:
                self._check = asyncio.ensure_future(self._refusal(self.spec))
            if (refusal := await asyncio.shield(self._check)) is not None:
                raise refusal
            self._is_checked = True
        return await self.model.respond(request)

    async def close(self) -> None:
        """Close the connections."""
        await self.model.close()
