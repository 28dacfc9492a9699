"""A server that speaks as much of the Hugging Face hub's addresses as `datasets` asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests import server

REPO = "owner/name"


@dataclass
class Hub:
    """One repository, whose files differ by commit; `log` has the paths that were asked for."""

    files: Mapping[str, Mapping[str, bytes]]
    """Commit -> path -> content."""
    url: str = ""
    log: list[str] = field(default_factory=list)


@contextmanager
def serving(files: Mapping[str, Mapping[str, bytes]]) -> Iterator[Hub]:
    """Serve the repository on this machine; yields it."""
    hub = Hub(files)

    class Handler(_Handler):
        own = hub

    with server.serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as hub.url:
        yield hub


class _Handler(BaseHTTPRequestHandler):
    own: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        self.own.log.append(path)
        api, home = f"/api/datasets/{REPO}/", f"/datasets/{REPO}/resolve/"
        kind, _, rest = path.removeprefix(api if path.startswith(api) else home).partition("/")
        if path.startswith(home):
            kind, rest = "resolve", f"{kind}/{rest}"
        commit, _, name = rest.partition("/")
        files = self.own.files.get(commit)
        if files is None:
            self._say(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif kind == "resolve":
            self._file(commit, files, name)
        elif kind == "revision":
            self._json({"id": REPO, "sha": commit, "siblings": [], "private": False})
        elif kind == "tree":
            below = [n for n in files if n.startswith(f"{name}/" if name else "")]
            self._json([_entry(files, n) for n in below])
        else:  # paths-info
            asked = parse_qs(body.decode()) if body[:1] != b"{" else json.loads(body)
            self._json([_entry(files, n) for n in asked["paths"] if n in files])

    do_HEAD = do_POST = do_GET

    def _file(self, commit: str, files: Mapping[str, bytes], name: str) -> None:
        about = {"X-Repo-Commit": commit}
        if name not in files:
            self._say(404, b"", {**about, "X-Error-Code": "EntryNotFound"})
        else:
            etag = hashlib.sha1(files[name], usedforsecurity=False).hexdigest()
            self._say(200, files[name], {**about, "ETag": f'"{etag}"'})

    def _json(self, value: Any) -> None:
        self._say(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _say(self, code: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(code)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def _entry(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    oid = hashlib.sha1(files[name], usedforsecurity=False).hexdigest()
    return {"type": "file", "oid": oid, "size": len(files[name]), "path": name}
