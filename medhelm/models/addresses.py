"""A model at several addresses: the least busy one is asked, and a dead one is left out for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from medhelm.errors import ModelError, UsageError
from medhelm.models.endpoint import Endpoint, EndpointModel, Tries
from medhelm.models.identity import endpoint_of
from medhelm.models.pacing.limits import shared_queue
from medhelm.schema.episode import Request, Response
from medhelm.schema.model import Model, ModelSpec

AGAIN_AFTER_S = 30.0
"""Seconds until an address that counts as dead is tried again."""
_At = EndpointModel[Any, Any]


class ManyAddresses:
    """A `Model` whose requests go to several endpoints, each with its own limiter and health.

    All wait in one queue. A try that failed may be followed by one at another address.
    """

    def __init__(
        self, spec: ModelSpec, models: Sequence[Model], say: Callable[[str], None] = lambda _: None
    ) -> None:
        """`models`: the same at each address alone. `say` is told which do not answer."""
        self.spec, self._say = spec, say
        ways = [model for model in models if isinstance(model, EndpointModel)]
        if len(ways) < len(models):
            raise UsageError(
                f"model {spec.name!r}: provider {spec.provider!r} asks one address; give one base_url"
            )
        self._ways: dict[Any, _At] = {way.endpoint.limiter: way for way in ways}
        self._queue = shared_queue(tuple(self._ways))
        self._slots: deque[_At] = deque()
        """Where the slots are that no request in flight holds. One is as good as another."""

    async def acquire(self, place: int = 0) -> None:
        """Wait for a slot at any address."""
        self._slots.append(self._ways[await self._queue.acquire(place)])

    def release(self) -> None:
        """Give a slot back."""
        self._slots.pop().release()

    async def respond(self, request: Request) -> Response:
        """Return what came of one request after its tries, wherever these were made.

        Raises `ModelError` where no server answers any more, or one says what no request can escape.
        """
        way = self._slots.popleft()
        try:
            tries = way.begin(request)
            while isinstance(tries, Tries):
                others = (limiter for limiter in self._ways if limiter is not way.endpoint.limiter)
                is_open_elsewhere = any(limiter.is_open for limiter in others)
                try:
                    found = await way.try_once(tries, is_open_elsewhere=is_open_elsewhere)
                except ModelError:
                    if not self._leave_out(way.endpoint):
                        raise
                    found = 0.0
                self._tell(way.endpoint, tries.error)
                if isinstance(found, Response):
                    return msgspec.structs.replace(found, address=endpoint_of(way.spec))
                way = self._ways[await self._queue.back_off(way.endpoint.limiter, found)]
            return tries
        finally:
            self._slots.append(way)

    async def close(self) -> None:
        """Close the connections to all addresses, unless other models of a pool share them."""
        for way in self._ways.values():
            await way.close()

    def _leave_out(self, endpoint: Endpoint) -> bool:
        """Ask a dead endpoint nothing for a while; False where it is not that.

        Raises ModelError where all of them are dead.
        """
        if not endpoint.limiter.is_dead:
            return False
        if all(limiter.is_dead for limiter in self._ways):
            reason = f"no address of model {self.spec.name!r} answers; the last: {endpoint.fatal}"
            for way in self._ways.values():
                way.endpoint.fatal = reason
            raise ModelError(reason)
        endpoint.fatal = ""
        endpoint.limiter.pause(AGAIN_AFTER_S)
        return True

    def _tell(self, endpoint: Endpoint, error: str) -> None:
        """Say once that an address does not answer, or that it does again."""
        is_out = endpoint.limiter.is_out
        if is_out and not endpoint.is_left_out:
            self._say(
                f"{endpoint.access.host} does not answer ({error}): its calls are asked of "
                f"{len(self._ways) - 1} other address(es), and it is tried again"
            )
        elif endpoint.is_left_out and not is_out:
            self._say(f"{endpoint.access.host} answers again")
        endpoint.is_left_out = is_out
