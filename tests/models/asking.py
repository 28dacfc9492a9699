"""Ask a model many things at once, as a runner does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from medhelm.models import open_model
from medhelm.models.http_endpoint import HttpModel
from medhelm.schema.episode import Message, Request, Response
from medhelm.schema.model import Model, ModelSpec
from tests.server import FaultServer


def request(name: object, text: str | None = None, **more: Any) -> Request:
    """Return a request whose prompt is its own."""
    prompt = f"Question {name}?\nA. yes\nB. no\nC. maybe" if text is None else text
    fields: dict[str, Any] = {"max_output_tokens": 16, **more}
    return Request(instance_id=str(name), messages=(Message("user", prompt),), **fields)


def spec_for(base_url: str | None, **more: Any) -> ModelSpec:
    fields: dict[str, Any] = {"name": "openai/m", "model": "m", "timeout_s": 5.0, **more}
    return ModelSpec(base_url=base_url, **fields)


def open_openai(spec: ModelSpec, environ: Mapping[str, str] | None = None) -> HttpModel:
    model = open_model(spec, environ=environ or {})
    assert isinstance(model, HttpModel)
    return model


async def ask_all(model: Model, requests: Iterable[Request]) -> list[Response]:
    """Return the responses in the order of the requests; the first exception cancels the rest."""

    async def ask(one: Request) -> Response:
        try:
            return await model.respond(one)
        finally:
            model.release()

    tasks = []
    try:
        async with asyncio.TaskGroup() as group:
            for one in requests:
                await model.acquire()
                tasks.append(group.create_task(ask(one)))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def said_by(
    spec: ModelSpec, requests: Iterable[Request], environ: Mapping[str, str] | None = None
) -> list[Response]:
    """Return what a model says that is opened for it."""
    model: Any = open_model(spec, environ=environ)
    try:
        return await ask_all(model, requests)
    finally:
        await model.close()


def converse(
    requests: Iterable[Request],
    server: FaultServer | None = None,
    environ: Mapping[str, str] | None = None,
    **spec: Any,
) -> list[Response]:
    """Return what a model behind `server` says to the requests."""

    async def run() -> list[Response]:
        async with server or FaultServer() as running:
            return await said_by(spec_for(running.base_url, **spec), requests, environ or {})

    return asyncio.run(run())


def without_timings(response: Response) -> Response:
    """Return what must not depend on faults, order or time."""
    return msgspec.structs.replace(response, attempts=1, lost=0, latency_s=0.0, finished_at=0.0)
