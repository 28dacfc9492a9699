"""Slow metrics on all cores: the same scores and errors as in one process, and nothing left behind."""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from medhelm.data.rubrics import load_rubric
from medhelm.errors import PluginError
from medhelm.grading.jury.metric import offline_jury
from medhelm.grading.slow_metrics import ENOUGH, score_all
from medhelm.plugins.registry import load_registry
from medhelm.processes.workers import Workers
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Finish, Response
from medhelm.schema.score import Metric, Score
from tests.quiz import environment

pytestmark = pytest.mark.slow

WORDS = ("fever", "cough", "pain", "rash", "chest", "left", "knee", "acute", "dose", "renal")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Where(Metric):
    """Says which process has scored; raises, dies or prints if it is told to."""

    name: str = "where"
    is_slow: bool = True
    home: int = 0
    raises_at: str = ""
    is_deadly: bool = False

    def score(self, instance: Instance, episode: Episode) -> Score:
        print("a metric that prints")
        if instance.id == self.raises_at:
            raise ValueError("text of the patient")
        if self.is_deadly and os.getpid() != self.home:
            os._exit(3)
        return Score(value=len(episode.text) / 1000, reason=str(os.getpid()))


@dataclass(frozen=True, kw_only=True)
class Unpicklable(Where):
    def __reduce__(self) -> str | tuple[object, ...]:
        raise pickle.PicklingError


