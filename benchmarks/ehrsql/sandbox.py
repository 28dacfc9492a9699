"""Runs SQL that a model wrote: reads only, and within limits of time, memory and size.

Each query runs in a process of its own kind (`worker`) that opens the database read-only,
allows nothing but SELECT, and is ended from outside where it does not come back. Whatever a
query does, the caller gets a `QueryResult`. The time of day is fixed and random numbers are
forbidden, so that the same query gives the same rows.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, cast

from medhelm import DataError
from medhelm.plugin import file_sha256

Cell = str | int | float | bytes | None
QueryStatus = Literal["rows", "failed", "forbidden", "timeout", "memory", "too large", "crashed"]
"""The end of a query.

rows: it ran, with or without rows. failed: SQLite refused it (syntax, no such column).
forbidden: it is more than one statement, or does something besides reading. timeout, memory,
too large: it met a limit. crashed: its process died of something else.
"""

_WORKER = Path(__file__).with_name("worker.py")
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH")
_IDLE = 4
"""Processes of one database that are kept for the next query."""


@dataclass(frozen=True, kw_only=True)
class QueryLimits:
    """Limits the resources of one query."""

    seconds: float = 2.0
    """Of processor time, so that a busy machine changes no result."""
    wall_seconds: float = 30.0
    """After which its process is ended, however little it has computed."""
    memory_bytes: int = 128 << 20
    """Of SQLite's own memory; sorting and temporary tables are part of it."""
    value_bytes: int = 250_000
    """Of one text or blob."""
    query_bytes: int = 50_000
    rows: int = 10_000
    result_bytes: int = 4 << 20


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """Holds the outcome of one query."""

    status: QueryStatus
    rows: tuple[tuple[Cell, ...], ...] = ()
    width: int = 0
    """Columns of the result, which it has without rows too."""
    detail: str = ""
    """The reason for no result, in a few words, never a value of the database."""


class Sandbox:
    """One database, opened read-only; safe to use from several threads at once."""

    def __init__(
        self,
        path: Path,
        *,
        sha256: str = "",
        now: str = "2000-01-01 00:00:00",
        limits: QueryLimits | None = None,
    ) -> None:
        self.path, self.sha256, self.limits = path, sha256, limits or QueryLimits()
        self._settings = json.dumps(asdict(self.limits) | {"now": now})
        self._lock = threading.Lock()
        self._idle: dict[int, list[_Process]] = {}
        """By process id: a forked child must not speak through its parent's pipes."""

    def query(self, sql: str) -> QueryResult:
        """Return what one statement gives. Raises DataError where the database is at fault."""
        try:
            size = len(sql.encode())
        except UnicodeEncodeError:
            return QueryResult(status="failed", detail="the query is not Unicode text")
        if size > self.limits.query_bytes:
            detail = f"a query of more than {self.limits.query_bytes} bytes"
            return QueryResult(status="too large", detail=detail)
        if "\0" in sql:
            return QueryResult(status="forbidden", detail="a NUL character in the query")
        process = self._take()
        reply = process.ask(sql, self.limits.wall_seconds)
        if process.is_alive:
            self._give(process)
        return self._read(reply)

    def close(self) -> None:
        """End the processes that wait for a query."""
        with self._lock:
            waiting = self._idle.pop(os.getpid(), [])
        for process in waiting:
            process.end()

    def _take(self) -> _Process:
        with self._lock:
            waiting = self._idle.get(os.getpid())
            while waiting:
                process = waiting.pop()
                if process.is_alive:
                    return process
        process = _Process(self.path, self._settings)
        ready = process.receive(time.monotonic() + self.limits.wall_seconds)
        if ready.get("status") != "ready":
            process.end()
            raise self._damaged(ready.get("detail", "its process did not start"))
        return process

    def _give(self, process: _Process) -> None:
        with self._lock:
            waiting = self._idle.setdefault(os.getpid(), [])
            if len(waiting) < _IDLE:
                waiting.append(process)
                return
        process.end()

    def _read(self, reply: Mapping[str, Any]) -> QueryResult:
        if reply["status"] == "damaged":
            raise self._damaged(reply["detail"])
        rows = tuple(tuple(map(_cell, row)) for row in reply.get("rows", ()))
        return QueryResult(
            status=cast(QueryStatus, reply["status"]),
            rows=rows,
            width=reply.get("width", 0),
            detail=" ".join(reply.get("detail", "").split())[:200],
        )

    def _damaged(self, detail: str) -> DataError:
        return DataError(
            f"{self.path} cannot be read as a SQLite database ({' '.join(detail.split())[:200]}); "
            "put a whole one there"
        )


class _Process:
    """One worker; it is ended when it is no longer referred to, and at exit."""

    def __init__(self, path: Path, settings: str) -> None:
        environ = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WORKER), str(path.absolute()), settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environ | {"TZ": "UTC"},
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the command, which ends this one itself
        )
        self.end = weakref.finalize(self, _end, self._process, os.getpid())

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, sql: str, wall_seconds: float) -> Mapping[str, Any]:
        """Return the reply to a query. A process that gives none is ended."""
        deadline = time.monotonic() + wall_seconds
        try:
            _pipe(self._process.stdin).write(json.dumps({"sql": sql}).encode() + b"\n")
        except BrokenPipeError:
            return self._lost(deadline)
        return self.receive(deadline)

    def receive(self, deadline: float) -> Mapping[str, Any]:
        pipe = _pipe(self._process.stdout).fileno()
        poller = select.poll()
        poller.register(pipe, select.POLLIN | select.POLLHUP)
        line = bytearray()
        while not line.endswith(b"\n"):
            wait_ms = (deadline - time.monotonic()) * 1000
            if wait_ms <= 0 or not poller.poll(wait_ms):
                return self._lost(deadline)
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                return self._lost(deadline)
            line += chunk
        reply: Mapping[str, Any] = json.loads(line)
        return reply

    def _lost(self, deadline: float) -> Mapping[str, Any]:
        is_late = time.monotonic() >= deadline
        if not is_late:  # its end of the pipe is closed: it is about to be gone
            try:
                is_late = self._process.wait(1) == -signal.SIGXCPU
            except subprocess.TimeoutExpired:
                is_late = False
        self.end()
        if is_late:
            return {"status": "timeout", "detail": "out of the time allowed"}
        return {"status": "crashed", "detail": "the process of the query died"}


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    _pipe(process.stdin).close()
    _pipe(process.stdout).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "started with pipes"
    return pipe


def _cell(value: Any) -> Cell:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else cast(Cell, value)


def open_sandbox(
    path: Path, *, sha256: str = "", now: str = "2000-01-01 00:00:00", seconds: float = 2.0
) -> Sandbox:
    """Return the sandbox of a database file, or of a .sql script that makes one in memory.

    All callers share it. Raises DataError where the file is missing, or is not the one of
    this sha256.
    """
    if not path.is_file():
        raise DataError(
            f"{path} is missing; put the database there, or name the data folder "
            "(--data-dir or MEDHELM_DATA_DIR)"
        )
    found = file_sha256(path)
    if sha256 and found != sha256:
        raise DataError(
            f"{path} has sha256 {found[:12]}..., the instances were made with {sha256[:12]}...; "
            "put that database there, or run the benchmark anew"
        )
    return _sandbox(path, found, now, seconds)


@lru_cache(maxsize=16)
def _sandbox(path: Path, sha256: str, now: str, seconds: float) -> Sandbox:
    return Sandbox(path, sha256=sha256, now=now, limits=QueryLimits(seconds=seconds))
