"""What a command's workers on Ray compute is what one process computes, and no text stays in Ray's files."""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.cli.options import chosen_workers, use_workers
from medhelm.errors import PluginError, UsageError
from medhelm.grading.slow_metrics import ENOUGH, score_all
from medhelm.processes import ray_pool
from medhelm.processes.workers import Workers, workers_for
from medhelm.schema.data import DataClass, Instance
from medhelm.schema.episode import Episode
from medhelm.schema.score import Metric, Score
from medhelm.stats.aggregation import on_all_cores
from medhelm_leaderboard import worker_pool
from tests.cli.test_engines import holds
from tests.grading.test_slow_metrics import Where, episodes, everything, processes_of
from tests.leaderboard.casting import build, run_all, write_data
from tests.leaderboard.test_renewing import content

pytestmark = [pytest.mark.slow, pytest.mark.apart]

ROOT = Path(__file__).parents[2]
WORD = "renal"
"""Stands in every answer of `episodes`."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Yield a Ray cluster of this machine, whose processes find the tests."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        head = {"num_cpus": 2, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        patch.setenv("RAY_ADDRESS", cluster.address)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def on_ray(*text_of: str) -> Iterator[None]:
    with use_workers(chosen_workers(Namespace(workers="ray:2", text_of=text_of))):
        yield


@dataclass(frozen=True, kw_only=True)
class Ends(Where):
    """Ends its process at one instance, wherever it is not at home."""

    def score(self, instance: Instance, episode: Episode) -> Score:
        if instance.id == "i70" and os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        print(episode.text)  # into a file of Ray, if that were let be
        return super().score(instance, episode)


def scored(metrics: list[Metric], data_class: DataClass = "public") -> list[Any]:
    return list(score_all(episodes(ENOUGH + 7), metrics, ENOUGH, workers_for(data_class)))


def test_scores_and_errors_are_those_of_one_process(cluster: Any) -> None:
    metrics = everything()
    alone = list(score_all(episodes(ENOUGH + 7), metrics, ENOUGH, workers=Workers(1)))
    lost = Ends(home=os.getpid())
    with on_ray():
        assert scored(metrics) == alone
        others = processes_of(scored([lost]))
        with pytest.raises(PluginError, match="ValueError .*'i377'") as caught:
            scored([Where(raises_at="i377")])
    assert str(os.getpid()) in others and len(others) >= 2, "only what was lost is done here"
    assert "patient" not in str(caught.value)
    session = Path(cluster.head_node.get_session_dir_path())
    assert not holds(session, WORD), "neither sent nor printed texts lie in files"


def test_texts_that_are_not_public_go_only_where_they_are_encrypted_or_the_user_says_so(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = {str(os.getpid())}
    with on_ray("gated"):
        assert not processes_of(scored([Where()], "gated")) & here
        assert "stay here" not in capsys.readouterr().err
        monkeypatch.setattr(ray_pool.RayPool, "_ask", None)  # nothing is sent
        assert len(processes_of(scored([Where()], "private"))) >= 1
    said = capsys.readouterr().err
    assert said == "medhelm: private texts stay here: Ray does not encrypt them (RAY_USE_TLS=1)\n"


def test_other_code_and_work_that_is_too_long_are_left_to_this_process(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with on_ray("private"):
        with ray_pool.RayPool(1, False, int) as pool:
            assert pool.submit(_twice, "a" * 9).result() == "aa" * 9
            for size in (ray_pool._PART, ray_pool._MOST):
                assert pool.submit(_twice, "a" * size).exception() is not None
        monkeypatch.setattr(ray_pool, "code_hash", lambda: "another")
        assert processes_of(scored([Where()])) == {str(os.getpid())}
    assert "other versions of medhelm" in capsys.readouterr().err


def _twice(prepared: int, text: str) -> str:
    assert prepared == 0
    return text * 2


def test_large_draws_are_those_of_one_process(cluster: Any) -> None:
    numbers = np.random.default_rng(0).random((40, 10_000))

    def most(first: int) -> Any:
        return np.count_nonzero(np.abs(numbers[first] - numbers) >= 0.5, axis=1), os.getpid()

    with on_ray():
        found = on_all_cores(most, range(39), True)
    for first, (counts, process) in enumerate(found):
        assert (counts == most(first)[0]).all() and process != os.getpid()


def test_the_site_is_that_of_one_process(
    cluster: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = run_all(tmp_path, write_data(tmp_path))
    build(results, tmp_path / "alone")
    monkeypatch.setattr(worker_pool, "_FEW", 0)
    monkeypatch.setattr(worker_pool.WorkerPool, "_work_here", lambda self: {})
    sent: list[str] = []
    real = worker_pool.WorkerPool._begin

    def begin(self: Any, pool: Any) -> Any:
        place, reply = real(self, pool)
        sent.append(self._groups[place][0].benchmark)
        assert reply.exception() is None, "it is made there"
        return place, reply

    monkeypatch.setattr(worker_pool.WorkerPool, "_begin", begin)
    with on_ray():
        build(results, tmp_path / "site")
        assert content(tmp_path / "site") == content(tmp_path / "alone")
        assert {*sent} == {"open"}, "no pages of closed data"
        monkeypatch.setattr(worker_pool, "fingerprint", lambda runs, secret: "another folder")
        monkeypatch.setattr(worker_pool.WorkerPool, "_begin", real)
        build(results, tmp_path / "other")
    assert content(tmp_path / "other") == content(tmp_path / "alone")
    assert "is not seen" in capsys.readouterr().err


def test_slurm_is_answered_in_one_line() -> None:
    with pytest.raises(UsageError, match="srun -c 4 medhelm"):
        chosen_workers(Namespace(workers="slurm:4"))
