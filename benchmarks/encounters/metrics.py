"""The metrics of encounters."""

from __future__ import annotations

from dataclasses import dataclass

from medhelm import Episode, Instance, Metric, Score
from medhelm_benchmarks.encounters.grading.cast_fidelity import SimulationFidelity
from medhelm_benchmarks.encounters.grading.completion import METRICS as COMPLETION
from medhelm_benchmarks.encounters.grading.diagnosis import DiagnosisAccuracy
from medhelm_benchmarks.encounters.matches import words
from medhelm_benchmarks.encounters.record import UNREADABLE, encounter_of


@dataclass(frozen=True, kw_only=True)
class DiagnosisNamed(Metric):
    """1 where the diagnosis that was given has all words of the gold, else 0.

    A strict stand-in for a grader: another name of the same disease counts as wrong.
    """

    name: str = "diagnosis_named"
    source: str = "AgentClinic (arXiv 2405.07960), by words in place of a judge"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1; an encounter that ended without a diagnosis is 0."""
        if episode.ending == UNREADABLE:
            return Score(value=None, outcome="unparsed", reason=UNREADABLE)
        given = encounter_of(episode).diagnosis
        if given is None:
            return Score(value=0.0, reason=f"no diagnosis: {episode.ending}")
        is_right = words(instance.references[0]) <= words(given)
        return Score(value=float(is_right), extracted=given, reason=episode.ending)


METRICS: tuple[Metric, ...] = (
    DiagnosisAccuracy(),
    DiagnosisNamed(),
    *COMPLETION,
    SimulationFidelity(),
)
