"""An event loop whose clock jumps to the next timer, so that minutes of waiting take moments."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class _JumpingSelector(selectors.SelectSelector):
    """Waits for nothing; what it would have waited is added to the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, at once."""
        if timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        self.now += max(0.0, timeout)
        return super().select(0.0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """The event loop of virtual time."""

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the virtual seconds since the start."""
        return self._clock.now


def run_virtually(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
