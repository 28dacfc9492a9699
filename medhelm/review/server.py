"""The server of a review: one page, and what a rater with a code may read and mark.

A code is sent as a header, never as a cookie, so that no other site can send it. No text is kept by
a browser, and the page may load nothing from elsewhere.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import resources
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn import Config, Server

from medhelm.errors import MedhelmError, UsageError
from medhelm.review.marks import OVERSEER, Asked, Marks

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_FILES = {"index.html": "text/html", "review.js": "text/javascript", "review.css": "text/css"}
_MOST = 64 * 1024
"""Bytes of a request."""


def make_app(marks: Marks, codes: Mapping[str, str], hosts: list[str]) -> Any:
    """Return the application. It answers to these names alone: a page from elsewhere whose name leads
    to this machine could else reach it."""

    def read(give: Callable[[Marks, str, Request], object]) -> Any:
        async def endpoint(request: Request) -> Response:
            return _json(give(marks, _who(request, codes), request))

        return endpoint

    app = Starlette(
        routes=[
            *(Route(f"/{name}".replace("index.html", ""), _file(name)) for name in _FILES),
            Route("/api/state", read(_state)),
            Route("/api/units/{number:int}", read(_unit)),
            Route("/api/overview", read(partial(_overview, codes))),
            Route("/api/marks", _saving(marks, codes), methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers={HTTPException: _refuse, MedhelmError: _refuse},
    )
    added = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await app(scope, receive, send_guarded)

    return guarded


def _json(value: object, status: int = 200) -> Response:
    content = msgspec.json.encode(value, enc_hook=float)  # numpy's numbers; NaN becomes null
    return Response(content, status, media_type="application/json")


def _refuse(request: Request, error: Any) -> Response:
    if isinstance(error, MedhelmError):
        return _json({"error": str(error)}, 400 if isinstance(error, UsageError) else 500)
    return _json({"error": error.detail}, error.status_code)


def _file(name: str) -> Any:
    async def give(request: Request) -> Response:
        content = (resources.files(__package__) / "page" / name).read_bytes()
        return Response(content, media_type=_FILES[name])

    return give


def _who(request: Request, codes: Mapping[str, str]) -> str:
    """Return whose code a request has; each code is compared in constant time."""
    given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
    found = [name for name, code in codes.items() if hmac.compare_digest(code.encode(), given)]
    if not found:
        raise HTTPException(401, "this code is not known")
    return found[0]


def _state(marks: Marks, who: str, request: Request) -> dict[str, object]:
    return {"rater": who, "done": None if who == OVERSEER else marks.done(who)}


def _unit(marks: Marks, who: str, request: Request) -> dict[str, object]:
    """Return a unit with its items and the rater's own marks; nobody is shown another's."""
    number = request.path_params["number"]
    if who == OVERSEER or not number < len(marks.review.units):
        raise HTTPException(404, "there is no such unit")
    unit = marks.review.units[number]
    return {
        "name": unit.name,
        "parts": unit.parts,
        "items": unit.items,
        "values": unit.scale.choices,
        "legend": unit.scale.points or [("Values", str(unit.scale))],
        "rules": marks.review.rules,
        "more": marks.review.more,
        "marks": {i: {"value": m.value, "more": m.more} for i, m in marks.of(who, unit).items()},
    }


def _overview(codes: Mapping[str, str], marks: Marks, who: str, request: Request) -> object:
    if who != OVERSEER:
        raise HTTPException(403, "this is for the overseer")
    done = {name: marks.done(name) for name in codes if name != OVERSEER}
    raters = [[name, sum(own), len(own)] for name, own in done.items()]
    return {"raters": raters, "agreement": marks.agreement()}


def _saving(marks: Marks, codes: Mapping[str, str]) -> Any:
    async def save(request: Request) -> Response:
        """Store a mark that the page itself sends; the answer comes when it is on the disk."""
        headers = request.headers
        if headers.get("origin") != f"{request.url.scheme}://{headers.get('host')}":
            raise HTTPException(403, "marks come from the page itself")
        if headers.get("content-type") != "application/json":
            raise HTTPException(415, "a mark is JSON")
        who = _who(request, codes)
        if who == OVERSEER:
            raise HTTPException(403, "the overseer rates nothing")
        if int(headers.get("content-length", _MOST + 1)) > _MOST:
            raise HTTPException(413, "too long")
        try:
            asked = msgspec.json.decode(await request.body(), type=Asked)
        except msgspec.DecodeError:
            raise HTTPException(400, "this is not a mark") from None
        marks.add(who, asked)
        return _json(_state(marks, who, request))

    return save


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, port 0 for any free one; raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as e:
        raise UsageError(f"--host {host} --port {port} cannot be used: {e}") from None


def serve(app: Any, listening: socket.socket, certificate: str | None, key: str | None) -> None:
    """Serve until Ctrl-C. Nothing is written of who asked for what."""
    config = Config(
        app,
        access_log=False,
        log_level="error",
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=3,
    )
    with suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listening])
