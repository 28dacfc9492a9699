"""The engines that start workers: this machine, SLURM (submitit) or Ray, each imported only where it is named.

What an engine is given is a command line and a file for its output: no text, no key.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from medhelm.errors import Interrupted, ModelError, RecordError, UsageError

_HOW = "write workers=local:4 (processes here), slurm:16, ray:16, or ray://HOST:PORT/16"
_FORM = re.compile(r"(local|slurm|ray)(?::(\d+))?|(ray://[^/\s]+)(?:/(\d+))?")
_ENDING_S = 15.0
"""A worker that is told to stop gives requests in flight ten seconds."""


class Ended(NamedTuple):
    """The end of a worker."""

    code: int
    """Its exit code; that of its signal where it was killed, as a shell has it."""
    lost: str = ""
    """The reason where it did not end by itself; else empty."""


class Worker(Protocol):
    """One worker that an engine has started."""

    def ended(self) -> Ended | None:
        """Return how it ended, None while it is at work."""

    def stop(self) -> None:
        """End it as Ctrl-C does."""

    def kill(self) -> None:
        """End it at once."""


class Engine(Protocol):
    """Starts workers."""

    name: str
    workers: int

    def start(self, command: Sequence[str], added: Mapping[str, str], output: Path) -> Worker:
        """Start a worker with variables added to its environment; raises UsageError where it cannot."""


@dataclass(frozen=True)
class Choice:
    """The engine that `workers=` names."""

    engine: str
    workers: int
    address: str = ""


def chosen_engine(said: str | int, options: Mapping[str, Any]) -> Choice:
    """Return the engine that a setting names; raises UsageError where it names none, or takes no options."""
    found = _FORM.fullmatch(str(said))
    if found is None:
        raise UsageError(
            f"workers={said} is not understood: {_HOW}; requests in flight are model.max_concurrency"
        )
    name, count, address, at_address = found.groups()
    number = int(count or at_address or 0)
    if number < 1:
        raise UsageError(f"workers={said}: say how many; {_HOW}")
    if name == "local" and options:
        raise UsageError("engine.KEY=VALUE goes with workers=slurm or workers=ray")
    return Choice(name or "ray", number, address or "")


def open_engine(choice: Choice, options: Mapping[str, Any], folder: Path) -> Engine:
    """Return the engine, with options of its own; raises UsageError where its package is not installed."""
    if choice.engine == "local":
        return _Local(choice.workers)
    try:
        kind = _Slurm if choice.engine == "slurm" else _Ray
        return kind(choice, options, folder)
    except ModuleNotFoundError as e:
        raise UsageError(
            f"workers={choice.engine} needs {e.name}: run in the checkout: pip install '.[{choice.engine}]'"
        ) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def run_child(command: Sequence[str], added: Mapping[str, str], output: str, cwd: str) -> Ended:
    """Run a worker below this process until it ends, and return how it did.

    Its standard input is a pipe from here, so that it stops when this process is killed. SIGTERM,
    SIGINT and what Ray raises to cancel stop it as Ctrl-C does.
    """
    if not Path(output).parent.is_dir():
        node = os.uname().nodename
        why = f"{Path(output).parent} is not seen on {node}: name a results_dir that all workers share"
        return Ended(RecordError.exit_code, why)
    child = _Child(command, added, Path(output), cwd)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, lambda *_: child.stop())
    try:
        while (ended := child.ended()) is None:
            time.sleep(0.2)
    except KeyboardInterrupt:
        child.stop()
        ended = child.wait()
    return ended


class _Child:
    """A worker that is a process below this one."""

    def __init__(
        self, command: Sequence[str], added: Mapping[str, str], output: Path, cwd: str
    ) -> None:
        with open(os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "medhelm", *command],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env={**os.environ, **added},
                cwd=cwd if Path(cwd).is_dir() else None,
                start_new_session=True,  # Ctrl-C reaches it once, from here
            )

    def ended(self) -> Ended | None:
        code = self._process.poll()
        if code is None:
            return None
        assert self._process.stdin is not None
        self._process.stdin.close()
        if code >= 0:
            return Ended(code)
        return Ended(128 - code, f"killed by {signal.Signals(-code).name}")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.ended()

    def wait(self) -> Ended:
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self.kill()
        ended = self.ended()
        assert ended is not None
        return ended


class _Local:
    """Processes of this machine."""

    name = "this machine"

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def start(self, command: Sequence[str], added: Mapping[str, str], output: Path) -> Worker:
        return _Child(command, added, output, os.getcwd())


class _Slurm:
    """Jobs of SLURM, which submitit submits; a job that its time limit ends is queued again."""

    name = "SLURM"

    def __init__(self, choice: Choice, options: Mapping[str, Any], folder: Path) -> None:
        from submitit import AutoExecutor

        self.workers = choice.workers
        try:
            self._executor = AutoExecutor(
                folder / "slurm", cluster="slurm", slurm_max_num_timeout=1000
            )
            self._executor.update_parameters(**{"name": "medhelm", "timeout_min": 240, **options})
        except (RuntimeError, NameError, TypeError, ValueError) as e:
            raise UsageError(f"workers=slurm: {_line(e)}") from None

    def start(self, command: Sequence[str], added: Mapping[str, str], output: Path) -> Worker:
        from submitit.core.utils import FailedJobError

        try:
            job = self._executor.submit(SlurmWork(command, added, str(output), os.getcwd()))
        except (FailedJobError, OSError) as e:
            raise UsageError(f"workers=slurm: {_line(e)}") from None
        return _SlurmJob(job)


class SlurmWork:
    """The work of a job, which submitit queues again before its time is over."""

    def __init__(self, *given: Any) -> None:
        self.given = given

    def __call__(self) -> Ended:
        """Run the worker; SLURM's signal before the end stops it, then submitit's own handler queues it again."""
        again = signal.getsignal(signal.SIGUSR2)
        over: list[tuple[int, Any]] = []

        def on_time(number: int, frame: Any) -> None:
            over.append((number, frame))
            raise KeyboardInterrupt

        signal.signal(signal.SIGUSR2, on_time)
        ended = run_child(*self.given)
        if over and callable(again):
            again(*over[0])
        return ended

    def checkpoint(self) -> Any:
        """Return the job that goes on."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(SlurmWork(*self.given))


