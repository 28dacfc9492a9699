"""The services that take requests in batches: what is sent to them, and what they say of a batch."""

from __future__ import annotations

import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import aiohttp
import msgspec

from medhelm.models.codecs.batch_lines import ANTHROPIC_FORM, OPENAI_FORM, BatchForm
from medhelm.models.codecs.wire import Failure, read_failure
from medhelm.models.http_endpoint import HttpEndpoint
from medhelm.models.network import CONNECT_S
from medhelm.models.pacing.limits import retry_after
from medhelm.models.providers import find_provider
from medhelm.schema.model import ModelSpec

_TIMEOUT = aiohttp.ClientTimeout(total=900, sock_connect=CONNECT_S)
_CLOCKS_DIFFER_S = 3600.0
_ENDED = frozenset({"completed", "failed", "expired", "cancelled", "canceled", "ended"})
_TOGETHER = (".together.xyz", ".together.ai")


class BatchJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`batches/<name>.json`: a batch that a service has, or may have. It is written before it is submitted."""

    name: str
    url: str
    model: str
    is_again: bool
    """True if its answers are to replace others."""
    since: float
    """Unix time before its submission."""
    ids: tuple[str, ...]
    file: str = ""
    """The service's name of the file with the requests, where it has one."""
    batch: str = ""
    """The service's name of the batch; empty: not known yet."""


