"""Completion of a frozen rubric: one set of verdicts, and every reading of the paper by its own name.

`docs/encounters.md` has the readings with an example ("Readings of the paper"), and what weights and harmful items
do ("Rubrics of an examiner").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from medhelm import Aggregation, Episode, Floats, Instance, Outcome, Score, Sums, pooled_share
from medhelm.plugin import ShareExtremes, grader
from medhelm_benchmarks.encounters.data.rubrics import is_failure
from medhelm_benchmarks.encounters.grading.evaluator import (
    EVALUATIONS,
    NO_EVIDENCE,
    Verdict,
    Verdicts,
    items_of,
    majority,
)
from medhelm_benchmarks.encounters.packets import COMPETENCIES, RubricItem
from medhelm_benchmarks.encounters.record import DESCRIPTIVE, UNREADABLE, describe, encounter_of

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
FAILURES = ("rate_turned", "cases", "failures", "rate", "critical", "critical_missed")
"""A case's share with items that are worded as failures turned, how many there are, its share as written, and
whether there are critical items and one of them is not met (a harmful one: is met, or has no verdict)."""
OTHERS = ("rate_left_out", "cases_left_out")
TURNED, LEFT_OUT = "encounter_completion_turned", "encounter_completion_left_out"


def _mean_of_competencies(part: str, whole: str, sums: Sums) -> Floats:
    """Return the mean over the competencies that there are of part / whole."""
    import numpy as np

    from medhelm import mean_of_defined, ratio  # numpy is slow to import

    parts, wholes = ([sums[f"{of}/{c}"] for c in COMPETENCIES] for of in (part, whole))
    return mean_of_defined(ratio(np.stack(parts, -1), np.stack(wholes, -1)))


CASE_MEAN = pooled_share("encounter_case_mean", *TOTALS, *BY_COMPETENCY, *DESCRIPTIVE)
POOLED = pooled_share("encounter_pooled", "met", "items")


def _by_competency(name: str, part: str, whole: str) -> Aggregation:
    pairs = tuple((f"{part}/{c}", f"{whole}/{c}") for c in COMPETENCIES)
    return Aggregation(
        name=name,
        sums=tuple(one for pair in pairs for one in pair),
        of=partial(_mean_of_competencies, part, whole),
        extremes=ShareExtremes(pairs),
    )


COMPETENCY_MEAN = _by_competency("encounter_competency_mean", "met", "items")
COMPETENCY_CASE_MEAN = _by_competency("encounter_competency_case_mean", "rate", "cases")
Counted = dict[str, float]


def count(items: Sequence[RubricItem], verdicts: Sequence[Verdict]) -> Counted:
    """Return what a case adds to all sums. The denominator is the rubric, whatever was judged."""
    sums: Counted = dict.fromkeys((*TOTALS, *BY_COMPETENCY, *FAILURES, *OTHERS), 0.0)
    ticked = [*zip(items, verdicts, strict=True)]
    for competency in COMPETENCIES:
        met, whole = marks(own for own in ticked if own[0].competency == competency)
        sums |= {f"met/{competency}": met, f"items/{competency}": whole}
        if whole:
            sums |= {f"rate/{competency}": met / whole, f"cases/{competency}": 1.0}
    sums["met"], sums["items"] = marks(ticked)
    failures = {item for item in items if is_failure(item.text) and not item.harmful}
    turned = [(i, _turned(v) if i in failures else v) for i, v in ticked]
    if whole := sums["items"]:
        sums |= {"rate": sums["met"] / whole, "rate_turned": marks(turned)[0] / whole}
        sums |= {HIGHEST: marks(ticked, is_met=True)[0] / whole, "cases": 1.0}
    sums["failures"] = float(len(failures))
    met, whole = marks(own for own in ticked if own[0] not in failures)
    if whole:
        sums |= {"rate_left_out": met / whole, "cases_left_out": 1.0}
    missed = [v.met is None or v.met == i.harmful for i, v in ticked if i.critical]
    sums |= {"critical": float(bool(missed)), "critical_missed": float(any(missed))}
    sums["invalid"] = float(sum(v.met is None for v in verdicts))
    sums["no_evidence"] = float(sum(v.fault == NO_EVIDENCE for v in verdicts))
    return sums


def marks(
    ticked: Iterable[tuple[RubricItem, Verdict]], *, is_met: bool = False
) -> tuple[float, float]:
    """Return the weight of the items that are met, less that of harmful ones, and the most there can be.

    `is_met`: items without a verdict count for the clinician, else against it.
    """
    found = whole = 0.0
    for item, verdict in ticked:
        met = is_met != item.harmful if verdict.met is None else verdict.met
        found += met * (-item.weight if item.harmful else item.weight)
        whole += 0.0 if item.harmful else item.weight
    return max(found, 0.0), whole


def _turned(verdict: Verdict) -> Verdict:
    """Return the verdict that a failure was avoided; none where the evaluator was not clear about it."""
    is_clear = verdict.met is not None and not verdict.fault
    return Verdict(met=not verdict.met) if is_clear else Verdict(fault=verdict.fault)


@dataclass(frozen=True, kw_only=True)
class Completion(grader.GradedMetric):
    """A reading of which items of a rubric are met."""

    version: str = "4"
    grader: grader.Grader = EVALUATIONS
    source: str = "Liang et al. 2026, MedSP1000"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the score of a case; `unparsed` for a clinician that could not be read."""
        if episode.ending == UNREADABLE:
            return Score(value=None, outcome="unparsed", reason=UNREADABLE)
        said = self.verdicts(instance, episode)
        if (score := grader.below_quorum(said, max(self.quorum, 1))) is not None:
            return score
        given = [msgspec.convert(v.state, Verdicts) for v in said if v.state is not None]
        items = given[0].rubric or items_of(instance)
        verdicts = majority(given, len(items), self.quorum)
        valid = sum(verdict.met is not None for verdict in verdicts)
        if valid < LEAST_VALID * len(items):
            reason = f"a valid verdict on {valid} of {len(items)} items"
            return Score(value=None, outcome="unscored", reason=reason)
        sums = count(items, verdicts) | {"extra": float(sum(v.extra for v in given))}
        sums |= describe(instance.context, encounter_of(episode), episode.ending)
        return self._scored(sums, "scored", _reason(sums, episode.ending), ticks(verdicts))

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return what a clinician counts that could not be read: no item is met."""
        items = items_of(instance)
        sums = count(items, (Verdict(met=False, fault=outcome),) * len(items))  # nor is any avoided
        sums |= dict.fromkeys(DESCRIPTIVE, 0.0)
        return self._scored(sums, outcome, reason)

    def _scored(self, sums: Counted, outcome: Outcome, reason: str, shown: str = "") -> Score:
        import numpy as np

        from medhelm.plugin import aggregation  # slow to import, both

        names = self.aggregation.sums
        own = {name: sums[name] for name in names}
        value = aggregation.Pooling(self.aggregation, names)(np.array([*own.values()]))
        if np.isnan(value):
            return Score(value=None, outcome="uninformative", reason="nothing to complete")
        return Score(
            value=float(value),
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


def _reason(sums: Counted, ending: str) -> str:
    named = ((sums[name], name.replace("_", " ")) for name in ("invalid", "no_evidence"))
    return "; ".join([ending, *(f"{count:g} {name}" for count, name in named if count)])


_READINGS = {
    "completion": CASE_MEAN,
    "completion_highest": pooled_share("encounter_case_mean_highest", HIGHEST, "cases"),
    "pooled": POOLED,
    "competency_mean": COMPETENCY_MEAN,
    "competency_case_mean": COMPETENCY_CASE_MEAN,
    "completion_turned": pooled_share("encounter_case_mean_turned", *FAILURES),
    "completion_left_out": pooled_share("encounter_case_mean_left_out", *OTHERS),
}
METRICS = tuple(
    Completion(name=f"encounter_{name}", aggregation=own) for name, own in _READINGS.items()
)
