"""Run a server until it ends or its starter does, then end all that it has started.

A script of its own process, which stays when the starter is killed: nothing else could end the server then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

GRACE_S = 10.0
"""Seconds that a server has to end by itself."""
_LOOK_EVERY_S = 0.1


def watch(starter: int, command: list[str]) -> None:
    """Start a command in this process group, and end the group with it or with its starter."""
    is_told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: is_told.append(number))
    try:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as e:
        print(f"medhelm: {command[0]} cannot be started: {e.strerror}", flush=True)
        return
    while server.poll() is None and not is_told and os.getppid() == starter:
        time.sleep(_LOOK_EVERY_S)
    os.killpg(0, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.wait(GRACE_S)
    ended = "was killed" if server.returncode is None else f"ended with {server.returncode}"
    print(f"medhelm: the server {ended}", flush=True)
    os.killpg(0, signal.SIGKILL)  # its children, and this process


if __name__ == "__main__":
    starter, outer = int(sys.argv[1]), os.getpid()
    if inner := os.fork():  # Ray kills the children of what it ends: this one alone
        signal.signal(signal.SIGTERM, lambda *_: os.kill(inner, signal.SIGTERM))
        while os.getppid() == starter and not os.waitpid(inner, os.WNOHANG)[0]:
            time.sleep(_LOOK_EVERY_S)
        with suppress(OSError):
            os.kill(inner, signal.SIGTERM)
            os.waitpid(inner, 0)
    else:
        watch(outer, sys.argv[2:])
