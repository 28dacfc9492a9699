"""Several calls of one episode at once, none of which is cut because another has failed."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TypeVar

_T = TypeVar("_T")


async def together(calls: Iterable[Awaitable[_T]]) -> list[_T]:
    """Return the results of calls in their order.

    All of them end before the first failure is raised: an answer that is on its way is paid for.
    """
    import asyncio  # plugins are loaded by every command, and need it only here

    ended = await asyncio.gather(*calls, return_exceptions=True)
    for result in ended:
        if isinstance(result, BaseException):
            raise result
    return [result for result in ended if not isinstance(result, BaseException)]
