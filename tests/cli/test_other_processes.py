"""Jobs in other processes and other folders: nothing is lost in silence, limits hold for all."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from medhelm.cli.other_processes import _at_once as at_once
from medhelm.errors import UsageError
from medhelm.schema.model import ModelSpec
from medhelm.store.records import find_gradings, find_runs, read_record
from tests.quiz import PLUGIN, arguments, command, environment, medhelm_apart, write_quiz
from tests.server import FaultServer, serve_in_thread

LAUNCHER = '''
"""A launcher whose jobs run one after the other in processes in another folder, as Ray's do."""
import os, pickle, subprocess, sys
import cloudpickle
from pathlib import Path
from hydra.core.hydra_config import HydraConfig
from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from omegaconf import open_dict


class AwayLauncher(Launcher):
    def __init__(self, place, at_end="", array_parallelism=0):
        self.place, self.at_end = place, at_end

    def setup(self, *, hydra_context, task_function, config):
        self.config, self.context, self.task = config, hydra_context, task_function

    def launch(self, job_overrides, initial_job_idx):
        found = []
        for number, overrides in enumerate(job_overrides):
            config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
            with open_dict(config):
                config.hydra.job.id, config.hydra.job.num = str(number), number
            sent = (Singleton.get_state(), self.context, config, self.task, list(overrides))
            done = subprocess.run(
                [sys.executable, __file__], input=cloudpickle.dumps(sent),
                capture_output=True, cwd=self.place, timeout=100,
            )
            if self.at_end:
                os.system(self.at_end)
            assert done.returncode == 0, done.stderr.decode()[-2000:]
            found.append(pickle.loads(done.stdout.rpartition(b"PICKLED")[2]))
        return found


def work():
    state, context, config, task, overrides = pickle.loads(sys.stdin.buffer.read())
    Singleton.set_state(state)
    setup_globals()
    result = run_job(
        hydra_context=context, task_function=task, config=config,
        job_dir_key="hydra.sweep.dir", job_subdir_key="hydra.sweep.subdir",
    )
    result = JobReturn(overrides=overrides, status=result.status, _return_value=result._return_value)
    sys.stdout.flush()
    sys.stdout.buffer.write(b"PICKLED" + pickle.dumps(result))


def register():
    node = {"_target_": "hydra_plugins.away.AwayLauncher", "place": "/", "at_end": "",
            "array_parallelism": 0}
    ConfigStore.instance().store(group="hydra/launcher", name="away", node=node, provider="away")


if __name__ == "__main__":
    work()
else:
    register()
