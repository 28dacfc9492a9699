"""Test how the metrics of a benchmark read its golds in many phrasings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from medhelm.errors import MedhelmError
from medhelm.grading.grade import grade
from medhelm.proof.checks import Findings
from medhelm.proof.manifest import Readings
from medhelm.proof.phrasings import Phrasing, phrasings_of
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Episode, Response
from medhelm.schema.score import FLOORED, Metric, Score
from medhelm.store.records import instance_key

_TRIED = 1_000
"""About how many instances are answered in all phrasings; of more, a part chosen by their ids."""


class ReadingTrial:
    """Grades the phrasings of each gold against the bare gold, and counts how they are read."""

    def __init__(
        self,
        benchmark: Benchmark,
        metrics: Sequence[Metric],
        findings: Findings,
        instances: int,
        shown: Callable[[str | None], str],
    ) -> None:
        """Try `metrics` (the first is the main one); findings quote an answer as it is `shown`."""
        self._benchmark, self._findings, self._shown = benchmark, findings, shown
        self._metrics = [metric for metric in metrics if not metric.is_slow]
        self._main = metrics[0] if metrics else None
        self._below = (1 << 64) * _TRIED // max(instances, _TRIED)
        self._read: dict[str, Counter[bool | None]] = {}
        """By phrasing: replies read right (True), wrongly (False), not at all (None)."""

    def add(self, instance: Instance, gold: str) -> None:
        """Try one instance, whose gold as a model would write it is `gold`."""
        if instance_key(instance.id) >= self._below:
            return
        bare = Response(instance_id=instance.id, text=gold)
        best = [_score(metric, instance, bare) for metric in self._metrics]
        if not best or any(score is None or score.outcome != "scored" for score in best):
            return
        for phrasing in phrasings_of(self._benchmark, instance):
            response = Response(
                instance_id=instance.id,
                text=phrasing.text,
                finish="length" if phrasing.is_cut else "stop",
            )
            found = [_score(metric, instance, response) for metric in self._metrics]
            results = [_is_right(phrasing, *pair) for pair in zip(found, best, strict=True)]
            is_right = False if False in results else None if None in results else True
            self._read.setdefault(phrasing.name, Counter())[is_right] += 1
            if is_right is False:
                wrong = results.index(False)
                metric, gives_gold = self._metrics[wrong], phrasing.gives_gold
                what = "the gold" if gives_gold else "what is not an answer"
                self._findings.add(
                    "failure" if metric is self._main else "warning",
                    "reading",
                    f"{what}, phrased as '{phrasing.name}', is read wrongly",
                    instance=instance.id,
                    metric=metric.name,
                    expected=self._shown(_text_of(best[wrong])) if gives_gold else "no answer",
                    got=self._shown(_text_of(found[wrong])),
                )

    def readings(self) -> dict[str, Readings]:
        """Return how each phrasing has been read."""
        return {
            name: Readings(
                read=round(found[True] / found.total(), 6),
                wrong=round(found[False] / found.total(), 6),
            )
            for name, found in self._read.items()
        }


def _score(metric: Metric, instance: Instance, response: Response) -> Score | None:
    """Return what a metric says; None where it fails, which is a finding of another check."""
    try:
        return grade(metric, Episode(instance=instance, response=response))
    except MedhelmError:
        return None


def _text_of(score: Score | None) -> str | None:
    return None if score is None else score.extracted


def _is_right(phrasing: Phrasing, score: Score | None, best: Score | None) -> bool | None:
    """Return whether a reply is read as what it says; None where nothing is read of a gold."""
    if score is None or best is None:
        return None
    if not phrasing.gives_gold:
        return score.outcome in FLOORED
    if score.outcome != "scored":
        return None
    return (score.value, score.sums) == (best.value, best.sums)
