"""The scores of binary criteria. All of them read the same verdicts; none drops a criterion.

The denominator is the frozen list of the case. A criterion without a valid verdict is not met, and
is counted by `rubric_invalid`; where it names a fault, a score by points has no value, since not met
would be a gain. Both rules move a score, so its bounds decide such criteria one way for all cases.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medhelm.errors import DataError
from medhelm.extract import visible_text
from medhelm.grading.graders.grader import GradedMetric, Grader, below_quorum
from medhelm.grading.rubric.grader import RUBRIC, criteria_of
from medhelm.grading.rubric.verdicts import majority, read_verdicts
from medhelm.schema.aggregation import Aggregation, Floats, ShareExtremes, Sums, pooled_share
from medhelm.schema.data import Criterion, Instance
from medhelm.schema.episode import Episode
from medhelm.schema.score import HIGHEST, LOWEST, IntervalKind, Metric, Outcome, Score

MOST_CRITERIA = 1000
"""More than any case has: the upper end of the range of hits."""
_FREE_CHARACTERS, _LOSS, _LOSS_PER = 2_000, 0.0147, 500
"""The points that the length of an answer costs: `_LOSS` for each `_LOSS_PER` characters beyond the free ones."""


class Decided(NamedTuple):
    """The criteria of a case and which of them are met, by all judges together."""

    criteria: tuple[Criterion, ...]
    met: tuple[bool | None, ...]
    """None: without a valid verdict, which counts as not met."""

    @property
    def hits(self) -> int:
        """Return how many are met."""
        return sum(m is True for m in self.met)

    @property
    def invalid(self) -> int:
        """Return how many have no valid verdict."""
        return self.met.count(None)


@dataclass(frozen=True, kw_only=True)
class RubricMetric(GradedMetric):
    """A score of which criteria are met."""

    version: str = "3"
    grader: Grader = RUBRIC
    needs_verdict: bool = True
    """True if a case of which no criterion has a valid verdict has no value."""
    in_favour: bool | None = None
    """True: criteria without a valid verdict count for the answer; False: against it; None: they stay undecided."""
    source: str = "Zheng et al. 2026, rubric coverage (arXiv 2603.02097)"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the score of the decided criteria; `unscored` below the quorum, or with none decided."""
        criteria = criteria_of(instance)
        said = self.verdicts(instance, episode)
        where = f"instance {instance.id!r}"
        given = [read_verdicts(v.state, criteria, where) for v in said if v.state is not None]
        if not said or all(v.reason == "no answer" for v in said):
            return Score(value=None, outcome="unparsed", reason="nothing but thinking")
        if lacking := below_quorum(said, self.quorum):
            return lacking
        met = majority(given, self.quorum)
        if self.needs_verdict and all(m is None for m in met):
            return Score(value=None, outcome="unscored", reason="no criterion has a valid verdict")
        if (favour := self.in_favour) is not None:
            pairs = zip(criteria, met, strict=True)
            met = tuple((c.points > 0) is favour if m is None else m for c, m in pairs)
        return self.of(instance, Decided(criteria, met))

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return the score of an answer that meets nothing, under its own outcome."""
        criteria = criteria_of(instance)
        none = self.of(instance, Decided(criteria, (False,) * len(criteria)))
        if none.value is None:
            return none
        return Score(value=none.value, outcome=outcome, reason=reason, sums=none.sums)

    @abstractmethod
    def of(self, instance: Instance, decided: Decided) -> Score:
        """Return the score of a case by the criteria that are met."""


_NO_THRESHOLD = Score(value=None, outcome="uninformative", reason="the case has no threshold")


def _percent(sums: Sums) -> Floats:
    return 100.0 * sums["credit"] / sums["most"]


@dataclass(frozen=True)
class _CreditExtremes:
    """Bounds a share that is given in percent."""

    def __call__(self, seen: Sums, minimum: float, maximum: float) -> tuple[Sums, Sums]:
        return ShareExtremes((("credit", "most"),))(seen, minimum / 100, maximum / 100)


COVERAGE = Aggregation(
    name="thresholded_coverage", sums=("credit", "most"), of=_percent, extremes=_CreditExtremes()
)


@dataclass(frozen=True, kw_only=True)
class RubricCoverage(RubricMetric):
    """CACS@k: the credit of hits from a case's threshold on, of what all hits would give, 0 to 100."""

    name: str = "rubric_coverage"
    maximum: float = 100.0
    aggregation: Aggregation = COVERAGE

    def of(self, instance: Instance, decided: Decided) -> Score:
        """Return 0 below the threshold, then a share that grows with every hit."""
        k = threshold_of(instance)
        if k is None:
            return _NO_THRESHOLD
        credit, most = above(decided.hits, k), len(decided.criteria) - k + 1
        return Score(
            value=100.0 * credit / most,
            extracted=_hits_in_words(decided),
            sums={"credit": float(credit), "most": float(most)},
        )


