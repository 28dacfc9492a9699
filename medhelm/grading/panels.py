"""All judges whose verdicts a grading reads: those of a jury, and those of graders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from medhelm.grading.graders.panel import StandIn, StoredVerdicts
from medhelm.grading.graders.terms import bind, grader_terms, graders_of
from medhelm.grading.jury.metric import bind_panel
from medhelm.grading.jury.panel import StoredPanel
from medhelm.protocols.protocol import Protocol
from medhelm.schema.data import Benchmark
from medhelm.schema.run import GradingSpec, JurySpec, Party, UsageTotals
from medhelm.schema.score import Metric


def with_stand_ins(
    benchmark: Benchmark, metrics: Sequence[Metric], protocol: Protocol
) -> list[Metric]:
    """Return metrics whose verdicts come by their graders' rules: nothing is stored, no model judges."""
    nobody = JurySpec(name="offline", judges=())
    graders, terms = graders_of(metrics), grader_terms(benchmark, metrics, nobody, {})
    panels = {own.grader: StandIn(graders[own.grader], own, protocol) for own in terms}
    return bind(metrics, panels, quorum=1)


class StoredPanels:
    """The verdicts that lie in a run folder, and the rules that stand in where no model judges."""

    def __init__(
        self, run: Path, grading: GradingSpec, metrics: Sequence[Metric], protocol: Protocol
    ) -> None:
        terms, graders = grading.jury, graders_of(metrics)
        self._jury = StoredPanel(run, terms) if terms is not None and terms.jury.judges else None
        self._graders: dict[str, StoredVerdicts | StandIn] = {
            own.grader: StoredVerdicts(run, own, graders[own.grader], protocol)
            if own.jury.judges
            else StandIn(graders[own.grader], own, protocol)
            for own in grading.graders
        }
        raters = grading.raters
        self._quorum = raters.quorum if raters is not None and raters.judges else 1
        self._has_judges = raters is not None and bool(raters.judges)

    def bind(self, metrics: Iterable[Metric]) -> list[Metric]:
        """Return the metrics with these verdicts."""
        bound = bind(metrics, self._graders, self._quorum)
        return [bind_panel(m, self._jury) for m in bound] if self._jury is not None else bound

    @property
    def _all(self) -> list[StoredPanel | StoredVerdicts | StandIn]:
        return [*([self._jury] if self._jury is not None else []), *self._graders.values()]

    @property
    def below_quorum(self) -> int:
        """Return how many answers lack verdicts for a score while some are still missing."""
        return sum(panel.below_quorum for panel in self._all)

    def provenance(self) -> dict[str, str]:
        """Return how many verdicts are missing; nothing where no model judges."""
        missing = sum(panel.not_judged for panel in self._all)
        return {"not_judged": str(missing)} if self._has_judges else {}

    def parties(self) -> tuple[Party, ...]:
        """Return what each judge used, for the jury and all graders together."""
        found: dict[str, Party] = {}
        for party in (own for panel in self._all for own in panel.parties()):
            name = party.model.name
            found[name] = _added(found[name], party) if name in found else party
        return tuple(found.values())


def _added(one: Party, other: Party) -> Party:
    names = UsageTotals.__struct_fields__
    usage = {name: getattr(one.usage, name) + getattr(other.usage, name) for name in names}
    return msgspec.structs.replace(
        one,
        usage=UsageTotals(**usage),
        served_models=dict(Counter(one.served_models) + Counter(other.served_models)),
        ends=dict(Counter(one.ends) + Counter(other.ends)),
    )
