"""All judges whose verdicts a grading reads: those of a jury, and those of graders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from medhelm.grading.graders.grader import bind, grader_terms, graders_of, judgement_key
from medhelm.grading.graders.panel import Judging, StandIn, StoredVerdicts
from medhelm.grading.jury.grader import jury_grader
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.jury.metric import Jury
from medhelm.protocols.protocol import Protocol
from medhelm.schema.data import Benchmark
from medhelm.schema.episode import Episode
from medhelm.schema.run import (
    ControlCount,
    GraderTerms,
    GradingSpec,
    JurySpec,
    JuryTerms,
    Party,
    UsageTotals,
)
from medhelm.schema.score import Metric
from medhelm.store.records import CONTROLS, VERDICT_BYTES, VERDICTS_AGAIN, judge_folders
from medhelm.store.runlog import log_bytes


def with_stand_ins(
    benchmark: Benchmark, metrics: Sequence[Metric], protocol: Protocol
) -> list[Metric]:
    """Return metrics whose verdicts come by their graders' rules: nothing is stored, no model judges."""
    nobody = JurySpec(name="offline", judges=())
    graders, terms = graders_of(metrics), grader_terms(benchmark, metrics, nobody, {})
    panels = {own.grader: StandIn(graders[own.grader], own, protocol) for own in terms}
    return bind(metrics, panels, quorum=1)


def judgings(run: Path, grading: GradingSpec, metrics: Iterable[Metric]) -> list[Judging]:
    """Return all that judges are asked for on the answers of a run: a jury's ratings, then the graders'.

    Those without a judge are left out.
    """
    graders, found = graders_of(metrics), []
    for terms in grading.judged_by:
        if isinstance(terms, JuryTerms):
            grader = jury_grader(terms)
            own = GraderTerms(grader=grader.name, version=terms.version, jury=terms.jury)
        else:
            grader, own = graders[terms.grader], terms
        if terms.jury.judges:
            found.append(Judging(grader, own, judge_folders(run, terms)))
    return found


def verdict_bytes(run: Path, grading: GradingSpec) -> int:
    """Return the size of the logs of all judges of a grading; 0 where there is none."""
    folders = (folder for terms in grading.judged_by for folder in judge_folders(run, terms))
    return sum(map(log_bytes, folders))


class StoredPanels:
    """The verdicts that lie in a run folder, and the rules that stand in where no model judges."""

    def __init__(
        self, run: Path, grading: GradingSpec, metrics: Sequence[Metric], protocol: Protocol
    ) -> None:
        graders = graders_of(metrics)
        self._panels: dict[str, StoredVerdicts | StandIn] = {
            own.grader.name: StoredVerdicts(own, protocol)
            for own in judgings(run, grading, metrics)
        }
        for own in grading.graders:
            if not own.jury.judges:
                self._panels[own.grader] = StandIn(graders[own.grader], own, protocol)
        raters = grading.raters
        self._quorum = raters.quorum if raters is not None and raters.judges else 1
        self._has_judges = bool(grading.judges)
        self._bytes = verdict_bytes(run, grading)

    def bind(self, metrics: Iterable[Metric]) -> list[Metric]:
        """Return the metrics with these verdicts."""
        jury = self._panels.get(JURY)
        rated = (
            replace(m, panel=jury) if jury is not None and isinstance(m, Jury) else m
            for m in metrics
        )
        return bind(rated, self._panels, self._quorum)

    @property
    def below_quorum(self) -> int:
        """Return how many answers lack verdicts for a score while some are still missing."""
        return sum(panel.below_quorum for panel in self._panels.values())

    def note_replaced(self, episode: Episode) -> None:
        """Count what judges used for an answer that another has replaced."""
        for panel in self._panels.values():
            panel.replaced.add(judgement_key(episode))

    def provenance(self, controls: float) -> dict[str, str]:
        """Return how many verdicts are missing, and how many were asked for again; nothing where no
        model judges. `controls`: share of the cases of which judges were asked about controls."""
        if not self._has_judges:
            return {}
        again = sum(panel.asked_again for panel in self._panels.values())
        return {
            "not_judged": str(sum(panel.not_judged for panel in self._panels.values())),
            VERDICT_BYTES: str(self._bytes),
            **({VERDICTS_AGAIN: str(again)} if again else {}),
            **({CONTROLS: f"{controls:g}"} if controls else {}),
        }

    def controls(self) -> tuple[ControlCount, ...]:
        """Return how the judges decided on their controls."""
        return tuple(one for panel in self._panels.values() for one in panel.controls())

    def parties(self) -> tuple[Party, ...]:
        """Return what each judge used, for the jury and all graders together."""
        found: dict[tuple[str, str], Party] = {}
        for party in (own for panel in self._panels.values() for own in panel.parties()):
            name = (party.role, party.model.name)
            found[name] = _added(found[name], party) if name in found else party
        return tuple(found.values())


def _added(one: Party, other: Party) -> Party:
    names = UsageTotals.__struct_fields__
    usage = {name: getattr(one.usage, name) + getattr(other.usage, name) for name in names}
    return msgspec.structs.replace(
        one,
        usage=UsageTotals(**usage),
        served_models=dict(Counter(one.served_models) + Counter(other.served_models)),
        served_at=dict(Counter(one.served_at) + Counter(other.served_at)),
        ends=dict(Counter(one.ends) + Counter(other.ends)),
    )
