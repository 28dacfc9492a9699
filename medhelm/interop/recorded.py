"""Answers as other harnesses record them, and the question of a benchmark that each is the answer to.

A question is found by its text, equal but for white space and Unicode composition, never by likeness. What
cannot be told for sure is no match, and has a reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any, NamedTuple

import msgspec

from medhelm.schema.data import Instance
from medhelm.schema.episode import Message, Response, Sampling
from medhelm.store.imported import TheirScore

_OPTION = re.compile(r"\s*\(?([A-Z]|[1-9]\d?)[).:]\s+(\S.*)")
_DIGITS = tuple(map(str, range(1, 27)))
_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "model": "assistant"}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One answer in the files of another harness."""

    key: str
    """The harness's name of the question; repeats of it share the name."""
    texts: tuple[str, ...]
    """All texts that the harness holds of the question: in its parts, and whole."""
    messages: tuple[Message, ...] | None
    """None: it has roles that no run here has."""
    response: Response
    continuations: tuple[str, ...] = ()
    """Texts whose log-probabilities the response holds, in the same order; empty: it is a text."""
    target: str = ""
    """The gold, as the harness has it."""
    scores: tuple[TheirScore, ...] = ()
    fault: str = ""
    """The reason why it cannot be told here (its question was perturbed)."""


@dataclass(frozen=True, kw_only=True)
class Log:
    """The answers of one model to one task, in the files of another harness."""

    tool: str
    version: str = ""
    path: str
    task: str
    model: str
    sampling: Sampling
    max_output_tokens: int | None
    answers: Sequence[Recorded]


class Matched(NamedTuple):
    """An answer with the question of the benchmark, as the harness showed it."""

    instance: Instance
    answer: Recorded
    are_texts: bool = False
    """True if log-probabilities are of the options' texts and not of their labels."""


class Matches(NamedTuple):
    """The answers of a log that are to questions of a benchmark, and the reasons for which the others are not."""

    found: list[Matched]
    unmatched: dict[str, str]
    """Reason by key of the question, and of the repeat behind the first."""


class Questions:
    """The questions of a benchmark by their texts."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._by_text: dict[str, list[tuple[Instance, str]]] = defaultdict(list)
        self.count = 0
        for instance in instances:
            self.count += 1
            for text, rest in _texts_of(instance):
                self._by_text[normal(text)].append((instance, normal(rest)))

    def holds(self, answer: Recorded) -> bool:
        """Return whether a question has the text of the one that was answered, whatever its options."""
        return any(normal(text) in self._by_text for text in answer.texts)

    def match(self, answers: Iterable[Recorded]) -> Matches:
        """Return the answers with their questions. Of one question each repeat is taken once."""
        made, of_key, taken = Matches([], {}), dict[str, Instance](), set[tuple[str, int]]()
        for answer in answers:
            repeat = answer.response.repeat
            name = f"{answer.key}, repeat {repeat}" if repeat else answer.key
            fit, why = self._fitting(answer)
            own = of_key.get(answer.key)
            free = [m for m in fit if (m.instance.id, repeat) not in taken]
            free = [m for m in free if own is None or m.instance.id == own.id]
            if len({_without_id(m.instance) for m in fit}) > 1:
                why = "several questions of the benchmark have its text"
            elif fit and not free:
                why = "the question is answered already"
            if why:
                made.unmatched[name] = why
                continue
            of_key[answer.key] = free[0].instance
            taken.add((free[0].instance.id, repeat))
            made.found.append(free[0])
        return made

    def _fitting(self, answer: Recorded) -> tuple[list[Matched], str]:
        """Return the questions that this can be the answer to, or why there is none."""
        if answer.fault or answer.messages is None:
            return [], answer.fault or "its messages have roles that no run here has, such as tools"
        texts = {normal(text) for text in answer.texts}
        found = {
            instance.id: instance
            for text in texts
            for instance, rest in self._by_text.get(text, ())
            if not rest or rest in texts
        }
        if not found:
            if self.holds(answer):
                return [], "its context is not the benchmark's"
            return [], "no question of the benchmark has its text"
        tried = [_as_shown_there(instance, answer) for instance in found.values()]
        fit = [own for own in tried if isinstance(own, Matched)]
        return fit, "" if fit else next(own for own in tried if isinstance(own, str))


def normal(text: str) -> str:
    """Return a text without what files change in copies: composed characters, one space between words."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _texts_of(instance: Instance) -> Iterator[tuple[str, str]]:
    """Yield the texts by which a question is known, each with what else has to be there."""
    parts = [part for part in (instance.context, instance.question) if part.strip()]
    if instance.turns:
        parts = [" ".join(turn.content for turn in instance.turns)]
    yield " ".join(parts), ""
    if len(parts) == 2:
        yield " ".join(reversed(parts)), ""
        yield parts[1], parts[0]