class _SlurmJob:
    def __init__(self, job: Any) -> None:
        self._job = job

    def ended(self) -> Ended | None:
        if not self._job.done():
            return None
        if (error := self._job.exception()) is None:
            return Ended(*self._job.result())
        return Ended(1, f"job {self._job.job_id}: {_line(error)}")

    def stop(self) -> None:
        self._job.cancel(check=False)

    kill = stop


class _Ray:
    """Tasks of a Ray cluster."""

    name = "Ray"

    def __init__(self, choice: Choice, options: Mapping[str, Any], folder: Path) -> None:
        import ray

        self.workers, self._ray = choice.workers, ray
        if not ray.is_initialized():
            self._begin(choice.address)
        settings = {"num_cpus": 1, "max_retries": 0, "scheduling_strategy": "SPREAD", **options}
        try:
            self._run = ray.remote(run_child).options(**settings)
        except (ValueError, TypeError) as e:
            raise UsageError(f"workers=ray: {_line(e)}") from None

    def _begin(self, address: str) -> None:
        """Join a cluster, or one that is begun on this machine where there is none."""
        quiet = {"log_to_driver": False, "logging_level": "error", "include_dashboard": False}
        joined = {k: v for k, v in quiet.items() if k != "include_dashboard"}
        try:
            self._ray.init(address=address or "auto", **joined)
        except ConnectionError:
            if address:
                raise ModelError(f"workers={address}: no Ray cluster answers there") from None
            self._ray.init(**quiet)

    def start(self, command: Sequence[str], added: Mapping[str, str], output: Path) -> Worker:
        return _RayTask(self._ray, self._run.remote(command, dict(added), str(output), os.getcwd()))


class _RayTask:
    def __init__(self, ray: Any, task: Any) -> None:
        self._ray, self._task = ray, task

    def ended(self) -> Ended | None:
        done, _ = self._ray.wait([self._task], timeout=0)
        if not done:
            return None
        try:
            return Ended(*self._ray.get(self._task))
        except self._ray.exceptions.TaskCancelledError:
            return Ended(Interrupted.exit_code)
        except self._ray.exceptions.RayError as e:
            return Ended(1, f"{type(e).__name__}: {_line(e)}")

    def stop(self) -> None:
        self._ray.cancel(self._task, force=False)

    def kill(self) -> None:
        self._ray.cancel(self._task, force=True)
