"""Engines that start workers: SLURM behind a stand-in, a Ray cluster of two nodes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from medhelm.store.records import find_gradings, read_record
from medhelm.store.shards import is_gathered
from tests import slurm
from tests.cli.test_workers import logged, server
from tests.juries import ESSAY, house_jury, rated
from tests.processes import asked, medhelm_forked, start
from tests.quiz import (
    PLUGIN,
    Done,
    arguments,
    command,
    environment,
    medhelm_apart,
    record_of,
    write_quiz,
)
from tests.runs.test_serve import SERVER, alive, quiz, serve, started, wait_until
from tests.server import FaultServer, serve_in_thread

__all__ = ["server"]
pytestmark = pytest.mark.slow

SECRET = "sk-canary-of-a-key"


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a Ray cluster of this machine, whose node has a declared GPU and no data folder."""
    monkeypatch.delenv("MEDHELM_DATA_DIR", raising=False)
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "num_gpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    cluster.shutdown()


def holds(folder: Path, text: str) -> list[Path]:
    """Return the files below a folder that hold a text."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


@pytest.mark.extra
def test_jobs_of_slurm_give_one_run_and_their_files_hold_no_text_and_no_key(
    tmp_path: Path, server: FaultServer
) -> None:
    pytest.importorskip("submitit")
    write_quiz(tmp_path, 60, context="Canary of the case {i}.")
    env = slurm.install(tmp_path / "slurm") | {"OPENAI_API_KEY": SECRET}
    done = medhelm_forked(*arguments(tmp_path, server.base_url, workers="slurm:2"), env=env)
    assert "2 workers on SLURM" in done.stderr
    assert server.requests == 60 and record_of(tmp_path).state == "complete"
    jobs = tmp_path / "results" / "jobs"
    assert [*jobs.glob("slurm/*.sh")], "submitit's own files lie in the results folder"
    assert not holds(jobs, "Canary of the case") and not holds(tmp_path / "slurm", "Canary of")
    assert not holds(tmp_path / "results", SECRET) and not holds(tmp_path / "slurm", SECRET)


@pytest.mark.extra
def test_a_job_whose_time_is_over_is_queued_again_and_goes_on(
    tmp_path: Path, server: FaultServer
) -> None:
    pytest.importorskip("submitit")
    write_quiz(tmp_path, 1200)
    env = slurm.install(tmp_path / "slurm")
    argv = arguments(tmp_path, server.base_url, workers="slurm:2", **{"model.max_concurrency": 4})
    process = start(*argv, env=env)
    process.wait_until(asked(server, 50))
    slurm.send(tmp_path / "slurm", "1", signal.SIGUSR2)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert server.requests == 1200, "what was in flight was waited for"
    assert record_of(tmp_path).results[0].counted == 1200
    begun = [(tmp_path / "slurm" / "jobs" / f"{n}.begun").read_text() for n in (1, 2)]
    assert begun == ["begun\n" * 2, "begun\n"]


@pytest.mark.apart
def test_two_nodes_of_ray_give_one_run_and_one_may_be_lost(
    tmp_path: Path, server: FaultServer, nodes: Any
) -> None:
    write_quiz(tmp_path, 600, context="Canary of the case {i}.")
    node = nodes.add_node(num_cpus=1)
    env = {"OPENAI_API_KEY": SECRET, "RAY_ADDRESS": nodes.address}
    settings = {"workers": "ray:2", "model.max_concurrency": 2}
    process = start(*arguments(tmp_path, server.base_url, **settings), env=env)
    process.wait_until(asked(server, 50))
    nodes.remove_node(node, allow_graceful=False)
    nodes.add_node(num_cpus=1)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert "started again" in said
    assert 600 <= server.requests <= 602, "one request of the lost node may have been in flight"
    assert record_of(tmp_path).results[0].counted == 600
    session = Path(nodes.head_node.get_session_dir_path())
    assert not holds(session, "Canary of the case") and not holds(session, SECRET)


@pytest.mark.apart
def test_each_worker_has_its_server_on_the_gpu_that_ray_gives_it(
    tmp_path: Path, nodes: Any
) -> None:
    nodes.add_node(num_cpus=1, num_gpus=1)
    write_quiz(tmp_path, 8)
    settings = {"workers": "ray:2", "engine.num_gpus": 1}
    argv = quiz(tmp_path, serve(tmp_path), 8, **settings)
    medhelm_forked(*argv, env={"RAY_ADDRESS": nodes.address})
    assert [one.gpus for one in started(tmp_path)] == ["0", "0"]  # the first of each node
    assert not alive(tmp_path) and record_of(tmp_path).results[0].counted == 8


# Nodes that do not see the results folder -------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path: Path, nodes: Any) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Yield a call that starts a node with two CPUs, from which this test's results folder is not seen."""
    hidden = tmp_path / "results"
    hidden.mkdir(mode=0o700)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mounts of a process's own here")
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        join = (
            f"{sys.executable} -m ray.scripts.scripts start --address={nodes.address} --num-cpus=2"
        )
        command = f"mount -t tmpfs none {hidden} && exec {join} --block"
        started.append(
            subprocess.Popen(["unshare", "-m", "sh", "-c", command], stdout=subprocess.DEVNULL)
        )
        nodes.wait_for_nodes()
        return started[-1]

    yield start
    for node in started:
        node.terminate()
        node.wait(60)


