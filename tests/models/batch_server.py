"""A server of batches on loopback: files and batches of OpenAI's form, and Anthropic's message batches.

A batch ends after some looks at it. Its results come in another order than its requests, in two files. At a
named moment the server kills the process that asks it, before or behind what it was asked to do.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from medhelm.cli import run_command
from medhelm.models import batches
from tests.server import FaultServer, _disconnect, _render, prompt_of


def with_short_waits(argv: list[str]) -> None:
    """Run the command line with shorter waits, and leave with its exit code."""
    batches.QUIET_S = batches.SETTLE_S = 0.3
    batches.POLL_S = (0.05, 0.1)
    sys.exit(run_command(argv))


class BatchServer(FaultServer):
    """Answers what comes in batches by the rule of its kind, each request once."""

    def __init__(self, *args: Any, looks: int = 2, **more: Any) -> None:
        super().__init__(*args, **more)
        self.looks = looks
        """Looks at a batch until it has ended."""
        self.files: dict[str, list[bytes]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.lines: dict[str, list[dict[str, Any]]] = {}
        """The requests of each batch."""
        self.results: dict[str, list[bytes]] = {}
        self.happened: Counter[str] = Counter()
        """Moments, by name."""
        self.kill: Callable[[str, int], bool] = lambda moment, nth: False
        """Whether the process that asks is killed at a moment, the n-th of this name."""
        self.victim = 0
        self.outcome: Callable[[str, int], str] = lambda prompt, nth: "answer"
        """What becomes of a prompt that comes in a batch the n-th time: answer, expire, or a status."""
        self.fails: Callable[[int], str] = lambda n: ""
        """The code with which a batch of n requests fails as a whole; empty: it does not."""
        self.is_packed = False
        """Whether results are compressed, though nobody asked for it."""
        self.log_below: Path | None = None
        """Where given, all results are sent once the first answers are in a log below it."""

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/files", self._upload)
        app.router.add_post("/v1/files/upload", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._content)
        for path, create in (("/v1/batches", self._create), ("/v1/messages/batches", self._create)):
            app.router.add_post(path, create)
            app.router.add_get(path, self._list)
            app.router.add_get(path + "/{id}", self._look)
        app.router.add_get("/v1/messages/batches/{id}/results", self._content)

    async def _at(self, moment: str, request: web.Request) -> None:
        self.happened[moment] += 1
        if self.victim and self.kill(moment, self.happened[moment]):
            pid, self.victim = self.victim, 0
            os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.05)
            _disconnect(request)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        await self._at("upload comes", request)
        form = await request.post()
        assert form["purpose"] in ("batch", "batch-api")
        content = form["file"]
        assert isinstance(content, web.FileField)
        name = f"file-{len(self.files)}"
        with content.file as file:
            self.files[name] = file.read().splitlines()
        await self._at("upload is stored", request)
        return web.json_response({"id": name, "object": "file", "purpose": form["purpose"]})

    async def _create(self, request: web.Request) -> web.StreamResponse:
        await self._at("batch comes", request)
        wanted = await request.json()
        is_message = "messages" in request.path
        name = f"batch_{len(self.batches)}"
        if is_message:
            lines = [{"body": r["params"], **r} for r in wanted["requests"]]
            made = {"id": name, "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        else:
            lines = [json.loads(line) for line in self.files[wanted["input_file_id"]]]
            assert all(line["method"] == "POST" for line in lines)
            assert {line["url"] for line in lines} == {wanted["endpoint"]}
            assert wanted["completion_window"] == "24h"
            made = {"id": name, "created_at": int(time.time()), **wanted}
        ids = [line["custom_id"] for line in lines]
        assert len(set(ids)) == len(ids) and all(len(own) <= 64 for own in ids)
        assert len({line["body"]["model"] for line in lines}) == 1
        self.batches[name], self.lines[name] = made | {"looks": 0}, lines
        await self._at("batch is made", request)
        return web.json_response(self._said(name))

    async def _list(self, request: web.Request) -> web.StreamResponse:
        await self._at("list comes", request)
        names = [*self.batches][::-1]
        after = request.query.get("after", request.query.get("after_id", ""))
        names = names[names.index(after) + 1 :] if after else names
        page = names[:2]
        data = [self._said(name) for name in page]
        return web.json_response({"data": data, "has_more": len(names) > len(page)})

    async def _look(self, request: web.Request) -> web.StreamResponse:
        await self._at("look", request)
        name = request.match_info["id"]
        self.batches[name]["looks"] += 1
        if self.batches[name]["looks"] >= self.looks and not self._has_ended(name):
            self._work(name)
        return web.json_response(self._said(name))

    async def _content(self, request: web.Request) -> web.StreamResponse:
        await self._at("results are asked for", request)
        body = b"\n".join(self.results[request.match_info["id"]]) + b"\n"
        response = web.StreamResponse()
        if self.is_packed:
            body = gzip.compress(body)
            response.headers["Content-Encoding"] = "gzip"
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        await self._at("half of the results are sent", request)
        await response.write(body[len(body) // 2 :])
        if self.log_below is not None:
            while not sum(p.stat().st_size for p in self.log_below.rglob("responses.jsonl")):
                await asyncio.sleep(0.001)
        await self._at("all results are sent", request)
        return response

    def _has_ended(self, name: str) -> bool:
        return "ended" in self.batches[name]

    def _said(self, name: str) -> dict[str, Any]:
        batch, n = self.batches[name], len(self.lines[name])
        is_over = self._has_ended(name)
        if "input_file_id" not in batch:
            counts = {"processing": 0 if is_over else n, "succeeded": n if is_over else 0}
            status = "ended" if is_over else "in_progress"
            return batch | {"processing_status": status, "request_counts": counts}
        said = batch | {"status": "in_progress"}
        if is_over:
            said |= {"status": batch["ended"], "output_file_id": f"out-{name}"}
            said["error_file_id"] = f"err-{name}"
        if code := self.fails(n) if is_over else "":
            said |= {"status": "failed", "output_file_id": None, "error_file_id": None}
            said["errors"] = {"data": [{"code": code, "message": "no"}]}
        return said

    def _work(self, name: str) -> None:
        """Answer the requests of a batch."""
        is_message = "input_file_id" not in self.batches[name]
        good, bad, ended = [], [], "completed"
        for line in self.lines[name] if not self.fails(len(self.lines[name])) else ():
            prompt = prompt_of(line["body"])
            self.asked[prompt] += 1
            outcome = self.outcome(prompt, self.asked[prompt])
            of = {"custom_id": line["custom_id"]}
            if outcome == "answer":
                self.answered[prompt] += 1
                body = self._body(line["body"], prompt)
                if is_message:
                    good.append(
                        of | {"result": {"type": "succeeded", "message": _as_message(body)}}
                    )
                else:
                    good.append(
                        of | {"response": {"status_code": 200, "body": body}, "error": None}
                    )
            elif is_message:
                kinds = {"expire": "expired", "500": "errored"}
                error = {"type": "error", "error": {"type": "api_error", "message": "oops"}}
                bad.append(of | {"result": {"type": kinds[outcome], "error": error}})
            elif outcome == "expire":
                ended = "expired"
                bad.append(of | {"response": None, "error": {"code": "batch_expired"}})
            else:
                body = {"error": {"message": "oops", "code": "oops"}}
                bad.append(of | {"response": {"status_code": int(outcome), "body": body}})
        self.batches[name]["ended"] = ended
        random.Random(name).shuffle(good)
        encoded = [[json.dumps(one).encode() for one in part] for part in (good, bad)]
        self.results[f"out-{name}"], self.results[f"err-{name}"] = encoded
        self.results[name] = encoded[0] + encoded[1]

    def _body(self, asked: dict[str, Any], prompt: str) -> dict[str, Any]:
        reply = self._by_body(asked) if self._by_body else self.answer(prompt)
        rendered = _render(asked, prompt, reply).body
        assert isinstance(rendered, bytes)
        body: dict[str, Any] = json.loads(rendered)
        return body


def _as_message(body: dict[str, Any]) -> dict[str, Any]:
    usage = body["usage"]
    return {
        "content": [{"type": "text", "text": body["choices"][0]["message"]["content"]}],
        "stop_reason": "end_turn",
        "model": body["model"],
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
        },
    }
