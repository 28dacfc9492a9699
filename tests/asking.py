"""What a run sends for one instance, without sending it."""

from __future__ import annotations

import asyncio

from medhelm.protocols.protocol import Protocol, terms_of
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Request, Response
from medhelm.schema.run import RunSpec


def first_request(
    protocol: Protocol, benchmark: Benchmark, spec: RunSpec, instance: Instance
) -> Request:
    """Return the first request of an instance's episode."""
    sent: list[Request] = []

    async def ask(role: str, request: Request, *, step: str, attempt: int = 0) -> Response:
        sent.append(request)
        return Response(instance_id=instance.id, finish="error", error="not sent")

    async def conduct() -> None:
        await protocol.conduct(benchmark, instance, terms_of(protocol, spec, 0), ask)

    asyncio.run(conduct())
    return sent[0]
