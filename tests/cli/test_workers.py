"""`workers=`: several processes ask one command's runs, and what comes is what one process would have made."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from medhelm.cli.worker import POOL
from medhelm.models.pacing.pool import Pool
from medhelm.models.pacing.pool_file import PoolFile
from medhelm.store.runlog import read_log
from tests.processes import Started, asked, medhelm_forked, start
from tests.quiz import PLUGIN, arguments, medhelm, record_of, scores_of, write_quiz
from tests.server import FaultServer, Reply, serve_in_thread

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serve_in_thread(latency_s=0.02) as found:
        yield found


def begun(tmp_path: Path, server: FaultServer, **settings: Any) -> Started:
    """Start a command with three workers, and return it once they have asked something."""
    process = start(*arguments(tmp_path, server.base_url, workers="local:3", **settings))
    process.wait_until(asked(server, 30))
    return process


def workers_of(process: Started) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            found += [child] * any("shard=" in word for word in child.cmdline())
    return found


def logged(tmp_path: Path) -> int:
    """Return how many calls the logs hold, of shards, too."""
    logs = (tmp_path / "results").rglob("responses.jsonl")
    return sum(log.read_bytes().count(b"\n") for log in logs)


def test_workers_give_what_one_process_gives(tmp_path: Path, server: FaultServer) -> None:
    for name in ("one", "many"):
        write_quiz(tmp_path / name, 60)
    one = medhelm(*arguments(tmp_path / "one", server.base_url, model="openai/a,openai/b"))
    asked = server.requests
    argv = arguments(
        tmp_path / "many", server.base_url, model="openai/a,openai/b", workers="local:3"
    )
    many = medhelm_forked(*argv)
    assert server.requests == 2 * asked == 240
    tables = [done.stdout.split("\nRuns: ")[0] for done in (one, many)]
    assert tables[0].split("Columns")[0].replace(" ", "") == tables[1].split("Columns")[0].replace(
        " ", ""
    )
    assert "3 workers on this" in many.stderr
    assert "120 of 120 answered" in many.stderr
    medhelm(*argv)
    assert server.requests == 240, "a finished run starts no worker"


def test_workers_may_be_named_by_a_config_file(tmp_path: Path, server: FaultServer) -> None:
    write_quiz(tmp_path, 30)
    own = tmp_path / "conf" / "experiment"
    own.mkdir(parents=True)
    (own / "two.yaml").write_text("# @package _global_\nworkers: local:2\n")
    words = arguments(tmp_path, server.base_url)
    done = medhelm_forked(*words, "experiment=two", "--config-dir", str(own.parent))
    assert "2 workers on this" in done.stderr
    assert server.requests == 30 and record_of(tmp_path).state == "complete"


def test_an_address_that_refuses_takes_no_answers_of_the_others_with_it(
    tmp_path: Path, server: FaultServer
) -> None:
    write_quiz(tmp_path, 40)
    server.latency_s = 0.5
    with serve_in_thread(answer=lambda _: Reply(status=404)) as other:
        urls = f"[{server.base_url},{other.base_url}]"
        settings = {"model.max_concurrency": 8}
        done = medhelm_forked(*arguments(tmp_path, urls, **settings), code=None)
    assert done.returncode != 0 and server.requests > 0
    assert logged(tmp_path) >= server.requests, "each answer that was on its way is kept"


@pytest.mark.parametrize(
    ("number", "why"),
    [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGTERM, "stopped from elsewhere")],
)
def test_a_worker_that_others_end_is_started_again_and_no_logged_call_is_sent_twice(
    number: int, why: str, tmp_path: Path, server: FaultServer
) -> None:
    write_quiz(tmp_path, 400)
    process = begun(tmp_path, server)
    killed = workers_of(process)[0]
    killed.send_signal(number)
    killed.wait(15)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert f"{why}; started again" in said
    record = record_of(tmp_path)
    assert (record.state, record.results[0].counted) == ("complete", 400)
    (run,) = (tmp_path / "results" / "runs").glob("*/*/*")
    assert len([*read_log(run)]) == 400
    lost = server.requests - 400  # in flight when it was killed, a third of the most there can be
    assert 0 <= lost <= (64 if number == signal.SIGKILL else 0)


def test_workers_end_with_the_command_that_was_killed(tmp_path: Path, server: FaultServer) -> None:
    write_quiz(tmp_path, 4000)
    process = begun(tmp_path, server)
    workers = workers_of(process)
    assert len(workers) == 3
    process.kill()
    _, alive = psutil.wait_procs(workers, timeout=15)
    assert not alive, "nobody asks on 15 s later"
    asked, held = server.requests, logged(tmp_path)
    assert held == asked < 4000, "requests in flight were waited for and logged"
    medhelm(*arguments(tmp_path, server.base_url, max_instances=4000))
    assert server.requests == 4000


def test_ctrl_c_waits_for_what_is_in_flight_and_grades(tmp_path: Path, server: FaultServer) -> None:
    write_quiz(tmp_path, 4000)
    process = begun(tmp_path, server)
    process.send(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert not workers_of_group(process.pid) and "where it stopped: medhelm" in said
    record = record_of(tmp_path)
    assert record.state == "partial" and record.results[0].counted == server.requests
    assert "quiz / exact_match" in out


def workers_of_group(pid: int) -> list[int]:
    return [p.pid for p in psutil.process_iter(["ppid"]) if p.info["ppid"] == pid]


def test_a_cap_holds_for_all_workers_together(tmp_path: Path, server: FaultServer) -> None:
    write_quiz(tmp_path, 400)
    prices = {"model.price": "{input:10,output:10,date:'2026-01'}", "budget_usd": 0.08}
    process = begun(tmp_path, server, **prices)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 7, said
    assert "cap of 0.08 USD" in said
    (party,) = record_of(tmp_path).parties
    usd = ((party.usage.input_tokens or 0) + (party.usage.output_tokens or 0)) / 100_000
    assert 0.04 < usd <= 0.08


def test_a_dead_server_is_named_once(tmp_path: Path) -> None:
    write_quiz(tmp_path, 6)
    done = medhelm_forked(*arguments(tmp_path, "http://127.0.0.1:9/v1", workers="local:2"), code=6)
    assert "Traceback" not in done.stderr
    assert done.stderr.count("the server at 127.0.0.1:9 does not answer") == 1
    assert "(so 2 workers)" in done.stderr


def test_a_worker_that_fails_without_a_word_fails_the_command(
    tmp_path: Path, server: FaultServer
) -> None:
    """A defect prints a traceback, which is in its output, and nothing that the command could repeat."""
    write_quiz(tmp_path, 20)
    plugin = tmp_path / "defect.py"
    plugin.write_text(
        PLUGIN.read_text()
        + "\nimport os, sys\nif any('shard=1/2' in word for word in sys.argv):\n    os._exit(9)\n"
    )
    argv = arguments(tmp_path, server.base_url, workers="local:2", plugins=f"[{plugin}]")
    done = medhelm_forked(*argv, code=9)
    assert "worker 1/2" in done.stderr and "exit code 9" in done.stderr
    assert "same command goes on" in done.stderr
    record = record_of(tmp_path)
    assert record.state == "partial" and record.results[0].counted == 10


# Where a worker is ------------------------------------------------------------------------------------


def test_a_worker_that_does_not_see_the_results_says_on_which_machine(
    tmp_path: Path, server: FaultServer
) -> None:
    write_quiz(tmp_path, 6)
    argv = arguments(tmp_path, server.base_url, shard="0/2")
    done = medhelm(*argv, env={POOL: "/nowhere/jobs/ab.json"}, code=4)
    assert server.requests == 0
    assert f"is not seen on {os.uname().nodename}" in done.stderr


def test_other_data_on_a_worker_are_refused(tmp_path: Path, server: FaultServer) -> None:
    write_quiz(tmp_path, 6)
    path = tmp_path / "results" / "jobs" / "ab.json"
    path.parent.mkdir(parents=True)
    PoolFile(path, "", Pool(2, runs=["runs/openai_test/quiz/other"])).read()
    argv = arguments(tmp_path, server.base_url, shard="0/2")
    done = medhelm(*argv, env={POOL: str(path)}, code=3)
    assert server.requests == 0
    assert f"data on {os.uname().nodename}" in done.stderr


def test_jobs_of_an_array_share_limits_and_caps(tmp_path: Path, server: FaultServer) -> None:
    write_quiz(tmp_path, 40)
    array = {"JOB_ID": "77", "TASK_ID": "0", "TASK_MIN": "0", "TASK_COUNT": "2"}
    own = {f"SLURM_ARRAY_{name}": value for name, value in array.items()}
    price = {"model.price": "{input:100,output:100,date:'2026-01'}", "budget_usd": 1000}
    argv = arguments(tmp_path, server.base_url, shard="auto", **price)
    done = medhelm(*argv, env=own)
    assert server.requests == 20
    assert "2 jobs of this" in done.stderr
    (path,) = (tmp_path / "results" / "jobs").glob("slurm-77-*.json")
    pool = json.loads(path.read_bytes())
    assert pool["cap_usd"] == 1000 and 0 < pool["taken_usd"] < 1
    done = medhelm(*argv, env=own | {"SLURM_ARRAY_TASK_ID": "1"})
    assert server.requests == 40
    assert scores_of(tmp_path) and record_of(tmp_path).state == "complete"
