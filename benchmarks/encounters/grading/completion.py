"""Completion of a frozen rubric: one set of verdicts, and every reading of the paper by its own name.

| metric | reading | in the paper |
|---|---|---|
| `encounter_completion` | mean over cases of each case's share of items | equation 2, the figures |
| `encounter_pooled` | items met / items, over all cases | the headline |
| `encounter_competency_mean` | mean over competencies of the pooled share | "macro" of table 1 |
| `encounter_competency_case_mean` | mean over competencies of the mean over cases | equation 3 |

Items without a verdict count as not met. `encounter_completion_highest` is the first reading if all were met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from medhelm import Aggregation, Episode, Floats, Instance, Outcome, Score, Sums, pooled_share
from medhelm.plugin import ShareExtremes, grader
from medhelm_benchmarks.encounters.columns import DESCRIPTIVE, describe, share
from medhelm_benchmarks.encounters.grading.evaluator import (
    EVALUATIONS,
    NO_EVIDENCE,
    Verdict,
    Verdicts,
    items_of,
    majority,
)
from medhelm_benchmarks.encounters.packets import COMPETENCIES, RubricItem
from medhelm_benchmarks.encounters.record import UNREADABLE, encounter_of

if TYPE_CHECKING:
    import numpy as np  # noqa: F401 - the type of Floats

LEAST_VALID = 0.90
"""Below this share of items with a valid verdict an encounter is not scored."""
BY_COMPETENCY = tuple(
    f"{name}/{c}" for c in COMPETENCIES for name in ("met", "items", "rate", "cases")
)
"""Sums of each competency: items met and all, and its rate over the cases that have items of it."""
HIGHEST = "rate_highest"
"""A case's share of items if those without a verdict were met."""
TOTALS = ("rate", "cases", "met", "items", "invalid", "no_evidence", "extra", HIGHEST)
"""A reading begins with its part and its whole, which the table of lengths takes."""


@dataclass(frozen=True)
class MeanOfCompetencies:
    """Returns the mean over the competencies that there are of part / whole."""

    part: str
    whole: str

    def __call__(self, sums: Sums) -> Floats:
        """Return the mean."""
        import numpy as np

        from medhelm import mean_of_defined, ratio  # numpy is slow to import

        parts = [sums[f"{self.part}/{c}"] for c in COMPETENCIES]
        wholes = [sums[f"{self.whole}/{c}"] for c in COMPETENCIES]
        return mean_of_defined(ratio(np.stack(parts, -1), np.stack(wholes, -1)))


@dataclass(frozen=True)
class _RateExtremes:
    """Returns the extremes of a mean of rates; the sums beside it, which it does not use, are 0."""

    def __call__(self, seen: Sums, minimum: float, maximum: float) -> tuple[Sums, Sums]:
        """Return the sums of a cluster as large as the largest seen, at its lowest and highest."""
        low, high = ShareExtremes((("rate", "cases"),))(seen, minimum, maximum)
        others = {name: 0.0 * column.max(0) for name, column in seen.items()}
        return {**others, **low}, {**others, **high}


CASE_MEAN = Aggregation(
    name="encounter_case_mean",
    sums=(*TOTALS, *BY_COMPETENCY, *DESCRIPTIVE),
    of=share("rate", "cases"),
    extremes=_RateExtremes(),
)
POOLED = pooled_share("encounter_pooled", "met", "items")


def _by_competency(name: str, part: str, whole: str) -> Aggregation:
    pairs = tuple((f"{part}/{c}", f"{whole}/{c}") for c in COMPETENCIES)
    return Aggregation(
        name=name,
        sums=tuple(one for pair in pairs for one in pair),
        of=MeanOfCompetencies(part, whole),
        extremes=ShareExtremes(pairs),
    )


Counted = dict[str, float]


def count(items: tuple[RubricItem, ...], verdicts: tuple[Verdict, ...]) -> Counted:
    """Return what a case adds to all sums. The denominator is the rubric, whatever was judged."""
    sums: Counted = dict.fromkeys((*TOTALS, *BY_COMPETENCY), 0.0)
    due = Counter(item.competency for item in items)
    met = Counter(i.competency for i, v in zip(items, verdicts, strict=True) if v.met)
    invalid = sum(v.met is None for v in verdicts)
    for competency, whole in due.items():
        part = met[competency]
        sums[f"met/{competency}"], sums[f"items/{competency}"] = part, whole
        sums[f"rate/{competency}"], sums[f"cases/{competency}"] = part / whole, 1.0
    sums |= {
        "met": met.total(),
        "items": len(items),
        "rate": met.total() / len(items),
        "cases": 1.0,
        "invalid": invalid,
        HIGHEST: (met.total() + invalid) / len(items),
        "no_evidence": sum(v.fault == NO_EVIDENCE for v in verdicts),
    }
    return {name: float(value) for name, value in sums.items()}


