"""Embedded models without a language model: floors, simple rules and a ceiling.

docs/models.md has the table of what each writes, by kind of answer. "Like" counts shared words, and the
earliest of equals wins. `majority`, `words` and `oracle` read the gold of the test set: they are shown, never ranked.
Draws depend on the seed and the instance's id only, never on the order of instances.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from medhelm.errors import UnknownName
from medhelm.schema.data import AnswerKind, Benchmark, Instance
from medhelm.schema.episode import Request
from medhelm.schema.model import InstanceModel, ModelSpec
from medhelm.similarity.word_model import Labelled, WordModel

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RANDOM_NUMBERS = tuple(map(str, range(21)))
_LEAD_SENTENCES = 3
_LONGEST_COUNTED = 200
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]*)*[.!?]*")

READ_GOLD = frozenset({"majority", "oracle", "words"})
"""Baselines that read the gold of the test set: shown, never ranked."""

Rule = Callable[[Benchmark, Instance, random.Random], str]
ItemRule = Callable[[Instance, Sequence[str], random.Random], Sequence[bool]]
"""Tells which of the texts of an instance's items are right."""


class RuleModel:
    """A baseline that answers each instance by a rule, without looking at the others."""

    def __init__(self, spec: ModelSpec, rule: Rule, of_items: ItemRule | None = None) -> None:
        self.spec = spec
        self._rule = rule
        self._of_items = of_items

    def prepare(self, benchmark: Benchmark, instances: Iterator[Instance]) -> None:
        """Do nothing: the rule needs no other instance."""

    def answer(
        self, benchmark: Benchmark, instance: Instance, seed: int, request: Request | None = None
    ) -> str:
        """Return the completion for one instance."""
        digest = hashlib.sha256(f"{seed}\0{instance.id}".encode("utf-8", "replace")).digest()
        rng = random.Random(int.from_bytes(digest[:8], "big"))
        if benchmark.items is not None and self._of_items is not None:
            items = benchmark.items
            return items.write(instance, self._of_items(instance, items.texts(instance), rng))
        return self._rule(benchmark, instance, rng)


class MajorityModel:
    """The answer that is right most often; reads the gold of the test set."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._golds: Counter[str] = Counter()
        self._top = ""
        self._common = ""
        self._right: Counter[bool] = Counter()

    def prepare(self, benchmark: Benchmark, instances: Iterator[Instance]) -> None:
        """Count the golds of all instances."""
        golds: Counter[str] = Counter()
        further: Counter[str] = Counter()
        count = 0
        for count, instance in enumerate(instances, start=1):  # noqa: B007 - used below
            if benchmark.items is not None:
                self._right.update(benchmark.items.golds(instance))
            golds.update(gold for gold in instance.references[:1] if len(gold) <= _LONGEST_COUNTED)
            further.update(set(instance.references[1:]) - set(instance.references[:1]))
        labels = golds + further
        self._golds = golds
        self._top = min(golds, key=lambda gold: (-golds[gold], gold), default="")
        self._common = ", ".join(sorted(g for g, n in labels.items() if 2 * n > count))

    def answer(
        self, benchmark: Benchmark, instance: Instance, seed: int, request: Request | None = None
    ) -> str:
        """Return the most frequent gold that the instance can have; equals: the smallest."""
        if instance.choices:
            letters = LETTERS[: len(instance.choices)]
            return max(letters, key=lambda letter: self._golds[letter])
        if (items := benchmark.items) is not None:
            is_mostly_right = self._right[True] > self._right[False]
            return items.write(instance, [is_mostly_right] * len(items.texts(instance)))
        if benchmark.answer == "labels" and self._common:
            return self._common
        return self._top


class WordsModel(MajorityModel):
    """Answers each instance by a model of words of all other instances.

    It sees the texts of options or items only, neither context nor question, and reads the golds of
    the test set but the instance's own and those of its cluster. What has neither options nor
    items is answered as `majority` does.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self._model = WordModel()
        self._known: set[str] = set()
        self._clusters: dict[str, list[Labelled]] = {}

    def prepare(self, benchmark: Benchmark, instances: Iterator[Instance]) -> None:
        """Learn the words of right and wrong options and items of all instances."""
        self._model, self._known, self._clusters = WordModel(), set(), {}
        super().prepare(benchmark, (self._learn(benchmark, one) for one in instances))

    def _learn(self, benchmark: Benchmark, instance: Instance) -> Instance:
        labelled = _labelled(benchmark, instance)
        self._model.learn(labelled)
        self._known.add(instance.id)
        if instance.cluster is not None:
            self._clusters.setdefault(instance.cluster, []).extend(labelled)
        return instance

    def answer(
        self, benchmark: Benchmark, instance: Instance, seed: int, request: Request | None = None
    ) -> str:
        """Return the option, or the labels, that the words of the other instances speak for."""
        items = benchmark.items
        texts = instance.choices or (tuple(items.texts(instance)) if items is not None else ())
        if not texts:
            return super().answer(benchmark, instance, seed)
        own = _labelled(benchmark, instance) if instance.id in self._known else []
        if instance.cluster is not None:
            own = self._clusters.get(instance.cluster, [])
        odds = self._model.log_odds(texts, own)
        if items is not None and not instance.choices:
            return items.write(instance, [x > 0 for x in odds])
        return LETTERS[odds.index(max(odds))]


def _labelled(benchmark: Benchmark, instance: Instance) -> list[Labelled]:
    """Return the options or items of an instance, and which are right."""
    if (items := benchmark.items) is not None:
        return list(zip(items.texts(instance), items.golds(instance), strict=True))
    right = set(instance.references)
    return [(t, letter in right) for letter, t in zip(LETTERS, instance.choices, strict=False)]


