"""A model that gives prepared answers: for tests and for trying a pipeline out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

import msgspec

from medhelm.config import convert
from medhelm.models.pacing.limits import CEILING, AdaptiveLimiter
from medhelm.schema.episode import Finish, Request, Response, Usage
from medhelm.schema.model import ModelSpec

Reply = Callable[[Request], str | Response]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that `extra_body` of a config with `provider: scripted` may have."""

    replies: dict[str, str] = {}
    """Completion by instance id."""
    default: str = ""
    """Completion of every other instance."""
    finish: dict[str, Finish] = {}
    """The end of a response that does not end with 'stop', by instance."""
    delay_s: float = 0.0


class ScriptedModel:
    """Answers by a function, a mapping from instance ids, or one text; can be slow and can fail.

    `finish` gives the ending by instance id; an 'error' has no text. `raises` is raised for
    the instances in `raise_on` (all, if that is empty).
    """

    def __init__(
        self,
        spec: ModelSpec,
        replies: Reply | Mapping[str, str] | str = "",
        *,
        default: str = "",
        finish: Mapping[str, Finish] | None = None,
        delay_s: float = 0.0,
        raises: Exception | None = None,
        raise_on: Collection[str] = (),
    ) -> None:
        self.spec = spec
        self.requests: list[Request] = []
        """Every request in the order of arrival."""
        self.closed = False
        self._replies = replies
        self._default = default
        self._finish = finish or {}
        self._delay_s = delay_s
        self._raises = raises
        self._raise_on = raise_on
        most = spec.max_concurrency or CEILING
        self._limiter = AdaptiveLimiter(most, start=most)

    @property
    def in_flight(self) -> int:
        """Return how many requests are being answered."""
        return self._limiter.in_flight

    async def acquire(self, place: int = 0) -> None:
        """Wait for one of `max_concurrency` slots."""
        await self._limiter.acquire(place)

    def release(self) -> None:
        """Give the slot back."""
        self._limiter.release()

    async def respond(self, request: Request) -> Response:
        """Return the scripted response."""
        self.requests.append(request)
        await asyncio.sleep(self._delay_s)
        if self._raises and (not self._raise_on or request.instance_id in self._raise_on):
            raise self._raises
        reply = self._reply(request)
        if isinstance(reply, Response):
            return reply
        finish = self._finish.get(request.instance_id, "stop")
        has_text = finish in ("stop", "length")
        return request.reply(
            text=reply if has_text else "",
            finish=finish,
            error="scripted" if finish == "error" else "",
            usage=_usage(request, reply) if has_text else Usage(),
            served_model=self.spec.model or self.spec.name,
        )

    async def close(self) -> None:
        """Note that the model was closed."""
        self.closed = True

    def _reply(self, request: Request) -> str | Response:
        if isinstance(self._replies, Mapping):
            return self._replies.get(request.instance_id, self._default)
        return self._replies if isinstance(self._replies, str) else self._replies(request)


def open_scripted(spec: ModelSpec) -> ScriptedModel:
    """Return the model that `spec.extra_body` describes (see `Script`)."""
    where = f"model {spec.name!r}: extra_body of a scripted model"
    script: Script = convert(spec.extra_body, Script, where)
    return ScriptedModel(spec, **msgspec.structs.asdict(script))


def _usage(request: Request, reply: str) -> Usage:
    """Return counts as a server of one token per word would give them."""
    words = sum(len(message.content.split()) for message in request.messages)
    return Usage(input_tokens=words, cached_tokens=0, output_tokens=len(reply.split()))
