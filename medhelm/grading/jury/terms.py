"""A benchmark and a jury -> the metrics that a run is graded by, and the terms that are recorded."""

from __future__ import annotations

from collections.abc import Sequence

from medhelm.data.rubrics import load_rubric
from medhelm.grading.graders.grader import NOT_ASKED, GraderVerdict
from medhelm.grading.jury.metric import NAME, jury_metrics, offline_jury
from medhelm.grading.jury.offline import OFFLINE_VERSION
from medhelm.grading.jury.prompt import PROMPT_VERSION
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import JurySpec, JuryTerms
from medhelm.schema.score import Metric

OFFLINE = JurySpec(name="offline")


class NotAsked:
    """The panel of judges whose verdicts are not read yet. Each has abstained."""

    def __init__(self, judges: Sequence[str]) -> None:
        self.judges = tuple(judges)

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        """Return an abstention of each judge."""
        return tuple(GraderVerdict(judge=j, state=None, reason=NOT_ASKED) for j in self.judges)


def jury_terms(benchmark: Benchmark, jury: JurySpec) -> JuryTerms | None:
    """Return what is recorded of the jury; None for a benchmark that needs none."""
    if NAME not in benchmark.metrics:
        return None
    version = PROMPT_VERSION if jury.judges else OFFLINE_VERSION
    return JuryTerms(
        jury=jury,
        rubric=load_rubric(benchmark),
        version=version,
        instruction=benchmark.instruction if jury.judges else "",
    )


def with_jury(metrics: Sequence[Metric], terms: JuryTerms | None) -> tuple[Metric, ...]:
    """Return the metrics, the jury's own in place of the name, its judges and criteria behind."""
    if terms is None:
        return tuple(metrics)
    jury = terms.jury
    if jury.judges:
        panel = NotAsked([judge.name for judge in jury.judges])
        main, *views = jury_metrics(terms.rubric, panel, jury.quorum)
    else:
        main, *views = offline_jury(terms.rubric, jury.quorum)
    return (*(main if m.name == NAME else m for m in metrics), *views)
