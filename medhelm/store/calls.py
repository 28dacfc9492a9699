"""Episodes of many calls in a run's log: what a line holds, and episodes put together from lines.

    {"episode": KEY, "instance": ..., "repeat": 0}          its first line
    {"episode": KEY, "call": {...}}                         one for each call, as it ends
    {"episode": KEY, "response": ..., "ending": ..., "seal": ...}        its last line

A call names the call that it continues and holds only the messages that are new. A text of more than
200 bytes is written once in an episode, whichever role it is sent to; later lines name its hash. So
the log grows with the turns of an episode and not with their square. Of a text that begins as an earlier one
does, by more than that, only the rest is written. A line that names a call or a text that is not there (its
line was damaged) holds a response all the same: where the same request is sent, it is not asked again, and the
call is written anew. The last line seals the calls: where one of them is missing, the episode has not ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import msgspec

from medhelm.schema.data import Instance
from medhelm.schema.episode import SCHEMA, Call, Episode, Message, Response, of_threads
from medhelm.schema.run import fields_of

_LONG = 200
"""Bytes from which a text is named by its hash where it recurs."""
_SAME = ("role", "step", "attempt", "sent", "response")
"""The fields of a call that are stored as they are."""


@of_threads
class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an episode."""

    schema: int = SCHEMA
    episode: str
    instance: Instance
    repeat: int


