"""Commands in processes of their own that begin at once, to be killed, interrupted and waited for.

They are forked off one process that has imported what a command needs, and is otherwise new. Where
the start itself is tested, a command is started as users start it: `tests.quiz.medhelm_apart`.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from medhelm.__main__ import main
from tests.quiz import Done, ended, environment
from tests.server import FaultServer

ROOT = Path(__file__).parent.parent

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.preloaded"])


class Started:
    """A function in a process of its own; what it prints is read once it has ended."""

    def __init__(
        self,
        call: Callable[..., object],
        *args: Any,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._out, self._err = (Path(tempfile.mkstemp(dir=_outputs())[1]) for _ in range(2))
        place = str(cwd or Path.cwd())
        with contextlib.chdir(ROOT):  # where the process that is forked finds `tests`
            forkserver.ensure_running()
        given = (call, args, environment(env), place, (self._out, self._err))
        self._process = FORKS.Process(target=_begin, args=given)
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        """Return how it ended: a signal as a negative number, None while it runs."""
        return self._process.exitcode

    def send(self, number: int, *, once: Callable[[], object] = lambda: True) -> None:
        """Send a signal, once something is so."""
        self.wait_until(once)
        os.kill(self.pid, number)

    def kill(self, *, once: Callable[[], object] = lambda: True) -> None:
        """Kill it, once something is so, and wait for its end."""
        self.send(signal.SIGKILL, once=once)
        assert self.wait() == -signal.SIGKILL

    def wait_until(self, once: Callable[[], object]) -> None:
        """Wait until something is so, while it is at work."""
        until = time.monotonic() + 60
        while not once():
            assert self.returncode is None, self.communicate()
            assert time.monotonic() < until
            time.sleep(0.005)

    def wait(self, timeout: float = 120) -> int:
        """Return how it ended, once it has."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(["medhelm"], timeout)
        return self.returncode

    def communicate(self, timeout: float = 120) -> tuple[str, str]:
        """Return what it printed, once it has ended."""
        self.wait(timeout)
        return self._out.read_text(), self._err.read_text()


def start(
    *argv: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Started:
    """Start the command line."""
    return Started(command_line, [*map(str, argv)], env=env, cwd=cwd)


def medhelm_forked(
    *argv: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    code: int | None = 0,
) -> Done:
    """Run the command line in a process of its own."""
    process = start(*argv, env=env, cwd=cwd)
    said = process.communicate(timeout=300)
    return ended(subprocess.CompletedProcess([], process.wait(), *said), code)


def asked(server: FaultServer, count: int) -> Callable[[], bool]:
    """Return whether a server was asked so often, for whoever waits for it."""
    return lambda: server.requests >= count


@cache
def _outputs() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="outputs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _begin(
    call: Callable[..., object],
    args: tuple[Any, ...],
    env: Mapping[str, str],
    cwd: str,
    outputs: tuple[Path, Path],
) -> None:
    for number, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    call(*args)


def command_line(argv: list[str]) -> None:
    """Run the command line and leave with its exit code."""
    sys.argv = ["medhelm", *argv]
    main()
