"""Stored encounters: their faults, and the values and ticks that gradings gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from medhelm import Instance
from medhelm.plugin import stored_decisions
from medhelm_benchmarks.encounters.grading.cast_fidelity import (
    CAST,
    Fault,
    Line,
    counted,
    seen_roles,
)
from medhelm_benchmarks.encounters.grading.completion import ticked
from medhelm_benchmarks.encounters.grading.evaluator import EVALUATIONS, RUBRIC, items_of
from medhelm_benchmarks.encounters.packets import RubricItem, packets_of

PROTOCOLS = ("encounter", "consultation")
COMPLETION = "encounter_completion"


@dataclass(frozen=True)
class Checked:
    """One encounter with its faults."""

    case: str
    cluster: str
    repeat: int
    lines: tuple[Line, ...]
    sums: Mapping[str, float]
    """Counts by rule, as `role_conduct` has them."""
    by_rule: tuple[Fault, ...]
    by_judge: tuple[Fault, ...] | None = None
    """None: not judged, or no usable reply came."""

    @property
    def cast_lines(self) -> list[Line]:
        """Return the lines of patient and surroundings."""
        return [line for line in self.lines if line.role in CAST]

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Return all faults; of one kind and line once, whoever found it."""
        found = {(f.line, f.kind): f for f in (*(self.by_judge or ()), *self.by_rule)}
        return tuple(found[key] for key in sorted(found))

    @property
    def fidelity(self) -> float | None:
        """Return the share of the cast's lines without a fault; None where nobody could find any."""
        roles = seen_roles(self.sums) if self.by_judge is None else CAST
        own = {line.number for line in self.cast_lines if line.role in roles}
        return 1 - len(own & {fault.line for fault in self.faults}) / len(own) if own else None


@dataclass(frozen=True)
class CheckedRun:
    """A run with its encounters."""

    run: stored_decisions.GradedRun
    encounters: tuple[Checked, ...]

    @cached_property
    def values(self) -> Mapping[tuple[str, int], float]:
        """Return the values of the main metric by case and repeat."""
        found = _column(self.run, self.run.record.grading.metrics[0].name, "value")
        return {key: value for key, value in found.items() if value is not None}

    @property
    def cast(self) -> str:
        """Return the models of patient and surroundings."""
        return " + ".join(self.model(role) for role in CAST)

    def model(self, role: str) -> str:
        """Return who plays a role."""
        cast = self.run.record.spec.cast
        return cast[role].name if role in cast else self.run.model


def encounter_runs(folder: Path) -> dict[Path, list[stored_decisions.GradedRun]]:
    """Return the gradings of each run of encounters below a results folder, older ones first."""
    found: dict[Path, list[stored_decisions.GradedRun]] = {}
    for run in stored_decisions.graded_runs(folder)[0]:
        if run.record.spec.protocol in PROTOCOLS:
            found.setdefault(run.run_folder, []).append(run)
    return found


def check_run(
    run: stored_decisions.GradedRun, judged: Mapping[str, tuple[Fault, ...]] | None = None
) -> CheckedRun:
    """Return a run's encounters with their faults. `judged`: those by a judge, as `to_judge` names them."""
    found = []
    for episode in run.episodes():
        case = episode.instance
        lines, faults, sums = counted(case, episode)
        found.append(
            Checked(
                case=case.id,
                cluster=case.cluster or case.id,
                repeat=episode.repeat,
                lines=lines,
                sums=sums,
                by_rule=faults,
                by_judge=(judged or {}).get(f"{place_of(run)}/{case.id}/{episode.repeat}"),
            )
        )
    return CheckedRun(run, tuple(found))


def place_of(run: stored_decisions.GradedRun) -> str:
    """Return the name of the run's folder, which all gradings of it share."""
    return run.run_folder.name


def ticks_of(
    run: stored_decisions.GradedRun,
) -> Mapping[tuple[str, int], Mapping[int, tuple[int, ...] | None]]:
    """Return which items a grading found met in each encounter that it has scored, as `ticked` does."""
    found = _column(run, COMPLETION, "extracted")
    return {key: ticked(shown) for key, shown in found.items() if shown}


def rubric_of(run: stored_decisions.GradedRun, case: Instance) -> tuple[RubricItem, ...]:
    """Return the items by which a grading scored a case; empty where it has a diagnosis in their place."""
    for terms in run.record.grading.graders:
        if terms.grader == EVALUATIONS.name:
            return items_of(case, terms.settings.get(RUBRIC, ""))
    return packets_of(case).evaluator.items


def _column(
    run: stored_decisions.GradedRun, metric: str, name: str
) -> Mapping[tuple[str, int], Any]:
    """Return a column of a metric's scores by case and repeat."""
    columns = ("instance_id", "repeat", "metric", name)
    batches = stored_decisions.read_scores(run, columns)
    rows = (row for batch in batches for row in batch.to_pylist() if row["metric"] == metric)
    return {(row["instance_id"], row["repeat"]): row[name] for row in rows}