def rate(sums: Counted) -> float | None:
    """Return a case's share of items."""
    return sums["rate"]


def highest_rate(sums: Counted) -> float | None:
    """Return a case's share of items if those without a verdict were met."""
    return sums[HIGHEST]


def rate_of_competencies(sums: Counted) -> float | None:
    """Return the mean of a case's shares by competency; None where there is none."""
    own = [sums[f"rate/{c}"] for c in COMPETENCIES if sums[f"cases/{c}"]]
    return sum(own) / len(own) if own else None


@dataclass(frozen=True, kw_only=True)
class Completion(grader.GradedMetric):
    """A reading of which items of a rubric are met."""

    version: str = "3"
    grader: grader.Grader = EVALUATIONS
    source: str = "Liang et al. 2026, MedSP1000"
    value: Callable[[Counted], float | None]
    """The value of one case by its own sums."""

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the score of a case; `unparsed` for a clinician that could not be read."""
        if episode.ending == UNREADABLE:
            return Score(value=None, outcome="unparsed", reason=UNREADABLE)
        said = self.verdicts(instance, episode)
        given = [msgspec.convert(v.state, Verdicts) for v in said if v.state is not None]
        if len(given) < self.quorum or not given:
            why = "; ".join(f"{v.judge}: {v.reason}" for v in said if v.state is None)
            reason = f"{len(given)} of {self.quorum} needed evaluators ({why or 'none asked'})"
            return Score(value=None, outcome="unscored", reason=reason)
        items = given[0].rubric or items_of(instance)
        verdicts = majority(given, len(items), self.quorum)
        valid = sum(verdict.met is not None for verdict in verdicts)
        if valid < LEAST_VALID * len(items):
            reason = f"a valid verdict on {valid} of {len(items)} items"
            return Score(value=None, outcome="unscored", reason=reason)
        sums = count(items, verdicts) | {"extra": float(sum(v.extra for v in given))}
        sums |= describe(instance.context, encounter_of(episode), episode.ending)
        return self._scored(sums, "scored", _said(sums, episode.ending), ticks(verdicts))

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return what a clinician counts that could not be read: no item is met."""
        items = items_of(instance)
        sums = count(items, (Verdict(met=False),) * len(items))
        sums |= dict.fromkeys(DESCRIPTIVE, 0.0)
        return self._scored(sums, outcome, reason)

    def _scored(self, sums: Counted, outcome: Outcome, reason: str, shown: str = "") -> Score:
        value = self.value(sums)
        if value is None:
            return Score(value=None, outcome="uninformative", reason="nothing to complete")
        own = {name: sums[name] for name in self.aggregation.sums}
        return Score(
            value=value,
            outcome=outcome,
            extracted=f"{sums['met']:g}/{sums['items']:g}{shown}",
            reason=reason,
            sums=own,
        )


def ticks(verdicts: Sequence[Verdict]) -> str:
    """Return which items are met by which turns (`3@1,4`), and which are without a verdict (`5?`)."""
    found = [
        f"{n}@{','.join(map(str, verdict.turns))}" if verdict.met else f"{n}?"
        for n, verdict in enumerate(verdicts, start=1)
        if verdict.met or verdict.met is None
    ]
    return f": {' '.join(found)}" if found else ""


def ticked(extracted: str) -> dict[int, tuple[int, ...] | None]:
    """Return the numbers of items that are met with their turns, and None for those without a verdict."""
    found: dict[int, tuple[int, ...] | None] = {}
    for part in extracted.partition(": ")[2].split():
        number, met, turns = part.partition("@")
        found[int(number.rstrip("?"))] = tuple(map(int, turns.split(","))) if met else None
    return found


def _said(sums: Counted, ending: str) -> str:
    parts = [f"{sums[name]:g} {name.replace('_', ' ')}" for name in ("invalid", "no_evidence")]
    return "; ".join([ending, *(part for part in parts if not part.startswith("0 "))])


METRICS = (
    Completion(name="encounter_completion", aggregation=CASE_MEAN, value=rate),
    Completion(
        name="encounter_completion_highest",
        aggregation=pooled_share("encounter_case_mean_highest", HIGHEST, "cases"),
        value=highest_rate,
    ),
    Completion(name="encounter_pooled", aggregation=POOLED, value=rate),
    Completion(
        name="encounter_competency_mean",
        aggregation=_by_competency("encounter_competency_mean", "met", "items"),
        value=rate_of_competencies,
    ),
    Completion(
        name="encounter_competency_case_mean",
        aggregation=_by_competency("encounter_competency_case_mean", "rate", "cases"),
        value=rate_of_competencies,
    ),
)
