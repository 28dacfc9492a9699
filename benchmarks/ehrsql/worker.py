"""The process that runs untrusted SQL: one read-only database, one query at a time.

Started by `sandbox` as a script, without site packages, environment or credentials; it
imports nothing of medhelm. It reads {"sql": ...} lines from stdin and writes one line of JSON
for each. What SQLite cannot stop itself (one endless function call, a parser that outgrows its
memory) ends with this process, never with the one that asked.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_ACTIONS = {
    code: name.removeprefix("SQLITE_").replace("_", " ")
    for name, code in vars(sqlite3).items()
    if name.startswith(("SQLITE_CREATE_", "SQLITE_DROP_", "SQLITE_ALTER_"))
    or name
    in (
        "SQLITE_ANALYZE",
        "SQLITE_ATTACH",
        "SQLITE_DELETE",
        "SQLITE_DETACH",
        "SQLITE_INSERT",
        "SQLITE_PRAGMA",
        "SQLITE_REINDEX",
        "SQLITE_SAVEPOINT",
        "SQLITE_TRANSACTION",
        "SQLITE_UPDATE",
    )
}
_FORBIDDEN = {"edit", "eval", "fts3_tokenizer", "load_extension", "readfile", "writefile"}
_RANDOM = {"random", "randomblob"}
"""Left out because the same query must give the same rows."""
_CLOCK = {
    **dict.fromkeys(("date", "time", "datetime", "julianday", "unixepoch"), (0,)),
    "strftime": (1,),
    "timediff": (0, 1),
}
"""Functions that read the clock, and where they take a time."""
_NO_TIME = ("subsec", "subsecond")
"""Modifiers that may replace a time, and then mean the present."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 1_000_000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_OPERATIONS = 1_000
"""Steps of SQLite's machine between two looks at the clock."""

Reply = dict[str, Any]


