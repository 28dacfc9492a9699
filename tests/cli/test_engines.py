"""Engines that start workers: SLURM behind a stand-in, a Ray cluster of two nodes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import slurm
from tests.processes import asked, medhelm_forked, start
from tests.quiz import arguments, record_of, write_quiz
from tests.runs.test_serve import alive, quiz, serve, started
from tests.server import FaultServer, serve_in_thread

pytestmark = pytest.mark.slow

SECRET = "sk-canary-of-a-key"


@pytest.fixture
def nodes() -> Iterator[Any]:
    """Yield a Ray cluster of two nodes of this machine, each with a GPU that is declared."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "num_gpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serve_in_thread(latency_s=0.02) as found:
        yield found


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
    assert done.returncode == 0, done.stderr
    assert "2 workers on SLURM share limits and budget" in done.stderr
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
    done = medhelm_forked(*argv, env={"RAY_ADDRESS": nodes.address})
    assert done.returncode == 0, done.stderr
    assert [one.gpus for one in started(tmp_path)] == ["0", "0"]  # the first of each node
    assert not alive(tmp_path) and record_of(tmp_path).results[0].counted == 8