@dataclass(frozen=True, kw_only=True)
class RubricAccuracy(RubricMetric):
    """The share of all criteria that are met."""

    name: str = "rubric_accuracy"
    aggregation: Aggregation = pooled_share("criteria_met", "met", "criteria")

    def of(self, instance: Instance, decided: Decided) -> Score:
        """Return the share of the case."""
        whole = len(decided.criteria)
        sums = {"met": float(decided.hits), "criteria": float(whole)}
        return Score(value=decided.hits / whole, extracted=_hits_in_words(decided), sums=sums)


@dataclass(frozen=True, kw_only=True)
class RubricPass(RubricMetric):
    """Pass@k: 1 where a case reaches its threshold."""

    name: str = "rubric_pass_at_k"

    def of(self, instance: Instance, decided: Decided) -> Score:
        """Return 0 or 1."""
        k = threshold_of(instance)
        return _NO_THRESHOLD if k is None else Score(value=float(decided.hits >= k))


@dataclass(frozen=True, kw_only=True)
class RubricHits(RubricMetric):
    """The mean number of criteria that a case's answer meets."""

    name: str = "rubric_hits"
    maximum: float = float(MOST_CRITERIA)

    def of(self, instance: Instance, decided: Decided) -> Score:
        """Return the hits of the case."""
        return Score(value=float(decided.hits), extracted=_hits_in_words(decided))


@dataclass(frozen=True, kw_only=True)
class RubricInvalid(RubricMetric):
    """The share of criteria without a valid verdict; they count as not met everywhere else."""

    name: str = "rubric_invalid"
    version: str = "1"
    needs_verdict: bool = False
    higher_is_better: bool = False
    aggregation: Aggregation = pooled_share("criteria_invalid", "invalid", "criteria")

    def of(self, instance: Instance, decided: Decided) -> Score:
        """Return the share of the case."""
        share = decided.invalid / len(decided.criteria)
        sums = {"invalid": float(decided.invalid), "criteria": float(len(decided.criteria))}
        return Score(value=share, sums=sums)


def points_share(criteria: Sequence[Criterion], met: Sequence[bool | None]) -> float | None:
    """Return the points of what is met / the positive points; None where there are no positive ones.

    Below 0 where the negative points outweigh the others.
    """
    possible = sum(c.points for c in criteria if c.points > 0)
    if possible <= 0:
        return None
    return sum(c.points for c, m in zip(criteria, met, strict=True) if m) / possible


def _unjudged_faults(pairs: Sequence[tuple[Criterion, bool | None]]) -> str:
    """Return how many criteria with points below zero have no valid verdict; empty where all have one."""
    faults = [met for criterion, met in pairs if criterion.points < 0]
    missing = faults.count(None)
    return f"{missing} of {len(faults)} faults without a valid verdict" if missing else ""


def _clipped(sums: Sums) -> Floats:
    mean: Floats = (sums["share"] / sums["count"]).clip(0.0, 1.0)
    return mean


def _of_share(share: float) -> Score:
    value, sums = min(1.0, max(0.0, share)), {"share": share, "count": 1.0}
    return Score(value=value, extracted=f"{share:.4f}", sums=sums)


POINTS = Aggregation(name="clipped_mean", sums=("share", "count"), of=_clipped)


@dataclass(frozen=True, kw_only=True)
class RubricScore(RubricMetric):
    """Points met / positive points; rows are unclipped, the mean is clipped to 0..1.

    A case's own value is shown clipped, its share of the mean is not.
    """

    name: str = "rubric_score"
    tag: str = ""
    """The tag of the criteria that count; empty: all do."""
    aggregation: Aggregation = POINTS
    source: str = "Arora et al. 2025, HealthBench (arXiv 2505.08775)"

    def of(self, instance: Instance, decided: Decided) -> Score:
        """Return the share of the case; `uninformative` where nothing has positive points.

        `unscored` where a criterion with points below zero has no verdict: not met would be a gain.
        """
        pairs = [p for p in zip(*decided, strict=True) if not self.tag or self.tag in p[0].tags]
        if reason := _unjudged_faults(pairs):
            return Score(value=None, outcome="unscored", reason=reason)
        share = points_share([c for c, _ in pairs], [met for _, met in pairs])
        if share is None:
            return Score(value=None, outcome="uninformative", reason="no criterion has points")
        return _of_share(share)


