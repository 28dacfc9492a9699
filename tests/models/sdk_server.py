"""A loopback server of the APIs of hosted models, which fails as it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.server import Faults, FaultServer, Reply, _render

Body = dict[str, Any]

LOST = ("drop", "hang", "invalid_json", "truncated")
"""Faults after which an answer may have been made that never arrived."""
KINDS = ("429", "429_retry_after", "500", "529", "page", *LOST)


class SdkServer(FaultServer):
    """Fails the first requests by `faults`, one kind each, then answers; notes what it saw."""

    def __init__(
        self,
        reply: Callable[[Body], Body | Reply],
        faults: tuple[str, ...] = (),
        *,
        retry_after_s: float = 0.05,
    ) -> None:
        super().__init__(faults=Faults(hang_s=5.0, retry_after_s=retry_after_s))
        self.reply = reply
        self.left = list(faults)
        self.paths: list[str] = []

    @property
    def base_url(self) -> str:
        return super().base_url.removesuffix("/v1")

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/{path:.*}", self._handle)

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.paths.append(request.path)
        if self.left and (failed := await self._fail(self.left.pop(0), request, body, "")):
            return failed
        reply = self.reply(body)
        return _render(body, "", reply if isinstance(reply, Reply) else Reply(body=reply))


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
