"""A server of one built site, on loopback only."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from medhelm.errors import UsageError
from medhelm_leaderboard.files import build_stamp, read_build

HOST = "127.0.0.1"
_OWN = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class _Listing:
    """The files that the build of a site names, as it is when they are asked for."""

    def __init__(self, site: Path) -> None:
        self._site = site
        self._read()

    def _read(self) -> None:
        self._stamp = build_stamp(self._site)
        build = read_build(self._site)
        if build is None:
            raise UsageError(
                f"{self._site} is not a built site: it has no build.json; "
                f"`medhelm leaderboard build --out {self._site}` makes one"
            )
        self._files: Collection[str] = build.files

    def __contains__(self, name: str) -> bool:
        if build_stamp(self._site) != self._stamp:
            try:
                self._read()
            except UsageError:  # what is served is not a site any more
                self._files = ()
        return name in self._files


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away, which is not a fault."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(SimpleHTTPRequestHandler):
    """Serves the files that the build names, nothing else, and says nothing on the terminal."""

    server_version = "medhelm"
    sys_version = ""

    def __init__(self, *args: Any, listing: _Listing, **kwargs: Any) -> None:
        self._listing = listing
        super().__init__(*args, **kwargs)

    def send_head(self) -> Any:
        """Answer 404 for whatever is not a file of the site, 403 for one who asks by another name.

        A page from elsewhere whose name leads to this machine could else read the site.
        """
        if not _OWN.fullmatch(self.headers.get("Host", HOST)):
            self.send_error(403, "ask for localhost")
            return None
        path = self.path.split("?")[0].lstrip("/") or "index.html"
        if path not in self._listing:
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
    handler = partial(_Handler, directory=str(site), listing=_Listing(site))
    try:
        return _Server((HOST, port), handler)
    except (OSError, OverflowError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise UsageError(
            f"port {port} of {HOST} cannot be used ({why.lower()}); choose another with --port"
        ) from None
