"""Three graders by rule that replace judges where there is no key: no model, no network.

They see surface only (shared words, order, length). They show that the jury works and rank
nothing: wherever their scores appear they are called a stand-in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from medhelm.data.rubrics import criteria_of
from medhelm.extract import visible_text
from medhelm.grading.graders.grader import GraderVerdict
from medhelm.schema.data import Instance, Rubric
from medhelm.schema.episode import Episode
from medhelm.similarity.rouge import rouge_scores

OFFLINE_VERSION = "2"
"""Raised whenever a grade can change."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"[.!?]+(?:\s|$)|\n+")
_PLAIN_LENGTH = 120
"""Words of an answer that is as long as it should be, where no reference says."""
_EASY, _HARD = 20, 60
"""Words in a sentence that are still easy, and those from which on a sentence is unreadable."""


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _source(instance: Instance) -> str:
    return next((r for r in instance.references if r.strip()), "") or (
        f"{instance.context}\n{instance.question}"
    )


def overlap(instance: Instance, answer: str) -> float:
    """Return the F-measure of the sets of words of answer and reference (else case), 0 to 1."""
    own, other = set(_words(answer)), set(_words(_source(instance)))
    shared = len(own & other)
    return 2 * shared / (len(own) + len(other)) if own or other else 0.0


def longest_order(instance: Instance, answer: str) -> float:
    """Return ROUGE-L against the reference (else the case), 0 to 1."""
    return rouge_scores(_source(instance), answer)["rougeL"]


def readability(instance: Instance, answer: str) -> float:
    """Return how near the length is to the reference's, times how short the sentences are, 0 to 1."""
    words = len(_words(answer))
    if not words:
        return 0.0
    has_gold = any(r.strip() for r in instance.references)
    wanted = max(1, len(_words(_source(instance))) if has_gold else _PLAIN_LENGTH)
    fit = min(words, wanted) / max(words, wanted)
    sentences = max(1, sum(bool(_words(s)) for s in _SENTENCE.split(answer)))
    over = (words / sentences - _EASY) / (_HARD - _EASY)
    return math.sqrt(fit) * (1.0 - min(1.0, max(0.0, over)))


GRADERS: Mapping[str, Callable[[Instance, str], float]] = {
    "offline/overlap": overlap,
    "offline/rouge_l": longest_order,
    "offline/readability": readability,
}


class OfflinePanel:
    """The three graders. Each gives every criterion the same integer of the rubric's scale."""

    judges = tuple(GRADERS)

    def __init__(self, rubric: Rubric) -> None:
        self._rubric = rubric
        self._last: tuple[Instance, str, tuple[GraderVerdict, ...]] | None = None

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        """Return one verdict of each grader."""
        # several metrics ask for the same answer, one after the other
        if self._last and self._last[0] is instance and self._last[1] == episode.text:
            return self._last[2]
        found = self._grade(instance, visible_text(episode.text))
        self._last = (instance, episode.text, found)
        return found

    def _grade(self, instance: Instance, answer: str) -> tuple[GraderVerdict, ...]:
        low, high = self._rubric.minimum, self._rubric.maximum
        count = len(criteria_of(self._rubric, instance))
        return tuple(
            GraderVerdict(
                judge=name,
                state={
                    "scores": [low + math.floor(share(instance, answer) * (high - low) + 0.5)]
                    * count
                },
            )
            for name, share in GRADERS.items()
        )