def _without_id(instance: Instance) -> bytes:
    """Return what of a question decides its score."""
    whole = msgspec.structs.replace(instance, id="", cluster=None, metadata={})
    return msgspec.json.encode(whole)


def _as_shown_there(instance: Instance, answer: Recorded) -> Matched | str:
    """Return a question with its options in the order and under the labels that a harness showed, or why not.

    A letter of the reply is one of these. All options must be shown and no other.
    """
    if not instance.choices:
        why = "it compares options, the benchmark's question has none"
        return why if answer.continuations else Matched(instance, answer)
    own = [normal(choice) for choice in instance.choices]
    said = [normal(text) for text in answer.continuations]
    if said and sorted(said) == sorted(own) and len({*own}) == len(own):
        return _rated(instance, answer, [said.index(text) for text in own], are_texts=True)
    shown = shown_options(answer.messages[-1].content if answer.messages else "")
    texts = [normal(text) for _, text in shown]
    if not shown:
        return "its prompt does not show the options a line each, behind a label"
    if sorted(texts) != sorted(own):
        return "its options are not the benchmark's"
    if texts != own:
        if len({*own}) < len(own) or instance.answer_key or instance.payload:
            return "its options stand in another order, and cannot be told apart"
        order = [own.index(text) for text in texts]
        golds = (ascii_uppercase[order.index(ord(r) - 65)] for r in instance.references)
        choices = tuple(instance.choices[place] for place in order)
        instance = msgspec.structs.replace(instance, choices=choices, references=tuple(golds))
    labels = tuple(label for label, _ in shown)
    if labels != tuple(ascii_uppercase[: len(labels)]):
        instance = msgspec.structs.replace(instance, option_labels=labels)
    if not said:
        return Matched(instance, answer)
    if sorted(said) != sorted(labels):
        return "the texts that it compares are neither the options nor their labels"
    return _rated(instance, answer, [said.index(label) for label in labels])


def _rated(
    instance: Instance, answer: Recorded, order: Sequence[int], *, are_texts: bool = False
) -> Matched:
    """Return an answer with its log-probabilities in the order of the question's options."""
    rated = tuple(answer.response.likelihoods[place] for place in order)
    response = msgspec.structs.replace(answer.response, likelihoods=rated)
    return Matched(instance, replace(answer, response=response), are_texts)


def shown_options(prompt: str) -> list[tuple[str, str]]:
    """Return the labels and texts of the last list of options in a prompt, each on a line of its own."""
    last: list[tuple[str, str]] = []
    run: list[tuple[str, str]] = []
    for line in prompt.splitlines():
        found = _OPTION.fullmatch(line.rstrip())
        if found is None:
            run = run if not line.strip() else []
            continue
        label, text = found.groups()
        of_kind = _DIGITS if label.isdigit() else ascii_uppercase
        is_next = bool(run) and label == of_kind[len(run)] and run[0][0] == of_kind[0]
        run = [*run, (label, text)] if is_next else [(label, text)] * (label == of_kind[0])
        last = run if len(run) > 1 else last
    return last


def leaves(value: Any) -> Iterator[str]:
    """Yield every text and number in a value of JSON, the texts of a list joined, too."""
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list):
        if len(value) > 1 and all(isinstance(part, str) for part in value):
            yield " ".join(value)
        for part in value:
            yield from leaves(part)
    elif isinstance(value, str | int | float):
        yield str(value)


def as_number(value: Any) -> float | None:
    """Return a score as a number; None where it is none."""
    is_number = isinstance(value, bool | int | float)
    return float(value) if is_number and value == value else None


def sampling_of(decoding: Any, stop: str) -> Sampling:
    """Return how replies were drawn; `stop` is the tool's name of its stop sequences."""
    names, stops = ("temperature", "top_p", "reasoning_effort"), decoding.get(stop) or ()
    stops = (stops,) if isinstance(stops, str) else tuple(stops)
    return Sampling(**{name: decoding.get(name) for name in names}, stop=stops)


def messages_of(turns: Iterable[tuple[str, str]]) -> tuple[Message, ...] | None:
    """Return a conversation; None where one of its roles is neither system, user nor assistant."""
    found = [{"role": _ROLES.get(role), "content": text} for role, text in turns]
    known = all(turn["role"] for turn in found)
    return msgspec.convert(found, tuple[Message, ...]) if known else None


def skeleton(matches: Collection[Matched]) -> list[str]:
    """Return the prompts without their questions, each form of them once: what another asking is known by."""
    found = set()
    for own in matches:
        text = "\n".join(f"{m.role}: {m.content}" for m in own.answer.messages or ())
        for part in filter(str.strip, (own.instance.context, own.instance.question)):
            text = text.replace(part, "{}")
        if own.instance.choices:  # the words between the question and the last option are left out
            head, _, rest = text.partition("{}")
            text = f"{head}{{}}{rest.rpartition(own.instance.choices[-1])[2]}"
        found.add(text)
    return sorted(found)
