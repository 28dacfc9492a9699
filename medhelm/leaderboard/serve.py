"""A server of one built site, on loopback only."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from medhelm.errors import UsageError
from medhelm.leaderboard.files import Build, read_build

HOST = "127.0.0.1"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class _Handler(SimpleHTTPRequestHandler):
    """Serves the files that the build names, nothing else, and says nothing on the terminal."""

    server_version = "medhelm"
    sys_version = ""

    def __init__(self, *args: Any, build: Build, **kwargs: Any) -> None:
        self._build = build
        super().__init__(*args, **kwargs)

    def send_head(self) -> Any:
        """Answer 404 for whatever is not a file of the site."""
        path = self.path.split("?")[0].lstrip("/") or "index.html"
        if path not in self._build.files:
            self.send_error(404)
            return None
        self.path = "/" + path
        return super().send_head()

    def end_headers(self) -> None:
        """Add what a browser is to hold itself to."""
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""


def open_server(site: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of a built site, port 0 for any free one; raises UsageError."""
    build = read_build(site)
    if build is None:
        raise UsageError(
            f"{site} is no built site: it has no build.json; "
            f"`medhelm leaderboard build --out {site}` makes one"
        )
    handler = partial(_Handler, directory=str(site), build=build)
    try:
        return ThreadingHTTPServer((HOST, port), handler)
    except (OSError, OverflowError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise UsageError(
            f"port {port} of {HOST} cannot be used ({why.lower()}); choose another with --port"
        ) from None
