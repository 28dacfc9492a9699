"""Asking a model once: by what it is asked, a reply that is stored is never asked for again.

    <folder>/calls.jsonl    one line per reply, each with its checksum

The same command therefore goes on where it stopped. In the log the guideline's text is replaced by
its hash: it is once in the folder, not in every line.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import MedhelmError, RecordError
from medhelm.files.durable import make_private, remove_temporary, why
from medhelm.models import ModelPool, is_instance_model
from medhelm.models.costs import Ledger
from medhelm.models.identity import identity
from medhelm.runs import ask
from medhelm.schema.episode import Message, Request, Response
from medhelm.schema.model import Model, ModelSpec
from medhelm.store.appendlog import (
    AppendLog,
    mend_log,
    with_checksum,
    without_checksum,
)
from medhelm.store.runlog import ANSWERED
from medhelm_benchmarks.noharm.generation.guideline import Guideline
from medhelm_benchmarks.noharm.generation.prompts import fenced

CALLS = "calls.jsonl"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    schema: str = "medhelm_benchmarks.noharm.generation/1"
    key: str
    """Hash of model and request."""
    case: str
    stage: str
    attempt: int
    """From 0. The others are repairs."""
    model: str
    messages: tuple[Message, ...]
    response: Response


class CallLog(AppendLog):
    """The log of one folder, which this process holds from `open` to `close`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / CALLS)
        self.folder = folder
        self._places: dict[str, tuple[int, int]] = {}

    def open(self) -> int:
        """Lock the folder and mend the log; returns how many lines were torn or damaged.

        Raises RunLocked where another process holds the folder, RecordError where it cannot be
        written.
        """
        try:
            make_private(self.folder)
            self._take_lock()
            remove_temporary(self.folder)
            lost = self._scan()
            if lost:
                self._scan()  # the lines have moved
            self._open_log()
        except OSError as e:
            self.close()
            raise RecordError(f"cannot write {self.folder}: {why(e)}") from None
        except RecordError:
            self.close()
            raise
        return lost

    def _scan(self) -> int:
        self._places.clear()

        def take(line: bytes, start: int) -> bool:
            call = _read(line)
            if call is not None and call.response.finish in ANSWERED:
                self._places[call.key] = (start, len(line))
            return call is not None

        return sum(mend_log(self.log_path, self.log_path.with_name("quarantine.jsonl"), take))

    def find(self, key: str) -> Response | None:
        """Return the stored reply to a request."""
        place = self._places.get(key)
        if place is None:
            return None
        call = _read(os.pread(self._fd, place[1], place[0]))
        return None if call is None else call.response

    def append(self, call: Call) -> None:
        """Hand one call to the operating system; raises RecordError."""
        start = self._size
        self._append_line(with_checksum(msgspec.json.encode(call)))
        if call.response.finish in ANSWERED:
            self._places[call.key] = (start, self._size - start)


def read_calls(folder: Path) -> Iterator[Call]:
    """Yield the calls of a folder in the order of their replies; unreadable lines are passed over."""
    try:
        with open(folder / CALLS, "rb") as lines:
            yield from filter(None, map(_read, lines))
    except FileNotFoundError:
        return


def _read(line: bytes) -> Call | None:
    body = without_checksum(line) if line.endswith(b"\n") else None
    try:
        return None if body is None else msgspec.json.decode(body, type=Call)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Stopped(Exception):
    """Nothing more is sent: the budget, the user, a model or the disk has ended the work."""


class Caller:
    """Asks models for all cases of a folder, within one budget."""

    def __init__(self, log: CallLog, pool: ModelPool, ledger: Ledger, guideline: Guideline) -> None:
        self._log, self._pool, self._guideline = log, pool, guideline
        self._desk = ask.Desk(ledger)
        self._opening = fenced("guideline", guideline.text).partition("\n")[0] + "\n"
        self._models: dict[str, Model] = {}

    @property
    def stopped(self) -> MedhelmError | None:
        """Return the reason why nothing more is sent, and None while the work goes on."""
        return self._desk.stopped

    def stop(self, reason: MedhelmError) -> None:
        """Send nothing more; requests in flight may still finish."""
        self._desk.stop(reason)

    async def ask(
        self,
        spec: ModelSpec,
        request: Request,
        *,
        case: str,
        stage: str,
        attempt: int,
        is_stored: bool = False,
    ) -> Response:
        """Return the reply to a request, from the log where it is there; raises Stopped.

        `is_stored`: only from the log.
        """
        messages = tuple(self._shortened(m) for m in request.messages)
        sent = msgspec.structs.replace(request, messages=messages)
        key = call_key(identity(spec), sent)
        stored = self._log.find(key)
        if stored is not None:
            return stored
        if self.stopped or is_stored:
            raise Stopped
        try:
            response = await self._send(spec, request)
            self._log.append(
                Call(
                    key=key,
                    case=case,
                    stage=stage,
                    attempt=attempt,
                    model=spec.name,
                    messages=messages,
                    response=response,
                )
            )
        except MedhelmError as e:
            self.stop(e)
            raise Stopped from None
        return response

    async def _send(self, spec: ModelSpec, request: Request) -> Response:
        try:
            return await self._desk.send(self._open(spec), request)
        except ask.Stopped as e:
            raise e.reason from None

    def _open(self, spec: ModelSpec) -> Model:
        if spec.name not in self._models:
            model = self._pool.open(spec)
            assert not is_instance_model(model)  # refused before anything is asked
            self._models[spec.name] = model
        return self._models[spec.name]

    def _shortened(self, message: Message) -> Message:
        """Return a message with the guideline's hash for its text, which is between tags."""
        start = message.content.find(self._opening) + len(self._opening)
        text = self._guideline.text
        if start < len(self._opening) or not message.content.startswith(text, start):
            return message
        mark = f"(guideline {self._guideline.sha256})"
        before, after = message.content[:start], message.content[start + len(text) :]
        return Message(message.role, f"{before}{mark}{after}")


def call_key(model: Mapping[str, Any], request: Request) -> str:
    """Return 32 hex digits over all that decides a reply: the model's settings and what it is sent.

    The guideline may be there by its hash.
    """
    encoded = msgspec.json.encode({"model": model, "request": request}, order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:32]
