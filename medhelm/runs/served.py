"""Ask the user's own servers what they serve before a run's first request; stop where it is other weights.

A request to such a server often names no weights: what is behind the address may have changed since
the stored answers were made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from medhelm.errors import MedhelmError, ModelError
from medhelm.models import ModelPool, is_instance_model
from medhelm.models.identity import endpoint_of, is_served_here
from medhelm.runs.planning import Run
from medhelm.schema.episode import Request, Response
from medhelm.schema.model import InstanceModel, Model, ModelSpec
from medhelm.store.records import Served, read_served, write_struct


class ServedCheck:
    """Compares what servers say with what they said when the run was asked before, and stores it."""

    def __init__(self, run: Run, pool: ModelPool) -> None:
        self._run, self._pool = run, pool

    def open(self, spec: ModelSpec) -> Model | InstanceModel:
        """Return a model of the pool; one of the user's own server is checked by its first request."""
        model = self._pool.open(spec)
        if is_instance_model(model) or not is_served_here(spec):
            return model
        return _Checked(model, self._refusal)

    async def _refusal(self, spec: ModelSpec) -> MedhelmError | None:
        """Return why a model may not be asked; None where it may, or its server does not say."""
        try:
            self._compare(spec, dict(await self._pool.served(spec)))
        except MedhelmError as e:
            return e
        return None

    def _compare(self, spec: ModelSpec, now: dict[str, str]) -> None:
        stored = read_served(self._run.path).models
        place = f"{endpoint_of(spec)} {spec.model}"
        then = stored.get(place, {})
        others = [name for name in now if now[name] != then.get(name, now[name])]
        # whoever has just given a new name to what is stored has not seen yet that the weights differ
        if others and not (self._run.is_same_model and self._run.found is None):
            said = ", ".join(f"{n} {then[n]!r} then, {now[n]!r} now" for n in others)
            raise ModelError(
                f"model {spec.name!r}: {endpoint_of(spec)} serves other weights than when this run was "
                f"asked before ({said}). Nothing is asked. Start the server with the weights of then, or "
                f"give those of now another model.model (now {spec.model!r}); if they are the same, run it "
                "again with model.rename=true"
            )
        if then != then | now:
            write_struct(
                self._run.path / "served.json", Served(models=stored | {place: then | now})
            )


class _Checked:
    """A model that is asked nothing before its check has ended."""

    def __init__(
        self, model: Model, refusal: Callable[[ModelSpec], Awaitable[MedhelmError | None]]
    ) -> None:
        self.spec, self._model = model.spec, model
        self._refusal = refusal
        self._check: asyncio.Future[MedhelmError | None] | None = None
        self._is_checked = False

    async def acquire(self, place: int = 0) -> None:
        """Wait for a slot."""
        await self._model.acquire(place)

    def release(self) -> None:
        """Give the slot back."""
        self._model.release()

    async def respond(self, request: Request) -> Response:
        """Return what came; raises the refusal."""
        if not self._is_checked:
            if self._check is None:
                self._check = asyncio.ensure_future(self._refusal(self.spec))
            if (refusal := await asyncio.shield(self._check)) is not None:
                raise refusal
            self._is_checked = True
        return await self._model.respond(request)

    async def close(self) -> None:
        """Close the connections."""
        await self._model.close()
