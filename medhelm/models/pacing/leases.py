"""The part of a pool that this process has: its limiters keep to their leases and report what they sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from medhelm.errors import MedhelmError
from medhelm.models.pacing.limits import AdaptiveLimiter
from medhelm.models.pacing.pool import PoolAccess

_AT_LEAST_S = 0.02
"""Between two reports, however many refusals there are."""


class Leases:
    """Keeps the limiters of one process to what a pool leases."""

    def __init__(self, pool: PoolAccess) -> None:
        self.pool = pool
        self.lost: Callable[[MedhelmError], None] = lambda error: None
        """Called once where the pool cannot be reached any more. Nothing more is sent then."""
        self._keepers: list[asyncio.Task[None]] = []

    def join(self, endpoint: str, limiter: AdaptiveLimiter) -> None:
        """Share an endpoint from now on; until the first lease is there nothing is sent."""
        news = limiter.share(self.pool.workers)
        keeper = asyncio.create_task(self._keep(endpoint, limiter, news))
        keeper.add_done_callback(self._end)
        self._keepers.append(keeper)

    def _end(self, keeper: asyncio.Task[None]) -> None:
        """Let nobody wait for leases that do not come any more."""
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            if not isinstance(error, MedhelmError):
                error = MedhelmError(f"a defect ended the leases: {error!r}")
            self.lost(error)

    async def _keep(self, endpoint: str, limiter: AdaptiveLimiter, news: asyncio.Event) -> None:
        while True:
            news.clear()
            lease = await self.pool.lease(endpoint, limiter.report())
            limiter.hold(lease)
            again_s = min(lease.again_s, lease.pause_s or lease.again_s)
            await asyncio.sleep(_AT_LEAST_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, again_s - _AT_LEAST_S)):
                    await news.wait()

    async def close(self) -> None:
        """End the leases."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        with suppress(MedhelmError):
            self.pool.leave()
