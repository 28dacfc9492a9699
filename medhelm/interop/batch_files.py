"""Requests as files of the OpenAI batch form, to be answered elsewhere, and the answers that come back.

An export is an ordinary sweep whose requests go into files and fail; an import is the same sweep, whose
requests are answered from files. So what has come is in the log as any answer, protocols of several turns
go turn by turn, and judges are asked once there are answers. Each answer is used once, even by an import that
was killed: it is written down as taken before it is handed on.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from medhelm.errors import UsageError
from medhelm.files.durable import make_private
from medhelm.models import ModelPool, is_instance_model
from medhelm.models.codecs.wire import CHAT, Answer, Failure
from medhelm.models.http_endpoint import HttpModel
from medhelm.schema.episode import SCHEMA, Request, Response
from medhelm.schema.model import InstanceModel, Model, ModelSpec
from medhelm.store.records import folder_name, read_struct, write_struct

MOST = 50_000
"""The most requests that a file may hold."""
WRITTEN = "written to a file, no answer yet"
NO_ANSWER = "no answer in the files"
_PATH = "/v1/chat/completions"


class Exported(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One export: the arguments by which its requests are made again."""

    schema: int = SCHEMA
    arguments: tuple[str, ...]


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    custom_id: str
    method: str = "POST"
    url: str = _PATH
    body: msgspec.Raw


class _Given(msgspec.Struct):
    status_code: int
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Result(msgspec.Struct):
    custom_id: str
    response: _Given | None = None
    error: dict[str, object] | None = None


Exchange = Callable[[ModelSpec, bytes], Answer | Failure]
"""Takes a request's model and body, and returns what has come of it."""


class FilePool(ModelPool):
    """Models whose requests go to files, or are answered from them; rules answer as always."""

    def __init__(self, environ: Mapping[str, str], exchange: Exchange) -> None:
        super().__init__(environ)
        self._exchange = exchange

    def open(self, spec: ModelSpec) -> Model | InstanceModel:
        """Return a model. Raises UsageError for one that is not asked in the OpenAI chat protocol."""
        check_form(spec, model := super().open(msgspec.structs.replace(spec, serve="")))
        if is_instance_model(model) or not isinstance(model, HttpModel):
            return model
        return _FileModel(spec, model, self._exchange)


def check_form(spec: ModelSpec, model: Model | InstanceModel) -> None:
    """Refuse a model whose requests no file of this form can hold."""
    is_chat = isinstance(model, HttpModel) and model.endpoint.codec is CHAT
    if not is_instance_model(model) and not is_chat:
        raise UsageError(
            f"model {spec.name!r} is not asked in the OpenAI chat protocol, which these files hold"
        )


class _FileModel(HttpModel):
    """A model whose requests are exchanged for what a file holds."""

    def __init__(self, spec: ModelSpec, opened: HttpModel, exchange: Exchange) -> None:
        super().__init__(spec, opened.endpoint, owns_host=False)
        self._exchange = exchange

    async def send(self, sent: bytes) -> Answer | Failure:
        """Return what has come of a request. Nothing is sent, so nothing is tried again."""
        result = self._exchange(self.spec, sent)
        if isinstance(result, Failure) and result.kind not in ("oversize", "refusal"):
            return replace(result, kind="error")
        return result

    async def respond(self, request: Request) -> Response:
        """Return the response, without the time that another machine took."""
        response = await super().respond(request)
        return msgspec.structs.replace(response, latency_s=0.0)


