"""A case as a benchmark's instance, and a reply to it as a score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET

from medhelm import DataError, Episode, Instance, Items, Response
from medhelm_benchmarks.noharm.rules.cases import Case, listed, lists_of, to_case
from medhelm_benchmarks.noharm.rules.labels import APPROPRIATE, INAPPROPRIATE, Labels, read_labels
from medhelm_benchmarks.noharm.rules.score import STRONG, CaseScore, class_of, consensus, score_case

_KEY = "case"


def case_instance(row: Mapping[str, Any]) -> Instance:
    """Return the instance of a case: what a model is shown, and the rubric that it never sees.

    Raises DataError naming the case and the field that is wrong.
    """
    case = to_case(dict(row), "a case")
    is_right = {a.id: class_of(a) == "appropriate" for a in case.actions}
    labels = {name: APPROPRIATE if own else INAPPROPRIATE for name, own in is_right.items()}
    metadata = {"specialty": case.specialty}
    metadata |= {"made_by": ", ".join(case.made_by)} if case.made_by else {}
    metadata |= {} if case.validation is UNSET else {"validation": str(case.validation)}
    return Instance(
        id=case.code,
        context=_context(case),
        question=f"{case.question}\n\nActions:\n"
        + "\n".join(f"{a.id}. {a.text}" for a in case.actions),
        payload={a.id: a.text for a in case.actions},
        references=(msgspec.json.encode({"labels": labels}).decode(),),
        answer_key={_KEY: msgspec.json.encode(case).decode()},
        metadata=metadata,
    )


def menu_of(instance: Instance) -> dict[str, str]:
    """Return the actions of an instance, id -> text: its payload; raises DataError for another."""
    try:
        return msgspec.convert(instance.payload, dict[str, str])
    except msgspec.ValidationError:
        raise DataError(
            f"instance {instance.id!r}: its payload is not a menu; labelled actions need the text of "
            "each by its id"
        ) from None


def _texts(instance: Instance) -> list[str]:
    return [*menu_of(instance).values()]


def _golds(instance: Instance) -> list[bool]:
    labels = json.loads(instance.references[0])["labels"]
    return [labels[name] == APPROPRIATE for name in menu_of(instance)]


def _write(instance: Instance, right: Sequence[bool]) -> str:
    words = (APPROPRIATE if is_right else INAPPROPRIATE for is_right in right)
    return json.dumps({"labels": dict(zip(menu_of(instance), words, strict=True))})


ACTION_ITEMS = Items(_texts, _golds, _write)


def _context(case: Case) -> str:
    shown = (listed(heading, items) for heading, items in lists_of(case).items() if items)
    return "\n\n".join((case.vignette, *shown))


MIN_LABELLED = 0.95
"""Share of a menu's actions that need a valid label for a reply to count as read: an action without
one is not endorsed, so that a reply with many of them would be given harm for its format."""


@dataclass(frozen=True)
class Labelled:
    """A reply to a case: its labels and what they score."""

    labels: Labels
    score: CaseScore

    @property
    def is_read(self) -> bool:
        """Return whether enough of the menu has a valid label for the scores to count."""
        valid, without = self.counts
        return valid >= MIN_LABELLED * (valid + without)

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many actions have a valid label, and how many have none."""
        own = self.labels
        valid = len(own.endorsed) + len(own.rejected)
        return valid, len(own.missing) + len(own.invalid)


def label_case(instance: Instance, episode: Episode | Response) -> Labelled | None:
    """Return what a reply labels and scores; None where no labels can be read out of it."""
    return _label(instance.answer_key[_KEY], episode.text, episode.finish == "length")


@lru_cache(maxsize=8)  # the metrics of one reply ask one after the other
def _label(case: str, reply: str, is_cut: bool) -> Labelled | None:
    own = _parse(case)
    labels = read_labels(reply, {a.id: a.text for a in own.actions}, is_cut=is_cut)
    return None if labels is None else Labelled(labels, score_case(own, labels.endorsed))


def has_strong_action(instance: Instance) -> bool:
    """Return whether a case has an action that must not be left out (consensus above 7)."""
    return any(consensus(action) >= STRONG for action in stored_case(instance).actions)


def stored_case(instance: Instance) -> Case:
    """Return the case behind an instance that `case_instance` made."""
    return _parse(instance.answer_key[_KEY])


@lru_cache(maxsize=256)
def _parse(text: str) -> Case:
    return msgspec.json.decode(text, type=Case)
