"""Ask until a reply can be read: what is wrong with it goes back to who wrote it, a few times."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from medhelm.extract.json_reply import BadReply
from medhelm.schema.episode import Message, Response

_T = TypeVar("_T")
_NOTHING = "(no text)"
"""Stands for an empty reply, which some endpoints refuse as a turn."""


@dataclass(frozen=True)
class Readout(Generic[_T]):
    """Holds what was read of a model's replies to one question."""

    value: _T | None
    end: str = ""
    """The reason for no value: error, oversize, refused, truncated or unreadable; empty where there is one."""
    fault: str = ""
    """The fault of the last reply, or the kind of its failure."""


async def send_until_read(
    send: Callable[[tuple[Message, ...], int], Awaitable[Response]],
    messages: tuple[Message, ...],
    read: Callable[[str], _T],
    repair: Callable[[str], Message],
    repairs: int,
) -> Readout[_T]:
    """Return what `read` makes of a reply; one that it refuses is asked for again `repairs` times.

    `send` takes the messages and the number of the attempt. `read` raises BadReply, whose text `repair`
    makes the next message of.
    """
    fault = ""
    for attempt in range(1 + repairs):
        response = await send(messages, attempt)
        if response.finish in ("error", "oversize"):
            return Readout(None, response.finish, response.error)
        if response.finish == "refusal":
            return Readout(None, "refused")
        try:
            return Readout(read(response.text))
        except BadReply as e:
            fault = str(e)
        if response.finish == "length":
            return Readout(None, "truncated", fault)
        reply = Message("assistant", response.text if response.text.strip() else _NOTHING)
        messages = (*messages, reply, repair(fault))
    return Readout(None, "unreadable", fault)
