"""One grading: a judge, an answer and a grader become an episode of its own in the judge's log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medhelm.grading.graders.grader import JUDGE, Grader, Shown, shown_of
from medhelm.grading.graders.panel import end_of, read_gradings
from medhelm.grading.jury.gradelog import judgement_key
from medhelm.protocols.protocol import Protocol
from medhelm.runs.ask import Asker, Desk, Live
from medhelm.runs.conduct import answer_of, keep_ended
from medhelm.schema.data import Benchmark
from medhelm.schema.episode import Episode
from medhelm.schema.model import Model
from medhelm.schema.run import GraderTerms
from medhelm.store.calls import OpenEpisode
from medhelm.store.runlog import RunFolder


@dataclass(frozen=True)
class Bench:
    """The things that all gradings of a run by one judge of a grader share."""

    benchmark: Benchmark
    protocol: Protocol
    grader: Grader
    terms: GraderTerms
    desk: Desk


class GraderJudge:
    """One judge of one grader: its model, its log, and the gradings that the log holds."""

    def __init__(self, bench: Bench, model: Model, folder: Path) -> None:
        self.model, self.log, self.desk = model, RunFolder(folder), bench.desk
        self.final: set[int] = set()
        self._bench = bench
        self._begun: dict[int, OpenEpisode] = {}

    def open(self) -> None:
        """Lock and mend the log; raises RunLocked and RecordError."""
        scan = self.log.open()
        self.final, self._begun = scan.answered, dict(scan.begun)

    def ends(self) -> Mapping[int, str]:
        """Return how the last grading of each answer ended."""
        return {key: end_of(grading) for key, grading in read_gradings(self.log.path)}

    def key(self, episode: Episode) -> int | None:
        """Return the key of an answer's grading; None where there is nothing to grade."""
        return judgement_key(episode) if self._shown(episode) is not None else None

    def _shown(self, episode: Episode) -> Shown | None:
        shown = shown_of(self._bench.protocol, episode)
        return shown if shown is not None and self._bench.grader.is_graded(shown) else None

    async def judge(self, episode: Episode, live: Live) -> None:
        """Ask for the verdicts on an answer and append them to the log.

        What the log holds of an earlier process is given back. Raises what stops the run.
        """
        try:
            with self.desk.border():
                await self._judge(episode, live)
        finally:
            live.end()

    async def _judge(self, episode: Episode, live: Live) -> None:
        bench, key, shown = self._bench, judgement_key(episode), self._shown(episode)
        assert shown is not None  # `key` said so
        begun = self._begun.pop(key, None)
        grading = (begun or OpenEpisode(f"{key:016x}")).of(shown.instance, shown.repeat)
        asker = Asker(self.desk, {JUDGE: self.model}, grading, live, self.log)
        terms = bench.grader.terms(self.model.spec, bench.terms, shown.repeat)
        work = bench.grader.grade(bench.benchmark, shown, terms, asker)
        keep_ended(self.log, grading, asker, await answer_of(work, asker, "grader"), JUDGE)
