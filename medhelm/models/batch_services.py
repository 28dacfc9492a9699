"""The services that take requests in batches: what is sent to them, and what they say of a batch."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

import aiohttp
import msgspec

from medhelm.models.codecs.batch_lines import anthropic_line, openai_line
from medhelm.models.codecs.wire import Failure, read_failure
from medhelm.models.http_endpoint import HttpEndpoint
from medhelm.models.network import CONNECT_S
from medhelm.models.pacing.limits import retry_after
from medhelm.models.providers import find_provider
from medhelm.schema.model import ModelSpec

_TIMEOUT = aiohttp.ClientTimeout(total=900, sock_connect=CONNECT_S)
_CLOCKS_DIFFER_S = 3600.0
ENDED = ("completed", "failed", "expired", "cancelled", "canceled", "ended")
"""States of a batch of which no more results come."""


class BatchJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`batches/<name>.json`: a batch that a service has, or may have. It is written before it is submitted."""

    name: str
    url: str
    model: str
    since: float
    """Unix time before its submission."""
    ids: tuple[str, ...]
    file: str = ""
    """The service's name of the file with the requests, where it has one."""
    batch: str = ""
    """The service's name of the batch; empty: not known yet."""


class ServiceError(Exception):
    """A call to a service did not succeed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.is_unsure = (
            failure.status is None or failure.status in (200, 408) or failure.status >= 500
        )
        """True if the service may have done what was asked all the same."""


class BatchState(NamedTuple):
    """The state of a batch: its status, the paths of its results, and the reason where all of it failed."""

    batch: str
    status: str
    results: tuple[str, ...] = ()
    code: str = ""
    words: str = ""


class BatchService:
    """Files and batches of OpenAI's form. Every call raises ServiceError where it does not succeed."""

    _place, _page, _after = "/batches", "100", "after"

    def __init__(self, endpoint: HttpEndpoint, path: str) -> None:
        """`path`: that of the API which answers requests that are sent alone."""
        self.endpoint, self._path = endpoint, "/v1" + path
        self._base = endpoint.access.parts.path.removesuffix(path)
        host = endpoint.access.parts.hostname or ""
        self._is_together = host.endswith((".together.xyz", ".together.ai"))

    def line(self, custom_id: str, body: bytes) -> bytes:
        """Return a request as a line."""
        return openai_line(custom_id, self._path, body)

    async def upload(self, name: str, lines: BinaryIO) -> str:
        """Bring the requests to the service, where they cost nothing yet; returns its name of them."""
        fields, path = {"purpose": "batch"}, "/files"
        if self._is_together:
            fields, path = {"purpose": "batch-api", "file_name": f"{name}.jsonl"}, "/files/upload"
        form = aiohttp.FormData(fields)
        lines.seek(0)
        copy = os.fdopen(os.dup(lines.fileno()), "rb")  # it is closed where it was sent
        form.add_field("file", copy, filename=f"{name}.jsonl", content_type="application/jsonl")
        whole = form()
        return _id_of(await self._call("POST", path, data=whole, headers=whole.headers))

    async def create(self, job: BatchJob, lines: BinaryIO) -> str:
        """Submit a batch, with a name of ours that finds it again; returns the service's name of it."""
        wanted = {"input_file_id": job.file, "endpoint": self._path, "completion_window": "24h"}
        body = msgspec.json.encode(wanted | {"metadata": {"medhelm": job.name}})
        said = await self._call("POST", self._place, data=body)
        return _id_of(said.get("job", said))  # Together wraps it

    def owns(self, job: BatchJob, entry: Mapping[str, Any]) -> bool | None:
        """Return whether a batch that the service lists is this one; None: its results say so."""
        named = (entry.get("metadata") or {}).get("medhelm") == job.name
        return named or entry.get("input_file_id") == job.file  # which is in no other batch

    def read(self, entry: Mapping[str, Any]) -> BatchState:
        """Return what the service says of a batch."""
        errors = (entry.get("errors") or {}).get("data") or [{}]
        files = (entry.get("output_file_id"), entry.get("error_file_id"))
        return BatchState(
            str(entry.get("id", "")),
            str(entry.get("status", "")).lower(),
            tuple(f"/files/{name}/content" for name in files if name),
            str(errors[0].get("code") or ""),
            str(errors[0].get("message") or entry.get("error") or ""),
        )

    async def look(self, batch: str) -> BatchState:
        """Return what the service says of a batch now."""
        return self.read(await self._call("GET", f"{self._place}/{batch}"))

    async def listed(self) -> list[Mapping[str, Any]]:
        """Return what the service says of all its batches."""
        found: list[Mapping[str, Any]] = []
        query = {"limit": self._page}
        while True:
            said = await self._call("GET", self._place, query=query)
            page = said.get("data") or []
            found += page
            if not said.get("has_more") or not page or query.get(self._after) == page[-1]["id"]:
                return found
            query[self._after] = page[-1]["id"]

    async def fetch(self, path: str, into: BinaryIO) -> None:
        """Write results into a file."""
        into.seek(0)
        into.truncate()
        await self._call("GET", path, into=into, headers={"Accept-Encoding": "identity"})
        into.seek(0)

    async def _call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, **sent: Any
    ) -> dict[str, Any]:
        url = self.endpoint.page(self._base + path).update_query(query or {})
        came = await self.endpoint.ask(method, url, _TIMEOUT, **sent)
        if isinstance(came, Failure):
            raise ServiceError(came)
        status, payload, headers = came
        if not 200 <= status < 300:
            failure = read_failure(status, payload)
            raise ServiceError(replace(failure, wait_s=retry_after(headers)))
        try:
            said = msgspec.json.decode(payload or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            said = None
        if isinstance(said, list):  # Together lists its batches bare
            return {"data": said}
        if not isinstance(said, dict):
            raise ServiceError(Failure("retry", "invalid json", 200))
        return said


class _MessageBatches(BatchService):
    """Anthropic's. They bear no name, so that only their results tell whose they are."""

    _place, _page, _after = "/v1/messages/batches", "1000", "after_id"

    def line(self, custom_id: str, body: bytes) -> bytes:
        return anthropic_line(custom_id, body)

    async def upload(self, name: str, lines: BinaryIO) -> str:
        return ""  # the requests go with the batch

    async def create(self, job: BatchJob, lines: BinaryIO) -> str:
        lines.seek(0)
        body = io.BytesIO(b'{"requests":[' + b",".join(lines.read().splitlines()) + b"]}")
        return _id_of(await self._call("POST", self._place, data=body))

    def owns(self, job: BatchJob, entry: Mapping[str, Any]) -> bool | None:
        made = datetime.fromisoformat(str(entry.get("created_at"))).timestamp()
        total = sum((entry.get("request_counts") or {}).values())
        is_later = made >= job.since - _CLOCKS_DIFFER_S
        return None if is_later and total == len(job.ids) else False

    def read(self, entry: Mapping[str, Any]) -> BatchState:
        batch, status = str(entry.get("id", "")), str(entry.get("processing_status", ""))
        return BatchState(batch, status, (f"{self._place}/{batch}/results",))


def open_service(endpoint: HttpEndpoint, spec: ModelSpec) -> BatchService:
    """Return the batches of a model's service."""
    provider = find_provider(spec.provider, spec.name)
    kind = _MessageBatches if provider.batches == "anthropic" else BatchService
    return kind(endpoint, provider.path)


def _id_of(answer: Mapping[str, Any]) -> str:
    made = answer.get("id")
    if not isinstance(made, str) or not made:
        raise ServiceError(Failure("retry", "no id in the answer", 200))
    return made
