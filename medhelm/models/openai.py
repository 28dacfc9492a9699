"""Any endpoint that speaks the OpenAI chat protocol, through aiohttp."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from medhelm.models.costs import times_sent
from medhelm.models.endpoint import Endpoint, EndpointModel
from medhelm.models.hosts import Access
from medhelm.models.network import connect_s, find_proxy, open_session, read_network_error
from medhelm.models.pacing.limits import retry_after
from medhelm.models.wire import (
    LOGPROB_FIELDS,
    SCHEMA_FIELD,
    Answer,
    Failure,
    encode_body,
    is_cut,
    read_answer,
    read_failure,
    read_served,
)
from medhelm.schema.episode import Request
from medhelm.schema.model import ModelSpec

_SERVED_S = 3.0
"""The time that a server has to say what it serves."""


class OpenAIEndpoint(Endpoint):
    """A server of the OpenAI chat protocol."""

    def __init__(
        self,
        access: Access,
        max_concurrency: int | None,
        encode: Callable[[ModelSpec, Request], bytes] = encode_body,
    ) -> None:
        super().__init__(access, max_concurrency)
        self.encode = encode
        self._session: aiohttp.ClientSession | None = None
        self._proxy: URL | None = None
        self._url = URL(access.url, encoded=True)
        self._served: asyncio.Future[list[Any]] | None = None
        """Its list of models and llama.cpp's properties, asked for once."""

    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> OpenAIModel:
        """Return a model of this server."""
        return OpenAIModel(spec, self, owns_host=owns_host)

    async def episode(
        self, body: bytes, timeout: aiohttp.ClientTimeout, fields: tuple[str, ...] = ()
    ) -> Answer | Failure:
        """Send one body once and return what came of it."""
        session = self._session or self._open()
        try:
            async with session.post(
                self._url, data=body, timeout=timeout, proxy=self._proxy, allow_redirects=False
            ) as response:
                payload = await response.read()
        except (aiohttp.ClientError, OSError) as error:  # a time-out is an OSError
            return read_network_error(error)
        if 200 <= response.status < 300:
            return read_answer(payload)
        failure = read_failure(response.status, payload, fields)
        return dataclasses.replace(failure, wait_s=retry_after(response.headers))

    async def served(self, model: str) -> Mapping[str, str]:
        """Return what the server says of its weights; empty where it does not answer soon."""
        if self._served is None:
            path = self._url.path.removesuffix("/completions").removesuffix("/chat")
            pages = (f"{path}/models", f"{path.removesuffix('/v1')}/props")
            self._served = asyncio.gather(*map(self._page, pages))
        listed, properties = await asyncio.shield(self._served)
        return read_served(listed, properties, model)

    async def _page(self, path: str) -> Any:
        """Return the JSON of a page of the server; None where there is none."""
        session = self._session or self._open()
        timeout = aiohttp.ClientTimeout(total=_SERVED_S)
        try:
            async with session.get(
                self._url.with_path(path, encoded=True, keep_query=True),
                timeout=timeout,
                proxy=self._proxy,
                allow_redirects=False,
            ) as response:
                payload = await response.read()
            return msgspec.json.decode(payload) if response.status == 200 else None
        except (
            aiohttp.ClientError,
            OSError,
            msgspec.DecodeError,
            UnicodeDecodeError,
            RecursionError,
        ):
            return None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        headers = {"Content-Type": "application/json", "User-Agent": "medhelm"}
        if self.access.key is not None:
            headers["Authorization"] = f"Bearer {self.access.key}"
        self._proxy = find_proxy(self.access)
        self._session = open_session(self.access, headers)
        return self._session


class OpenAIModel(EndpointModel[OpenAIEndpoint, bytes]):
    """A model behind the OpenAI chat protocol."""

    def __init__(self, spec: ModelSpec, endpoint: OpenAIEndpoint, *, owns_host: bool) -> None:
        super().__init__(spec, endpoint, owns_host=owns_host)
        self._timeout = aiohttp.ClientTimeout(
            total=spec.timeout_s, sock_connect=connect_s(spec.timeout_s)
        )
        self._fields = (
            *("model", spec.token_limit_field, "temperature", "top_p", "stop", "seed"),
            *("reasoning_effort", *spec.extra_body, *LOGPROB_FIELDS),
            *(SCHEMA_FIELD,) * spec.json_schema,
        )

    def write(self, request: Request) -> bytes:
        """Return what is sent for a request."""
        return self.endpoint.encode(self.spec, request)

    async def send(self, sent: bytes) -> Answer | Failure:
        """Send it once and return what came of it."""
        return await self.endpoint.episode(sent, self._timeout, self._fields)

    def is_cut(self, request: Request, sent: bytes, answer: Answer) -> bool:
        """Return whether the server read less than was sent, without a word."""
        usage, times = answer.usage, times_sent(self.spec, request)
        if usage.input_tokens is not None:
            usage = msgspec.structs.replace(usage, input_tokens=usage.input_tokens // times)
        return is_cut(request.messages, len(sent) // times, usage, self.spec.context_window)
