"""Engines that start workers: SLURM behind a stand-in, a Ray cluster of two nodes."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import slurm
from tests.quiz import (
    arguments,
    command,
    environment,
    medhelm_apart,
    record_of,
    write_quiz,
)
from tests.server import FaultServer, serve_in_thread

pytestmark = [pytest.mark.extra, pytest.mark.slow]

SECRET = "sk-canary-of-a-key"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serve_in_thread(latency_s=0.02) as found:
        yield found


def holds(folder: Path, text: str) -> list[Path]:
    """Return the files below a folder that hold a text."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


def test_jobs_of_slurm_give_one_run_and_their_files_hold_no_text_and_no_key(
    tmp_path: Path, server: FaultServer
) -> None:
    pytest.importorskip("submitit")
    write_quiz(tmp_path, 60, context="Canary of the case {i}.")
    env = slurm.install(tmp_path / "slurm") | {"OPENAI_API_KEY": SECRET}
    done = medhelm_apart(*arguments(tmp_path, server.base_url, workers="slurm:2"), env=env)
    assert done.returncode == 0, done.stderr
    assert "2 workers on SLURM share limits and budget" in done.stderr
    assert server.requests == 60 and record_of(tmp_path).state == "complete"
    jobs = tmp_path / "results" / "jobs"
    assert [*jobs.glob("slurm/*.sh")], "submitit's own files lie in the results folder"
    assert not holds(jobs, "Canary of the case") and not holds(tmp_path / "slurm", "Canary of")
    assert not holds(tmp_path / "results", SECRET) and not holds(tmp_path / "slurm", SECRET)


def test_a_job_whose_time_is_over_is_queued_again_and_goes_on(
    tmp_path: Path, server: FaultServer
) -> None:
    pytest.importorskip("submitit")
    write_quiz(tmp_path, 1200)
    env = environment(slurm.install(tmp_path / "slurm"))
    argv = arguments(tmp_path, server.base_url, workers="slurm:2", **{"model.max_concurrency": 4})
    process = subprocess.Popen(
        command(*argv), env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while server.requests < 50:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    slurm.send(tmp_path / "slurm", "1", signal.SIGUSR2)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert server.requests == 1200, "what was in flight was waited for"
    assert record_of(tmp_path).results[0].counted == 1200
    begun = [(tmp_path / "slurm" / "jobs" / f"{n}.begun").read_text() for n in (1, 2)]
    assert begun == ["begun\n" * 2, "begun\n"]


def test_two_nodes_of_ray_give_one_run_and_one_may_be_lost(
    tmp_path: Path, server: FaultServer
) -> None:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    write_quiz(tmp_path, 600, context="Canary of the case {i}.")
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        node = cluster.add_node(num_cpus=1)
        env = environment({"OPENAI_API_KEY": SECRET, "RAY_ADDRESS": cluster.address})
        settings = {"workers": "ray:2", "model.max_concurrency": 2}
        process = subprocess.Popen(
            command(*arguments(tmp_path, server.base_url, **settings)),
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        while server.requests < 50:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said
        assert "started again" in said
        assert 600 <= server.requests <= 602, "one request of the lost node may have been in flight"
        assert record_of(tmp_path).results[0].counted == 600
        session = Path(cluster.head_node.get_session_dir_path())
        assert not holds(session, "Canary of the case") and not holds(session, SECRET)
    finally:
        cluster.shutdown()
