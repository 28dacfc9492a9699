"""The health of an endpoint: what counts in a row, and when a server is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from medhelm.errors import ModelError
from medhelm.models.access import Access
from medhelm.models.codecs.wire import Failure
from medhelm.models.endpoint import DEAD_AFTER, PATIENCE_S, Endpoint, EndpointModel
from medhelm.schema.episode import Message, Request
from medhelm.schema.model import ModelSpec


class _Server(Endpoint):
    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass


class _Silent(EndpointModel[_Server, bytes]):
    def write(self, request: Request) -> bytes:
        raise AssertionError("it is not to be sent")

    async def send(self, sent: bytes) -> Failure:
        raise AssertionError


FAULT = Failure(kind="retry", error="HTTP 500", status=500)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    yield now


def server() -> _Server:
    return _Server(Access("http://127.0.0.1:1/v1", None, None, ("http://127.0.0.1:1/v1", None)), 4)


@pytest.mark.parametrize("word", ["spoke", "answered"])
def test_given_up_requests_count_in_a_row_only(word: str) -> None:
    async def run() -> None:
        own = server()
        for _ in range(DEAD_AFTER - 1):
            own.gave_up(FAULT)
        getattr(own, word)(own.trying())
        for _ in range(DEAD_AFTER - 1):
            own.gave_up(FAULT)
        assert not own.fatal
        with pytest.raises(ModelError, match="does not answer"):
            own.gave_up(FAULT)

    asyncio.run(run())


def test_failed_tries_end_an_endpoint_after_many_and_after_long(clock: list[float]) -> None:
    async def fail(times: int, own: _Server) -> None:
        for _ in range(times):
            own.failed(FAULT, own.trying(), 1, 10.0)

    async def run() -> None:
        own = server()
        await fail(DEAD_AFTER * 2, own)  # a restart of a server is sat out
        clock[0] += PATIENCE_S - 1
        await fail(1, own)
        own.spoke(own.trying())
        clock[0] += PATIENCE_S
        await fail(DEAD_AFTER - 1, own)  # a new row
        clock[0] += PATIENCE_S
        with pytest.raises(ModelError, match="HTTP 500"):
            await fail(1, own)

    asyncio.run(run())


def test_prompt_and_answer_together_must_fit_the_window() -> None:
    text = "word " * 90  # 100 tokens by estimate, 7 of the frame
    spec = ModelSpec(name="x", model="x", context_window=200)
    request = Request(instance_id="i", messages=(Message("user", text),), max_output_tokens=100)
    found = asyncio.run(_Silent(spec, server(), owns_host=False).respond(request))
    assert found.finish == "oversize" and "the window of 200" in found.error
    held = msgspec.structs.replace(request, max_output_tokens=90, json_schema={"description": text})
    with pytest.raises(AssertionError, match="not to be sent"):  # a schema is not in the window
        asyncio.run(_Silent(spec, server(), owns_host=False).respond(held))