'''


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serve_in_thread() as running:
        yield running


@pytest.fixture
def away(tmp_path: Path) -> dict[str, str]:
    """An environment with a launcher `away`, whose jobs run in the folder `elsewhere`."""
    pytest.importorskip("cloudpickle", reason="needs the extra slurm or ray")
    package = tmp_path / "packages" / "hydra_plugins"
    package.mkdir(parents=True)
    (package / "away.py").write_text(LAUNCHER)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    write_quiz(tmp_path / "here", 4)
    return {"PYTHONPATH": f"{package.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def given(tmp_path: Path, base_url: str, *more: str, models: str = "openai/a") -> list[str]:
    argv = arguments(tmp_path, base_url, model=models, data_dir="data", results_dir="out put")
    place = f"hydra.launcher.place={tmp_path / 'elsewhere'}"
    argv = [a.replace(str(PLUGIN), os.path.relpath(PLUGIN, tmp_path / "here")) for a in argv]
    return [a.replace("out put", "'out put'") for a in argv] + ["hydra/launcher=away", place, *more]


@pytest.mark.slow
def test_jobs_in_another_folder_write_into_ours_and_each_takes_its_part_of_max_concurrency(
    tmp_path: Path, away: dict[str, str]
) -> None:
    with serve_in_thread(latency_s=0.1) as server:
        write_quiz(tmp_path / "here", 12)
        limit = "model.max_concurrency=4"
        argv = given(tmp_path, server.base_url, limit, models="openai/a,openai/b")
        done = medhelm_apart(*argv, env=away, cwd=tmp_path / "here")
        assert done.returncode == 0, done.stderr
        assert server.requests == 24 and server.in_flight_max == 2
    assert "openai/b" in done.stdout
    assert len(find_gradings(tmp_path / "here" / "out put")) == 2
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not list((tmp_path / "here" / "out put" / "jobs").glob("sweep-*"))


@pytest.mark.slow
def test_a_worker_that_does_not_see_the_folder_says_so(
    tmp_path: Path, server: FaultServer, away: dict[str, str]
) -> None:
    # as on a machine with a disk of its own: the path is there, what the sweep put there is not
    hide = "hydra.launcher.at_end=''"
    launcher = tmp_path / "packages" / "hydra_plugins" / "away.py"
    launcher.write_text(
        LAUNCHER.replace(
            "            done = subprocess.run(",
            "            [p.unlink() for p in Path('out put/jobs').glob('sweep-*')]\n"
            "            done = subprocess.run(",
        )
    )
    done = medhelm_apart(*given(tmp_path, server.base_url, hide), env=away, cwd=tmp_path / "here")
    assert (done.returncode, server.requests) == (4, 0)
    said = rf"results_dir={tmp_path}/here/out put on \S+ is not the folder of the command that"
    assert re.search(said, done.stderr), done.stderr


@pytest.mark.slow
def test_a_job_that_ends_well_and_leaves_no_summary_is_an_error(
    tmp_path: Path, server: FaultServer, away: dict[str, str]
) -> None:
    lose = "hydra.launcher.at_end='rm -r \"out put/runs\"'"
    done = medhelm_apart(*given(tmp_path, server.base_url, lose), env=away, cwd=tmp_path / "here")
    assert done.returncode == 4, done.stderr
    assert "medhelm: quiz x openai/a: its job ended without an error and left no" in done.stderr
    assert "1 of 1 run(s) failed" in done.stderr


@pytest.mark.slow
def test_max_concurrency_holds_for_the_sweep_or_says_what_does(
    tmp_path: Path, server: FaultServer, away: dict[str, str]
) -> None:
    models = "openai/a,openai/b"
    argv = given(tmp_path, server.base_url, "model.max_concurrency=1", models=models)
    done = medhelm_apart(*argv, env=away, cwd=tmp_path / "here")
    assert (done.returncode, server.requests) == (2, 0)
    assert f"2 jobs at once that ask {server.base_url}" in done.stderr
    assert "max_concurrency=1 holds for all of them" in done.stderr
    bound = re.search(r"give (hydra\.launcher\.array_parallelism=\d)", done.stderr)
    assert bound
    done = medhelm_apart(*argv, bound[1], env=away, cwd=tmp_path / "here")
    assert done.returncode == 0, done.stderr
    assert server.requests == 8


@pytest.mark.slow
def test_ctrl_c_grades_what_is_there_and_prints_how_to_go_on(
    tmp_path: Path, away: dict[str, str]
) -> None:
    with serve_in_thread(latency_s=0.3) as server:
        write_quiz(tmp_path / "here", 30)
        argv = given(tmp_path, server.base_url, "model.max_concurrency=1")
        running = subprocess.Popen(
            command(*argv),
            cwd=tmp_path / "here",
            env=environment(away),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        while server.requests < 4:
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does it
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    (run,) = find_runs(tmp_path / "here" / "out put")
    (grading,) = find_gradings(tmp_path / "here" / "out put")
    record = read_record(grading)
    answers = (run / "responses.jsonl").read_bytes().count(b"\n")
    assert record.state == "partial" and 3 <= record.results[0].counted == answers < 30
    assert "openai/a" in out and "Traceback" not in err
    (go_on,) = re.findall("To go on where it stopped: medhelm (.*)", err)
    assert shlex.split(go_on) == [*argv]
    with serve_in_thread(port=int(server.base_url.split(":")[2].split("/")[0])) as server:
        done = subprocess.run(
            f"{shlex.join([sys.executable, '-m', 'medhelm'])} {go_on}",
            shell=True,
            cwd=tmp_path / "here",
            env=environment(away),
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        assert server.requests == 30 - answers


def asked_by(*models: ModelSpec) -> tuple[list[Any], list[Any]]:
    """Return a job for each model, and its run, as far as their limits are concerned."""
    jobs = [SimpleNamespace(model=m, benchmarks=(SimpleNamespace(name="quiz"),)) for m in models]
    grading = SimpleNamespace(judges=())
    return jobs, [
        SimpleNamespace(spec=SimpleNamespace(benchmark="quiz", model=m), grading=grading)
        for m in models
    ]


def test_the_limit_of_jobs_at_one_server_is_the_smallest_that_a_user_has_set() -> None:
    base = ModelSpec(name="m", model="m", base_url="http://h/v1")
    bounded = msgspec.structs.replace(base, base_url="http://H:80/v1/", max_concurrency=2)
    jobs, runs = asked_by(base, base, bounded)
    with pytest.raises(UsageError, match="max_concurrency=2 holds for all of them"):
        at_once([], jobs, runs, "away")
    # a judge at the server of its model counts, too, whichever of the two has the smaller limit
    jobs, runs = asked_by(bounded, bounded, bounded)
    for run in runs:
        run.grading = SimpleNamespace(judges=(base,))
    with pytest.raises(UsageError, match="max_concurrency=2 holds for all of them"):
        at_once([], jobs, runs, "away")
    assert at_once(["hydra.launcher.n_jobs=2"], jobs, runs, "away") == {"http://h/v1": 2}


def test_more_jobs_than_the_default_limit_need_one_of_their_own() -> None:
    base = ModelSpec(name="m", model="m", base_url="http://h/v1")
    with pytest.raises(UsageError, match="max_concurrency, by default 512, holds for all of them"):
        at_once([], *asked_by(*[base] * 513), "away")
    raised = msgspec.structs.replace(base, max_concurrency=600)
    assert at_once([], *asked_by(*[raised] * 513), "away") == {"http://h/v1": 513}
