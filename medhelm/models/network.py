"""Connections as the environment wants them: proxies and certificates; bodies read up to a bound."""

from __future__ import annotations

import os
import ssl
import urllib.request
import zlib
from collections.abc import AsyncIterable, Mapping
from pathlib import Path

import aiohttp
from yarl import URL

from medhelm.errors import ModelError
from medhelm.files.durable import OUT_OF_FILES
from medhelm.models.access import TOO_MANY_FILES
from medhelm.models.codecs.wire import Failure, FailureKind
from medhelm.models.hosts import Access, is_loopback

MAX_ANSWER_BYTES = 8 * 2**20
"""The most of an answer that is read, compressed or not: a reply of 100,000 tokens has 1 MB."""
MAX_ERROR_BYTES = 2**16
"""The most of an error's body. The status decides, so the rest is left unread."""
ENCODINGS = "gzip, deflate"
"""Encodings that `BodyReader` decompresses and that requests offer."""


class BadBody(aiohttp.ClientPayloadError):
    """A body that cannot be used. The text says why, in our words only."""


class BodyReader:
    """Collects a body as it comes. A bomb is stopped at the bound and never held as a whole."""

    def __init__(self, encoding: str, most: int) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise BadBody("unknown content encoding")
        self._most, self._received, self._body = most, 0, bytearray()
        self._is_deflate = name == "deflate"
        self._inflater = zlib.decompressobj(31) if "gzip" in name else None

    def feed(self, chunk: bytes) -> None:
        """Add what was received; raises `BadBody` beyond the bound and where it is damaged."""
        if chunk and self._is_deflate and self._inflater is None:  # with its header or without
            self._inflater = zlib.decompressobj(15 if chunk[0] & 0x0F == 8 else -15)
        self._received += len(chunk)
        room = self._most - len(self._body)
        if self._inflater is not None:
            try:
                chunk = self._inflater.decompress(chunk, room + 1)
            except zlib.error:
                raise BadBody("damaged body") from None
            if self._inflater.unused_data:
                raise BadBody("damaged body")
        self._body += chunk[:room]
        if len(chunk) > room or self._received > self._most:
            raise BadBody(f"body over {self._most} bytes")

    def end(self) -> bytes:
        """Return the whole body."""
        if self._inflater is not None and self._received and not self._inflater.eof:
            raise BadBody("truncated body")
        return self.part

    @property
    def part(self) -> bytes:
        """Return what there is so far."""
        return bytes(self._body)


async def read_body(chunks: AsyncIterable[bytes], encoding: str, status: int) -> bytes:
    """Return the body of a response from its chunks.

    Raises `BadBody` where it is an answer. Of an error's body it returns what can be read.
    """
    is_answer = 200 <= status < 300
    reader = None
    try:
        reader = BodyReader(encoding, MAX_ANSWER_BYTES if is_answer else MAX_ERROR_BYTES)
        async for chunk in chunks:
            reader.feed(chunk)
        return reader.end()
    except BadBody:
        if is_answer:
            raise
        return reader.part if reader else b""


class BoundedResponse(aiohttp.ClientResponse):
    """A response whose body is read up to a bound. Its session must not decompress."""

    async def read(self) -> bytes:
        """Return the body as `read_body` does."""
        if self._body is None:
            encoding = self.headers.get("Content-Encoding", "")
            try:
                if not encoding and 0 < (self.content_length or 0) <= MAX_ERROR_BYTES:
                    self._body = await self.content.read()
                    return self._body
                self._body = await read_body(self.content.iter_any(), encoding, self.status)
            except BaseException:
                self.close()
                raise
            if not self.content.at_eof():
                self.close()  # the rest is not read
        return self._body


CONNECT_S = 10.0
# Servers close idle connections after 5 s at the earliest; a request on a closing one is lost.
_KEEP_ALIVE_S = 4.0
_OTHERS_CA = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def open_session(access: Access, headers: Mapping[str, str]) -> aiohttp.ClientSession:
    """Return a session for one server. The limiter is the only bound on connections.

    Proxies are looked up once (`find_proxy`) and not per request (`trust_env`), which would also
    replace our key by one of a .netrc file.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=True,
            ttl_dns_cache=300,
            keepalive_timeout=_KEEP_ALIVE_S,
            ssl=tls_context(os.environ) if access.parts.scheme == "https" else True,
        ),
        headers={"Accept-Encoding": ENCODINGS, **headers},
        auto_decompress=False,
        response_class=BoundedResponse,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def find_proxy(access: Access) -> URL | None:
    """Return the proxy that the environment names for this host, None for this machine itself."""
    host = access.parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(access.parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    url = URL(proxy if "://" in proxy else f"http://{proxy}")
    if url.scheme not in ("http", "https"):
        raise ModelError(
            f"the environment names a {url.scheme} proxy for {access.host}; only http and https"
            " proxies are known: set HTTPS_PROXY, or NO_PROXY for this host"
        )
    return url


def tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return a context that trusts every authority that the environment names."""
    named = {name: environ.get(name, "") for name in ("SSL_CERT_FILE", *_OTHERS_CA)}
    for name, value in named.items():
        if value and not Path(value).exists():
            raise ModelError(f"{name} names a file that does not exist: {value}")
    context = ssl.create_default_context()  # OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR itself
    for name in _OTHERS_CA:
        if value := named[name]:
            is_folder = Path(value).is_dir()
            try:
                context.load_verify_locations(
                    cafile=None if is_folder else value, capath=value if is_folder else None
                )
            except ssl.SSLError:
                raise ModelError(f"{name} names a file without PEM certificates: {value}") from None
    return context


def unreachable(error: Exception) -> Failure:
    """Return why no connection came about: no server there, or no file left to open one with."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in OUT_OF_FILES:
            return Failure("endpoint", TOO_MANY_FILES)
        cause = cause.__cause__ or cause.__context__
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))  # a look-up of names hides why it failed
    except OSError as e:
        if e.errno in OUT_OF_FILES:
            return Failure("endpoint", TOO_MANY_FILES)
    return Failure("retry", "no connection")


def read_network_error(error: Exception) -> Failure:
    """Return what an error of aiohttp means."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Failure("endpoint", "bad certificate")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        kind: FailureKind = "endpoint" if error.status == 407 else "retry"
        return Failure(kind, f"proxy http {error.status}", error.status)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return unreachable(error)
    if isinstance(error, TimeoutError):
        return Failure("retry", "timeout", lost=True)
    if isinstance(error, BadBody):
        return Failure("retry", str(error), 200, lost=True)
    if isinstance(error, aiohttp.ClientPayloadError):
        return Failure("retry", "truncated body", lost=True)
    if isinstance(error, aiohttp.ClientResponseError):  # a status line or headers that are none
        return Failure("retry", "invalid http", lost=True)
    return Failure("retry", "connection dropped", lost=True)
