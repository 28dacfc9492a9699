"""Controls: answers whose verdicts are known, which judges are asked about among the others.

Of a seeded sample of a run's cases each judge is shown an answer without content, the answer to another
case, and the right one where there is one. The wrong verdicts on them are its error. A control is an episode
whose instance is marked; its calls lie in the judge's log, and it is in no score.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from medhelm.extract.terms import terms_of
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response
from medhelm.schema.run import FALSE_NEGATIVE, FALSE_POSITIVE, ControlCount

EMPTY, OTHER, RIGHT = "empty", "other", "right"
_KIND, _DUE = "medhelm:control", "medhelm:due"
"""Keys of a control's `answer_key`, which no judge is shown: its kind, and for each verdict `+`, `-`, or `.`
where none is known."""
_SIGN = {True: "+", False: "-", None: "."}

_ABSENCE = re.compile(
    r"\b(?:fail\w*|not|\w+n['’]t|no|never|without|avoid\w*|neglect\w*|omit\w*|refrain\w*|lacks?|absen\w+|none|free of"
    r"|(?:at|no) most|no more|(?:few|less|short)er than|less than|under \d+|limits?|only|if"
    r"|ignor\w+|dismiss\w*|miss(?:es|ed)|forg[eo]t\w*|un(?:aware|able)|rarely|seldom|little|minim(?:al|um)\w*|lacking"
    r"|poor\w*|in(?:complete|adequate|sufficient)\w*|silen\w+|calm\w*|wait\w*)\b"
    r"|[不未无没勿]|避免",
    re.IGNORECASE,
)
"""Matches words of what an answer without content may fulfil: of an absence, of too little, of doing nothing."""


class Item(NamedTuple):
    """One verdict that a grader asks for."""

    text: str = ""
    """Words of what has to be there; empty: the right answer, and no other."""
    is_good: bool = True
    """True if only an answer with content has it."""
    is_in_right: bool = True
    """True if the right answer is known to have it."""

    @property
    def needs_content(self) -> bool:
        """Return whether its words ask for something to be there: not for an absence, a limit, or on a condition."""
        return _ABSENCE.search(self.text) is None


@dataclass(frozen=True, kw_only=True)
class Controls:
    """Measures the judges of a grader."""

    items: Callable[[Instance, Mapping[str, Any]], Sequence[Item]]
    """Returns the verdicts that an answer gets, by the grader's settings."""
    decide: Callable[[Mapping[str, Any]], Sequence[bool | None]]
    """Returns a judge's verdicts, in the order of the items; None: no valid one."""
    empty: Callable[[Instance], Episode] | None = None
    """Makes the answer without content; None: judges are not asked about one."""
    right: Callable[[Instance, Mapping[str, Any]], Episode | None]
    """Makes the right answer; None: there is none."""
    material: Callable[[Instance], str] | None = None
    """Returns the text of a case, of which its items have words where they are of it alone; None: an item's
    own words tell."""
    least: int = 10
    """Cases of a sample, unless all are fewer."""

    def size(self, share: float, cases: int) -> int:
        """Return how many cases of a run are in the sample; a share of 0: none."""
        return min(cases, max(self.least, math.ceil(share * cases))) if share else 0


def answer(instance: Instance, text: str, **more: Any) -> Episode:
    """Return an episode in which a model under test gave this answer."""
    return Episode(instance=instance, response=Response(instance_id=instance.id, text=text), **more)


def gold_answer(instance: Instance, settings: Mapping[str, Any]) -> Episode | None:
    """Return the gold of an instance as an answer; None where it has none."""
    gold = instance.references[0] if instance.references else ""
    return answer(instance, gold) if gold.strip() else None


