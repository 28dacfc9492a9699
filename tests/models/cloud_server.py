"""What clouds are to a client, on loopback: signatures and tokens that end, and who issues them.

Hosts of clouds are reached as the environment says, through an HTTP proxy: this server.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tests.server import serving

Body = dict[str, Any]


@dataclass
class Cloud:
    """Answers by rule. A credential is good for `lasts` requests, then it has ended."""

    reply: Callable[[Body], Body]
    lasts: int = 10**9
    keys: Mapping[str, str] = field(default_factory=dict)
    """AWS's access keys -> secret keys."""
    used: Counter[str] = field(default_factory=Counter)
    issued: list[str] = field(default_factory=list)
    refused: int = 0
    refuses_tokens: bool = False
    seen: list[tuple[str, str, Mapping[str, str], Body]] = field(default_factory=list)
    """Host, path, headers and body of each request that was answered."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        cloud: Cloud = self.server.cloud  # type: ignore[attr-defined]
        payload = self.rfile.read(int(self.headers["Content-Length"]))
        parts = urlsplit(self.path)
        host = parts.netloc or self.headers["Host"]
        with cloud.lock:
            if parts.path == "/token":
                if cloud.refuses_tokens:
                    return self._send(400, {"error": "invalid_grant"})
                cloud.issued.append(f"ya29.canary-{len(cloud.issued)}")
                token = {"access_token": cloud.issued[-1], "expires_in": 3600}
                return self._send(200, {**token, "token_type": "Bearer"})
            who = self._who(cloud, host, payload)
            if not who or cloud.used[who] >= cloud.lasts:
                cloud.refused += 1
                if self.headers["Authorization"].startswith("AWS4"):
                    kind = "ExpiredTokenException" if who else "InvalidSignatureException"
                    said = {"message": f"The security token {who} is expired"}
                    return self._send(403, said, {"x-amzn-ErrorType": f"{kind}:http://aws"})
                error = {"code": 401, "status": "UNAUTHENTICATED", "message": f"{who} is over"}
                return self._send(401, {"error": error})
            cloud.used[who] += 1
            body = json.loads(payload)
            cloud.seen.append(
                (host, parts.path, {n.title(): v for n, v in self.headers.items()}, body)
            )
        self._send(200, cloud.reply(body))

    def _who(self, cloud: Cloud, host: str, payload: bytes) -> str:
        """Return whose request it is; empty for nobody's."""
        given = self.headers.get("Authorization", "")
        if given.startswith("Bearer "):
            token = given.removeprefix("Bearer ")
            return token if token in cloud.issued[-1:] else ""
        access = given.partition("Credential=")[2].partition("/")[0]
        secret = cloud.keys.get(access)
        return access if secret and self._signature(secret, host, payload) in given else ""

    def _signature(self, secret: str, host: str, payload: bytes) -> str:
        """Return the signature that AWS would work out, version 4."""
        given = self.headers["Authorization"]
        scope = given.partition("Credential=")[2].partition(",")[0].partition("/")[2]
        names = given.partition("SignedHeaders=")[2].partition(",")[0]
        held = {n: self.headers[n] for n in names.split(";")} | {"host": host}
        assert {"host", "x-amz-date"} <= held.keys()
        lines = ["POST", quote(urlsplit(self.path).path, safe="/~"), ""]
        lines += [f"{n}:{held[n].strip()}" for n in names.split(";")]
        lines += ["", names, hashlib.sha256(payload).hexdigest()]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["X-Amz-Date"], scope, digest])
        key = f"AWS4{secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.new(key, text.encode(), "sha256").hexdigest()

    def _send(self, status: int, body: Body, headers: Mapping[str, str] | None = None) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    cloud: Cloud


@contextmanager
def serve(cloud: Cloud) -> Iterator[Cloud]:
    """Serve a cloud in a thread."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.cloud = cloud
    with serving(server) as cloud.url:
        yield cloud


def service_account(folder: Path, cloud: Cloud) -> Path:
    """Return a file of a service account of Google Cloud whose tokens the server issues."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "account.json"
    account = {
        "type": "service_account",
        "project_id": "ward",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "eval@ward.iam.gserviceaccount.com",
        "token_uri": f"{cloud.url}/token",
    }
    file.write_text(json.dumps(account))
    return file


def credential_process(folder: Path, cloud: Cloud) -> Path:
    """Return an AWS config whose process gives the next of the server's keys with each call."""
    script = folder / "keys.py"
    pairs = [
        {"AccessKeyId": a, "SecretAccessKey": s, "SessionToken": f"session-canary-{a}"}
        for a, s in cloud.keys.items()
    ]
    script.write_text(
        "import json, pathlib\n"
        f"calls = pathlib.Path({str(folder / 'calls')!r})\n"
        "n = len(calls.read_text()) if calls.exists() else 0\n"
        "calls.write_text('x' * (n + 1))\n"
        f"pair = {pairs!r}[min(n, {len(pairs) - 1})]\n"
        "print(json.dumps({'Version': 1, 'Expiration': '2999-01-01T00:00:00Z', **pair}))\n"
    )
    config = folder / "aws.cfg"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {script}\n")
    return config
