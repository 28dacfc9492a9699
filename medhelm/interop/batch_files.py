"""Requests as files of the OpenAI batch form, to be answered elsewhere, and the answers that come back.

An export is an ordinary sweep whose requests go into files and fail; an import is the same sweep, whose
requests are answered from files. So what has come is in the log as any answer, protocols of several turns
go turn by turn, and judges are asked once there are answers. Each answer is used once, even by an import that
was killed: it is written down as taken before it is handed on.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from medhelm.errors import UsageError
from medhelm.files.durable import make_private, write_whole
from medhelm.models import ModelPool, is_instance_model
from medhelm.models.codecs.batch_lines import openai_line, read_line
from medhelm.models.codecs.wire import CHAT, Answer, Failure
from medhelm.models.http_endpoint import HttpModel
from medhelm.schema.model import InstanceModel, Model, ModelSpec
from medhelm.store.records import folder_name

MOST = 50_000
"""The most requests that a file may hold."""
WRITTEN = "written to a file, no answer yet"


class _Result(msgspec.Struct):
    custom_id: str
    response: dict[str, object] | None = None
    error: dict[str, object] | None = None

    def __post_init__(self) -> None:
        if self.response is None and self.error is None:
            raise ValueError("neither response nor error")


Exchange = Callable[[ModelSpec, bytes], Answer | Failure]
"""Takes a request's model and body, and returns what has come of it."""


class FilePool(ModelPool):
    """Models whose requests go to files, or are answered from them; rules answer as always."""

    def __init__(self, environ: Mapping[str, str], exchange: Exchange) -> None:
        super().__init__(environ)
        self._exchange = exchange

    def open(self, spec: ModelSpec, *, owns_host: bool = False) -> Model | InstanceModel:
        """Return a model. Raises UsageError for one that is not asked in the OpenAI chat protocol."""
        model = super().open(msgspec.structs.replace(spec, serve=""))
        if is_instance_model(model):
            return model
        if not isinstance(model, HttpModel) or model.endpoint.codec is not CHAT:
            raise UsageError(
                f"model {spec.name!r} is not asked in the OpenAI chat protocol, which these files hold"
            )
        return _FileModel(spec, model, self._exchange)

    async def served(self, spec: ModelSpec) -> Mapping[str, str]:
        """Return nothing, as no server is asked."""
        return {}


class _FileModel(HttpModel):
    """A model whose requests are exchanged for what a file holds."""

    def __init__(self, spec: ModelSpec, opened: HttpModel, exchange: Exchange) -> None:
        super().__init__(spec, opened.endpoint, owns_host=False)
        self._exchange = exchange

    async def send(self, sent: bytes) -> Answer | Failure:
        """Return what has come of a request. Nothing is sent, so nothing is tried again."""
        result = self._exchange(self.spec, sent)
        if isinstance(result, Answer) or result.kind in ("oversize", "refusal"):
            return result
        return replace(result, kind="error")


class Outbox:
    """Collects requests, of each model apart."""

    def __init__(self, results: Path, arguments: Sequence[str]) -> None:
        """Keep the arguments, by which the answers are brought in."""
        self._name, self._copies = secrets.token_hex(6), Counter[str]()
        self._lines: dict[str, list[bytes]] = defaultdict(list)
        make_private(results / "batch_files")
        write_whole(_state(results, self._name), msgspec.json.encode(arguments))

    def take(self, spec: ModelSpec, body: bytes) -> Failure:
        """Keep a request."""
        key = _key(spec, body)
        line = openai_line(f"{self._name}-{key}-{self._copies[key]}", "/v1/chat/completions", body)
        self._copies[key] += 1
        self._lines[spec.name].append(line + b"\n")
        return Failure("error", WRITTEN)

    def write(self, folder: Path) -> dict[Path, int]:
        """Write the files of each model, and return how many requests each file holds."""
        make_private(folder)
        written = {}
        for model, lines in self._lines.items():
            for start in range(0, len(lines), MOST):
                part = lines[start : start + MOST]
                path = folder / f"{folder_name(model)}-{self._name}-{1 + start // MOST}.jsonl"
                write_whole(path, b"".join(part))
                written[path] = len(part)
        return written


class Answers:
    """The answers of files, by what was asked; each is given once."""

    def __init__(self, paths: Sequence[Path], results: Path) -> None:
        """Read the files; raises UsageError for one of another form, or of no export here."""
        self._found: dict[str, bytes] = {}
        for path, line in ((p, n) for p in paths for n in p.read_bytes().splitlines()):
            try:
                custom_id = msgspec.json.decode(line, type=_Result).custom_id
            except (msgspec.DecodeError, UnicodeDecodeError) as e:
                raise UsageError(
                    f"{path}: an answer is one JSON object with custom_id, and response or error ({e})"
                ) from None
            if custom_id in self._found:
                raise UsageError(f"{path}: a second answer to {custom_id!r}")
            self._found[custom_id] = line
        names = dict.fromkeys(custom_id.partition("-")[0] for custom_id in self._found)
        if lost := [n for n in names if not n.isalnum() or not _state(results, n).is_file()]:
            raise UsageError(
                f"answers are to no request of an export here (custom_id {lost[0]!r}...): --results-dir "
                "names the folder that `medhelm export openai_batch` was given"
            )
        states = {name: _state(results, name) for name in names}
        self.exports = {
            name: msgspec.json.decode(path.read_bytes(), type=list[str])
            for name, path in states.items()
        }
        """The arguments of each export that these are the answers to."""
        self._taken = {name: path.with_suffix(".taken") for name, path in states.items()}
        done = {n for p in self._taken.values() if p.exists() for n in p.read_text().split()}
        self.used, self.old = 0, len(self._found.keys() & done)
        """Answers that were taken now, and before."""
        self._given: dict[str, list[str]] = defaultdict(list)
        for custom_id in sorted(self._found.keys() - done):
            self._given[custom_id.rpartition("-")[0]].append(custom_id)

    def of(self, name: str) -> Exchange:
        """Return what answers the requests of one export."""

        def give(spec: ModelSpec, body: bytes) -> Answer | Failure:
            if not (left := self._given[f"{name}-{_key(spec, body)}"]):
                return Failure("error", "no answer in the files")
            custom_id = left.pop(0)
            with self._taken[name].open("a") as taken:
                taken.write(f"{custom_id}\n")
            self.used += 1
            return read_line(spec, CHAT, self._found[custom_id])[1]

        return give

    @property
    def unused(self) -> int:
        """Return how many answers no request has asked for."""
        return sum(map(len, self._given.values()))


def _state(results: Path, name: str) -> Path:
    return results / "batch_files" / f"{name}.json"


def _key(spec: ModelSpec, body: bytes) -> str:
    """Return the key of what a model is asked: two requests with one body can be given each other's answer."""
    return hashlib.blake2b(spec.name.encode() + b"\0" + body, digest_size=16).hexdigest()