def scorers() -> list[psutil.Process]:
    """Return the processes of a worker pool that are still there; other tests leave other children."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if any("multiprocessing.spawn" in word for word in child.cmdline()):
                found.append(child)
    return found


def episodes(n: int) -> Iterator[Episode]:
    for i in range(n):
        text = " ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 15))
        finish: Finish = {5: "error", 6: "refusal", 7: "length"}.get(i % 50, "stop")  # type: ignore[assignment]
        yield Episode(
            instance=Instance(id=f"i{i}", references=(" ".join(WORDS[i % 7 :]),)),
            response=Response(
                instance_id=f"i{i}", text="" if i % 50 in (5, 6, 8) else text, finish=finish
            ),
        )


def processes_of(found: Sequence[tuple[Episode, list[Score]]], place: int = 0) -> set[str]:
    return {s[place].reason for _, s in found if s[place].outcome == "scored"}


def everything() -> list[Metric]:
    registry = load_registry()
    rubric = load_rubric(registry.benchmark("med_dialog"))
    names = ("rouge_l", "rouge_1", "rouge_2", "exact_match")
    return [*map(registry.metric, names), *offline_jury(rubric)]


def test_scores_are_those_of_one_process_bit_for_bit_and_in_order() -> None:
    metrics = everything()
    alone = list(score_all(episodes(ENOUGH + 7), metrics, ENOUGH, workers=Workers(1)))
    spread = list(score_all(episodes(ENOUGH + 7), metrics, ENOUGH, workers=Workers(2)))
    assert spread == alone
    assert [e.instance.id for e, _ in spread] == [f"i{i}" for i in range(ENOUGH + 7)]
    assert {s.outcome for _, scores in spread for s in scores} >= {"scored", "error", "refused"}


def test_only_enough_work_starts_processes_and_only_slow_metrics_that_can_be_sent_go_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from_file = ModuleType("medhelm_plugin_of_a_file")
    monkeypatch.setitem(sys.modules, from_file.__name__, from_file)

    @dataclass(frozen=True, kw_only=True)
    class Own(Where):
        pass

    Own.__module__ = from_file.__name__
    slow, fast = Where(), Where(name="fast", is_slow=False)
    here = {str(os.getpid())}
    few = list(score_all(episodes(60), [slow, fast], 60, workers=Workers(2)))
    assert processes_of(few, 0) == processes_of(few, 1) == here
    metrics: list[Metric] = [fast, Unpicklable(), Own(), slow]
    many = list(score_all(episodes(ENOUGH), metrics, ENOUGH, workers=Workers(2)))
    assert all(processes_of(many, place) == here for place in range(3))
    others = processes_of(many, 3)
    assert 1 <= len(others) <= 2 and not others & here


def test_an_error_of_a_metric_is_the_same_line() -> None:
    metrics = [Where(raises_at="i377")]
    said = []
    for processes in (1, 2):
        done = []
        with pytest.raises(PluginError) as caught:
            for episode, _ in score_all(
                episodes(ENOUGH), metrics, ENOUGH, workers=Workers(processes)
            ):
                done.append(episode.instance.id)
        assert done == [f"i{i}" for i in range(377)]
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "ValueError" in said[0] and "'i377'" in said[0] and "patient" not in said[0]
    assert not scorers()


def test_work_of_processes_that_die_is_done_here() -> None:
    metric = Where(home=os.getpid(), is_deadly=True)
    found = list(score_all(episodes(ENOUGH), [metric], ENOUGH, workers=Workers(2)))
    assert len(found) == ENOUGH
    assert processes_of(found) == {str(os.getpid())}


def test_where_no_process_can_be_had_all_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    for place in ("Worker.start", "ProcessPoolExecutor"):
        monkeypatch.setattr(f"medhelm.processes.process_pool.{place}", refuse)
        found = list(score_all(episodes(ENOUGH), [Where()], ENOUGH, workers=Workers(2)))
        assert len(found) == ENOUGH and processes_of(found) == {str(os.getpid())}


def test_little_is_read_ahead() -> None:
    taken = 0

    def counted() -> Iterator[Episode]:
        nonlocal taken
        for episode in episodes(4 * ENOUGH):
            taken += 1
            yield episode

    scored = score_all(counted(), [Where()], 4 * ENOUGH, workers=Workers(2))
    for n, _ in enumerate(scored, start=1):
        assert taken <= n + 7 * 32
    taken = 0
    huge = Instance(id="huge", context="word " * 100_000)

    def notes() -> Iterator[Episode]:
        nonlocal taken
        for _ in range(ENOUGH):
            taken += 1
            yield Episode(instance=huge, response=Response(instance_id="huge", text="so"))

    first = score_all(notes(), [Where()], ENOUGH, workers=Workers(2))
    next(first)
    assert taken <= 7
    first.close()  # type: ignore[attr-defined]
    assert not scorers()


SCRIPT = """
from medhelm.grading.slow_metrics import score_all
from tests.grading.test_slow_metrics import Where, episodes
from medhelm.processes.workers import Workers
import time
for n, _ in enumerate(score_all(episodes(100_000), [Where()], 100_000, workers=Workers(2))):
    if n == 0:
        print("begun", flush=True)
    time.sleep(0.01)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_behind(number: int, tmp_path: Path) -> None:
    script = tmp_path / "users.py"  # no `if __name__ == "__main__"`: it is not imported again
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment({"PYTHONPATH": str(ROOT)}),
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    children = psutil.Process(process.pid).children()
    assert len(children) >= 2
    os.kill(process.pid, number)
    process.wait(30)
    process.stdout.close()
    deadline = time.monotonic() + 30
    while any(map(is_running, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, children))


def is_running(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_graded_run_is_the_same_with_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import medhelm
    from tests.jury.test_judging import PLUGIN

    slow_metrics = importlib.import_module("medhelm.grading.slow_metrics")
    values = []
    for enough in (ENOUGH, 1):
        monkeypatch.setattr(slow_metrics, "ENOUGH", enough)
        monkeypatch.setattr(slow_metrics, "_cores", lambda: 2)
        own = {"data": "sample", "plugins": PLUGIN, "results_dir": tmp_path / str(enough)}
        results = medhelm.evaluate("baseline/lead", "essay", **own)
        frame = results.table("benchmarks", metrics="all")
        values.append(frame[["metric", "score"]].to_dict("list"))
    assert values[0] == values[1]
    assert not scorers()
