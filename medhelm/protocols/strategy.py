"""Strategies, by which the model of one role answers a protocol, such as the best of five.

A strategy is above the asker: each of its inner calls is an ordinary call with a step of its own,
found again in the log, booked, and shown with its cost. It holds no slot between them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol as TypingProtocol

from medhelm.protocols.protocol import Conduct, Send
from medhelm.schema.episode import Request, Response


class SendToRole(TypingProtocol):
    """Asks the one role that a strategy answers for."""

    def __call__(self, request: Request, *, step: str, attempt: int = 0) -> Awaitable[Response]:
        """Return the response of the role's model."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """Answers a request by several calls to the role's model; a plugin brings it by
    `medhelm_strategies`, and `model.strategy=NAME` or a cast entry chooses it."""

    name: str
    """With its settings in it (`best_of_3`): part of the run's identity and of the name shown."""
    version: str = "1"
    """Raised whenever other requests are sent."""
    calls: int
    """The most calls that one request becomes, for estimates."""
    answer: Callable[[SendToRole, Request, str, int], Awaitable[Response]] | None = None
    """(ask, request, step, attempt) -> response. The steps of its calls begin with the request's."""
    around: Callable[[Conduct, str], Conduct] | None = None
    """(conduct, role) -> conduct, for what needs whole episodes: `calls` of them, each of whose steps
    begins with a name of its own. Calls of all roles are then made so often."""
    help: str = ""

    def over(self, own: str, send: Send) -> Send:
        """Return an asker that answers for one role by the strategy, and for others as before."""
        answer = self.answer
        if answer is None:
            return send

        async def ask_own(request: Request, *, step: str, attempt: int = 0) -> Response:
            return await send(own, request, step=step, attempt=attempt)

        async def ask_any(role: str, request: Request, *, step: str, attempt: int = 0) -> Response:
            if role != own:
                return await send(role, request, step=step, attempt=attempt)
            return await answer(ask_own, request, step, attempt)

        return ask_any
