"""A server of one built site, on loopback only."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from medhelm.errors import UsageError
from medhelm_leaderboard.files import read_build

HOST = "127.0.0.1"
_OWN = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def _is_of_site(site: Path, name: str) -> bool:
    """Return whether the build of a site, as it is now, names a file."""
    with suppress(UsageError):  # what is served is not a site any more
        build = read_build(site)
        return build is not None and name in build.files
    return False


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away, which is not a fault."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(SimpleHTTPRequestHandler):
    """Serves the files that the build names, nothing else, and says nothing on the terminal."""

    server_version = "medhelm"
    sys_version = ""

    def send_head(self) -> Any:
        """Answer 404 for whatever is not a file of the site, 403 for one who asks by another name.

        A page from elsewhere whose name leads to this machine could else read the site.
        """
        if not _OWN.fullmatch(self.headers.get("Host", HOST)):
            self.send_error(403, "ask for localhost")
            return None
        path = self.path.split("?")[0].lstrip("/") or "index.html"
        if not _is_of_site(Path(self.directory), path):
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
    if read_build(site) is None:
        raise UsageError(
            f"{site} is not a built site: it has no build.json; "
            f"`medhelm leaderboard build --out {site}` makes one"
        )
    handler = partial(_Handler, directory=str(site))
    try:
        return _Server((HOST, port), handler)
    except (OSError, OverflowError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise UsageError(
            f"port {port} of {HOST} cannot be used ({why.lower()}); choose another with --port"
        ) from None