class _Database:
    """A connection with all limits in place, and why the last query was stopped."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._denied = ""
        self._deadline = 0.0
        self._is_late = False
        self._connection = _open(path, settings["now"])
        self._lock_down()

    def _lock_down(self) -> None:
        connection, settings = self._connection, self._settings
        connection.execute("PRAGMA temp_store = MEMORY")  # so that the memory limit holds for it
        connection.execute(f"PRAGMA hard_heap_limit = {settings['memory_bytes']}")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, settings["value_bytes"])
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, settings["query_bytes"])
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        _fix_clock(connection, settings["now"])
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.set_progress_handler(self._look_at_clock, _OPERATIONS)
        connection.set_authorizer(self._authorize)

    def _authorize(self, action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action not in _ALLOWED:
            self._denied = self._denied or _ACTIONS.get(action, f"action {action}")
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and (name := (second or "").lower()) in (
            _FORBIDDEN | _RANDOM
        ):
            self._denied = self._denied or f"the function {name}"
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def _look_at_clock(self) -> bool:
        self._is_late = time.process_time() > self._deadline
        return self._is_late

    def answer(self, sql: str) -> Reply:
        """Return the rows of a query, or why there are none."""
        self._denied, self._is_late = "", False
        self._deadline = time.process_time() + self._settings["seconds"]
        _limit_processor(self._deadline)
        try:
            return self._run(sql)
        except MemoryError:
            return {"status": "memory", "detail": "out of the memory allowed"}
        except sqlite3.DataError as e:  # a text, a blob or a query beyond SQLite's limits
            return {"status": "memory", "detail": str(e)}
        except (sqlite3.Error, sqlite3.Warning) as e:
            return self._explain(str(e), getattr(e, "sqlite_errorcode", 0) & 0xFF)

    def _explain(self, message: str, code: int) -> Reply:
        if self._is_late:
            return {"status": "timeout", "detail": "out of the time allowed"}
        if self._denied:
            return {"status": "forbidden", "detail": self._denied}
        if "one statement" in message:
            return {"status": "forbidden", "detail": "more than one statement"}
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR):
            return {"status": "damaged", "detail": message}
        return {"status": "failed", "detail": message}

    def _run(self, sql: str) -> Reply:
        cursor = self._connection.execute(sql)
        if cursor.description is None:
            return {"status": "failed", "detail": "no statement that gives rows"}
        rows: list[list[Any]] = []
        width, size = len(cursor.description), 0
        try:
            for row in cursor:
                size += sum(len(c) if isinstance(c, str | bytes) else 8 for c in row)
                if len(rows) == self._settings["rows"]:
                    return {"status": "too large", "detail": "more rows than allowed"}
                if size > self._settings["result_bytes"]:
                    return {"status": "too large", "detail": "a larger result than allowed"}
                rows.append([{"hex": c.hex()} if isinstance(c, bytes) else c for c in row])
        finally:
            cursor.close()
        return {"status": "rows", "rows": rows, "width": width}


def _open(path: Path, now: str) -> sqlite3.Connection:
    """Open a database file without any right to write; a .sql file becomes one in memory."""
    if path.suffix == ".sql":
        connection = sqlite3.connect(":memory:", isolation_level=None)
        _fix_clock(connection, now)  # for what its tables fill in by themselves
        connection.executescript(path.read_text(encoding="utf-8"))
    else:
        where = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(where, uri=True, isolation_level=None)
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def _fix_clock(connection: sqlite3.Connection, now: str) -> None:
    """Let every function of date and time take `now` for the present."""
    plain = sqlite3.connect(":memory:")

    def at(name: str, places: tuple[int, ...]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            args = [_as_read(value) for value in given]
            for place in places:
                if len(args) == place or (len(args) > place and _lower(args[place]) in _NO_TIME):
                    args.insert(place, now)  # SQLite takes the present where no time is given
                elif len(args) > place and _lower(args[place]) == "now":
                    args[place] = now
            marks = ",".join("?" * len(args))
            return plain.execute(f"SELECT {name}({marks})", args).fetchone()[0]

        return call

    for name, places in _CLOCK.items():
        with suppress(sqlite3.OperationalError):  # a function that this SQLite does not have
            count = max(places) + 1
            plain.execute(f"SELECT {name}({', '.join(['?'] * count)})", [now] * count)
            connection.create_function(name, -1, at(name, places), deterministic=True)
    for name, function in (
        ("current_date", "date"),
        ("current_time", "time"),
        ("current_timestamp", "datetime"),
    ):
        (value,) = plain.execute(f"SELECT {function}(?)", [now]).fetchone()
        connection.create_function(name, 0, lambda value=value: value, deterministic=True)


def _as_read(value: Any) -> Any:
    """Return an argument as SQLite's functions of time read it: a blob is a text, which NUL ends."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.partition("\0")[0] if isinstance(value, str) else value


def _lower(value: Any) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def _limit_process(memory_bytes: int) -> None:
    """Allow no file to be written, no core dump, and bound what Python itself may hold."""
    for what, limit in (
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, 4 * memory_bytes + (1 << 30)),
    ):
        with suppress(ValueError, OSError):  # not every system has every limit
            resource.setrlimit(what, (limit, limit))


def _limit_processor(deadline: float) -> None:
    """Let the system end this process where one step of SQLite never comes to an end."""
    with suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(deadline) + 2, hard))


def _say(reply: Reply) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def main(path: str, settings: str) -> NoReturn:
    """Answer until stdin ends."""
    limits = json.loads(settings)
    _limit_process(limits["memory_bytes"])
    try:
        database = _Database(Path(path), limits)
    except (OSError, UnicodeDecodeError, sqlite3.Error, sqlite3.Warning) as e:
        _say({"status": "damaged", "detail": f"{type(e).__name__}: {e}"})
        sys.exit(1)
    _say({"status": "ready"})
    for line in sys.stdin:
        _say(database.answer(json.loads(line)["sql"]))
    sys.exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
