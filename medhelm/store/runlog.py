"""The folder of a run that is asked, and what its log holds; its lines are in `loglines`."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Container, Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import OtherVersion, RecordError
from medhelm.files.durable import make_private, remove_temporary, why
from medhelm.schema.episode import MODEL, SCHEMA, Call, Episode
from medhelm.schema.episode import of_threads as of_threads
from medhelm.store.appendlog import (
    AppendLog,
    last_line,
    mend_log,
    move_aside,
    with_checksum,
    without_checksum,
)
from medhelm.store.calls import Ended, OpenEpisode
from medhelm.store.loglines import (
    EPISODES,
    LINES,
    Head,
    OpenEpisodes,
    Scan,
    encode_line,
    is_answered,
    read_line,
    scanned,
)
from medhelm.store.loglines import episode_key as episode_key
from medhelm.store.records import Plan, other_version
from medhelm.store.records import bare_name as bare_name
from medhelm.store.records import is_same_model as is_same_model
from medhelm.store.records import order_key as order_key
from medhelm.store.records import read_plan as read_plan
from medhelm.store.shards import LOG, Shard, drop_gathered, gather, logs_of

Retried = Callable[[int, Call], None]
"""Takes the key of an episode, 0 for one of one call, and a failed try of a call that another try followed."""


class RunFolder(AppendLog):
    """One run folder, or a shard's below it, held by this process alone from `open` to `close`."""

    def __init__(self, path: Path, shard: Shard | None = None) -> None:
        self.path = path if shard is None else shard.below(path)
        super().__init__(self.path / LOG)
        self._whole, self._shard = path, shard

    def open(self) -> Scan:
        """Lock the folder, mend its log and return what the run holds: of a shard, what all others hold, too.

        Raises RunLocked where another process holds it, RecordError where it cannot be written.
        """
        try:
            make_private(self._whole)
            make_private(self.path)
            self._take_lock()
            remove_temporary(self.path)
            self._refuse_later_judges()
            if self._shard is None:
                gather(self.path)
            else:
                drop_gathered(self.log_path, self._whole / LOG)
            scan, aside = Scan(), self.path / "quarantine.jsonl"
            scan.torn, scan.quarantined = mend_log(self.log_path, aside, scan.take)
            if self._shard is not None:
                scan.add_others(log for log in logs_of(self._whole) if log != self.log_path)
            self._open_log()
        except OSError as e:
            self.close()
            raise RecordError(f"cannot write run folder {self.path}: {why(e)}") from None
        except RecordError:
            self.close()
            raise
        return scan

    def _refuse_later_judges(self) -> None:
        """Refuse judges' logs that another version goes on with, before any model is asked."""
        decode = msgspec.json.Decoder(dict[str, Any]).decode
        for log in self._whole.glob("*/*/*.jsonl"):
            _refuse_older(log.parent)
            if log.name == "quarantine.jsonl":
                continue
            with suppress(msgspec.DecodeError):  # what is damaged is moved aside when it is opened
                if (schema := decode(last_line(log)).get("schema", SCHEMA)) != SCHEMA:
                    raise OtherVersion(other_version(log, schema))

    def set_aside(self, valid: Container[int]) -> int:
        """Move episodes of instances that are no longer in the data to `stale.jsonl`.

        `valid`: keys of all instances and repeats of the data. Returns how many were moved.
        """
        stale: list[tuple[int, int]] = []
        gone: set[int] = set()
        end = 0
        with open(self.log_path, "rb") as lines:
            for line in lines:
                start, end = end, end + len(line)
                found = read_line(line)
                if found is not None and found[0].key not in valid:
                    stale.append((start, end))
                    gone.add(found[0].key)
        if stale:
            move_aside(self.log_path, self.path / "stale.jsonl", stale, end)
            os.close(self._fd)
            self._open_log()
        return len(gone)

    def append(self, episode: Episode) -> None:
        """Hand one episode to the operating system. A line that does not fit is taken back."""
        self._append_line(encode_line(episode))

    def append_part(self, body: bytes) -> None:
        """Hand one line of an episode of many calls to the operating system."""
        self._append_line(with_checksum(body))


def read_answered(run: Path) -> set[int]:
    """Return the keys that a run and its shards have answered."""
    scan = Scan()
    scan.add_others(logs_of(run))
    return scan.answered


def read_log(run: Path) -> Iterator[Episode]:
    """Yield every episode of a log that can be read and has ended, in its order; of several of one
    instance and repeat the last one counts."""
    for _, _, episode in _episodes(run / "responses.jsonl"):
        yield episode


def read_begun(run: Path) -> Mapping[int, OpenEpisode]:
    """Return the episodes of many calls that a log holds and that have not ended, by their key."""
    return scanned(run / "responses.jsonl").begun


