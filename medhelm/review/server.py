"""The server of a review: one page, and what a rater with a code may read and mark.

A code is sent as a header, never as a cookie, so that no other site can send it. No text is kept by
a browser, and the page may load nothing from elsewhere.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Mapping
from contextlib import suppress
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


def make_app(marks: Marks, codes: Mapping[str, str], hosts: list[str]) -> Starlette:
    """Return the application. It answers to these names alone: a page from elsewhere whose name leads
    to this machine could else reach it."""
    pages = _Pages(marks, codes)
    return Starlette(
        routes=[
            *(Route(f"/{name}".replace("index.html", ""), pages.file) for name in _FILES),
            Route("/api/state", pages.state),
            Route("/api/units/{number:int}", pages.unit),
            Route("/api/overview", pages.overview),
            Route("/api/marks", pages.save, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers={HTTPException: _refuse, MedhelmError: _refuse},
    )


def _json(value: object, status: int = 200) -> Response:
    content = msgspec.json.encode(value, enc_hook=float)  # numpy's numbers; NaN becomes null
    return Response(content, status, _HEADERS, "application/json")


def _refuse(request: Request, error: Any) -> Response:
    if isinstance(error, MedhelmError):
        return _json({"error": str(error)}, 400 if isinstance(error, UsageError) else 500)
    return _json({"error": error.detail}, error.status_code)


class _Pages:
    def __init__(self, marks: Marks, codes: Mapping[str, str]) -> None:
        self._marks = marks
        self._codes = codes

    def _who(self, request: Request) -> str:
        """Return whose code a request has; each code is compared in constant time."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        for name, code in self._codes.items():
            if hmac.compare_digest(code.encode(), given):
                return name
        raise HTTPException(401, "this code is not known")

    async def file(self, request: Request) -> Response:
        name = request.url.path.strip("/") or "index.html"
        content = (resources.files(__package__) / "page" / name).read_bytes()
        return Response(content, headers=_HEADERS, media_type=_FILES[name])

    async def state(self, request: Request) -> Response:
        who = self._who(request)
        return _json({"rater": who, "done": None if who == OVERSEER else self._marks.done(who)})

    async def unit(self, request: Request) -> Response:
        """Return a unit with its items and the rater's own marks; nobody is shown another's."""
        who, number, review = self._who(request), request.path_params["number"], self._marks.review
        if who == OVERSEER or not number < len(review.units):
            raise HTTPException(404, "there is no such unit")
        unit = review.units[number]
        marks = self._marks.of(who, unit)
        return _json(
            {
                "name": unit.name,
                "parts": unit.parts,
                "items": unit.items,
                "values": unit.scale.choices,
                "legend": unit.scale.points or [("Values", str(unit.scale))],
                "rules": review.rules,
                "more": review.more,
                "marks": {i: {"value": m.value, "more": m.more} for i, m in marks.items()},
            }
        )

    async def overview(self, request: Request) -> Response:
        if self._who(request) != OVERSEER:
            raise HTTPException(403, "this is for the overseer")
        done = {name: self._marks.done(name) for name in self._codes if name != OVERSEER}
        raters = [[name, sum(own), len(own)] for name, own in done.items()]
        return _json({"raters": raters, "agreement": self._marks.agreement()})

    async def save(self, request: Request) -> Response:
        """Store a mark that the page itself sends; the answer comes when it is on the disk."""
        headers = request.headers
        if headers.get("origin") != f"{request.url.scheme}://{headers.get('host')}":
            raise HTTPException(403, "marks come from the page itself")
        if headers.get("content-type") != "application/json":
            raise HTTPException(415, "a mark is JSON")
        if (who := self._who(request)) == OVERSEER:
            raise HTTPException(403, "the overseer rates nothing")
        if int(headers.get("content-length", _MOST + 1)) > _MOST:
            raise HTTPException(413, "too long")
        try:
            asked = msgspec.json.decode(await request.body(), type=Asked)
        except msgspec.DecodeError:
            raise HTTPException(400, "this is not a mark") from None
        self._marks.add(who, asked)
        return await self.state(request)


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, port 0 for any free one; raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as e:
        raise UsageError(f"--host {host} --port {port} cannot be used: {e}") from None


def serve(app: Any, listening: socket.socket, certificate: str | None, key: str | None) -> None:
    """Serve until Ctrl-C. Nothing is written of who asked for what."""
    quiet: dict[str, Any] = {"access_log": False, "log_level": "error", "server_header": False}
    bare: dict[str, Any] = {
        "lifespan": "off",
        "ws": "none",
        "proxy_headers": False,
        "timeout_graceful_shutdown": 3,
    }
    config = Config(app, **quiet, **bare, ssl_certfile=certificate, ssl_keyfile=key)
    with suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listening])
