"""A server of the OpenAI chat protocol that answers by rule and fails by rule, on loopback.

Every decision depends on the seed, the prompt and how often it was asked, never on timing:

    async with FaultServer(faults=Faults(rate=0.1)) as server:
        ... server.base_url, server.requests, server.duplicates ...

    with serve_in_thread(latency_s=0.2) as server: ...
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import re
import socketserver
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from aiohttp import web

from medhelm.schema.model import ModelSpec

KINDS = ("429", "429_retry_after", "500", "drop", "hang", "invalid_json", "truncated", "slow")
"""Faults that go away: a later try of the same prompt is answered."""

_OPTION = re.compile(r"^\s*\(?([A-Z])[.):]\s", re.MULTILINE)


@dataclass(frozen=True)
class Faults:
    """How often a request fails, and how."""

    rate: float = 0.0
    """Share of requests that fail, decided by seed, prompt and number of the try."""
    kinds: tuple[str, ...] = KINDS
    seed: int = 0
    retry_after_s: float = 0.05
    hang_s: float = 30.0
    """How long a hanging request is held; the client should give up before."""
    slow_s: float = 0.2
    """Added latency of a slow first byte, which is no failure."""
    first: int = 0
    """So many first tries of every prompt fail, whatever the rate."""

    def kind(self, prompt: str, attempt: int) -> str | None:
        """Return the fault of try `attempt` (from 1) of a prompt, or None."""
        rng = random.Random(_digest(f"{self.seed}|{attempt}|{prompt}"))
        if attempt > self.first and rng.random() >= self.rate:
            return None
        return rng.choice(self.kinds)


@dataclass(frozen=True)
class Reply:
    """An answer with its own ending, a status of its own, or a body as it is."""

    text: str | None = ""
    finish_reason: str = "stop"
    refusal: str | None = None
    status: int = 200
    body: Any = None
    """Replaces the whole body where it is not None (bytes, or what JSON can hold)."""
    headers: Mapping[str, str] = field(default_factory=dict)
    usage: Any = None
    """Replaces the usage where it is not None; False leaves it out."""


Answer = Callable[[str], str | Reply]
"""Prompt (all messages joined by line breaks) -> answer."""


def letter(prompt: str) -> str:
    """Return one of the prompt's option letters (A to D where it lists none), by its hash."""
    letters: list[str] = sorted(set(_OPTION.findall(prompt))) or list("ABCD")
    return letters[_digest(prompt) % len(letters)]


ANSWERS: dict[str, Answer] = {
    "letter": letter,
    "mixed": lambda prompt: _mixed(prompt),
}
"""Rules by name; any other text is the answer itself."""


def prompt_of(body: Mapping[str, Any]) -> str:
    """Return the texts of a request's messages, or its plain text."""
    if "prompt" in body:
        return body["prompt"] if isinstance(body["prompt"], str) else "\n".join(body["prompt"])
    return "\n".join(_text(message["content"]) for message in body["messages"])