@pytest.mark.apart
def test_a_worker_that_does_not_see_the_results_has_a_copy_and_what_it_answers_comes_back(
    tmp_path: Path, nodes: Any, elsewhere: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """Of data that may travel alone. Answers, verdicts and controls are those of one process."""
    elsewhere()
    session, before = (
        Path(nodes.head_node.get_session_dir_path()),
        {*Path("/tmp").glob("medhelm-*")},
    )
    with serve_in_thread(rated(4, "Sound.")) as judges:
        house = house_jury(tmp_path, judges.base_url, "one")

        def ask(results: str, *more: str, code: int = 0) -> Done:
            words = ("model=baseline/lead", "benchmark=essay", "data=sample")
            where = (f"plugins=[{ESSAY}]", f"results_dir={tmp_path / results}", "controls=0.5")
            argv = ("run", *words, *where, *more, *house)
            return medhelm_apart(*argv, env={"RAY_ADDRESS": nodes.address}, code=code)

        parted = ("workers=ray:2",)  # one on the head, and one that does not see the folder
        refused = ask("results", *parted, code=4)
        assert "texts of essay are gated" in refused.stderr and "results_dir" in refused.stderr
        done = ask("results", *parted, "privacy.gated=[local,contracted,external]")
        assert "12 of 12 answered" in done.stderr, (
            "whom judges' gaps were left to counts none again"
        )
        folder = next((tmp_path / "results").glob("runs/*/*/*"))
        assert is_gathered(folder), "by whoever asked judges at the end, in a copy or here"
        asked = judges.requests
        ask("one")
        assert judges.requests == 2 * asked
        ask("results", *parted)
        assert judges.requests == 2 * asked, "it is finished"
    many = record_of(tmp_path)
    one, other = (read_record(*find_gradings(tmp_path / name)) for name in ("one", "results"))
    assert one.results == other.results and one.controls == other.controls and one.controls
    assert many.state == "complete" and [j.ends for j in one.graders] == [
        j.ends for j in many.graders
    ]
    assert not holds(session, "Sound.")
    assert {*Path("/tmp").glob("medhelm-*")} == before, "copies are removed"


@pytest.mark.apart
def test_a_worker_has_slow_metrics_computed_by_tasks_beside_it(
    tmp_path: Path, server: FaultServer, nodes: Any
) -> None:
    """The worker that grades holds the only CPU of its node."""
    nodes.add_node(num_cpus=1)
    write_quiz(tmp_path, 520)
    plugin = tmp_path / "slow_quiz.py"
    plugin.write_text(PLUGIN.read_text().replace('"exact_match"', '"rouge_l"'))
    env = {"RAY_ADDRESS": nodes.address}
    process = start(
        *arguments(tmp_path, server.base_url, workers="ray:2", plugins=f"[{plugin}]"), env=env
    )
    process.wait_until(lambda: bool(running("ray::_do")))
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert record_of(tmp_path).results[0].counted == 520


def running(word: str) -> list[psutil.Process]:
    """Return processes whose command line holds a word."""
    found = psutil.process_iter(["cmdline"])
    return [p for p in found if word in " ".join(p.info["cmdline"] or ())]


@pytest.mark.apart
@pytest.mark.parametrize("what", ["node", "task", "desk", "command", "head", "Ctrl-C"])
def test_what_was_logged_is_not_asked_again_after_a_kill(
    tmp_path: Path,
    server: FaultServer,
    nodes: Any,
    elsewhere: Callable[[], subprocess.Popen[bytes]],
    what: str,
) -> None:
    node, copies = psutil.Process(elsewhere().pid), {*Path("/tmp").glob("medhelm-*")}
    write_quiz(tmp_path, 600)
    argv = arguments(tmp_path, server.base_url, **{"workers": "ray:2", "model.max_concurrency": 4})
    env = environment({"RAY_ADDRESS": nodes.address})
    process = subprocess.Popen(
        command(*argv), env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while server.requests < 100:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    kept = logged(tmp_path)
    victims = {
        "node": [node, *node.children(recursive=True)],
        "command": [psutil.Process(process.pid)],
        "desk": running("ray::Desk"),
        "task": running("ray::_work"),
        "head": running(nodes.gcs_address),
        "Ctrl-C": [],
    }[what]
    for victim in victims:
        victim.kill()
    if what == "Ctrl-C":
        process.send_signal(signal.SIGINT)
    sent = server.requests
    _, said = process.communicate(timeout=240)
    if what in ("node", "task"):
        assert process.returncode == 0 and "started again" in said
        assert what == "node" or {*Path("/tmp").glob("medhelm-*")} <= copies, "copies are removed"
    else:
        if what == "Ctrl-C":
            assert process.returncode == 130, said
            assert record_of(tmp_path).results[0].counted == server.requests, "nothing was lost"
        elif what != "command":
            assert process.returncode == 4 and "workers share are lost" in said
        assert what == "command" or "where it stopped: medhelm" in said
        time.sleep(15)
        asked = server.requests
        time.sleep(2)
        assert server.requests == asked < 600, "nobody asks on"
        held = logged(tmp_path)
        medhelm_apart(*arguments(tmp_path, server.base_url))
        assert server.requests - asked == 600 - held >= 0, "what was logged is not asked again"
    record = record_of(tmp_path)
    assert (record.state, record.results[0].counted) == ("complete", 600)
    assert what not in ("node", "task") or server.requests - 600 <= sent - kept + 4, (
        "what was logged is not asked again"
    )


# Servers that Ray places for one process -------------------------------------------------------------


def placed(folder: Path, nodes: Any, n: int, *more: str, **settings: Any) -> list[str]:
    """Return the command whose model's servers Ray places."""
    given = {"servers": "ray", "model__replicas": 2, "model__gpus": 1} | settings
    return quiz(folder, serve(folder, "--host", "{host}", *more), n, **given)


@pytest.mark.apart
def test_a_run_has_its_servers_on_the_nodes_that_have_the_gpus(tmp_path: Path, nodes: Any) -> None:
    node = nodes.add_node(num_cpus=1, num_gpus=1)
    env = {"RAY_ADDRESS": nodes.address}
    write_quiz(tmp_path, 120)
    slow = ("--latency", "0.2")
    process = start(*placed(tmp_path, nodes, 120, *slow, model__max_concurrency=2), env=env)
    log = log_of(tmp_path, process)
    process.wait_until(lambda: log.read_bytes().count(b"\n") > 20)
    assert [one.gpus for one in started(tmp_path)] == ["0", "0"], "the first of each node"
    nodes.remove_node(node, allow_graceful=False)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    record = record_of(tmp_path)
    assert (record.state, record.results[0].counted) == ("complete", 120)
    assert record.provenance["server.openai/test"] == "version 0.9.1, 1 GPU(s)"
    assert {name.rpartition(":")[2] for name in record.own.served_at} == {
        f"{one.port}/v1 test" for one in started(tmp_path)
    }
    wait_until(lambda: not alive(tmp_path), 15)
    assert log.read_bytes().count(b"\n") == 120
    # a finished run needs no server, and joins no cluster
    medhelm_forked(*placed(tmp_path, nodes, 120, *slow), env={"RAY_ADDRESS": "127.0.0.1:9"})


def log_of(folder: Path, process: Any) -> Path:
    """Return the log of a run's answers, once there is one."""
    process.wait_until(lambda: [*(folder / "results").rglob("responses.jsonl")])
    return next((folder / "results").rglob("responses.jsonl"))


@pytest.mark.apart
def test_servers_on_ray_end_with_a_command_that_is_killed(tmp_path: Path, nodes: Any) -> None:
    nodes.add_node(num_cpus=1, num_gpus=1)
    write_quiz(tmp_path, 100)
    env = {"RAY_ADDRESS": nodes.address}
    process = start(*placed(tmp_path, nodes, 100, "--latency", "0.3"), env=env)
    process.wait_until(lambda: len(alive(tmp_path)) == 4)  # two servers and their children
    process.kill()
    wait_until(lambda: not alive(tmp_path), 15)


@pytest.mark.apart
def test_what_ray_cannot_place_is_said_in_one_line(tmp_path: Path, nodes: Any) -> None:
    write_quiz(tmp_path, 2)
    env = {"RAY_ADDRESS": nodes.address, "WARD_KEY": "s3cret"}
    said = {}
    local = serve(tmp_path).replace("--host {host}", "")
    for name, code, argv in (
        ("room", 6, placed(tmp_path, nodes, 2)),
        ("host", 6, quiz(tmp_path, local, 2, servers="ray")),
        ("two", 2, placed(tmp_path, nodes, 2, workers="ray:2")),
        ("worker", 2, quiz(tmp_path, local, 2, workers="ray:2", engine__num_gpus=2)),
        ("start", 6, placed(tmp_path, nodes, 2, "--fault", "at start", model__replicas=1)),
    ):
        done = medhelm_forked(*argv, env=env, code=code)
        said[name] = done.stderr
    assert "1 of 2 server(s)" in said["room"] and "1 GPU(s)" in said["room"]
    assert "serve needs {host}" in said["host"]
    assert "servers=ray is for" in said["two"]
    assert "room for a worker" in said["worker"] and "1 GPU" in said["worker"]
    assert "CUDA out of memory: key is" in said["start"] and "s3cret" not in said["start"]
    assert not started(tmp_path)


@pytest.mark.apart
def test_what_a_node_lacks_is_named_with_it_and_the_data_folder_is_the_commands(
    tmp_path: Path, server: FaultServer, nodes: Any
) -> None:
    write_quiz(tmp_path, 4)
    argv = arguments(tmp_path, server.base_url, workers="ray:2")
    argv = [word for word in argv if not word.startswith("data_dir=")]
    env = {"RAY_ADDRESS": nodes.address, "WARD_KEY": "s3cret"}
    env |= {"MEDHELM_DATA_DIR": str(tmp_path / "data")}
    done = medhelm_forked(*argv, "model.api_key_env=WARD_KEY", env=env, code=6)
    assert f"on {os.uname().nodename}: " in done.stderr and "WARD_KEY" in done.stderr
    assert "its node's `ray start`" in done.stderr
    assert "(so 2 workers)" in done.stderr and "s3cret" not in done.stderr
    keys = tmp_path / "keys.env"
    keys.write_text("WARD_KEY=s3cret\n")
    keys.chmod(0o600)
    medhelm_forked(*argv, "--env-file", str(keys), "model.api_key_env=WARD_KEY", env=env)
    assert record_of(tmp_path).results[0].counted == server.requests == 4


@pytest.mark.apart
def test_two_nodes_and_a_served_model_are_begun_as_printed(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()
    _, _, section = page.partition("### Servers placed by Ray")
    head, node, run = section.split("```")[1].strip().splitlines()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "transformers"  # as of the extra `serve`
    program.write_text(
        f'#!/bin/sh\nshift\nexec {sys.executable} {SERVER} "$@" --note {tmp_path}/note\n'
    )
    program.chmod(0o755)
    path = (
        f"{program.parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    begun, port = (
        [],
        str(20_000 + os.getpid() % 10_000),
    )  # none that is given to whoever asks for any
    with tempfile.TemporaryDirectory() as session:  # where no other cluster is found
        env = environment({"RAY_TMPDIR": session, "PATH": path, "RAY_AUTH_MODE": "disabled"})
        try:
            for n, line in enumerate((head, node.replace("FIRST-NODE", "127.0.0.1"))):
                words = [*line.replace("6379", port).split()[1:], "--block"]
                ray, said = Path(sys.executable).with_name("ray"), tmp_path / f"node-{n}"
                with said.open("w") as out:
                    begun.append(subprocess.Popen([ray, *words], env=env, stdout=out))
                wait_until(lambda said=said: "Ray runtime started" in said.read_text(), 60)
            medhelm_forked(*shlex.split(run)[1:], env=env, cwd=tmp_path)
        finally:
            for one in reversed(begun):
                one.terminate()
                one.wait(60)
    assert [one.gpus for one in started(tmp_path)] == ["0", "0"] and not alive(tmp_path)
