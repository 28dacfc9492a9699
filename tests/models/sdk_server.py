"""A loopback server of the APIs of hosted models, which fails as it is told to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Body = dict[str, Any]

LOST = ("drop", "hang", "invalid_json", "truncated")
"""Faults after which an answer may have been made that never arrived."""
KINDS = ("429", "429_retry_after", "500", "529", "page", *LOST)


@dataclass(frozen=True)
class Told:
    """A status and body of their own."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class SdkServer:
    """Fails the first requests by `faults`, one kind each, then answers; notes what it saw."""

    def __init__(
        self,
        reply: Callable[[Body], Any],
        faults: tuple[str, ...] = (),
        *,
        hang_s: float = 5.0,
        retry_after: str = "0.05",
        latency_s: float = 0.0,
        port: int = 0,
    ) -> None:
        self.reply = reply
        self.faults = list(faults)
        self.bodies: list[Body] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.in_flight = self.in_flight_max = 0
        self._hang_s, self._retry_after, self._latency_s = hang_s, retry_after, latency_s
        self._port = port
        self._runner: web.AppRunner | None = None
        self._stopping = asyncio.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> SdkServer:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None
        self._stopping.set()
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.paths.append(request.path)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            if self.faults and (failed := await self._fail(self.faults.pop(0), request)):
                return failed
            if self._latency_s:
                await asyncio.sleep(self._latency_s)
            told = self.reply(body)
            if not isinstance(told, Told):
                told = Told(200, told)
            return web.json_response(told.body, status=told.status, headers=told.headers)
        finally:
            self.in_flight -= 1

    async def _fail(self, kind: str, request: web.Request) -> web.StreamResponse | None:
        error = {"type": "error", "error": {"type": "some_error", "message": "About Mrs Miller"}}
        if kind == "429_retry_after":
            after = {"Retry-After": self._retry_after}
            return web.json_response(error, status=429, headers=after)
        if kind.isdecimal():
            return web.json_response(error, status=int(kind))
        if kind == "page":  # what a gateway writes
            return web.Response(status=502, text="<p>bad gateway</p>", content_type="text/html")
        if kind == "invalid_json":
            return web.Response(body=b'{"content": [', content_type="application/json")
        if kind == "truncated":
            half = web.StreamResponse(headers={"Content-Type": "application/json"})
            half.content_length = 100
            await half.prepare(request)
            await half.write(b'{"content": [')
        if kind == "hang":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._hang_s)
        assert request.transport is not None
        if kind == "truncated":
            request.transport.close()
        else:
            request.transport.abort()
        raise asyncio.CancelledError


def completion(text: str = "B", finish: str = "stop", **more: Any) -> Body:
    """Return an answer of the chat completions API."""
    return {
        "choices": [{"message": {"content": text}, "finish_reason": finish}],
        "model": "gpt-test-1",
        "usage": {"prompt_tokens": 12, "completion_tokens": 3},
        **more,
    }


def message(text: str = "B", stop_reason: str = "end_turn", **more: Any) -> Body:
    """Return an answer of the Messages API."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-1",
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 3},
        **more,
    }


def candidates(text: str = "B", finish: str = "STOP", **more: Any) -> Body:
    """Return an answer of the Gemini API."""
    candidate: Body = {"finishReason": finish, "index": 0}
    if text:
        candidate["content"] = {"role": "model", "parts": [{"text": text}]}
    return {
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 3},
        "modelVersion": "gemini-test-1",
        **more,
    }


def response(text: str = "B", status: str = "completed", **more: Any) -> Body:
    """Return an answer of the Responses API, after some thought."""
    said = {"type": "output_text", "text": text, "annotations": []}
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    output = [{"type": "message", "role": "assistant", "status": status, "content": [said]}]
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "gpt-test-1",
        "output": [thought, *(output if text else [])],
        "usage": {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 6},
            "total_tokens": 21,
        },
        **more,
    }


def converse_reply(text: str = "B", stop: str = "end_turn", **more: Any) -> Body:
    """Return an answer of Bedrock's Converse, after some thought."""
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
    return {
        "output": {
            "message": {
                "role": "assistant",
                "content": [thought, *([{"text": text}] if text else [])],
            }
        },
        "stopReason": stop,
        "usage": {"inputTokens": 12, "outputTokens": 3, "totalTokens": 15},
        "metrics": {"latencyMs": 5},
        **more,
    }
