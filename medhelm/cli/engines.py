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
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from medhelm.cli.compose import quoted
from medhelm.config import COMMANDS_DATA_DIR, DATA_DIR
from medhelm.errors import RecordError, UsageError, one_line
from medhelm.models.pacing.pool import Pool, PoolAccess
from medhelm.models.pacing.pool_file import PoolFile

POOL = "MEDHELM_POOL"
"""Environment variable of a worker: where its pool is, a file of the results folder or an actor of Ray."""
ACTOR = "ray:"
"""The place of a pool that is an actor of Ray begins with this; its name follows."""
WHOLE = "0/1"
"""The shard of a worker that has all: once more where each of several has had its part."""
_HOW = "write workers=local:4 (processes here), slurm:16, ray:16, or ray://HOST:PORT/16"
_FORM = re.compile(r"(local|slurm|ray)(?::(\d+))?|(ray://[^/\s]+)(?:/(\d+))?")
ENDING_S = 15.0
"""A worker that is told to stop gives requests in flight ten seconds."""


class Ended(NamedTuple):
    """The end of a worker."""

    code: int
    """Its exit code; that of its signal where it was killed, as a shell has it."""
    lost: str = ""
    """The reason where it did not end by itself; else empty."""
    node: str = ""
    """The machine that it ran on, where an engine chose it."""


class Origin(NamedTuple):
    """The folders that a command works in and reads: a worker's, too, where its node has no others."""

    working: str
    data: str
    """Empty where none is named by the environment."""

    @classmethod
    def here(cls) -> Origin:
        """Return those of this process."""
        named = os.environ.get(DATA_DIR, "")
        return cls(os.getcwd(), named and os.path.abspath(os.path.expanduser(named)))


class Worker(Protocol):
    """One worker that an engine has started."""

    def ended(self) -> Ended | None:
        """Return how it ended, None while it is at work."""

    def stop(self) -> None:
        """End it as Ctrl-C does."""

    def kill(self) -> None:
        """End it at once."""


class Engine(ABC):
    """Starts workers."""

    name: str
    environment = ""
    """Whose environment a worker has, where it is not this command's."""
    rest_s = 0.0
    """Seconds until a part may be asked again whose worker was lost: what that has begun may still be ending."""
    results: Path

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def open_pool(self, path: Path, new: Pool, refusal: str) -> PoolAccess:
        """Return the way to a new pool, in a file of the results folder where the engine has nothing better.

        `refusal`: the reason why texts of the runs may not travel to a worker; empty where they may.
        """
        self.results, self._added = path.parent.parent, {POOL: str(path)}
        pool = PoolFile(path, "", new)
        pool.read()
        return pool

    @abstractmethod
    def start(self, command: Sequence[str], output: Path) -> Worker:
        """Start a worker, whose output goes to a file; raises UsageError where it cannot."""

    def collect(self) -> bool:
        """Write what came from workers that do not see the results folder; returns whether one wants a copy."""
        return False


@dataclass(frozen=True)
class Choice:
    """The engine that `workers=` names."""

    engine: str
    workers: int
    address: str = ""


def chosen_engine(setting: str | int, options: Mapping[str, Any]) -> Choice:
    """Return the engine that a setting names; raises UsageError where it names none, or takes no options."""
    found = _FORM.fullmatch(str(setting))
    if found is None:
        raise UsageError(
            f"workers={setting} is not understood: {_HOW}; requests in flight are model.max_concurrency"
        )
    name, count, address, at_address = found.groups()
    number = int(count or at_address or 0)
    if number < 1:
        raise UsageError(f"workers={setting}: say how many; {_HOW}")
    if name == "local" and options:
        raise UsageError("engine.KEY=VALUE goes with workers=slurm or workers=ray")
    return Choice(name or "ray", number, address or "")


def run_child(
    command: Sequence[str],
    results: str,
    added: Mapping[str, str],
    output: str,
    origin: Origin,
    meanwhile: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a worker below this process until it ends, and return how it did. `output`: below `results`.

    Its standard input is a pipe from here, so that it stops when this process is killed. SIGTERM,
    SIGINT, what Ray raises to cancel, and an error of `meanwhile` stop it as Ctrl-C does.
    """
    file = Path(results, output)
    if not os.path.exists(file):  # also where it may not be looked for
        node = os.uname().nodename
        why = f"{file.parent} is not seen on {node}: name a results_dir that all workers share"
        return Ended(RecordError.exit_code, why)
    added = {COMMANDS_DATA_DIR: origin.data, **added}
    words = [*command, f"results_dir={quoted(results)}"]
    child = _Child(words, added, file, origin.working)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, lambda *_: child.stop())
    try:
        while (ended := child.ended()) is None:
            meanwhile()
            time.sleep(0.2)
    except (KeyboardInterrupt, RecordError):
        child.stop()
        ended = child.wait()
    return ended._replace(node=os.uname().nodename)


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
            self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self.kill()
        ended = self.ended()
        assert ended is not None
        return ended


class LocalEngine(Engine):
    """Processes of this machine."""

    name = "this machine"

    def start(self, command: Sequence[str], output: Path) -> Worker:
        """Start a process."""
        words = [*command, f"results_dir={quoted(str(self.results))}"]
        return _Child(words, self._added, output, os.getcwd())


class SlurmEngine(Engine):
    """Jobs of SLURM, which submitit submits; a job that its time limit ends is queued again."""

    name, environment = "SLURM", "its job"
    rest_s = ENDING_S

    def __init__(self, choice: Choice, options: Mapping[str, Any], folder: Path) -> None:
        from submitit import AutoExecutor

        super().__init__(choice.workers)
        try:
            self._executor = AutoExecutor(
                folder / "slurm", cluster="slurm", slurm_max_num_timeout=1000
            )
            self._executor.update_parameters(**{"name": "medhelm", "timeout_min": 240, **options})
        except (RuntimeError, NameError, TypeError, ValueError) as e:
            raise UsageError(f"workers=slurm: {one_line(e)}") from None

    def start(self, command: Sequence[str], output: Path) -> Worker:
        """Submit a job."""
        from submitit.core.utils import FailedJobError

        try:
            where = (str(self.results), self._added, str(output.relative_to(self.results)))
            job = self._executor.submit(SlurmWork(command, *where, Origin.here()))
        except (FailedJobError, OSError) as e:
            raise UsageError(f"workers=slurm: {one_line(e)}") from None
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
        return Ended(1, f"job {self._job.job_id}: {one_line(error)}")

    def stop(self) -> None:
        self._job.cancel(check=False)

    kill = stop
