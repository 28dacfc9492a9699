"""Real faults against the whole program: the same scores, nothing lost, nothing asked twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medhelm.store import records, runlog
from tests.processes import asked, start
from tests.quiz import arguments, medhelm, record_of, scores_of, write_quiz
from tests.server import Faults, Reply, letter, serve_in_thread

pytestmark = pytest.mark.slow

N = 1000


def run_quiz(folder: Path, n: int = N, **settings: object) -> subprocess.CompletedProcess[str]:
    write_quiz(folder, n)
    with serve_in_thread() as server:
        return medhelm(*arguments(folder, server.base_url, **settings))


def test_faults_change_no_score(tmp_path: Path) -> None:
    clean, faulty = tmp_path / "clean", tmp_path / "faulty"
    run_quiz(clean)
    write_quiz(faulty, N)
    with serve_in_thread(faults=Faults(rate=0.1, hang_s=3, slow_s=0.05)) as server:
        medhelm(*arguments(faulty, server.base_url, model__timeout_s=1, model__max_concurrency=100))
        assert sum(server.faulted.values()) > N * 0.08
        assert len(server.faulted) == len(server.faults.kinds)
        assert not server.duplicates or set(server.faulted) & {"truncated", "hang", "drop"}
    assert scores_of(faulty) == scores_of(clean)
    assert record_of(faulty).results == record_of(clean).results
    assert record_of(faulty).own.usage.lost > 0
    assert record_of(clean).own.usage.lost == 0


OWN_PROCESS = """
import time
from tests.server import serve_in_thread
with serve_in_thread(latency_s=0.05) as server:
    print(server.base_url, flush=True)
    time.sleep(600)
