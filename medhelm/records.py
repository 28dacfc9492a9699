"""Run folders: one append-only log of exchanges, and gradings beside it.

    <results>/runs/<benchmark>/<model>/<request hash>/
        spec.json           what was asked, and which instances are planned
        responses.jsonl     one line per finished request, each with its checksum
        quarantine.jsonl    lines that could not be read; their instances are asked again
        lock                held while a process writes
        gradings/<grading hash>/{scores.parquet, summary.json}

A line is on its way to the disk before the request counts as answered: a killed
process loses what was in flight, a power cut what was not yet synced (at most a second).
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote

import msgspec

from medhelm.durable import AtomicFile, lock_file, make_private, sync_folder, why
from medhelm.errors import RecordError
from medhelm.schema import SCHEMA, Exchange, Finish, GradingSpec, RunRecord, RunSpec

_T = TypeVar("_T", bound=msgspec.Struct)

ANSWERED: frozenset[Finish] = frozenset({"stop", "length", "refusal"})
"""Endings that are never asked again; 'error' and 'oversize' are, on the next start."""

_MODEL_FIELDS = (
    "provider",
    "model",
    "base_url",
    "reasoning",
    "system_prompt",
    "sampling",
    "token_limit_field",
    "send_seed",
    "extra_body",
)
_SPEC_FIELDS = (
    "benchmark",
    "benchmark_version",
    "data",
    "split",
    "dataset_sha256",
    "prompt_sha256",
    "max_output_tokens",
    "repeats",
    "seed",
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.json`: a run and the instances that it is to ask."""

    schema: int = SCHEMA
    spec: RunSpec
    request_hash: str
    instances: int
    cut: int | None = None
    """Instances whose `order_key` is at most this; None: all."""


class _Head(msgspec.Struct):
    instance_id: str
    finish: Finish
    repeat: int = 0


class _Line(msgspec.Struct):
    schema: int
    response: _Head


def request_hash(spec: RunSpec) -> str:
    """Return 16 hex digits over all that decides the requests (design section 4).

    Left out on purpose: the number of instances (growing it reuses every response), the
    model's display name, prices, time-outs and limits on concurrency.
    """
    decides: dict[str, Any] = {f: getattr(spec, f) for f in _SPEC_FIELDS}
    decides["model"] = {f: getattr(spec.model, f) for f in _MODEL_FIELDS}
    return _digest(decides)


def grading_hash(grading: GradingSpec) -> str:
    """Return 16 hex digits over metrics, their versions and the scoring."""
    return _digest(grading)


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