class Outbox:
    """Writes requests to files, one for each model, and more where it is full."""

    def __init__(self, folder: Path, results: Path, arguments: Sequence[str]) -> None:
        """Keep the arguments, by which the answers are brought in."""
        self.name = secrets.token_hex(6)
        write_struct(_state(results, self.name), Exported(arguments=tuple(arguments)))
        make_private(folder)
        self._folder, self._copies, self._open = folder, Counter[str](), ExitStack()
        self._files: dict[str, BinaryIO] = {}
        self.written: Counter[Path] = Counter()

    def take(self, spec: ModelSpec, body: bytes) -> Failure:
        """Write a request."""
        key = _key(spec, body)
        custom_id = f"{self.name}-{key}-{self._copies[key]}"
        self._copies[key] += 1
        path = self._place(spec.name)
        if path.name not in self._files:
            self._files[path.name] = self._open.enter_context(path.open("xb"))
        line = msgspec.json.encode(_Request(custom_id=custom_id, body=msgspec.Raw(body)))
        self._files[path.name].write(line + b"\n")
        self.written[path] += 1
        return Failure("error", WRITTEN)

    def close(self) -> None:
        """Close the files."""
        self._open.close()

    def _place(self, model: str) -> Path:
        for number in range(1, 2 + len(self.written)):
            path = self._folder / f"{folder_name(model)}-{self.name}-{number}.jsonl"
            if self.written[path] < MOST:
                return path
        raise AssertionError


class Answers:
    """The answers of files, by what was asked; each is given once."""

    def __init__(self, paths: Sequence[Path], results: Path) -> None:
        """Read the files; raises UsageError for one of another form."""
        self._found: dict[str, _Result] = {}
        for path in paths:
            self._read(path)
        self._given: dict[str, list[str]] = {}
        self._taken = {
            name: _state(results, name).with_suffix(".taken")
            for name in dict.fromkeys(map(_name, self._found))
        }
        done = {
            line
            for path in self._taken.values()
            if path.exists()
            for line in path.read_text().splitlines()
        }
        for custom_id in sorted(self._found.keys() - done):
            self._given.setdefault(custom_id.rpartition("-")[0], []).append(custom_id)
        self.old = len(self._found.keys() & done)
        """Answers that an import before has taken."""
        self.used = 0
        self._results = results

    def exports(self) -> dict[str, Exported]:
        """Return the exports whose answers these are; raises UsageError where they are of none here."""
        found = {}
        for name in self._taken:
            path = _state(self._results, name)
            if not path.is_file():
                raise UsageError(
                    f"answers are to no request of an export here (custom_id {name!r}...): --results-dir "
                    "names the folder that `medhelm export openai_batch` was given"
                )
            found[name] = read_struct(path, Exported)
        return found

    def of(self, name: str) -> Exchange:
        """Return what answers the requests of one export."""

        def give(spec: ModelSpec, body: bytes) -> Answer | Failure:
            left = self._given.get(f"{name}-{_key(spec, body)}")
            if not left:
                return Failure("error", NO_ANSWER)
            custom_id = left.pop(0)
            with self._taken[name].open("a") as taken:
                taken.write(f"{custom_id}\n")
            self.used += 1
            own = self._found[custom_id]
            if own.response is None:
                return Failure("error", "an error in the batch")
            payload = bytes(own.response.body)
            if own.response.status_code == 200:
                return CHAT.read(payload)
            return CHAT.read_failure(spec, own.response.status_code, payload, {})

        return give

    @property
    def unused(self) -> int:
        """Return how many answers no request has asked for."""
        return sum(map(len, self._given.values()))

    def _read(self, path: Path) -> None:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                own = msgspec.json.decode(line, type=_Result) if line.strip() else None
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise UsageError(
                    f"{path}, line {number}: an answer is one JSON object with custom_id, response and error"
                ) from None
            if own is None:
                continue
            if own.custom_id in self._found:
                raise UsageError(
                    f"{path}, line {number}: there is an answer to {own.custom_id!r} already"
                )
            if own.response is None and own.error is None:
                raise UsageError(f"{path}, line {number}: it has neither response nor error")
            self._found[own.custom_id] = own


def _state(results: Path, name: str) -> Path:
    return results / "batch_files" / f"{name}.json"


def _name(custom_id: str) -> str:
    return custom_id.partition("-")[0]


def _key(spec: ModelSpec, body: bytes) -> str:
    """Return the key of what a model is asked: two requests with one body can be given each other's answer."""
    return hashlib.blake2b(spec.name.encode() + b"\0" + body, digest_size=16).hexdigest()