class _Text(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    role: str
    content: str = ""
    ref: str = ""
    """Hash of the content, where it was written before."""
    start: str = ""
    """Hash of a text written before that begins as this one does; `content` is the rest."""
    keep: int = 0
    """Characters of it that both share."""


class _Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    role: str
    step: str
    attempt: int = 0
    sent: str
    after: str = ""
    """The call whose messages this one begins with; empty: none."""
    messages: tuple[_Text, ...] = ()
    response: Response

    def with_messages(self, messages: tuple[Message, ...]) -> Call:
        return Call(messages=messages, **fields_of(self, *_SAME))


@of_threads
class Called(msgspec.Struct, frozen=True, kw_only=True):
    """The line of a call."""

    schema: int = SCHEMA
    episode: str
    call: _Call


@of_threads
class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of an episode."""

    schema: int = SCHEMA
    episode: str
    response: Response
    ending: str = ""
    state: dict[str, Any] = {}
    seal: str
    """Hash over the calls that the episode is made of."""
    stale: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Stored calls that were not asked any more when it ended."""


def call_name(role: str, step: str, attempt: int) -> str:
    """Return the key of a call in its episode."""
    return f"{role}\0{step}\0{attempt}"


class OpenEpisode:
    """An episode that has begun: the calls that the log holds, and what their texts are named by."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._instance: Instance | None = None
        """None: its first line was damaged, and it was not resumed yet."""
        self.repeat = 0
        self.calls: dict[str, Call] = {}
        self._partial: dict[str, _Call] = {}
        """Stored calls that name what is not there, so that their messages are unknown."""
        self.stale: list[Call] = []
        """Stored calls whose step was asked again, because another request is sent now."""
        self.retried: list[Call] = []
        """Tries of calls that lost answers, which may be billed, and for which the same request was sent again."""
        self.is_begun = False
        """True if the log holds its first line."""
        self.last = b""
        """The last line of a try that failed."""
        self._texts: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        """The names of the texts, by text."""
        self._sent: dict[tuple[str, tuple[Message, ...]], str] = {}
        """The names of the calls, by role and messages."""
        self._begins = ("", "", 0)
        """The last long text with its name, and how many of its characters others share."""

    @property
    def instance(self) -> Instance:
        """Return the instance of an episode whose first line was read, or that was resumed."""
        assert self._instance is not None
        return self._instance

    def of(self, instance: Instance, repeat: int) -> OpenEpisode:
        """Return it as the episode of an instance, which its key stands for."""
        self._instance, self.repeat = instance, repeat
        return self

    def anew(self) -> OpenEpisode:
        """Return it as begun by another process: calls that this one does not write again are stale."""
        other = OpenEpisode(self.key)
        other.stale = [*self.stale, *self.calls.values()]
        other._partial = dict(self._partial)
        return other

    def add(self, other: OpenEpisode) -> None:
        """Know the calls of the same episode in another log."""
        mine = [*self.stale, *self.calls.values()]
        self.stale += [c for c in (*other.stale, *other.calls.values()) if c not in mine]

    def answered(self, name: str, sent: str, messages: tuple[Message, ...]) -> Call | None:
        """Return the answer to this request that is stale, or whose messages the log does not hold."""
        for call in self.stale:
            is_it = (name, sent) == (call_name(call.role, call.step, call.attempt), call.sent)
            if is_it and call.response.finish != "error":
                return call
        found = self._partial.get(name)
        if found is None or found.sent != sent:
            return None
        return found.with_messages(messages)

    def begin(self) -> list[bytes]:
        """Return the first line, and behind it the calls that are known from another log.

        They are written anew: a log names only texts and calls of its own.
        """
        known, self.calls = [*self.stale, *self.calls.values()], {}
        self.stale, self._texts, self._keys, self._sent = [], {}, {}, {}
        self._begins, self.is_begun = ("", "", 0), True
        first = Begun(episode=self.key, instance=self.instance, repeat=self.repeat)
        return [msgspec.json.encode(first), *map(self.called, known)]

    def called(self, call: Call) -> bytes:
        """Return the line of a call that has ended, and keep the call."""
        before = self._continued(call)
        known = len(self.calls[before].messages) if before else 0
        written = tuple(map(self._write, call.messages[known:]))
        stored = _Call(after=before, messages=written, **fields_of(call, *_SAME))
        self._keep(call)
        return msgspec.json.encode(Called(episode=self.key, call=stored))

    def ended(
        self, response: Response, ending: str, state: dict[str, Any], stale: tuple[str, ...]
    ) -> Ended:
        """Return the last line. `stale`: calls that are not part of the episode any more."""
        return Ended(
            episode=self.key,
            response=response,
            ending=ending,
            state=state,
            seal=self._seal(stale),
            stale=stale or msgspec.UNSET,
        )

    def end(self, ended: Ended, line: bytes) -> bool:
        """Note a last line read from the log; False where a call that it seals is not there."""
        if ended.seal != self._seal(ended.stale or ()):
            return False
        self.last = line
        return True

    def take(self, stored: _Call) -> None:
        """Keep a call read from the log, of one that names what is not there what it holds."""
        name = call_name(stored.role, stored.step, stored.attempt)
        if stored.after and stored.after not in self.calls:
            self._partial[name] = stored
            return
        messages = [*self.calls[stored.after].messages] if stored.after else []
        for text in stored.messages:
            if (known := text.ref or text.start) and known not in self._texts:
                self._partial[name] = stored
                return
            content = self._texts[text.ref] if text.ref else text.content
            if text.start:
                content = self._texts[text.start][: text.keep] + content
            messages.append(msgspec.convert({"role": text.role, "content": content}, Message))
            if not text.start:
                self._learn(content)
        self._keep(stored.with_messages(tuple(messages)))

    def made_of(self, stale: Collection[str]) -> tuple[Call, ...]:
        """Return the calls but for these."""
        return tuple(call for name, call in self.calls.items() if name not in stale)

    def episode(self, ended: Ended) -> Episode:
        """Return the whole episode."""
        unasked = ended.stale or ()
        return Episode(
            instance=self.instance,
            response=ended.response,
            calls=self.made_of(unasked),
            ending=ended.ending,
            state=ended.state,
            stale=(*self.stale, *(self.calls[name] for name in unasked if name in self.calls)),
        )

    def _seal(self, stale: Collection[str]) -> str:
        made = [(c.role, c.step, c.attempt, c.sent, c.response.finish) for c in self.made_of(stale)]
        return hashlib.blake2b(msgspec.json.encode(made), digest_size=8).hexdigest()

    def _continued(self, call: Call) -> str:
        """Return the call of the same role that has most of the messages that this one begins with."""
        for n in range(len(call.messages), 0, -1):
            sent = call.messages[:n]
            other = self.calls.get(self._sent.get((call.role, sent), ""))
            if other is not None and other.messages == sent:  # else it was asked again since
                return call_name(other.role, other.step, other.attempt)
        return ""

    def _keep(self, call: Call) -> None:
        if call in self.stale:
            self.stale.remove(call)
        name = call_name(call.role, call.step, call.attempt)
        before = self.calls.pop(name, None)  # asked again: its place is that of its last ending
        if before is not None and before != call:
            if before.sent != call.sent or before.response.finish != "error":
                self.stale.append(before)
            elif before.response.lost:
                self.retried.append(before)
        self.calls[name] = call
        self._sent[call.role, call.messages] = name
        self._learn(call.response.text)

    def _write(self, message: Message) -> _Text:
        role, content = message.role, message.content
        if key := self._keys.get(content, ""):
            return _Text(role=role, ref=key)
        key, first, keep = self._begins
        if keep and content.startswith(first[:keep]):
            return _Text(role=role, content=content[keep:], start=key, keep=keep)
        if (keep := _shared(first, content)) > _LONG:
            self._begins = (key, first, keep)
            return _Text(role=role, content=content[keep:], start=key, keep=keep)
        if key := self._learn(content):
            self._begins = (key, content, 0)
        return _Text(role=role, content=content)

    def _learn(self, text: str) -> str:
        """Keep a text that is long enough to have a name; returns the name."""
        if text in self._keys:
            return self._keys[text]
        if key := _hash(text):
            self._texts[key] = text
            self._keys[text] = key
        return key


def _hash(text: str) -> str:
    """Return the name of a text that is long enough to have one, else nothing."""
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=8).hexdigest() if len(raw) > _LONG else ""


def _shared(a: str, b: str) -> int:
    """Return how many characters two texts begin with alike."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
