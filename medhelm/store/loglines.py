"""Lines of a log: one line an episode of one call; one line a call of episodes of many."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from medhelm.errors import OtherVersion
from medhelm.schema.data import Instance
from medhelm.schema.episode import (
    SCHEMA,
    Episode,
    Finish,
    Message,
    Response,
    Usage,
    of_threads,
)
from medhelm.store.appendlog import with_checksum, without_checksum
from medhelm.store.calls import Begun, Called, Ended, OpenEpisode
from medhelm.store.records import other_version

ANSWERED: frozenset[Finish] = frozenset({"stop", "length", "refusal"})
"""Endings that are never asked again; 'error' is, on the next start, and 'oversize' where no server answered."""


class Head(msgspec.Struct):
    """The fields of a response that say whether it is an answer, and to what."""

    instance_id: str
    finish: Finish
    repeat: int = 0
    usage: Usage = Usage()


def is_answered(response: Head | Response) -> bool:
    """Return whether nothing is to be asked again: an answer that was cut came, too."""
    was_cut = response.finish == "oversize" and response.usage.input_tokens is not None
    return response.finish in ANSWERED or was_cut


class Line(msgspec.Struct):
    """The fields that every line has: of an episode in one line, or of one in many (see `calls`)."""

    schema: int
    instance: msgspec.Raw = msgspec.Raw()
    response: Head | None = None
    episode: str = ""
    call: msgspec.Raw = msgspec.Raw()

    @property
    def is_whole(self) -> bool:
        """Return whether the line is one of the forms that are written."""
        if not self.episode:
            return bool(self.instance) and self.response is not None
        return bool(self.instance) + bool(self.call) + (self.response is not None) == 1

    @property
    def key(self) -> int:
        """Return the key of instance and repeat; 0 for a line that ends no episode."""
        if self.episode:
            return int(self.episode, 16)
        assert self.response is not None
        return episode_key(bytes(self.instance), self.response.repeat)


def episode_key(instance_json: bytes, repeat: int) -> int:
    """Return a 64-bit key of an instance with all its content, asked for the repeat-th time.

    An instance that has changed in any way has another key. 10^5 keys collide with
    probability 3e-10.
    """
    digest = hashlib.blake2b(b"%d\0%b" % (repeat, instance_json), digest_size=8).digest()
    return int.from_bytes(digest)


def episode_keys(instance: Instance, repeats: int) -> list[int]:
    """Return the keys of an instance's episodes, one for each repeat."""
    content = msgspec.json.encode(instance)
    return [episode_key(content, repeat) for repeat in range(repeats)]


@of_threads
class _OneCall(msgspec.Struct, frozen=True):
    schema: int
    instance: Instance
    messages: tuple[Message, ...]
    response: Response


def encode_line(episode: Episode) -> bytes:
    """Return an episode of one call as one line of the log."""
    line = _OneCall(episode.schema, episode.instance, episode.messages, episode.response)
    return with_checksum(msgspec.json.encode(line))


class Scan:
    """The content of a log: keys already answered, and repairs made on opening it."""

    def __init__(self) -> None:
        self.answered: set[int] = set()
        """Keys that are not asked again."""
        self.failed: set[int] = set()
        """Keys that were asked without an answer."""
        self.torn = self.quarantined = 0
        self._parts = OpenEpisodes()

    @property
    def begun(self) -> dict[int, OpenEpisode]:
        """Return the episodes of many calls that have not ended, or ended with a failure, by their key."""
        return self._parts.open

    def take(self, line: bytes) -> bool:
        """Add a line; returns whether it can be read."""
        if (found := read_line(line)) is None:
            return False
        parsed, body = found
        if parsed.episode and not self._parts.take(parsed, body):
            return False
        if parsed.response is not None:
            is_final = is_answered(parsed.response)
            (self.answered if is_final else self.failed).add(parsed.key)
            (self.failed if is_final else self.answered).discard(parsed.key)  # the last one counts
            if is_final:
                self.begun.pop(parsed.key, None)
        return True

    def add_others(self, logs: Iterable[Path]) -> None:
        """Add what logs hold that others write, or have left: what is answered there, and what has begun."""
        for other in map(scanned, reversed([*logs])):
            self.answered.update(other.answered)
            for key, episode in other.begun.items():
                episode.is_begun = False  # in one's own log
                if key in self.begun:
                    self.begun[key].add(episode)
                else:
                    self.begun[key] = episode
        self.failed.difference_update(self.answered)


def scanned(log: Path) -> Scan:
    """Return what a log holds; nothing where there is none."""
    scan = Scan()
    with suppress(FileNotFoundError), open(log, "rb") as lines:
        for line in lines:
            scan.take(line)
    return scan


class OpenEpisodes:
    """Episodes of many calls, put together from their lines in the order of the log."""

    def __init__(self) -> None:
        self.open: dict[int, OpenEpisode] = {}
        """By their key."""
        self._begun = msgspec.json.Decoder(Begun).decode
        self._called = msgspec.json.Decoder(Called).decode
        self._ended = msgspec.json.Decoder(Ended).decode

    def take(self, head: Line, body: bytes) -> bool:
        """Add a line, its JSON, to its episode; False for a last line where one before it is missing."""
        episode = self.open.setdefault(head.key, OpenEpisode(head.episode))
        if head.instance:
            begun = self._begun(body)
            episode = self.open[head.key] = episode.anew()
            episode.of(begun.instance, begun.repeat).is_begun = True
        elif head.call:
            episode.take(self._called(body).call)
        else:
            return episode.is_begun and episode.end(self._ended(body), body)
        return True


def read_line(line: bytes) -> tuple[Line, bytes] | None:
    """Return a line's fields and its JSON; None where it cannot be read. Raises OtherVersion."""
    if (body := without_checksum(line)) is None:
        return None
    try:
        parsed = LINES.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not parsed.is_whole:
        return None
    if parsed.schema != SCHEMA:
        raise OtherVersion(other_version("a line of the log", parsed.schema))
    return parsed, body


def key_of(line: bytes) -> int:
    """Return the key of the episode that a line is of; 0 for one that cannot be read."""
    found = read_line(line)
    return 0 if found is None else found[0].key


EPISODES, LINES = msgspec.json.Decoder(Episode), msgspec.json.Decoder(Line)
