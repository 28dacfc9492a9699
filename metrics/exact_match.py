"""Exact match: the stated option, or the stated text, is a reference."""

from dataclasses import dataclass
from typing import Literal

from medhelm import (
    DataError,
    Episode,
    Instance,
    Metric,
    Score,
    hookimpl,
    read_answer,
    read_choice,
)

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SHOWN = 200
"""Characters of a free-text answer that the score keeps."""


@dataclass(frozen=True, kw_only=True)
class ExactMatch(Metric):
    """1 where the stated answer is a reference, else 0.

    With choices the references are letters and the answer is the option to which the completion
    commits in any usual way. Without, it is what is marked as final, else the whole completion,
    compared without regard to case, spaces and enclosing punctuation. Of a reply that the budget
    cut, only what it had stated before counts.
    """

    name: str = "exact_match"
    version: str = "8"
    source: str = "conventions of multiple choice in HELM; extraction is medhelm's own"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1, or `unparsed` with the reason why no single answer is read."""
        is_cut = episode.finish == "length"
        if instance.choices:
            golds = set(_letters(instance))
            reading = read_choice(
                episode.text, instance.choices, is_cut=is_cut, labels=instance.option_labels
            )
        else:
            golds = {_folded(r) for r in _references(instance)} - {""}
            reading = read_answer(episode.text, is_cut=is_cut)
        if reading.value is None:
            return Score(value=None, outcome="unparsed", reason=reading.reason)
        answer = reading.value if instance.choices else _folded(reading.value)
        return Score(value=float(answer in golds), extracted=reading.value[:_SHOWN])


@dataclass(frozen=True, kw_only=True)
class PublishedExactMatch(ExactMatch):
    """The published rule: the whole completion, stripped, is the bare letter (or the text)."""

    version: str = "1"
    scoring: Literal["fixed", "helm"] = "helm"
    source: str = "HELM, basic_metrics exact_match on multiple choice"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1. A completion that is not a bare letter of an option is `unparsed`."""
        text = episode.text.strip()
        if not instance.choices:
            is_right = text in {r.strip() for r in _references(instance)}
            return Score(value=float(is_right), extracted=text[:_SHOWN])
        gold = {instance.choices[_LETTERS.index(r)].strip() for r in _letters(instance)}
        if text in instance.option_labels:
            text = _LETTERS[instance.option_labels.index(text)]
        elif instance.option_labels:
            return Score(value=None, outcome="unparsed", reason="not a bare label")
        if len(text) != 1 or text not in _LETTERS[: len(instance.choices)]:
            return Score(value=None, outcome="unparsed", reason="not a bare letter")
        chosen = instance.choices[_LETTERS.index(text)].strip()
        return Score(value=float(chosen in gold), extracted=text)


@dataclass(frozen=True, kw_only=True)
class ChanceCorrected(ExactMatch):
    """`exact_match` on the scale from -1 to 1 on which one half is 0: 2x - 1.

    For a benchmark whose parts are balanced, so that the best constant answer is right in half of
    what counts. Such an answer gets 0, and one that is always wrong -1.
    """

    name: str = "chance_corrected_accuracy"
    version: str = "2"
    minimum: float = -1.0
    floor: float | None = -1.0
    source: str = "Youden's index over balanced parts"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return -1 or 1, or `unparsed`."""
        found = super().score(instance, episode)
        if found.value is None:
            return found
        return Score(value=2.0 * found.value - 1.0, extracted=found.extracted)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .,;:!\"'*`()")


def _references(instance: Instance) -> tuple[str, ...]:
    """Return the references that are not empty; raises DataError where there is none."""
    found = tuple(r for r in instance.references if r.strip())
    if not found:
        raise DataError(f"instance {instance.id!r} has no reference; exact_match needs one")
    return found


def _letters(instance: Instance) -> tuple[str, ...]:
    """Return the references, each the letter of an option; raises DataError."""
    allowed = _LETTERS[: len(instance.choices)]
    for reference in _references(instance):
        if len(reference) != 1 or reference not in allowed:
            raise DataError(
                f"instance {instance.id!r} has choices and a reference that is not a letter of "
                f"{', '.join(allowed)}; to_instance must give option letters as references"
            )
    return _references(instance)


@hookimpl
def medhelm_metrics() -> list[Metric]:
    return [ExactMatch(), PublishedExactMatch(), ChanceCorrected()]
