"""Parts of a run that processes of their own ask: each has a log and a lock below the run.

    <run>/shards/3-of-16/responses.jsonl

Whoever opens the run or a shard knows what all the others hold. Once no shard is at work, the holder
of the run's lock gathers their lines in the run's own log, so that all who read a run read one file.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from medhelm.errors import RecordError, UsageError
from medhelm.files.durable import AtomicFile, lock_file, os_errors_as
from medhelm.store.loglines import key_of, scanned

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


def find_shard(setting: str, environ: Mapping[str, str]) -> Shard | None:
    """Return the shard that a setting names, of `auto` the one of this job's array; None for an empty setting.

    Raises UsageError where it names none.
    """
    if not setting:
        return None
    number, _, count = setting.partition("/")
    try:
        if number == "auto":
            if "SLURM_ARRAY_TASK_ID" in environ:
                names = ("ID", "MIN", "COUNT")
                task, first, tasks = (int(environ[f"SLURM_ARRAY_TASK_{n}"]) for n in names)
                step = int(environ.get("SLURM_ARRAY_TASK_STEP", "1"))
                shard = Shard((task - first) // step, int(count or tasks))
            elif "JOB_COMPLETION_INDEX" in environ:
                shard = Shard(int(environ["JOB_COMPLETION_INDEX"]), int(count))
            else:
                raise UsageError(
                    f"shard={setting}: SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX is not in the environment; {_HOW}"
                )
        else:
            shard = Shard(int(number), int(count))
    except KeyError as e:
        raise UsageError(
            f"shard={setting}: {e.args[0]} is not in the environment; {_HOW}"
        ) from None
    except ValueError:
        raise UsageError(f"shard={setting} is not understood; {_HOW}") from None
    if not 0 <= shard.number < shard.count:
        raise UsageError(
            f"shard={setting}: parts of {shard.count} run from 0 to {shard.count - 1}; {_HOW}"
        )
    return shard


def logs_of(folder: Path) -> list[Path]:
    """Return the log of a run, or of a judge of it, and those of its shards."""
    return [folder / LOG, *sorted((folder / "shards").glob(f"*/{LOG}"))]


def is_gathered(run: Path) -> bool:
    """Return whether no shard of a run, or of its judges, holds lines of its own."""
    return next(run.glob(f"**/shards/*/{LOG}"), None) is None


def gather(folder: Path) -> None:
    """Move what shards have written to the log of a folder whose lock the caller holds.

    Raises RunLocked where a shard is at work, RecordError where the log cannot be written. A kill leaves all of it
    or nothing in the log.
    """
    logs = logs_of(folder)[1:]
    with ExitStack() as held, os_errors_as(RecordError, f"cannot gather the shards of {folder}"):
        for log in logs:
            held.enter_context(lock_file(log.with_name("lock")))
        for name in _FILES:
            _merge(folder / name, [log.with_name(name) for log in logs])
        for log in logs:
            shutil.rmtree(log.parent)
    with suppress(OSError):  # there is none, or one has begun anew
        (folder / "shards").rmdir()


def drop_gathered(log: Path, whole: Path) -> None:
    """Remove a shard's log that a kill has left after it was gathered: what follows would be gathered with it again."""
    if log.exists() and set(_digests(log)).issubset(_digests(whole)):
        log.unlink()


def _merge(whole: Path, logs: Sequence[Path]) -> None:
    """Add the lines of logs to another one, but for a log that is in it already.

    Of an episode that several asked the first answer counts: the lines of others lie before all that was there, so
    that they are in the cost and nothing else.
    """
    kept = set(_digests(whole))
    logs = [log for log in logs if not kept.issuperset(_digests(log))]
    if not logs:
        return
    answered, late = scanned(whole).answered, dict[Path, Set[int]]()
    for log in logs:
        own = scanned(log)
        late[log] = answered & (own.answered | own.failed | own.begun.keys())
        answered |= own.answered
    with AtomicFile(whole) as file:
        for log, keys in late.items():
            file.writelines(line for line in _lines(log) if keys and key_of(line) in keys)
        file.writelines(_lines(whole))
        for log, keys in late.items():
            file.writelines(line for line in _lines(log) if not keys or key_of(line) not in keys)


def _lines(log: Path) -> Iterator[bytes]:
    """Yield the lines of a log, but for a last one that a kill has cut."""
    with suppress(FileNotFoundError), open(log, "rb") as lines:
        yield from (line for line in lines if line.endswith(b"\n"))


def _digests(log: Path) -> Iterator[bytes]:
    return (hashlib.blake2b(line, digest_size=8).digest() for line in _lines(log))
