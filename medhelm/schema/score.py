"""Scores of responses, and the metrics that give them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from medhelm.schema.aggregation import MEAN, Aggregation
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode

Outcome = Literal[
    "scored",
    "unparsed",
    "empty",
    "refused",
    "truncated",
    "oversize",
    "error",
    "unscored",
    "uninformative",
]
"""The outcome of one instance.

scored: an answer was read and scored. unparsed: text came, no answer could be read.
empty: no text came. refused: the endpoint said so. truncated: nothing could be read
because the output budget ended. oversize: the prompt exceeds the model's window.
error: infrastructure. unscored: the answer is there, but no score can be given (a jury
below its quorum). uninformative: the gold of this instance cannot separate right from wrong,
whatever the model answers. It does not count against coverage.
"""

Unread = Literal["unparsed", "empty", "refused", "truncated"]
"""Outcomes of replies without an answer. They are final, until the user wants them asked again."""

FLOORED: frozenset[Outcome] = frozenset(get_args(Unread))
"""Outcomes that count with the metric's floor. The others but `scored` are in no mean."""

IntervalKind = Literal["auto", "exact", "bounded"]
"""Method of a score's interval (`Metric.interval`)."""

Scoring = Literal["fixed", "helm"]
"""fixed: the metric as it should be. helm: the published scorer, faults included."""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One metric's score of one response."""

    value: float | None
    """Finite, in the metric's range; None where there is no score."""
    outcome: Outcome = "scored"
    extracted: str = ""
    """The answer that was read out of the completion."""
    reason: str = ""
    """Reason for this value, or for its absence."""
    sums: Mapping[str, float] = {}
    """For a metric that is not a mean: by name, the summands that its `aggregation` names."""


LOWEST, HIGHEST = "_lowest", "_highest"
"""Ends of the names of metrics that bound another one, whichever way what is undecided in it would go."""


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """Scores one response purely: the same instance and text, the same score."""

    name: str
    """The name in the literature (`exact_match`); key of the registry with `scoring`."""
    version: str = "1"
    """Raised whenever a number can change."""
    scoring: Scoring = "fixed"
    is_as_published: bool = False
    """True if the published scorer follows the same rule and needs no class of its own."""
    minimum: float = 0.0
    maximum: float = 1.0
    floor: float | None = 0.0
    """Value of an unparsed, empty, refused or cut response. None: it is in no mean, and a
    model is ranked only where nearly all of its responses were read."""
    higher_is_better: bool = True
    aggregation: Aggregation = MEAN
    """Rule that turns the sums of `Score.sums` into the run's value."""
    source: str = ""
    """The paper or the code that defines it."""
    interval: IntervalKind = "auto"
    """exact: a rate of independent instances, which gets Clopper-Pearson's interval. bounded: a
    score that one bad instance not seen yet could change much, which gets Gaffke's."""
    is_slow: bool = False
    """True if one score takes milliseconds. Such metrics are computed on all cores."""
    answer_schema: Mapping[str, Any] | None = None
    """JSON Schema of an answer that has parts of its own, each with a description, for those who are asked for
    JSON; None: a letter, a value with its unit, labels or a text, by the benchmark's kind of answer."""

    @abstractmethod
    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the score of a non-empty completion; value None and `unparsed` if unreadable."""

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return what an instance counts whose answer could not be read."""
        return Score(value=self.floor, outcome=outcome, reason=reason)

    def write_answer(self, parts: Any) -> str:
        """Return the text that `score` reads of an answer by `answer_schema`."""
        return str(parts)

    def answer_parts(self, answer: str) -> Any:
        """Return a gold as a value of `answer_schema`."""
        return answer

    def prepare(self, folder: Path) -> Metric:
        """Return the metric as it grades a benchmark whose data files lie in `folder`.

        Called once before grading, with `<data dir>/<benchmark>` or the folder of the samples.
        A metric that needs a file besides the instance (a database) keeps the folder and opens
        the file in `score`. The others return themselves.
        """
        return self
