"""The fidelity of an encounter: the share of the lines of patient and surroundings without a fault by rule.

It measures the cast, not the clinician. `medhelm qc simulation --judge MODEL` finds what no rule can tell.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from medhelm import Aggregation, Episode, Instance, Metric, Score
from medhelm.schema.aggregation import Share, ShareExtremes
from medhelm_benchmarks.encounters.fidelity.faults import BY_RULE, ROLES
from medhelm_benchmarks.encounters.packets import packets_of
from medhelm_benchmarks.encounters.record import encounter_of

FIDELITY = "simulation_fidelity"
AGGREGATION = Aggregation(
    name=FIDELITY,
    sums=(
        "clean",
        "lines",
        *(f"{role}/{name}" for role in ROLES for name in ("clean", "lines", *BY_RULE)),
    ),
    of=Share("clean", "lines"),
    extremes=ShareExtremes(
        (
            ("clean", "lines"),
            *(
                (f"{role}/{name}", f"{role}/lines")
                for role in ROLES
                for name in ("clean", *BY_RULE)
            ),
        )
    ),
)


@dataclass(frozen=True, kw_only=True)
class SimulationFidelity(Metric):
    """The share of lines of patient and surroundings in which no rule finds a fault.

    An encounter in which nobody answered has none. What the clinician could not be read in is in no
    mean: it says nothing of the cast.
    """

    name: str = FIDELITY
    version: str = "2"
    source: str = "medhelm: roles that are measured"
    floor: float | None = None
    aggregation: Aggregation = AGGREGATION

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the share of clean lines, and the faults of each role by kind."""
        # Tables read the sums of this metric, and need no rule.
        from medhelm_benchmarks.encounters.fidelity.faults import lines_of
        from medhelm_benchmarks.encounters.fidelity.rules import faults_by_rule

        lines = lines_of(encounter_of(episode))
        if not lines:
            return Score(value=None, outcome="uninformative", reason="nobody answered")
        faults = tuple(faults_by_rule(lines, packets_of(instance), instance.context))
        faulty = {fault.line for fault in faults}
        sums: Counter[str] = Counter(dict.fromkeys(self.aggregation.sums, 0))
        sums.update(f"{fault.role}/{fault.kind}" for fault in faults)
        for line in lines:
            clean = line.number not in faulty
            sums.update({"lines": 1, f"{line.role}/lines": 1})
            sums.update({"clean": clean, f"{line.role}/clean": clean})
        value = sums["clean"] / sums["lines"]
        kinds = Counter(fault.kind for fault in faults)
        said = "; ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in sorted(kinds.items()))
        return Score(value=value, reason=said, sums={name: float(n) for name, n in sums.items()})
