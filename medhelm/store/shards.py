"""Parts of a run that processes of their own ask: each has a log and a lock below the run.

    <run>/shards/3-of-16/responses.jsonl

Whoever opens the run or a shard knows what all the others hold. Once no shard is at work, the holder
of the run's lock gathers their lines in the run's own log, so that all who read a run read one file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from medhelm.errors import UsageError
from medhelm.files.durable import lock_file

LOG = "responses.jsonl"
_FILES = (LOG, "quarantine.jsonl")
_HOW = "write K/N, K from 0 to N-1, as in shard=3/16; auto (SLURM); or auto/N (a Kubernetes Job)"


@dataclass(frozen=True)
class Shard:
    """Every `count`-th instance of a run in its seeded order, from the place `number` on."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def below(self, folder: Path) -> Path:
        """Return its folder below that of a run, or of a judge of a run."""
        return folder / "shards" / f"{self.number}-of-{self.count}"


def find_shard(said: str, environ: Mapping[str, str]) -> Shard | None:
    """Return the shard that a setting names, of `auto` the one of this job's array; None for an empty setting.

    Raises UsageError where it names none.
    """
    if not said:
        return None
    number, _, count = said.partition("/")
    try:
        if number == "auto":
            if "SLURM_ARRAY_TASK_ID" in environ:
                names = ("ID", "MIN", "COUNT")
                task, first, tasks = (int(environ[f"SLURM_ARRAY_TASK_{n}"]) for n in names)
                step = int(environ.get("SLURM_ARRAY_TASK_STEP", "1"))
                shard = Shard((task - first) // step, int(count or tasks))
            else:
                shard = Shard(int(environ["JOB_COMPLETION_INDEX"]), int(count))
        else:
            shard = Shard(int(number), int(count))
    except KeyError as e:
        raise UsageError(f"shard={said}: {e.args[0]} is not in the environment; {_HOW}") from None
    except ValueError:
        raise UsageError(f"shard={said} is not understood; {_HOW}") from None
    if not 0 <= shard.number < shard.count:
        raise UsageError(
            f"shard={said}: parts of {shard.count} run from 0 to {shard.count - 1}; {_HOW}"
        )
    return shard


def logs_of(folder: Path) -> list[Path]:
    """Return the log of a run, or of a judge of it, and those of its shards."""
    return [folder / LOG, *sorted((folder / "shards").glob(f"*/{LOG}"))]


def gather(folder: Path) -> None:
    """Move what shards have written to the log of a folder whose lock the caller holds.

    Raises RunLocked where one is at work. A line that the log holds already is not written twice, so that after a
    kill the next call makes it whole.
    """
    for log in logs_of(folder)[1:]:
        with lock_file(log.with_name("lock")):
            for name in _FILES:
                _append(log.with_name(name), folder / name)
            shutil.rmtree(log.parent)
    with suppress(OSError):  # there is none, or one has begun anew
        (folder / "shards").rmdir()


def _append(source: Path, target: Path) -> None:
    if not source.exists():
        return
    with open(os.open(target, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+b") as whole:
        whole.seek(0)
        known, last = set[bytes](), b"\n"
        for last in whole:
            known.add(_digest(last))
        if not last.endswith(b"\n"):  # cut by a kill: a damaged line, and not a part of the next
            whole.write(b"\n")
        with open(source, "rb") as lines:
            for line in lines:
                if _digest(line) not in known:
                    whole.write(line if line.endswith(b"\n") else line + b"\n")
        whole.flush()
        os.fsync(whole.fileno())


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line.rstrip(b"\n"), digest_size=8).digest()
