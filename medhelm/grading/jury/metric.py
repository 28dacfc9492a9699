"""The score of a jury: the mean of its judges' ratings, if enough of them gave one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from medhelm.data.rubrics import criteria_of, packaged_rubric
from medhelm.extract import visible_text
from medhelm.grading.graders.grader import Panel, below_quorum
from medhelm.grading.jury.offline import OfflinePanel
from medhelm.schema.data import Instance, Rubric
from medhelm.schema.episode import Episode
from medhelm.schema.score import Metric, Outcome, Score

NAME = "jury"
DEFAULT_RUBRIC = "accuracy_completeness_clarity"


@dataclass(frozen=True, kw_only=True)
class Jury(Metric):
    """The mean over judges of each judge's mean over criteria, on the rubric's scale.

    A judge without a readable verdict has abstained. With fewer than `quorum` verdicts the
    instance is `unscored`. `judge` names one whose own mean is given instead, `criterion` one
    that is averaged over the judges.
    """

    name: str = NAME
    minimum: float = 1.0
    maximum: float = 5.0
    floor: float = 1.0
    source: str = "Bedi et al. 2025, MedHELM (arXiv 2505.23802), LLM jury"
    rubric: Rubric
    panel: Panel
    quorum: int = 2
    judge: str = ""
    criterion: str = ""

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the mean of the verdicts, or `unscored` below the quorum."""
        if self.criterion and not self._rates(instance):
            return Score(value=None, outcome="uninformative", reason="not rated on this instance")
        if not visible_text(episode.text):
            return Score(value=None, outcome="unparsed", reason="nothing but thinking")
        verdicts = self.panel.verdicts(instance, episode)
        if self.judge:
            verdicts = tuple(v for v in verdicts if v.judge == self.judge)
        if lacking := below_quorum(verdicts, 1 if self.judge else self.quorum):
            return lacking
        given = [v.state["scores"] for v in verdicts if v.state is not None]
        return Score(value=fmean(self._mean(instance, scores) for scores in given))

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return the floor; what is not rated on an instance is `uninformative` there."""
        if self.criterion and not self._rates(instance):
            return Score(value=None, outcome="uninformative", reason="not rated on this instance")
        return super().floor_score(instance, outcome, reason)

    def _rates(self, instance: Instance) -> bool:
        return any(c.name == self.criterion for c in criteria_of(self.rubric, instance))

    def _mean(self, instance: Instance, scores: Sequence[int]) -> float:
        if not self.criterion:
            return fmean(scores)
        names = [c.name for c in criteria_of(self.rubric, instance)]
        return float(scores[names.index(self.criterion)])


def jury_metrics(
    rubric: Rubric, panel: Panel, quorum: int, *, is_slow: bool = False
) -> tuple[Jury, ...]:
    """Return the jury's score, then that of each judge, then that of each criterion."""

    def view(name: str, judge: str = "", criterion: str = "") -> Jury:
        return Jury(
            name=name,
            version=rubric.version,
            minimum=float(rubric.minimum),
            maximum=float(rubric.maximum),
            floor=float(rubric.minimum),
            rubric=rubric,
            panel=panel,
            quorum=quorum,
            is_slow=is_slow,
            judge=judge,
            criterion=criterion,
        )

    judges = [view(f"{NAME}[{judge}]", judge=judge) for judge in panel.judges]
    criteria = [view(f"{NAME}.{c.name}", criterion=c.name) for c in rubric.criteria]
    return (view(NAME), *judges, *criteria)


def bind_panel(metric: Metric, panel: Panel | None) -> Metric:
    """Return a jury's metric with the verdicts of this panel; any other metric as it is."""
    return replace(metric, panel=panel) if panel and isinstance(metric, Jury) else metric


def offline_jury(rubric: Rubric, quorum: int = 2) -> tuple[Jury, ...]:
    """Return the jury of the offline graders."""
    return jury_metrics(rubric, OfflinePanel(rubric), quorum, is_slow=True)


def default_jury() -> Jury:
    """Return the score of the offline jury by the rubric that most benchmarks name."""
    return offline_jury(packaged_rubric(DEFAULT_RUBRIC))[0]
