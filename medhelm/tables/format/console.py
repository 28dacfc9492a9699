"""The standard output as people and pipes read it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


UNCUT = 10_000
"""The width of what goes into a file or a pipe: nothing is left out of it."""


def open_console(**options: Any) -> Console:
    """Return a rich console that raises BrokenPipeError where its reader has gone.

    Rich's own ends the process with exit code 1 instead, which of a gate means FAIL. In a file or a
    pipe, lines are as long as they need to be unless COLUMNS is set: rich would take the width of
    the terminal that the command was typed in.
    """
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise  # the error that rich is handling

    console = Piped(**options)
    is_set = "width" in options or os.environ.get("COLUMNS", "").isdigit() or console.is_terminal
    return console if is_set else Piped(**options, width=UNCUT)


def open_uncut_console(*, stderr: bool = False) -> Console:
    """Return a console for other output than tables of results: a pipe it leaves COLUMNS aside."""
    console = open_console(stderr=stderr)
    return console if console.is_terminal else open_console(stderr=stderr, width=UNCUT)


def drop_output() -> None:
    """Let what is still buffered for the standard output go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
