"""`--workers`: who computes slow metrics, draws and the site's data files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medhelm.cli.engines import chosen_engine, open_engine
from medhelm.errors import UsageError
from medhelm.processes.workers import Workers, use_workers


@contextmanager
def workers_of(args: argparse.Namespace) -> Iterator[None]:
    """Let the workers that an option names compute; raises UsageError where they cannot."""
    choice = chosen_engine(args.workers, {})
    if choice.engine == "slurm":
        raise UsageError(
            f"--workers {args.workers}: a job of SLURM would leave texts in files: start the command as one job "
            f"(`srun -c {choice.workers} medhelm ...`) with --workers local:{choice.workers}, or name ray:N"
        )
    if choice.engine == "ray":
        open_engine(choice, {}, Path())
    text_of = getattr(args, "text_of", ())
    with use_workers(Workers(choice.workers, choice.engine == "ray", text_of)):
        yield