def instance_of(schema: dict[str, Any]) -> Any:
    """Return the value with the least in it that a closed schema allows, each list with one of all."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        assert schema["additionalProperties"] is False
        assert schema["required"] == [*schema["properties"]]
        return {name: instance_of(own) for name, own in schema["properties"].items()}
    if schema["type"] == "array":
        return [instance_of(schema["items"])]
    return {"string": "x", "boolean": True, "integer": 1}[schema["type"]]


class FaultServer:
    """The server and what it saw. `answer`: a rule, a key of `ANSWERS`, or the text itself."""

    def __init__(
        self,
        answer: Answer | str = "letter",
        faults: Faults | None = None,
        *,
        latency_s: float = 0.0,
        port: int = 0,
        key: str | None = None,
        max_parallel: int | None = None,
        tls: ssl.SSLContext | None = None,
        by_body: Callable[[Mapping[str, Any]], str | Reply] | None = None,
    ) -> None:
        self.answer = ANSWERS.get(answer, lambda _: answer) if isinstance(answer, str) else answer
        self._by_body = by_body
        """Where given, it answers in place of `answer`, by model, texts and seed."""
        self.faults = faults or Faults()
        self.latency_s = latency_s
        self.key = key
        """Where given, every request must carry it."""
        self.max_parallel = max_parallel
        """Where given, requests beyond so many at once get a 429."""
        self.requests = 0
        self.in_flight = 0
        self.in_flight_max = 0
        self.faulted: Counter[str] = Counter()
        """Number of faults by kind."""
        self.asked: Counter[str] = Counter()
        """Requests by prompt."""
        self.answered: Counter[str] = Counter()
        """Requests by prompt that were answered in full."""
        self.bodies: list[dict[str, Any]] = []
        """The bodies of the last 1,000 requests."""
        self.headers: list[Mapping[str, str]] = []
        """Their headers."""
        self.pages: dict[str, Any] = {}
        """What GET answers by path, as bytes or as JSON holds it; None: it hangs. Others are a 404."""
        self.pages_asked: Counter[str] = Counter()
        self.served = ""
        """The model that answers name; empty: the one that was asked for."""
        self._port = port
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def base_url(self) -> str:
        """Return what a model's `base_url` is set to."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}/v1"

    def model(self, name: str, **own: Any) -> ModelSpec:
        """Return a model that is asked here, under the last part of its name."""
        given = {"model": name.rpartition("/")[2], "base_url": self.base_url}
        return ModelSpec(name=name, **{**given, **own})

    @property
    def duplicates(self) -> dict[str, int]:
        """Return the prompts that were answered more than once, with the number of times."""
        return {prompt: n for prompt, n in self.answered.items() if n > 1}

    async def __aenter__(self) -> FaultServer:
        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=1 << 28)
        self.add_routes(app)
        app.router.add_post("/v1/chat/completions", self._handle)
        app.router.add_post("/v1/completions", self._handle)
        app.router.add_get("/{path:.*}", self._page)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, "127.0.0.1", self._port, backlog=1024, ssl_context=self._tls
        )
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    def add_routes(self, app: web.Application) -> None:
        """Add what a server has besides."""

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None and self._stopping is not None
        self._stopping.set()
        await self._runner.cleanup()

    async def _page(self, request: web.Request) -> web.StreamResponse:
        self.pages_asked[request.path] += 1
        if request.path not in self.pages:
            return _error(404, "not_found", "No such page")
        if (page := self.pages[request.path]) is None:
            assert self._stopping is not None
            await self._stopping.wait()
        body = page if isinstance(page, bytes) else json.dumps(page).encode()
        return web.Response(body=body, content_type="application/json")

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            return await self._respond(request)
        finally:
            self.in_flight -= 1

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(dict(body))
        body["model"] = self.served or body.get("model", "")
        self.headers.append(dict(request.headers))
        del self.bodies[:-1000], self.headers[:-1000]
        prompt = prompt_of(body)
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _error(401, "invalid_api_key", f"Incorrect API key for: {prompt}")
        if self.max_parallel is not None and self.in_flight > self.max_parallel:
            self.faulted["429"] += 1
            return _error(429, "rate_limit_exceeded", "Too many at once")
        self.asked[prompt] += 1
        kind = self.faults.kind(prompt, self.asked[prompt])
        if kind is not None:
            self.faulted[kind] += 1
            failed = await self._fail(kind, request, body, prompt)
            if failed is not None:
                return failed
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        reply = self._by_body(body) if self._by_body else self.answer(prompt)
        response = _render(body, prompt, reply)
        if response.status == 200:
            self.answered[prompt] += 1
        return response

    async def _fail(
        self, kind: str, request: web.Request, body: dict[str, Any], prompt: str
    ) -> web.StreamResponse | None:
        if kind == "429_retry_after":
            after = {"Retry-After": f"{self.faults.retry_after_s:g}"}
            return _error(429, "rate_limit_exceeded", "Slow down", after)
        if kind.isdecimal():
            code = "rate_limit_exceeded" if kind == "429" else "server_error"
            return _error(int(kind), code, "Not now")
        if kind == "page":  # what a gateway writes
            return web.Response(status=502, text="<p>bad gateway</p>", content_type="text/html")
        if kind == "invalid_json":
            return web.Response(body=b'{"choices": [{"message": ', content_type="application/json")
        if kind == "truncated":
            return await _truncate(request, _render(body, prompt, self.answer(prompt)))
        if kind == "drop":
            _disconnect(request)
        assert self._stopping is not None
        seconds = self.faults.hang_s if kind == "hang" else self.faults.slow_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        if kind == "hang":
            _disconnect(request)
        return None


@contextlib.contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[str]:
    """Run a server of the standard library in a thread; yield its address."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


ServerT = TypeVar("ServerT", bound=FaultServer)


@contextlib.contextmanager
def serve_in_thread(*args: Any, **kwargs: Any) -> Iterator[FaultServer]:
    """Run a `FaultServer` (same arguments) in a thread of its own, for code that blocks."""
    with in_thread(FaultServer(*args, **kwargs)) as server:
        yield server


@contextlib.contextmanager
def in_thread(server: ServerT) -> Iterator[ServerT]:
    """Run a server in a thread of its own."""
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with server:
            stop.append(lambda: loop.call_soon_threadsafe(done.set))
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    if not ready.wait(10):
        raise RuntimeError("the test server did not start")
    try:
        yield server
    finally:
        stop[0]()
        thread.join(10)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big")


def _mixed(prompt: str) -> str | Reply:
    """Answer most prompts; leave 1 in 20 each empty, refused and truncated, by the prompt's hash."""
    match _digest("mixed" + prompt) % 20:
        case 0:
            return ""
        case 1:
            return Reply(None, refusal="I can't help with that.")
        case 2:
            return Reply("The answer would be", finish_reason="length")
    return letter(prompt)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _disconnect(request: web.Request, *, flush: bool = False) -> NoReturn:
    """Drop the connection under the client, and end the handler as if the client had done so."""
    if isinstance(request.transport, asyncio.Transport):
        if flush:
            request.transport.close()
        else:
            request.transport.abort()
    raise asyncio.CancelledError


def _error(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    body = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return web.json_response(body, status=status, headers=headers)


def _render(body: Mapping[str, Any], prompt: str, reply: str | Reply) -> web.Response:
    if isinstance(reply, str):
        reply = Reply(reply)
    if isinstance(reply.body, bytes):
        return web.Response(
            body=reply.body,
            status=reply.status,
            headers=reply.headers,
            content_type="application/json",
        )
    content = reply.body
    if content is None:
        message = {"role": "assistant", "content": reply.text}
        if reply.refusal is not None:
            message["refusal"] = reply.refusal
        content = {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "model": body.get("model", ""),
            "system_fingerprint": "fp_test",
            "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
        }
        if reply.usage is not False:
            content["usage"] = reply.usage or _usage(prompt, reply.text or "")
    return web.json_response(content, status=reply.status, headers=reply.headers)


def _usage(prompt: str, text: str) -> dict[str, Any]:
    """Return counts of one token per four bytes."""
    asked, said = ((len(t.encode("utf-8", "replace")) + 3) // 4 for t in (prompt, text))
    asked += 7
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


async def _truncate(request: web.Request, whole: web.Response) -> web.StreamResponse:
    assert isinstance(whole.body, bytes)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(whole.body)
    await response.prepare(request)
    await response.write(whole.body[: len(whole.body) // 2])
    _disconnect(request, flush=True)