class CallFailed(Exception):  # noqa: N818
    """A call to a service did not succeed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure

    @property
    def is_unsure(self) -> bool:
        """Return whether the service may have done what was asked all the same."""
        status = self.failure.status
        return status is None or status >= 500 or status in (200, 408)


@dataclass(frozen=True)
class BatchState:
    """What a service says of a batch."""

    batch: str
    status: str
    results: tuple[str, ...] = ()
    """Paths of the results."""
    code: str = ""
    """The reason why it failed as a whole."""
    words: str = ""

    @property
    def is_ended(self) -> bool:
        """Return whether no more results come."""
        return self.status in _ENDED


class BatchService(ABC):
    """A service that takes batches. Every call raises CallFailed where it does not succeed."""

    form: BatchForm

    def __init__(self, endpoint: HttpEndpoint, spec: ModelSpec, folder: Path) -> None:
        """`folder`: the place of what is too large for the memory."""
        self.endpoint, self.folder = endpoint, folder
        path = find_provider(spec.provider, spec.name).path
        self.path = "/v1" + path
        """The path that lines name."""
        self.base = endpoint.path.removesuffix(path)

    @abstractmethod
    async def upload(self, name: str, lines: BinaryIO) -> str:
        """Bring the requests to the service, where they cost nothing yet; returns its name of them."""

    @abstractmethod
    async def create(self, job: BatchJob, lines: BinaryIO) -> str:
        """Submit a batch; returns the service's name of it."""

    @abstractmethod
    def owns(self, job: BatchJob, said: Mapping[str, Any]) -> bool | None:
        """Return whether a batch that the service lists is this one; None: its results say so."""

    @abstractmethod
    def read(self, said: Mapping[str, Any]) -> BatchState:
        """Return what the service says of a batch."""

    async def look(self, batch: str) -> BatchState:
        """Return what the service says of a batch now."""
        return self.read(await self._call("GET", f"{self.batches}/{batch}"))

    async def listed(self) -> AsyncIterator[Mapping[str, Any]]:
        """Yield what the service says of all its batches."""
        last, query = "", dict(self.page)
        while True:
            said = await self._call("GET", self.batches, query=query)
            found = said.get("data", [])
            for one in found:
                yield one
            if not said.get("has_more") or not found or found[-1]["id"] == last:
                return
            last = query[self.after] = found[-1]["id"]

    async def fetch(self, path: str, into: BinaryIO) -> None:
        """Write results into a file."""
        into.seek(0)
        into.truncate()
        await self._call("GET", path, into=into)

    batches: str
    page: Mapping[str, str] = {"limit": "100"}
    after: str = "after"

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        data: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        into: BinaryIO | None = None,
    ) -> dict[str, Any]:
        url = self.endpoint.page(self.base + path).update_query(query or {})
        came = await self.endpoint.ask(method, url, _TIMEOUT, data=data, headers=headers, into=into)
        if isinstance(came, Failure):
            raise CallFailed(came)
        if not 200 <= came.status < 300:
            failure = read_failure(came.status, came.payload)
            raise CallFailed(replace(failure, wait_s=retry_after(came.headers)))
        if into is not None:
            return {}
        try:
            said = msgspec.json.decode(came.payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            said = None
        if isinstance(said, list):  # Together lists its batches bare
            said = {"data": said}
        if not isinstance(said, dict):
            raise CallFailed(Failure("retry", "invalid json", 200))
        return said


class OpenAIBatches(BatchService):
    """Files and batches of OpenAI's form, as Together, Groq and others have them, too."""

    form = OPENAI_FORM
    batches = "/batches"

    async def upload(self, name: str, lines: BinaryIO) -> str:
        """Upload the requests as a file."""
        fields, path = {"purpose": "batch"}, "/files"
        if (self.endpoint.access.parts.hostname or "").endswith(_TOGETHER):
            fields, path = {"purpose": "batch-api", "file_name": f"{name}.jsonl"}, "/files/upload"
        boundary = secrets.token_hex(16)
        head = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
            for field, value in fields.items()
        )
        head += (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        with TemporaryFile(dir=self.folder) as whole:
            whole.write(head.encode())
            lines.seek(0)
            shutil.copyfileobj(lines, whole)
            whole.write(f"\r\n--{boundary}--\r\n".encode())
            whole.seek(0)
            kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
            said = await self._call("POST", path, data=whole, headers=kind)
        return _id_of(said)

    async def create(self, job: BatchJob, lines: BinaryIO) -> str:
        """Submit the uploaded file, with a name of ours that finds it again."""
        wanted = {
            "input_file_id": job.file,
            "endpoint": self.path,
            "completion_window": "24h",
            "metadata": {"medhelm": job.name},
        }
        said = await self._call("POST", self.batches, data=msgspec.json.encode(wanted))
        return _id_of(said.get("job", said))  # Together wraps it

    def owns(self, job: BatchJob, said: Mapping[str, Any]) -> bool | None:
        """Return whether a batch bears our name, or is of our file, which is in no other."""
        return (said.get("metadata") or {}).get("medhelm") == job.name or (
            said.get("input_file_id") == job.file
        )

    def read(self, said: Mapping[str, Any]) -> BatchState:
        """Return the state of a batch; of a failed one the first reason."""
        errors = (said.get("errors") or {}).get("data") or [{}]
        files = (said.get("output_file_id"), said.get("error_file_id"))
        return BatchState(
            batch=str(said.get("id", "")),
            status=str(said.get("status", "")).lower(),
            results=tuple(f"/files/{name}/content" for name in files if name),
            code=str(errors[0].get("code") or ""),
            words=str(errors[0].get("message") or said.get("error") or ""),
        )


class AnthropicBatches(BatchService):
    """Message batches. They bear no name, so that only their results tell whose they are."""

    form = ANTHROPIC_FORM
    batches = "/v1/messages/batches"
    page: Mapping[str, str] = {"limit": "1000"}
    after = "after_id"

    async def upload(self, name: str, lines: BinaryIO) -> str:
        """Bring nothing: the requests go with the batch."""
        return ""

    async def create(self, job: BatchJob, lines: BinaryIO) -> str:
        """Submit the requests."""
        with TemporaryFile(dir=self.folder) as whole:
            lines.seek(0)
            between = b'{"requests":['
            for line in lines:
                whole.write(between + line.rstrip(b"\n"))
                between = b","
            whole.write(b"]}")
            whole.seek(0)
            kind = {"Content-Type": "application/json"}
            return _id_of(await self._call("POST", self.batches, data=whole, headers=kind))

    def owns(self, job: BatchJob, said: Mapping[str, Any]) -> bool | None:
        """Return None for a batch of that many requests that is not older."""
        try:
            made = datetime.fromisoformat(str(said.get("created_at"))).timestamp()
        except ValueError:
            made = job.since
        total = sum((said.get("request_counts") or {}).values())
        is_later = made >= job.since - _CLOCKS_DIFFER_S
        return None if is_later and total == len(job.ids) else False

    def read(self, said: Mapping[str, Any]) -> BatchState:
        """Return the state of a batch."""
        batch, status = str(said.get("id", "")), str(said.get("processing_status", ""))
        return BatchState(batch, status, (f"{self.batches}/{batch}/results",))


def open_service(endpoint: HttpEndpoint, spec: ModelSpec, folder: Path) -> BatchService:
    """Return the batches of a model's service."""
    form = find_provider(spec.provider, spec.name).batches
    return (AnthropicBatches if form == "anthropic" else OpenAIBatches)(endpoint, spec, folder)


def _id_of(said: Any) -> str:
    """Return the id of what was made; raises CallFailed where there is none."""
    made = said.get("id") if isinstance(said, dict) else None
    if not isinstance(made, str) or not made:
        raise CallFailed(Failure("retry", "no id in the answer", 200))
    return made