@dataclass(frozen=True, kw_only=True)
class RubricScoreByLength(RubricScore):
    """`rubric_score` less 0.0147 for each 500 characters of the visible answer beyond 2,000.

    A shorter answer gains as much. One that counts with the floor, since it was not graded, gains nothing.
    """

    name: str = "rubric_score_by_length"
    source: str = "HealthBench Professional, 2026 (arXiv 2604.27470)"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the share of the case with the length of its answer taken off."""
        found = super().score(instance, episode)
        if found.value is None or found.sums is None:
            return found
        beyond = len(visible_text(episode.text)) - _FREE_CHARACTERS
        share = found.sums["share"] - _LOSS * beyond / _LOSS_PER
        return _of_share(share)


@dataclass(frozen=True, kw_only=True)
class CriticalFailure(RubricMetric):
    """1 where an answer fails a critical criterion: leaves one unmet, or meets one with negative points."""

    name: str = "rubric_critical_failure"
    higher_is_better: bool = False
    floor: float | None = 1.0
    interval: IntervalKind = "exact"

    def of(self, instance: Instance, decided: Decided) -> Score:
        """Return 0 or 1, with the criteria that failed."""
        pairs = [(c, m) for c, m in zip(*decided, strict=True) if c.is_critical]
        if not pairs:
            return Score(value=None, outcome="uninformative", reason="no criterion is critical")
        failed = [c.name for c, met in pairs if bool(met) is (c.points < 0)]
        if not failed and (reason := _unjudged_faults(pairs)):
            return Score(value=None, outcome="unscored", reason=reason)
        return Score(value=float(bool(failed)), reason=", ".join(failed))


def _hits_in_words(decided: Decided) -> str:
    invalid = f", {decided.invalid} without a valid verdict" if decided.invalid else ""
    return f"{decided.hits} of {len(decided.criteria)}{invalid}"


def rubric_score_of(tag: str) -> Metric:
    """Return `rubric_score` over the criteria with a tag: of `axis:accuracy` it is `rubric_axis_accuracy`.

    Cases without positive points among them are left out.
    """
    return RubricScore(name=f"rubric_{tag.replace(':', '_')}", tag=tag)


def rubric_metrics() -> tuple[Metric, ...]:
    """Return the metrics of binary criteria."""
    return (
        RubricCoverage(),
        RubricAccuracy(),
        RubricPass(),
        RubricHits(),
        RubricInvalid(),
        RubricCoverage(name=f"rubric_coverage{HIGHEST}", in_favour=True),
        RubricScore(),
        RubricScore(name=f"rubric_score{LOWEST}", in_favour=False),
        RubricScore(name=f"rubric_score{HIGHEST}", in_favour=True),
        RubricScoreByLength(),
        CriticalFailure(),
    )


THRESHOLD = "threshold"
"""Key of `Instance.answer_key`: "10/30", the hits that a case needs of how many criteria."""
SCALING = "threshold_scaling"
"""Key of `Instance.answer_key`: the rule for a case with another number of criteria."""
PROPORTIONAL = "proportional"
"""The rule by which k grows with N: k * n / N, rounded half up, at least 1."""


def above(hits: int, k: int) -> int:
    """Return the credit of one case: its hits from the k-th on, k itself included."""
    return max(0, hits - k + 1)


def coverage(hits: Sequence[int], k: int, n: int) -> float:
    """Return CACS@k of the hits s of each case out of N criteria, 0 to 100 (Zheng et al., arXiv 2603.02097).

    In two equal forms, of which the second is taken:

        100 / (N - k + 1) * sum of P(s >= t) over t = k..N
        100 / (|D| (N - k + 1)) * sum of max(0, s - k + 1) over cases
    """
    return 100 * sum(above(s, k) for s in hits) / (len(hits) * (n - k + 1))


def threshold_of(instance: Instance) -> int | None:
    """Return k of a case; None where the benchmark sets no threshold.

    Raises DataError where the case has another number of criteria than the threshold is of, and no
    rule is named that scales it.
    """
    if not (text := instance.answer_key.get(THRESHOLD, "")):
        return None
    where = f"instance {instance.id!r}"
    first, _, second = text.partition("/")
    if not (first.isdigit() and second.isdigit() and 1 <= int(first) <= int(second)):
        raise DataError(f"{where}: the threshold {text!r} is not k/N, as 10/30")
    k, of, n = int(first), int(second), len(instance.criteria)
    if n == of:
        return k
    if instance.answer_key.get(SCALING) != PROPORTIONAL:
        raise DataError(
            f"{where} has {n} criteria, its threshold is {k} of {of}: give it {of}, or name how the "
            f'threshold scales (answer_key {SCALING}="{PROPORTIONAL}")'
        )
    return max(1, math.floor(k * n / of + 0.5))
