"""The standard output as people and pipes read it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def open_console(**options: Any) -> Console:
    """Return a rich console that raises BrokenPipeError where its reader has gone.

    Rich's own ends the process with exit code 1 instead, which of a gate means FAIL.
    """
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise  # the error that rich is handling

    return Piped(**options)


def drop_output() -> None:
    """Let what is still buffered for the standard output go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