def read_keyed(
    folder: Path, retried: Retried | None = None, damaged: Callable[[], None] | None = None
) -> Iterator[tuple[int, Episode]]:
    """Yield the episodes of many calls of a log that have ended, with the key each was given.

    One that failed has its calls in a later try of it, too. It comes last, where it has none. Each
    comes once, but one that was asked again though it was answered: of several the last one counts.
    In the log of a judge the key is an answer's `judgement_key`, and the verdicts are the `state`.
    `damaged` is called for each line that cannot be read.
    """
    _refuse_older(folder)
    failed: dict[int, Episode] = {}
    for _, key, episode in _episodes(folder / "responses.jsonl", retried, damaged):
        if not key:
            continue
        failed.pop(key, None)
        if is_answered(episode.response):
            yield key, episode
        else:
            failed[key] = episode
    yield from failed.items()


def read_episodes(
    run: Path,
    plan: Plan | None = None,
    replaced: Callable[[Episode], None] | None = None,
    retried: Retried | None = None,
) -> Iterator[Episode]:
    """Yield the last episode of every planned instance and repeat, in the order of the log.

    Without a plan every instance of the log is planned.

    `replaced` is given those that were answered and asked again all the same, each before its last one,
    `retried` the failed tries of planned calls that another followed.

    Streams: 8 bytes an episode are held, not its text; of episodes of many calls those that have begun
    and not ended. Lines that cannot be read are passed over (opening the folder for a run moves them
    aside and asks again).
    """
    log = run / "responses.jsonl"
    superseded = _superseded(log) if log.exists() else frozenset()
    seed, cut = (plan.spec.seed, plan.cut) if plan is not None else (0, None)

    def is_planned(instance_id: str) -> bool:
        return cut is None or order_key(seed, instance_id) <= cut

    def note(key: int, call: Call) -> None:
        if retried is not None and is_planned(call.response.instance_id):
            retried(key, call)

    for number, key, episode in _episodes(log, note):
        if not is_planned(episode.instance.id):
            continue
        if number not in superseded:
            yield episode
        elif is_answered(episode.response):
            if replaced is not None:
                replaced(episode)
        elif not key:
            answer, sent = episode.response, episode.messages
            note(key, Call(role=MODEL, step="", sent="", messages=sent, response=answer))


def _refuse_older(folder: Path) -> None:
    """Refuse verdicts in a form that is no longer read: without them a judge would seem not asked."""
    if (older := folder / "grades.jsonl").exists():
        raise OtherVersion(other_version(older, 0))


def _episodes(
    log: Path, retried: Retried | None = None, damaged: Callable[[], None] | None = None
) -> Iterator[tuple[int, int, Episode]]:
    """Yield the episodes of a log with their line, those of many calls with their key, else 0.

    `retried` is given the failed tries of calls of the latter as another one follows them.
    """
    ended = msgspec.json.Decoder(Ended).decode
    parts = OpenEpisodes()
    if not log.exists():
        return
    with open(log, "rb") as lines:
        for number, line in enumerate(lines):
            if (body := without_checksum(line)) is None:
                if damaged is not None:
                    damaged()
                continue
            if not body.startswith(_OF_MANY):
                try:
                    whole = EPISODES.decode(body)
                except msgspec.ValidationError as e:
                    said = other_version(f"{log} line {number + 1}", SCHEMA, e)
                    raise OtherVersion(said) from None
                yield number, 0, whole
                continue
            head = LINES.decode(body)
            is_taken, own = parts.take(head, body), parts.open[head.key]
            while own.retried:
                failed = own.retried.pop()
                if retried is not None:
                    retried(head.key, failed)
            if is_taken and head.response is not None:
                yield number, head.key, own.episode(ended(body))
                if is_answered(head.response):
                    del parts.open[head.key]


_OF_MANY = b'{"schema":%d,"episode":' % SCHEMA
"""Beginning of the lines of an episode of many calls."""


def _superseded(log: Path) -> Set[int]:
    """Return numbers of lines whose instance and repeat have a later line."""
    keys = array("Q")
    unreadable = episode_key(b"", -1)
    with open(log, "rb") as lines:
        for line in lines:
            found = read_line(line)
            head = None if found is None else found[0].response
            keys.append(unreadable if head is None else _place(head))
    import numpy as np

    places = np.frombuffer(keys, dtype=np.uint64) if keys else np.empty(0, np.uint64)
    _, last = np.unique(places[::-1], return_index=True)
    if len(last) == len(places):
        return set()
    kept = np.zeros(len(places), dtype=bool)
    kept[len(places) - 1 - last] = True
    return set(np.flatnonzero(~kept).tolist())


def _place(head: Head) -> int:
    """Return a key of instance and repeat, whatever the instance held."""
    return episode_key(head.instance_id.encode(), head.repeat)


def log_bytes(run: Path) -> int:
    """Return the size of a run's log and those of its shards; 0 where there is none."""
    size = 0
    for log in logs_of(run):
        with suppress(FileNotFoundError):
            size += log.stat().st_size
    return size