"""


def test_one_of_three_servers_is_killed_and_nothing_changes(tmp_path: Path) -> None:
    clean, killed, n = tmp_path / "clean", tmp_path / "killed", 600
    run_quiz(clean, n)
    write_quiz(killed, n)
    servers = [
        subprocess.Popen([sys.executable, "-c", OWN_PROCESS], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    try:
        urls = [server.stdout.readline().strip() for server in servers if server.stdout]
        argv = arguments(killed, f"[{','.join(urls)}]", model__max_concurrency=4)
        run = start(*argv)
        logs = (killed / "results").glob
        run.wait_until(
            lambda: any(log.read_bytes().count(b"\n") > n / 3 for log in logs("runs/*/*/*/*.jsonl"))
        )
        servers[0].kill()
        _, said = run.communicate()
        assert run.returncode == 0 and "error" not in said, said
    finally:
        for server in servers:
            server.kill()
            server.communicate()
    host = urls[0].removeprefix("http://").removesuffix("/v1")
    assert said.count(f"{host} does not answer (") == 1 and said.count("does not answer") == 1
    assert scores_of(killed) == scores_of(clean)
    record = record_of(killed)
    assert record.results == record_of(clean).results
    assert sorted(place.partition(" ")[0] for place in record.own.served_at) == sorted(urls)
    # at most its 4 in flight, and as many that it took up while it died
    assert sum(record.own.served_at.values()) == n and record.own.usage.lost <= 8
    for order in ([urls[2], urls[1]], [*urls[::-1], "http://127.0.0.1:9/v1"], urls[:1]):
        few = {"max_instances": 5, "model__max_attempts": 1}
        is_known = urls[0] in order  # nobody is there to be asked
        argv = arguments(killed, f"[{','.join(order)}]", **few)
        again = medhelm(*argv, code=0 if is_known else 6)
        assert ("0 now" in again.stderr) == is_known


def test_kill_9_at_ten_moments_loses_at_most_what_was_in_flight(tmp_path: Path) -> None:
    clean, killed = tmp_path / "clean", tmp_path / "killed"
    run_quiz(clean)
    write_quiz(killed, N)
    rng = random.Random(20)
    in_flight = 16
    with serve_in_thread(latency_s=0.02) as server:
        argv = arguments(killed, server.base_url, model__max_concurrency=in_flight)
        for _ in range(10):
            target = server.requests + rng.randrange(20, 150)
            start(*argv).kill(once=asked(server, target))
        medhelm(*argv)
        repeated = sum(n - 1 for n in server.answered.values())
        assert len(server.answered) == N
        assert repeated <= 10 * in_flight
        before = server.requests
        medhelm(*argv)
        assert server.requests == before, "a finished run asked something"
    assert scores_of(killed) == scores_of(clean)


def test_a_damaged_line_is_asked_again_and_only_that(tmp_path: Path) -> None:
    write_quiz(tmp_path, 50)
    with serve_in_thread() as server:
        argv = arguments(tmp_path, server.base_url)
        medhelm(*argv)
        expected = scores_of(tmp_path)
        (run,) = records.find_runs(tmp_path / "results")
        log = run / "responses.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        lines[20] = lines[20][:40] + b"X" + lines[20][41:]
        log.write_bytes(b"".join(lines[:-1]) + lines[-1][:30])
        before = server.requests
        done = medhelm(*argv)
        assert server.requests == before + 2
        assert "1 torn" in done.stderr and "1 damaged" in done.stderr
    assert scores_of(tmp_path) == expected


def test_ctrl_c_once_keeps_what_is_answered_and_prints_the_command_to_go_on(tmp_path: Path) -> None:
    write_quiz(tmp_path, 400)
    with serve_in_thread(latency_s=0.1) as server:
        argv = arguments(tmp_path, server.base_url, model__max_concurrency=8)
        process = start(*argv)
        process.send(signal.SIGINT, once=asked(server, 40))
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "Traceback" not in err
        assert "where it stopped: medhelm" in err
        (run,) = records.find_runs(tmp_path / "results")
        logged = (run / "responses.jsonl").read_bytes().count(b"\n")
        assert logged == sum(server.answered.values()), "an answer in flight was thrown away"
        assert record_of(tmp_path).state == "partial"
        medhelm(*argv)
        assert not server.duplicates
    assert record_of(tmp_path).state == "complete"


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    write_quiz(tmp_path, 10)
    with serve_in_thread(latency_s=60) as server:
        process = start(*arguments(tmp_path, server.base_url))
        process.send(signal.SIGINT, once=asked(server, 5))
        time.sleep(0.3)
        started = time.monotonic()
        process.send(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert time.monotonic() - started < 5
        assert process.returncode == 130 and "Traceback" not in err


def test_two_processes_on_one_run_folder(tmp_path: Path) -> None:
    write_quiz(tmp_path, 60)
    with serve_in_thread(latency_s=3.0) as server:
        argv = arguments(tmp_path, server.base_url, model__max_concurrency=4)
        first = start(*argv)
        first.wait_until(asked(server, 4))
        second = medhelm(*argv, code=4)
        assert f"in use by process {first.pid}" in second.stderr
        server.latency_s = 0.0
        assert first.wait() == 0
        assert not server.duplicates


def test_empty_refused_and_cut_answers_have_outcomes_of_their_own(tmp_path: Path) -> None:
    replies = [
        "",
        "   \n",
        Reply(None, refusal="I cannot"),
        Reply("", finish_reason="content_filter"),
        Reply("Let me think about", finish_reason="length"),
        Reply("Answer: B", finish_reason="length"),
        "no idea at all",
        "C",
        Reply(status=400, body={"error": {"message": "bad", "code": "weird"}}),
    ]

    def answer(prompt: str) -> str | Reply:
        number = int(prompt.split("for patient ")[1].split("?")[0])
        return replies[number]

    write_quiz(tmp_path, len(replies))
    with serve_in_thread(answer=answer) as server:
        medhelm(*arguments(tmp_path, server.base_url))
    outcomes = {r["instance_id"]: (r["outcome"], r["value"] is None) for r in scores_of(tmp_path)}
    assert outcomes == {
        "q0": ("empty", False),
        "q1": ("empty", False),
        "q2": ("refused", False),
        "q3": ("refused", False),
        "q4": ("truncated", False),
        "q5": ("scored", False),
        "q6": ("unparsed", False),
        "q7": ("scored", False),
        "q8": ("error", True),
    }
    (result,) = record_of(tmp_path).results
    assert (result.counted, result.scored) == (8, 2)


def test_errors_are_asked_again_by_the_same_command(tmp_path: Path) -> None:
    write_quiz(tmp_path, 30)
    broken = True

    def answer(prompt: str) -> str | Reply:
        if broken and "patient 7?" in prompt:
            return Reply(status=400, body={"error": {"message": "bad", "code": "weird"}})
        return letter(prompt)

    with serve_in_thread(answer=answer) as server:
        argv = arguments(tmp_path, server.base_url)
        medhelm(*argv)
        assert record_of(tmp_path).results[0].outcomes == {"scored": 29, "error": 1}
        broken = False
        before = server.requests
        medhelm(*argv)
        assert server.requests == before + 1
    assert record_of(tmp_path).results[0].outcomes == {"scored": 30}


def test_a_budget_stops_cleanly_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    write_quiz(tmp_path, 200)
    with serve_in_thread() as server:
        small = medhelm(*arguments(tmp_path, server.base_url, budget_tokens=6000), code=7)
        assert "cap of" in small.stderr and "To go on" in small.stderr
        answered = server.requests
        assert 5 < answered < 200
        record = record_of(tmp_path)
        assert record.state == "partial"
        assert record.own.usage.input_tokens + record.own.usage.output_tokens <= 6000
        medhelm(*arguments(tmp_path, server.base_url, budget_tokens=10**6))
        assert server.requests == 200


def test_same_numbers_whatever_the_concurrency_and_the_order_of_arrival(tmp_path: Path) -> None:
    rows = []
    for n in (1, 7, 64):
        folder = tmp_path / str(n)
        write_quiz(folder, 150)
        with serve_in_thread(faults=Faults(rate=0.3, kinds=("slow",), slow_s=0.03)) as server:
            argv = arguments(
                folder, server.base_url, model__max_concurrency=n, max_instances=100, seed=5
            )
            medhelm(*argv)
        rows.append(scores_of(folder))
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]) == 100


def test_growing_max_instances_reuses_every_response(tmp_path: Path) -> None:
    write_quiz(tmp_path, 100)
    with serve_in_thread() as server:
        for n, asked in ((10, 10), (40, 40), (25, 40), (100, 100)):
            argv = arguments(tmp_path, server.base_url, max_instances=n)
            medhelm(*argv)
            assert server.requests == asked
            assert record_of(tmp_path).instances == n
            assert len(scores_of(tmp_path)) == n
        assert not server.duplicates


def test_repeats_are_asked_each_and_averaged(tmp_path: Path) -> None:
    write_quiz(tmp_path, 20)
    with serve_in_thread() as server:
        argv = arguments(tmp_path, server.base_url, repeats=3, model__sampling__temperature=0.7)
        medhelm(*argv)
        assert server.requests == 60
        assert sorted({b["seed"] for b in server.bodies}) == [0, 1, 2]
    rows = scores_of(tmp_path)
    assert len(rows) == 60
    by_instance = {
        i: [r["value"] for r in rows if r["instance_id"] == i]
        for i in {r["instance_id"] for r in rows}
    }
    mean = sum(sum(v) / len(v) for v in by_instance.values()) / len(by_instance)
    assert record_of(tmp_path).results[0].value == pytest.approx(mean)


def test_a_wrong_key_stops_at_once_and_is_not_shown(tmp_path: Path) -> None:
    write_quiz(tmp_path, 500)
    with serve_in_thread(key="right") as server:
        done = medhelm(
            *arguments(tmp_path, server.base_url, model__api_key_env="HOUSE_KEY"),
            env={"HOUSE_KEY": "sk-wrong-and-secret"},
            code=6,
        )
        assert server.requests < 100
    assert "HOUSE_KEY" in done.stderr
    assert "sk-wrong" not in done.stderr + done.stdout and "patient" not in done.stderr
    for file in (tmp_path / "results").rglob("*"):
        assert not file.is_file() or b"sk-wrong" not in file.read_bytes()


def test_100_kb_instances_and_odd_characters_come_back_whole(tmp_path: Path) -> None:
    text = "Größe 中文 🩺 {context} {{x}} \\u0000 </s> \u202e " + "z" * 100_000 + " {i}"
    write_quiz(tmp_path, 5, context=text)
    with serve_in_thread() as server:
        medhelm(*arguments(tmp_path, server.base_url))
        sent = server.bodies[0]["messages"][-1]["content"]
    assert text.removesuffix("{i}").strip() in sent
    (run,) = records.find_runs(tmp_path / "results")
    kept = {e.instance.context for e in runlog.read_episodes(run, records.read_plan(run))}
    assert kept == {text.replace("{i}", str(i)) for i in range(5)}