def baseline_kind(spec: ModelSpec) -> str:
    """Return which baseline a spec means: `spec.model`, else the end of `spec.name`."""
    return spec.model or spec.name.rpartition("/")[2]


def reads_gold(spec: ModelSpec) -> bool:
    """Return whether a baseline reads the gold of the test set, whatever its name is in tables."""
    return baseline_kind(spec) in READ_GOLD


def open_baseline(spec: ModelSpec) -> InstanceModel:
    """Return the embedded model that a spec means; raises UnknownName."""
    name = baseline_kind(spec)
    if name in _LEARNERS:
        return _LEARNERS[name](spec)
    if name not in _RULES:
        raise UnknownName("baseline", name, BASELINES)
    return RuleModel(spec, _RULES[name], _ITEM_RULES.get(name))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, split at line breaks and at . ! ? before a space."""
    return [s for s in (m.group().strip() for m in _SENTENCE.finditer(text)) if s]


def _kind(benchmark: Benchmark, instance: Instance) -> AnswerKind:
    return "choice" if instance.choices else benchmark.answer


def _text(instance: Instance) -> str:
    """Return all that an instance gives: a conversation has nothing but its turns."""
    return "\n".join((instance.context, instance.question, *(t.content for t in instance.turns)))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _share(label: str, words: set[str]) -> float:
    own = _words(label)
    return len(own & words) / len(own) if own else 0.0


def _first_number(texts: Iterable[str]) -> str:
    found = (_NUMBER.search(text) for text in texts)
    return next((match.group().replace(",", "") for match in found if match), "0")


def _by_likeness(instance: Instance) -> list[str]:
    question = _words(instance.question)
    return sorted(
        sentences(instance.context or instance.question or _text(instance)),
        key=lambda sentence: -len(_words(sentence) & question),
    )


def _random(benchmark: Benchmark, instance: Instance, rng: random.Random) -> str:
    match _kind(benchmark, instance):
        case "choice":
            return rng.choice(LETTERS[: len(instance.choices)]) if instance.choices else ""
        case "number":
            return rng.choice(benchmark.labels or _RANDOM_NUMBERS)
        case "labels":
            return rng.choice(benchmark.labels) if benchmark.labels else ""
        case _:
            found = sentences(_text(instance))
            return rng.choice(found) if found else ""


def _first_option(benchmark: Benchmark, instance: Instance, rng: random.Random) -> str:
    if (kind := _kind(benchmark, instance)) == "choice":
        return LETTERS[0]
    if benchmark.labels:
        return benchmark.labels[0]
    return {"number": "0", "labels": ""}.get(kind, "None.")


def _lexical(benchmark: Benchmark, instance: Instance, rng: random.Random) -> str:
    kind = _kind(benchmark, instance)
    if kind == "number":
        return _first_number(_by_likeness(instance))
    if kind == "text":
        return next(iter(_by_likeness(instance)), "")
    words = _words(_text(instance))
    if kind == "choice":
        shares = [_share(choice, words) for choice in instance.choices]
        return LETTERS[shares.index(max(shares))] if shares else ""
    whole = [label for label in benchmark.labels if _share(label, words) == 1.0]
    if whole:
        return ", ".join(whole)
    return max(benchmark.labels, key=lambda label: _share(label, words), default="")


def _lead(benchmark: Benchmark, instance: Instance, rng: random.Random) -> str:
    text = _text(instance)
    match _kind(benchmark, instance):
        case "choice":
            return LETTERS[_first_mentioned(instance.choices, text)]
        case "number":
            return _first_number([text])
        case "labels":
            if not benchmark.labels:
                return ""
            return benchmark.labels[_first_mentioned(benchmark.labels, text)]
        case _:
            return " ".join(sentences(text)[:_LEAD_SENTENCES])


def _first_mentioned(names: Sequence[str], text: str) -> int:
    """Return the index of the name that comes first in the text; 0 where none does."""
    lower = text.lower()
    places = [(lower.find(name.lower()), index) for index, name in enumerate(names) if name]
    return min(((place, index) for place, index in places if place >= 0), default=(0, 0))[1]


def _like_context(instance: Instance, texts: Sequence[str], rng: random.Random) -> list[bool]:
    context = _words(instance.context)
    return [_share(text, context) >= 0.5 for text in texts]


def _oracle(benchmark: Benchmark, instance: Instance, rng: random.Random) -> str:
    if _kind(benchmark, instance) == "labels":
        return ", ".join(instance.references)
    return instance.references[0] if instance.references else ""


_RULES: dict[str, Rule] = {
    "random": _random,
    "first_option": _first_option,
    "lexical": _lexical,
    "lead": _lead,
    "empty": lambda benchmark, instance, rng: "",
    "oracle": _oracle,
}
_ITEM_RULES: dict[str, ItemRule] = {
    "random": lambda instance, texts, rng: [rng.random() < 0.5 for _ in texts],
    "first_option": lambda instance, texts, rng: [True] * len(texts),
    "lexical": _like_context,
    "lead": lambda instance, texts, rng: [i < len(texts) // 2 for i in range(len(texts))],
}
"""Rules for a benchmark whose instances ask of several items which are right."""
_LEARNERS: dict[str, Callable[[ModelSpec], InstanceModel]] = {
    "majority": MajorityModel,
    "words": WordsModel,
}
BASELINES = (*_RULES, *_LEARNERS)
