"""Model-written SQL: whatever it does, the caller gets a result, and the database stays as it is."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from medhelm.errors import DataError
from medhelm_benchmarks.ehrsql.sandbox import (
    QueryLimits,
    QueryResult,
    QueryStatus,
    Sandbox,
    open_sandbox,
)
from tests.cases import cases

NOW = "2105-12-31 23:59:00"
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
DOUBLED = "WITH c0 AS (SELECT 1 x UNION ALL SELECT 2)" + "".join(
    f", c{n} AS (SELECT a.x FROM c{n - 1} a, c{n - 1} b)" for n in range(1, 30)
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "with space #1.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE lab (id INTEGER PRIMARY KEY, name TEXT, value REAL)")
    rows = [(n, f"test {n % 7}", n / 4) for n in range(2_000)]
    connection.executemany("INSERT INTO lab VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return path


@pytest.fixture(scope="module")
def sandbox(database: Path) -> Iterator[Sandbox]:
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    folder = sorted(p.name for p in database.parent.iterdir())
    opened = Sandbox(database, now=NOW, limits=QueryLimits(seconds=0.5))
    yield opened
    opened.close()
    assert hashlib.sha256(database.read_bytes()).hexdigest() == before
    assert sorted(p.name for p in database.parent.iterdir()) == folder


def works(sandbox: Sandbox) -> bool:
    return sandbox.query("SELECT count(*) FROM lab").rows == ((2_000,),)


def test_a_query_gives_rows_with_their_types(sandbox: Sandbox) -> None:
    assert sandbox.query("SELECT id, name, value, NULL, x'00ff' FROM lab WHERE id = 3") == (
        QueryResult(status="rows", rows=((3, "test 3", 0.75, None, b"\x00\xff"),), width=5)
    )
    assert sandbox.query("SELECT 9e999, -9223372036854775808, 'é\n\"'").rows == (
        (float("inf"), -(2**63), 'é\n"'),
    )
    assert sandbox.query("SELECT id FROM lab WHERE id < 0") == QueryResult(status="rows", width=1)
    assert sandbox.query("WITH t AS (SELECT max(id) m FROM lab) SELECT m FROM t;").rows == (
        (1_999,),
    )
    assert sandbox.query("VALUES (1), (2) -- done").rows == ((1,), (2,))


ATTACKS: list[tuple[str, QueryStatus]] = [
    *cases(__file__, "attacks"),
    # time
    (f"{ENDLESS} SELECT count(*) FROM c", "timeout"),
    (f"{ENDLESS} SELECT x FROM c WHERE x < 0", "timeout"),
    # memory
    (f"{DOUBLED} SELECT * FROM c29 LIMIT 1", "memory"),
    # size
    (f"{ENDLESS} SELECT x FROM c", "too large"),
    ("SELECT '" + "x" * 1_000_000 + "'", "too large"),
    # the parser
    ("SELECT " + "(" * 20_000 + "1" + ")" * 20_000, "failed"),
    ("SELECT 1" + "+1" * 20_000, "failed"),
    ("SELECT " + "NOT " * 10_000 + "1", "failed"),
    ("SELECT 1" + " UNION ALL SELECT 1" * 2_000, "failed"),
    ("SELECT " + ",".join(["1"] * 3_000), "failed"),
    ("SELECT * FROM " + ",".join(f"lab l{n}" for n in range(80)), "failed"),
    # no query at all
    ("SELECT \ud800", "failed"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("sql", "status"), ATTACKS, ids=lambda v: ascii(v)[:60])
def test_attacks_end_with_their_own_outcome(
    sandbox: Sandbox, sql: str, status: QueryStatus
) -> None:
    started = time.process_time()
    result = sandbox.query(sql)
    assert (result.status, result.rows) == (status, ())
    assert result.detail and len(result.detail) <= 200 and "\n" not in result.detail
    assert time.process_time() - started < 0.5, "the time is the other process's"
    assert works(sandbox), "the next query finds everything as it was"


def test_memory_goes_up_in_the_other_process_only(sandbox: Sandbox) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    big = (
        f"{ENDLESS} SELECT count(*) FROM (SELECT x, hex(zeroblob(20000)) || x y FROM c ORDER BY y)"
    )
    assert sandbox.query(big).status in ("memory", "timeout")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    assert works(sandbox)


@pytest.mark.slow
def test_a_step_that_never_ends_ends_the_process_and_not_the_caller(database: Path) -> None:
    limits = QueryLimits(seconds=0.2, value_bytes=50_000_000)
    sandbox = Sandbox(database, limits=limits)
    text = "replace(hex(zeroblob(4000000)), '00', 'aa')"
    part = "replace(hex(zeroblob(2000000)), '00', 'aa') || 'b'"
    result = sandbox.query(f"SELECT instr({text}, {part})")
    assert (result.status, result.detail) == ("timeout", "out of the time allowed")
    assert works(sandbox), "a new process takes its place"
    sandbox.close()


@pytest.mark.slow
def test_a_process_that_is_too_long_on_the_clock_or_killed_is_replaced(database: Path) -> None:
    sandbox = Sandbox(database, limits=QueryLimits(seconds=60, wall_seconds=0.5))
    assert sandbox.query(f"{ENDLESS} SELECT count(*) FROM c").status == "timeout"
    assert works(sandbox)
    (process,) = sandbox._idle[os.getpid()]
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    assert works(sandbox)
    sandbox.close()
    sandbox = Sandbox(database, limits=QueryLimits(seconds=20))
    others = _children(database)

    def kill() -> None:
        for pid in _children(database) - others:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Timer(1.0, kill)
    killer.start()
    result = sandbox.query(f"{ENDLESS} SELECT count(*) FROM c")
    killer.join()
    assert (result.status, result.detail) == ("crashed", "the process of the query died")
    sandbox.close()


def _children(database: Path) -> set[int]:
    psutil = pytest.importorskip("psutil")
    return {p.pid for p in psutil.Process().children() if str(database) in p.cmdline()}


def test_the_same_query_gives_the_same_rows_whenever_it_runs(sandbox: Sandbox) -> None:
    clocks = (
        "current_timestamp, current_date, current_time, datetime('now'), date(), "
        "date(' NOW ', '-1 month'), strftime('%Y'), strftime('%m', 'now'), julianday() - "
        "julianday('2105-12-30 23:59:00')"
    )
    assert sandbox.query(f"SELECT {clocks}").rows == (
        (
            "2105-12-31 23:59:00",
            "2105-12-31",
            "23:59:00",
            "2105-12-31 23:59:00",
            "2105-12-31",
            "2105-12-01",
            "2105",
            "12",
            1.0,
        ),
    )
    assert sandbox.query("SELECT datetime('2030-02-28', '+1 day')").rows == (
        ("2030-03-01 00:00:00",),
    )
    assert sandbox.query("SELECT id FROM lab ORDER BY random() LIMIT 1").detail == (
        "the function random"
    )


PRESENTS = (
    *("x'6e6f77'", "x'4e4F57'", "'NoW'", "'n' || 'ow'", "cast(x'6e6f77' AS TEXT)"),
    *("cast('now' AS BLOB)", "printf('n%sw', 'o')", "char(110, 111, 119)", "lower('NOW')"),
    *("replace('nXw', 'X', 'o')", "substr('xnow', 2)", "trim(' now ')", "coalesce(NULL, 'now')"),
    *("json_extract('{\"a\": \"now\"}', '$.a')", "'now' || char(0) || 'x'", "x'6e6f7700'"),
    *("(SELECT 'now')", "iif(1, 'now', '')", "(SELECT w FROM words WHERE id = 1)"),
    "(SELECT w FROM words WHERE id = 2)",
)
"""Ways to write 'now' in SQL; each is a text or a blob when it reaches the function."""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    script = tmp_path_factory.mktemp("words") / "words.sql"
    script.write_text(
        "CREATE TABLE words (id INTEGER, w, made TEXT DEFAULT CURRENT_TIMESTAMP, "
        "day TEXT DEFAULT (date('now')));"
        "INSERT INTO words (id, w) VALUES (1, 'now'), (2, x'6e6f77');"
    )
    opened = Sandbox(script, now=NOW)
    yield opened
    opened.close()


@pytest.mark.parametrize("present", PRESENTS)
def test_the_clock_is_fixed_however_the_present_is_written(words: Sandbox, present: str) -> None:
    calls = (
        f"date({present}), time({present}), datetime({present}), strftime('%Y', {present}), "
        f"julianday({present}), date({present}, 'start of year'), datetime({present}, 'localtime')"
    )
    assert words.query(f"SELECT {calls}").rows == (
        (
            *("2105-12-31", "23:59:00", "2105-12-31 23:59:00", "2105"),
            *(pytest.approx(2490260.4993055556), "2105-01-01", "2105-12-31 23:59:00"),
        ),
    )


def test_the_clock_of_what_tables_fill_in_themselves_is_fixed(words: Sandbox) -> None:
    assert words.query("SELECT DISTINCT made, day FROM words").rows == (
        ("2105-12-31 23:59:00", "2105-12-31"),
    )


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 43), reason="functions of SQLite 3.43")
def test_the_clock_of_newer_functions_is_fixed(words: Sandbox) -> None:
    calls = "datetime('subsec'), strftime('%Y', 'subsecond'), timediff('now', '2104-12-31 23:59')"
    assert words.query(f"SELECT {calls}").rows == (
        ("2105-12-31 23:59:00.000", "2105", "+0001-00-00 00:00:00.000"),
    )


def test_other_times_are_what_sqlite_says(words: Sandbox) -> None:
    asked = (
        "date(0), date(2451545), datetime(x'323030302d30312d3031'), date('nowhere'), date(NULL)",
        "date('2000-01-31', '+1 month'), strftime('%H', '12:00'), unixepoch('2000-01-01')",
    )
    plain = sqlite3.connect(":memory:")
    for query in asked:
        assert words.query(f"SELECT {query}").rows == (plain.execute(f"SELECT {query}").fetchone(),)
    plain.close()


@pytest.mark.slow
def test_threads_share_a_sandbox_and_a_slow_query_holds_up_no_other(sandbox: Sandbox) -> None:
    with ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(sandbox.query, f"{ENDLESS} SELECT count(*) FROM c") for _ in range(2)]
        wanted = list(range(200))
        found = list(
            pool.map(lambda n: sandbox.query(f"SELECT id FROM lab WHERE id = {n}").rows, wanted)
        )
        assert found == [((n,),) for n in wanted]
        assert {f.result().status for f in slow} == {"timeout"}


def test_a_script_becomes_a_database_in_memory_and_is_no_more_writable(tmp_path: Path) -> None:
    script = tmp_path / "small.sql"
    script.write_text("CREATE TABLE t (a); INSERT INTO t VALUES (1), ('ü');", encoding="utf-8")
    sandbox = open_sandbox(script, now=NOW)
    assert sandbox.query("SELECT a FROM t").rows == ((1,), ("ü",))
    assert sandbox.query("INSERT INTO t VALUES (2)").status == "forbidden"
    assert sandbox.sha256 == hashlib.sha256(script.read_bytes()).hexdigest()
    assert open_sandbox(script, now=NOW) is sandbox
    sandbox.close()


def test_a_database_that_is_missing_damaged_or_another_one_is_the_users_to_mend(
    tmp_path: Path, database: Path
) -> None:
    with pytest.raises(DataError, match=r"gone\.sqlite is missing"):
        open_sandbox(tmp_path / "gone.sqlite")
    with pytest.raises(DataError, match="sha256 .* made with 00000"):
        open_sandbox(database, sha256="0" * 64)
    text = tmp_path / "text.sqlite"
    text.write_text("this is no database, but it is long enough to look at " * 20)
    broken = tmp_path / "broken.sql"
    broken.write_text("CREATE TABLE (;")
    torn = tmp_path / "torn.sqlite"
    torn.write_bytes(database.read_bytes()[: 4096 * 3])
    for path in (text, broken, torn):
        with pytest.raises(DataError, match="as a SQLite database") as caught:
            open_sandbox(path).query("SELECT sum(value), group_concat(name) FROM lab")
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_process_sees_no_environment_and_leaves_with_its_parent(database: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from medhelm_benchmarks.ehrsql.sandbox import Sandbox\n"
        f"sandbox = Sandbox(Path({str(database)!r}))\n"
        "assert sandbox.query('SELECT 1').rows == ((1,),)\n"
        "(process,) = sandbox._idle[os.getpid()]\n"
        "pid = process._process.pid\n"
        "seen = Path(f'/proc/{pid}/environ')\n"
        "assert not seen.exists() or b'SECRET' not in seen.read_bytes()\n"
        "print(pid, flush=True)\n"
    )
    for end in ("", "os.kill(os.getpid(), 9)"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code + end],
            capture_output=True,
            text=True,
            env=os.environ | {"SECRET_API_KEY": "sk-1"},
        )
        assert done.stderr == ""
        deadline = time.monotonic() + 20
        while Path(f"/proc/{int(done.stdout)}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _runs(int(done.stdout))


def _runs(pid: int) -> bool:
    psutil = pytest.importorskip("psutil")
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_a_forked_child_speaks_through_pipes_of_its_own(sandbox: Sandbox) -> None:
    assert works(sandbox)
    code = (
        "import os, sys; from pathlib import Path; from medhelm_benchmarks.ehrsql.sandbox import Sandbox\n"
        f"sandbox = Sandbox(Path({str(sandbox.path)!r}))\n"
        "ask = lambda n: sandbox.query(f'SELECT {n}').rows == ((n,),)\n"
        "assert ask(1)\n"
        "child = os.fork()\n"
        "fine = all(ask(n) for n in range(300))\n"
        "if not child: os._exit(0 if fine else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0 and fine\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
