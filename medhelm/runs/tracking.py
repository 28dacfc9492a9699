"""Trackers are told how a run ended, in numbers and names alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import msgspec

from medhelm.errors import RecordError
from medhelm.files.plain_names import metric_name
from medhelm.plugins.discovery import fault
from medhelm.plugins.registry import Registry
from medhelm.schema.ended_run import EndedRun, Tracker
from medhelm.schema.run import RunRecord

_ONE = Lock()
"""Held while a run is told of: clients know one run at a time."""


@dataclass(frozen=True)
class Tracking:
    """The trackers that a command has chosen."""

    trackers: Mapping[str, Tracker]
    registry: Registry

    def tell(self, run: Path, record: RunRecord) -> list[str]:
        """Tell every tracker of a run; return a line for each that fails, which changes nothing else."""
        name = f"{record.spec.column} x {record.spec.model.name}"
        try:
            ended = self._ended(run / "gradings" / record.grading_hash, name, record)
        except RecordError as e:
            return [f"{name}: not tracked: {e}"]
        said = []
        for tracker, send in self.trackers.items():
            try:
                with _ONE:
                    send(ended)
            except Exception as e:  # the boundary to plugins
                said.append(f"{name}: not tracked by {tracker}: {fault(e)}")
        return said

    def _ended(self, grading: Path, name: str, record: RunRecord) -> EndedRun:
        from medhelm.tables.format.table import Settings
        from medhelm.tables.run_estimates import estimates_of, label
        from medhelm.tables.spending import cost_columns
        from medhelm.tables.study.aggregations import Aggregations
        from medhelm.tables.study.arrow import read_scores
        from medhelm.tables.study.cells import COLUMNS, read_cell
        from medhelm.tables.study.selection import GradedRun
        from medhelm.tables.study.study import Study

        run = GradedRun(grading, grading.name, record)
        cell = read_cell(run, read_scores(run, COLUMNS), Aggregations(self.registry))
        spec, main = record.spec, record.grading.metrics[0].name
        scores = {}
        for metric, own in estimates_of(Study([cell], Settings()), cell).items():
            values = {"score": own.score, **own.interval.ends(), "n": own.n}
            known = {k: float(v) for k, v in values.items() if isinstance(v, int | float)}
            scores[metric_name(label(record, metric))] = known
        used = msgspec.structs.asdict(record.own.usage)
        outcomes = cell.scores[main].outcomes
        paid = cost_columns([record])["total_cost_usd"]
        numbers = {"coverage": cell.coverage(main), "planned": float(cell.planned(main))}
        numbers |= {f"outcome.{name}": float(n) for name, n in outcomes.items()}
        numbers |= {name: float(used[name]) for name in ("input_tokens", "output_tokens")}
        numbers |= {"total_cost_usd": paid} if isinstance(paid, float) else {}
        asking = spec.asking.name if spec.asking else None
        known_by = f"{spec.model.name} {record.request_hash} {record.grading_hash}"
        return EndedRun(
            id=hashlib.sha256(known_by.encode()).hexdigest()[:16],
            name=name,
            settings={
                "benchmark": spec.column,
                "benchmark_version": spec.benchmark_version,
                "data": spec.data,
                "split": spec.split,
                "dataset_sha256": spec.dataset_sha256,
                "prompt_sha256": spec.prompt_sha256,
                "model": spec.model.name,
                "provider": spec.model.provider,
                "asking": asking,
                "variant": spec.variant or None,
                "scoring": record.grading.scoring,
                "metric": metric_name(main),
                "max_output_tokens": spec.max_output_tokens,
                "temperature": spec.model.sampling.temperature,
                "repeats": spec.repeats,
                "seed": spec.seed,
                "request_hash": record.request_hash,
                "grading_hash": record.grading_hash,
            },
            scores=scores,
            numbers=numbers,
        )