def order_key(seed: int, instance_id: str) -> int:
    """Return the 64-bit place of an instance in the seeded order that `max_instances` cuts."""
    digest = hashlib.blake2b(f"{seed}\0{instance_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


def exchange_key(instance_id: str, repeat: int) -> int:
    """Return a 64-bit key of one exchange; 10^5 of them collide with probability 3e-10."""
    digest = hashlib.blake2b(f"{repeat}\0{instance_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


def instance_key(instance_id: str) -> int:
    """Return the 64-bit key by which tables join instances; collisions as in `exchange_key`."""
    digest = hashlib.blake2b(f"i\0{instance_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


def cluster_key(instance_id: str, cluster: str | None) -> int:
    """Return the 64-bit key of an instance's cluster; without one it is its own."""
    if cluster is None:
        return instance_key(instance_id)
    digest = hashlib.blake2b(f"c\0{cluster}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


def run_path(results: Path, spec: RunSpec) -> Path:
    """Return the folder of a run."""
    model = quote(spec.model.name.replace("/", "__"), safe="-_.+@=,")
    if model.startswith("."):  # '..' would leave the folder
        model = "%2E" + model[1:]
    return results / "runs" / spec.benchmark / model / request_hash(spec)


def encode_line(exchange: Exchange) -> bytes:
    """Return an exchange as one line of JSON that ends with a CRC-32 of what stands before."""
    body = msgspec.json.encode(exchange)
    return b'%b,"crc":"%08x"}\n' % (body[:-1], zlib.crc32(body))


_TAIL = len(b',"crc":"00000000"}')


def _body(line: bytes) -> bytes | None:
    """Return the JSON of a line without its checksum; None if the line is damaged."""
    line = line.rstrip(b"\r\n")
    if len(line) < _TAIL or not line[-_TAIL:].startswith(b',"crc":"'):
        return None
    body = line[:-_TAIL] + b"}"
    return body if b"%08x" % zlib.crc32(body) == line[-10:-2] else None


@dataclass(frozen=True)
class Scan:
    """What a log holds: keys already answered, and what was mended on opening it."""

    answered: set[int]
    torn: int
    quarantined: int


class RunFolder:
    """One run folder, held by this process alone from `open` to `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: BinaryIO | None = None
        self._fd = -1
        self._size = 0
        self._syncing = threading.Lock()
        self.is_dirty = False

    @property
    def log_path(self) -> Path:
        """Path of the log of exchanges."""
        return self.path / "responses.jsonl"

    def open(self) -> Scan:
        """Lock the folder, mend its log and return what it already holds.

        Raises RunLocked where another process holds it, RecordError where it cannot be written.
        """
        try:
            make_private(self.path)
            self._lock = lock_file(self.path / "lock")
            scan = _mend(self.log_path, self.path / "quarantine.jsonl")
            self._fd = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._size = os.fstat(self._fd).st_size
            if self._size == 0:
                sync_folder(self.path)  # else a power cut could take the name with the lines
        except OSError as e:
            self.close()
            raise RecordError(f"cannot write run folder {self.path}: {why(e)}") from None
        except RecordError:
            self.close()
            raise
        return scan

    def append(self, exchange: Exchange) -> None:
        """Hand one exchange to the operating system; a line that does not fit is taken back."""
        line = encode_line(exchange)
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as e:
            os.ftruncate(self._fd, self._size)
            raise RecordError(
                f"cannot write {self.log_path}: {why(e)}; everything answered before is kept, "
                "and the same command goes on from there"
            ) from None
        self._size += len(line)
        self.is_dirty = True

    def sync(self) -> None:
        """Force what was appended to the disk; may be called from another thread."""
        with self._syncing:
            self.is_dirty = False
            if self._fd >= 0:
                os.fsync(self._fd)

    def close(self) -> None:
        """Sync and close the log and give the lock back."""
        if self.is_dirty:
            self.sync()
        with self._syncing:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _mend(log: Path, quarantine: Path) -> Scan:
    """Drop a torn last line, move damaged lines aside, and collect the answered keys."""
    if not log.exists():
        return Scan(set(), 0, 0)
    answered: set[int] = set()
    damaged: list[tuple[int, int]] = []
    torn = 0
    start = 0
    decode = msgspec.json.Decoder(_Line).decode
    with open(log, "rb") as lines:
        for line in lines:
            end = start + len(line)
            if not line.endswith(b"\n"):
                torn = 1
                break
            head = _read_head(line, decode)
            if head is None:
                damaged.append((start, end))
            elif head.finish in ANSWERED:
                answered.add(exchange_key(head.instance_id, head.repeat))
            else:
                answered.discard(exchange_key(head.instance_id, head.repeat))
            start = end
    if damaged:
        _move_aside(log, quarantine, damaged, start)
    elif torn:
        os.truncate(log, start)
    return Scan(answered, torn, len(damaged))


def _read_head(line: bytes, decode: Any) -> _Head | None:
    body = _body(line)
    if body is None:
        return None
    try:
        head: _Line = decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if head.schema != SCHEMA:
        raise RecordError(
            f"a log line has schema {head.schema}, this medhelm reads {SCHEMA}; "
            "use the medhelm version that wrote it, or another results_dir"
        )
    return head.response


def _move_aside(log: Path, quarantine: Path, damaged: list[tuple[int, int]], end: int) -> None:
    bad = dict(damaged)
    with open(log, "rb") as source, open(quarantine, "ab") as aside:
        with AtomicFile(log) as kept:
            position = 0
            for line in source:
                if position >= end:
                    break
                (aside if position in bad else kept).write(line)
                position += len(line)
        aside.flush()
        os.fsync(aside.fileno())


def write_struct(path: Path, value: msgspec.Struct) -> None:
    """Write a struct as indented JSON, atomically; raises RecordError."""
    try:
        make_private(path.parent)
        with AtomicFile(path) as handle:
            handle.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
    except OSError as e:
        raise RecordError(f"cannot write {path}: {why(e)}") from None


def read_plan(run: Path) -> Plan:
    """Return `spec.json` of a run folder; raises RecordError."""
    return _read_struct(run / "spec.json", Plan)


def read_record(grading: Path) -> RunRecord:
    """Return `summary.json` of a grading folder; raises RecordError."""
    return _read_struct(grading / "summary.json", RunRecord)


def _read_struct(path: Path, kind: type[_T]) -> _T:
    try:
        raw = path.read_bytes()
        head = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).get("schema")
    except OSError as e:
        raise RecordError(f"cannot read {path}: {why(e)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RecordError(f"{path} is not readable JSON; restore it or remove its folder") from None
    if head is not None and bytes(head) != b"%d" % SCHEMA:
        raise RecordError(
            f"{path} has schema {bytes(head).decode(errors='replace')}, this medhelm reads "
            f"{SCHEMA}; grade it again with `medhelm score`"
        )
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise RecordError(f"{path} is not a record of medhelm: {e}") from None


def find_runs(results: Path) -> list[Path]:
    """Return every run folder below a results folder, sorted."""
    return sorted(p.parent for p in (results / "runs").glob("*/*/*/spec.json"))


def find_gradings(results: Path) -> list[Path]:
    """Return every grading folder that has a summary below a results folder, sorted."""
    return sorted(p.parent for p in (results / "runs").glob("*/*/*/gradings/*/summary.json"))


def read_exchanges(run: Path, plan: Plan) -> Iterator[Exchange]:
    """Yield the last exchange of every planned instance and repeat, in the order of the log.

    Streams: 8 bytes an exchange are held, not its text. Lines that cannot be read are passed
    over (opening the folder for a run moves them aside and asks again).
    """
    log = run / "responses.jsonl"
    if not log.exists():
        return
    superseded = _superseded(log)
    decode = msgspec.json.Decoder(Exchange).decode
    with open(log, "rb") as lines:
        for number, line in enumerate(lines):
            body = _body(line)
            if body is None or number in superseded:
                continue
            exchange: Exchange = decode(body)
            if plan.cut is None or order_key(plan.spec.seed, exchange.instance.id) <= plan.cut:
                yield exchange


def _superseded(log: Path) -> set[int]:
    """Return numbers of lines for whose instance and repeat a later line stands."""
    keys = array("Q")
    decode = msgspec.json.Decoder(_Line).decode
    unreadable = exchange_key("", -1)
    with open(log, "rb") as lines:
        for line in lines:
            head = _read_head(line, decode)
            keys.append(unreadable if head is None else exchange_key(head.instance_id, head.repeat))
    import numpy as np

    found = np.frombuffer(keys, dtype=np.uint64) if keys else np.empty(0, np.uint64)
    _, last = np.unique(found[::-1], return_index=True)
    if len(last) == len(found):
        return set()
    kept = np.zeros(len(found), dtype=bool)
    kept[len(found) - 1 - last] = True
    return set(np.flatnonzero(~kept).tolist())


def log_bytes(run: Path) -> int:
    """Return the size of a run's log; 0 where there is none."""
    try:
        return (run / "responses.jsonl").stat().st_size
    except FileNotFoundError:
        return 0
