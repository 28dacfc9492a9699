"""Labels in JSON, in whatever wrapping."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from medhelm_benchmarks.noharm.rules.label_names import Names, Read
from medhelm_benchmarks.noharm.rules.label_words import (
    APPROPRIATE,
    INAPPROPRIATE,
    SHORT,
    Short,
    plain_word,
    read_word,
)
from medhelm_benchmarks.noharm.rules.tolerant import Container, containers

NEGATIVE = re.compile(
    r"inappropriat|(?:not|un|non)[\s_-]?(?:appropriat|indicated|recommended|safe|necessary)|"
    r"contra-?indicat|harm|danger|avoid|wrong|reject|omit|withh[eo]ld|unsafe|exclude|incorrect",
    re.IGNORECASE,
)
"""Words of a question that Yes answers with `Inappropriate`."""
_LABEL_KEYS = frozenset(
    [
        "label",
        "judgment",
        "judgement",
        "rating",
        "classification",
        "class",
        "verdict",
        "assessment",
        "answer",
        "decision",
        "value",
        "status",
        "appropriateness",
        "evaluation",
        "recommendation",
        "result",
        "choice",
        "response",
        "determination",
        "conclusion",
        "output",
    ]
)
_ID_KEYS = frozenset(
    [
        "id",
        "action",
        "action_id",
        "step",
        "step_id",
        "key",
        "code",
        "item",
        "option",
        "actionid",
        "stepid",
    ]
)
_SAID_KEY = re.compile(r"(?:is[_ ]?)?(?P<no>not[_ ]?|in)?appropriate", re.IGNORECASE)
GROUP_KEY = re.compile(
    r"(?P<no>not[_ ]|in)?appropriate(?:[_ ](?:actions?|steps?|labels?|options?|ids?))?",
    re.IGNORECASE,
)
_NEW_CASE = re.compile(
    r"^[ \t>*_#\[(-]{0,12}(?:a[ \t]colleague[ \t]asks|(?:here[ \t]is|consider|now|and)?[ \t]{0,3}"
    r"(?:a[ \t]|the[ \t])?(?:another|new|next|different|second)[ \t]"
    r"(?:patient|case|question|scenario|vignette|consultation|example)"
    r"|(?:question|case|patient|example|scenario|user|human|instruction|task)[ \t]?#?\d{0,4}[*_]{0,3}:)",
    re.IGNORECASE | re.MULTILINE,
)
_REVISED = re.compile(
    r"sorry|correct|revis|second thought|rather|\bwait\b|mistake|final|instead|reconsider|actually",
    re.IGNORECASE,
)
_JOIN = re.compile(r"(?:[\s,;\u2022*\-\[\]]|\d{1,3}[.)]|```\w*)*")
"""Matches the text between objects that belong together, such as JSON lines."""
Pairs = list[tuple[str, str]]
"""Names and the words that they are given: a label, or nothing that can be read."""


def of_objects(text: str, names: Names, is_cut: bool) -> list[Read]:
    """Return what the JSON of a text says, objects that belong together as one, in order.

    Objects of one label each are lines of one answer, wherever they are. Others belong together
    where nothing but signs parts them and no action is in both.
    """
    found: list[Read] = []
    ends: list[int] = []
    singles, end = Read(), -1
    for value in containers(text, is_cut=is_cut):
        own = Read()
        own.add(_pairs(value), names)
        if not own.words:
            continue
        if len(own.words) > 1 and any(
            earlier.words.keys() == own.words.keys() and is_new_case(text[at : value.start])
            for earlier, at in zip(found, ends, strict=True)
        ):
            break
        last = found[-1] if found else None
        is_next = last is not None and _JOIN.fullmatch(text, end, value.start) is not None
        if last is not None and is_next and not own.words.keys() & last.words.keys():
            last.join(own)
            ends[-1] = value.end
        elif len(own.words) == 1:
            singles.join(own)
            continue
        else:
            found.append(own)
            ends.append(value.end)
        end = value.end
    return [singles, *found]


def is_new_case(between: str) -> bool:
    """Return whether a text between two answers asks something new and corrects nothing."""
    return _NEW_CASE.search(between) is not None and _REVISED.search(between) is None


@dataclass
class _Said:
    """Holds the labels of one object or list, given those inside it."""

    labels: set[str] = field(default_factory=set)
    """Of the keys that hold a label."""
    own: list[str] = field(default_factory=list)
    """Of the keys that hold an id."""
    items: list[str] = field(default_factory=list)
    """Plain members, and the ids of objects without a label."""
    pairs: Pairs = field(default_factory=list)
    held: Pairs | None = None
    """Holds the value of the key `labels`, which goes before all else."""
    is_poled: bool = False
    """It was under a key that names a label."""


def _pairs(value: Container) -> Pairs:
    """Return the names and words that a container and those inside it hold."""
    said: dict[int, _Said] = {}
    for inner in value.inside_out():  # no recursion: a reply may nest as deep as it likes
        own = _Said()
        for key, member in inner.members:
            if isinstance(member, Container):
                _add_container(own, key, said.pop(id(member)))
            else:
                _add_plain(own, key, member)
        said[id(inner)] = _settle(own)
    return said[id(value)].pairs


def _add_plain(own: _Said, key: str | None, value: str) -> None:
    if key is None:
        own.items.append(value)
        return
    if value.lstrip().startswith(("{", "[")) and '"' in value:  # JSON inside a string
        for inner in containers(value):
            _add_container(own, key, _Said(pairs=_pairs(inner)))
        return
    name, word = key.strip().casefold(), plain_word(value)
    if name in _LABEL_KEYS:
        own.labels.add(word)
    elif (said := _SAID_KEY.fullmatch(name)) is not None:
        if short := SHORT.fullmatch(value.strip()):
            own.labels.add(INAPPROPRIATE if bool(said["no"]) == bool(short["yes"]) else APPROPRIATE)
        else:
            own.pairs += _grouped(name, [value] if value else [])
    elif name in _ID_KEYS:
        own.own.append(value)
    else:
        own.pairs.append((key, word))


def _add_container(own: _Said, key: str | None, inner: _Said) -> None:
    pairs = inner.pairs
    if key is None:
        own.items += inner.own
    else:
        name = key.strip().casefold()
        pairs += [(key, word) for word in inner.labels]
        if pairs and not inner.is_poled and (GROUP_KEY.fullmatch(name) or NEGATIVE.search(name)):
            pairs = _poled(name, pairs)
            own.is_poled = True
        own.is_poled |= inner.is_poled
        pairs += _grouped(name, inner.items)
        if name == "labels" and pairs:
            own.held = _joined(own.held or [], pairs)
            return
    own.pairs = _joined(own.pairs, pairs)


def _poled(key: str, pairs: Pairs) -> Pairs:
    """Return the answer under a label: `"inappropriate": {"a1": false}`; nothing if unclear."""
    group = GROUP_KEY.fullmatch(key)
    label = INAPPROPRIATE if group is None or group["no"] else APPROPRIATE
    found: Pairs = []
    for name, word in pairs:
        if not isinstance(word, Short):
            found.append((name, word if word == label else ""))
        elif group is None:
            found.append((name, ""))
        elif label == INAPPROPRIATE:
            found.append((name, label if word == APPROPRIATE else APPROPRIATE))
        else:
            found.append((name, str(word)))
    return found


def _joined(one: Pairs, other: Pairs) -> Pairs:
    """Return both, the shorter put into the longer: however deep, a pair is moved a few times."""
    few, many = sorted((one, other), key=len)
    many += few
    return many


def _grouped(key: str, items: Iterable[str]) -> Pairs:
    """Return the ids that are under a label: `"appropriate": ["a1", "a3"]`."""
    group = GROUP_KEY.fullmatch(key)
    if group is None:
        return []
    return [(item, INAPPROPRIATE if group["no"] else APPROPRIATE) for item in items]


def _settle(own: _Said) -> _Said:
    """Return what an object says once all of its members are known."""
    if own.held is not None:
        own.pairs = own.held
    if "" in own.labels and len(own.labels) > 1:
        own.labels.discard("")  # "status": "final" beside a label
    if own.own and own.labels:
        own.pairs += [(name, word) for name in own.own for word in own.labels]
        own.labels, own.own = set(), []
    if len(own.items) == 2 and not own.pairs and (word := read_word(own.items[1])):
        own.pairs, own.items = [(own.items[0], word)], []  # ["a1", "Appropriate"]
    return own
