"""Any endpoint that is asked by one POST, in the protocol of a codec, through aiohttp."""

from __future__ import annotations

import asyncio
import dataclasses
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import aiohttp
import msgspec
from yarl import URL

from medhelm.models.codecs.bedrock import ENDED
from medhelm.models.codecs.wire import CHAT, Answer, Codec, Failure, read_served
from medhelm.models.credentials import Credentials, CredentialsLost
from medhelm.models.endpoint import Endpoint, EndpointModel, is_cut
from medhelm.models.hosts import Access
from medhelm.models.identity import is_echoed
from medhelm.models.network import CONNECT_S, find_proxy, open_session, read_network_error
from medhelm.models.pacing.limits import retry_after
from medhelm.schema.episode import Request
from medhelm.schema.model import ModelSpec

_SERVED_S = 3.0
"""The time that a server has to say what it serves."""


Received = tuple[int, bytes, Mapping[str, str]]
"""The answer of a server: a status, a body and headers."""


class HttpEndpoint(Endpoint):
    """A server of one protocol: its connections, and what its requests are signed with."""

    def __init__(
        self,
        access: Access,
        max_concurrency: int | None,
        codec: Codec = CHAT,
        *,
        key_header: str = "Authorization",
        headers: Mapping[str, str] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(access, max_concurrency)
        self.codec = codec
        self._key_header, self._headers = key_header, headers or {}
        self._credentials = credentials
        self._session: aiohttp.ClientSession | None = None
        self._proxy: URL | None = None
        self._url = URL(access.url, encoded=True)
        self._served: asyncio.Future[list[Any]] | None = None
        """Its list of models and llama.cpp's properties, asked for once."""

    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> HttpModel:
        """Return a model of this server."""
        return HttpModel(spec, self, owns_host=owns_host)

    async def episode(
        self, spec: ModelSpec, body: bytes, timeout: aiohttp.ClientTimeout
    ) -> Answer | Failure:
        """Send one body once and return what came of it.

        Where the server says that the credentials have ended, they are renewed and it is sent again.
        """
        if self._credentials is None:
            return await self._post(spec, body, timeout)
        try:
            headers, held = await self._credentials.sign(self.access.url, body)
            result = await self._post(spec, body, timeout, headers)
            is_over = isinstance(result, Failure) and (result.status == 401 or result.code in ENDED)
            if is_over and await self._credentials.renew(held):
                headers, _ = await self._credentials.sign(self.access.url, body)
                result = await self._post(spec, body, timeout, headers)
        except CredentialsLost as lost:
            return lost.failure
        return result

    async def _post(
        self,
        spec: ModelSpec,
        body: bytes,
        timeout: aiohttp.ClientTimeout,
        headers: Mapping[str, str] | None = None,
    ) -> Answer | Failure:
        came = await self.ask("POST", self._url, timeout, data=body, headers=headers)
        if isinstance(came, Failure):
            return came
        status, payload, received = came
        if 200 <= status < 300:
            return self.codec.read(payload)
        failure = self.codec.read_failure(spec, status, payload, received)
        wait_s = retry_after(received)
        return failure if wait_s is None else dataclasses.replace(failure, wait_s=wait_s)

    async def ask(
        self,
        method: str,
        url: URL,
        timeout: aiohttp.ClientTimeout,
        into: BinaryIO | None = None,
        **sent: Any,
    ) -> Received | Failure:
        """Send anything once and return what the server said. A body without a bound is written `into` a file."""
        session = self._session or self._open()
        try:
            async with session.request(
                method,
                url,
                timeout=timeout,
                proxy=self._proxy,
                allow_redirects=False,
                **sent,
            ) as response:
                if into is None or response.status != 200:
                    payload = await response.read()
                else:
                    packed = response.headers.get("Content-Encoding", "identity") != "identity"
                    unpacked, payload = zlib.decompressobj(47) if packed else None, b""
                    async for chunk in response.content.iter_any():
                        into.write(unpacked.decompress(chunk) if unpacked else chunk)
        except (aiohttp.ClientError, OSError) as error:  # a time-out is an OSError
            return read_network_error(error)
        return response.status, payload, response.headers

    def secrets(self) -> Iterable[str]:
        """Return what no printed text may show."""
        return (*super().secrets(), *(self._credentials.secrets() if self._credentials else ()))

    async def served(self, model: str) -> Mapping[str, str]:
        """Return what the server says of its weights; empty where it does not answer soon."""
        if self._served is None:
            path = self._url.path.removesuffix("/completions").removesuffix("/chat")
            path = path.removesuffix("/responses")
            pages = (f"{path}/models", f"{path.removesuffix('/v1')}/props")
            self._served = asyncio.gather(*map(self._page, pages))
        listed, properties = await asyncio.shield(self._served)
        return read_served(listed, properties, model)

    async def _page(self, path: str) -> Any:
        came = await self.ask("GET", self.page(path), aiohttp.ClientTimeout(total=_SERVED_S))
        if isinstance(came, Failure) or came[0] != 200:
            return None
        try:
            return msgspec.json.decode(came[1])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def page(self, path: str) -> URL:
        """Return the address of another page of the server."""
        return self._url.with_path(path, encoded=True, keep_query=True)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        headers = {"Content-Type": "application/json", "User-Agent": "medhelm"}
        if self.access.key is not None:
            scheme = "Bearer " if self._key_header == "Authorization" else ""
            headers[self._key_header] = scheme + self.access.key
        headers |= {**self._headers, **self.access.headers}
        self._proxy = find_proxy(self.access)
        self._session = open_session(self.access, headers)
        return self._session


class HttpModel(EndpointModel[HttpEndpoint, bytes]):
    """A model behind a server of any protocol."""

    def __init__(self, spec: ModelSpec, endpoint: HttpEndpoint, *, owns_host: bool) -> None:
        super().__init__(spec, endpoint, owns_host=owns_host)
        # less than the whole, so that a dead host can be distinguished from a slow answer
        connect_s = min(CONNECT_S, spec.timeout_s / 2)
        self._timeout = aiohttp.ClientTimeout(total=spec.timeout_s, sock_connect=connect_s)

    def write(self, request: Request) -> bytes:
        """Return what is sent for a request."""
        return self.endpoint.codec.write(self.spec, request)

    async def send(self, sent: bytes) -> Answer | Failure:
        """Send it once and return what came of it."""
        return await self.endpoint.episode(self.spec, sent, self._timeout)

    def is_cut(self, request: Request, sent: bytes, answer: Answer) -> bool:
        """Return whether the server read less than was sent, without a word."""
        usage, times = answer.usage, 1 + len(request.candidates) * is_echoed(self.spec)
        if usage.input_tokens is not None:
            usage = msgspec.structs.replace(usage, input_tokens=usage.input_tokens // times)
        return is_cut(request.messages, len(sent) // times, usage, self.spec.context_window)