class Sample:
    """The cases of a run with the smallest keys, gathered from its episodes in any order."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[int, str, Episode]] = []

    def add(self, episode: Episode) -> None:
        """Take an episode if it is the first of its instance and among the smallest."""
        if episode.repeat or not self._size:
            return
        digest = hashlib.blake2b(f"control {episode.instance_id}".encode(), digest_size=8).digest()
        entry = (-int.from_bytes(digest), episode.instance_id, episode)
        push = heapq.heappush if len(self._heap) < self._size else heapq.heappushpop
        push(self._heap, entry)

    def episodes(self, size: int) -> list[Episode]:
        """Return the episodes of the first cases, in the order of their keys."""
        return [episode for *_, episode in sorted(self._heap, key=lambda e: -e[0])[:size]]


def make_controls(
    own: Controls,
    settings: Mapping[str, Any],
    sample: Sequence[Episode],
    text_of: Callable[[Episode], str],
) -> Iterator[Episode]:
    """Yield the controls of a sample of episodes, each with the verdicts that are due.

    `text_of`: what judges are shown of an answer; empty where there is none. The answer to another case
    is the nearest before it in the sample with a text, of another cluster. A verdict on it is known only where
    its item has a word of its case's material that neither this answer nor the items and the material of other
    cases have.
    """
    items = [tuple(own.items(episode.instance, settings)) for episode in sample]
    words = [[terms_of(item.text) for item in found] for found in items]
    told = [set[str]().union(*found) for found in words]
    if own.material is not None:
        told = [terms_of(own.material(episode.instance)) for episode in sample]
    held_by = Counter(t for n, found in enumerate(words) for t in told[n].union(*found))
    texts = [text_of(episode) for episode in sample]
    for place, episode in enumerate(sample):
        instance = episode.instance
        is_bad = [False if item.is_good and item.needs_content else None for item in items[place]]
        if own.empty is not None:
            yield from _marked(instance, EMPTY, own.empty(instance), is_bad)
        # backwards first, so that a larger sample keeps the pairs of a smaller one
        for n in (*reversed(range(place)), *range(place + 1, len(sample))):
            if texts[n] and _cluster(sample[n]) != _cluster(episode):
                there = terms_of(texts[n])
                is_told = [
                    not w or any(held_by[t] == 1 and t not in there for t in w & told[place])
                    for w in words[place]
                ]
                due = [d if told else None for d, told in zip(is_bad, is_told, strict=True)]
                yield from _marked(instance, OTHER, sample[n], due)
                break
        found = own.right(instance, settings)
        if found is not None:
            due = [item.is_good and item.is_in_right or None for item in items[place]]
            yield from _marked(instance, RIGHT, found, due)


def _cluster(episode: Episode) -> str:
    return episode.instance.cluster or episode.instance_id


def _marked(
    instance: Instance, kind: str, shown: Episode, due: Sequence[bool | None]
) -> Iterator[Episode]:
    if all(one is None for one in due):
        return
    mark = {_KIND: kind, _DUE: "".join(_SIGN[one] for one in due)}
    marked = msgspec.structs.replace(instance, answer_key=instance.answer_key | mark)
    response = msgspec.structs.replace(shown.response, instance_id=instance.id, repeat=0)
    yield msgspec.structs.replace(shown, instance=marked, response=response, stale=())


def is_control(instance: Instance) -> bool:
    """Return whether an instance is a control's."""
    return _KIND in instance.answer_key


def without_due(instance: Instance) -> Instance:
    """Return an instance by which a control is known whatever verdicts are due: a larger sample may know fewer."""
    if _DUE not in instance.answer_key:
        return instance
    key = {k: v for k, v in instance.answer_key.items() if k != _DUE}
    return msgspec.structs.replace(instance, answer_key=key)


def brief(instance: Instance) -> Instance:
    """Return what a log keeps of an instance that can be had elsewhere: its id, and a control's mark."""
    mark = {k: v for k, v in instance.answer_key.items() if k in (_KIND, _DUE)}
    return Instance(id=instance.id, answer_key=mark)


@dataclass(frozen=True)
class Controlled:
    """A control as one judge decided on it."""

    case: str
    kind: str
    due: str
    given: tuple[bool | None, ...]
    """Empty: no valid verdict at all."""


def controlled(instance: Instance, given: Sequence[bool | None]) -> Controlled:
    """Return what a judge decided on a control; of another number of verdicts than are due, nothing."""
    kind, due = instance.answer_key[_KIND], instance.answer_key.get(_DUE, "")
    return Controlled(instance.id, kind, due, tuple(given) if len(given) == len(due) else ())


def together(judged: Sequence[Controlled], quorum: int) -> Controlled:
    """Return what several judges decide on one control: for each verdict what more than half say."""
    first = judged[0]
    given = []
    for n in range(len(first.due)):
        said = [own.given[n] for own in judged if own.given and own.given[n] is not None]
        given.append(2 * sum(map(bool, said)) > len(said) if len(said) >= quorum else None)
    return Controlled(first.case, first.kind, first.due, tuple(given))


def count_controls(grader: str, judge: str, judged: Iterable[Controlled]) -> Iterator[ControlCount]:
    """Yield how many due verdicts are wrong, of those that should be no and of those that should be yes."""
    found = [*judged]
    for what, sign in ((FALSE_POSITIVE, "-"), (FALSE_NEGATIVE, "+")):
        given = [
            (own.kind, own.case, verdict)
            for own in found
            for verdict, due in zip(own.given or (None,) * len(own.due), own.due, strict=True)
            if due == sign
        ]
        if not given:
            continue
        kinds = {
            kind: [g for g in given if g[0] == kind] for kind in sorted({k for k, *_ in given})
        }
        sums = _sums(given, sign)
        squares = (sums.pop("ww"), sums.pop("wv"), sums.pop("vv"))
        kept = {kind: _sums(own, sign) for kind, own in kinds.items()}
        yield ControlCount(
            grader=grader, judge=judge, what=what, **sums, squares=squares, kinds=kept
        )


def _sums(given: Sequence[tuple[str, str, bool | None]], due: str) -> dict[str, int]:
    """Return the sums over cases, of their squares and products, and how many have a valid verdict."""
    wrong = Counter(case for _, case, verdict in given if verdict is (due == "-"))
    valid = Counter(case for _, case, verdict in given if verdict is not None)
    return {
        "wrong": wrong.total(),
        "verdicts": valid.total(),
        "invalid": len(given) - valid.total(),
        "cases": len(valid),
        "ww": sum(n * n for n in wrong.values()),
        "wv": sum(n * valid[case] for case, n in wrong.items()),
        "vv": sum(n * n for n in valid.values()),
    }
