"""A run before anything of it is opened: its settings, its grading, and who is told of its end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from medhelm.data.dataset import Dataset, is_redistributable
from medhelm.files.plain_names import metric_name
from medhelm.grading.grade import metric_names, metric_ref
from medhelm.grading.graders.grader import grader_terms, with_judges
from medhelm.grading.jury.choice import jury_terms, with_jury
from medhelm.grading.panels import Judging, judgings
from medhelm.grading.scoring import score_run
from medhelm.plugins.discovery import fault
from medhelm.plugins.registry import Registry
from medhelm.protocols.protocol import Protocol
from medhelm.protocols.strategy import Strategy
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import (
    BenchmarkCard,
    EndedRun,
    GradingSpec,
    JurySpec,
    RunRecord,
    RunSpec,
    Tracker,
    fields_of,
)
from medhelm.schema.score import Metric, Scoring, Unread
from medhelm.store.records import Plan, grading_hash
from medhelm.store.shards import Shard

_KNOWN = ("data_class", "licence", "curation", "citation", "cluster")
_ON_CARD = (*_KNOWN, "description", "instruction", "reference_part")
_ONE = Lock()
"""Held while a run is told of: clients know one run at a time."""
_SETTINGS = (
    *("benchmark_version", "data", "split", "dataset_sha256", "prompt_sha256", "variant"),
    *("max_output_tokens", "repeats", "seed"),
)


@dataclass(frozen=True)
class Tracking:
    """The trackers that a command has chosen."""

    trackers: Mapping[str, Tracker]
    registry: Registry

    def tell(self, run: Path, record: RunRecord) -> list[str]:
        """Tell every tracker of a run; return a line for each that fails, which changes nothing else."""
        name, said = f"{record.spec.column} x {record.spec.model.name}", []
        for tracker, send in self.trackers.items():
            try:
                with _ONE:
                    send(self._ended(run / "gradings" / record.grading_hash, name, record))
            except Exception as e:  # the boundary to plugins
                said.append(f"{name}: not tracked by {tracker}: {fault(e)}")
        return said

    def _ended(self, grading: Path, name: str, record: RunRecord) -> EndedRun:
        from medhelm.tables.spending import cost_columns
        from medhelm.tables.study.run_estimates import estimates_of, label, read_alone
        from medhelm.tables.study.selection import GradedRun

        study, cell = read_alone(GradedRun(grading, grading.name, record), self.registry)
        spec, main = record.spec, record.grading.metrics[0].name
        numbers: dict[str, object] = dict(coverage=cell.coverage(main), planned=cell.planned(main))
        for metric, own in estimates_of(study, cell).items():
            shown = metric_name(label(record, metric))
            row = own.row("n")
            numbers |= {shown: row.pop("score")} | {f"{shown}.{k}": v for k, v in row.items()}
        numbers |= {f"outcome.{name}": n for name, n in cell.scores[main].outcomes.items()}
        numbers |= fields_of(record.own.usage, "input_tokens", "output_tokens")
        numbers |= {"total_cost_usd": cost_columns([record])["total_cost_usd"]}
        hashes = fields_of(record, "request_hash", "grading_hash")
        known_by = " ".join([spec.model.name, *map(str, hashes.values())])
        return EndedRun(
            id=hashlib.sha256(known_by.encode()).hexdigest()[:16],
            name=name,
            settings={
                **{"benchmark": spec.column, "model": spec.model.name, "metric": metric_name(main)},
                **{"provider": spec.model.provider, "scoring": record.grading.scoring},
                **{"asking": spec.asking.name if spec.asking else None},
                **fields_of(spec, *_SETTINGS),
                **hashes,
            },
            numbers={k: float(v) for k, v in numbers.items() if isinstance(v, int | float)},
        )


@dataclass(frozen=True)
class Run:
    """Benchmark, model and settings, how the answers are graded, and where all of it is stored."""

    benchmark: Benchmark
    protocol: Protocol
    dataset: Dataset
    spec: RunSpec
    metrics: tuple[Metric, ...]
    grading: GradingSpec
    card: BenchmarkCard
    path: Path
    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    """The strategy of each role that has one."""
    is_same_model: bool = False
    """True if models that are stored under other names are these, as the user says."""
    found: Path | None = None
    """The folder that is to become `path`, as its models are renamed; None where nothing is."""
    renamed: str = ""
    """The models of it that bear other names from now on."""
    ask_again: tuple[Unread, ...] = ()
    """Outcomes of stored answers that are asked for once more."""
    controls: float = 0.0
    """Share of the cases of which judges are asked about controls."""
    judge_again: tuple[Unread, ...] = ()
    """Outcomes of stored verdicts that are asked for once more; then judges alone are asked."""
    shard: Shard | None = None
    """The part of the instances that this process asks; None: all of them."""
    tracking: Tracking | None = None
    """The trackers that are told how it ended; None: none is."""
    is_own: bool = False
    """True if no benchmark declares its instances: there may be others each time."""

    @property
    def players(self) -> dict[str, ModelSpec]:
        """Return the model of each role, the model under test first."""
        return {self.protocol.roles[0]: self.spec.model, **self.spec.cast}

    @property
    def request_hash(self) -> str:
        """Return the name of the run's folder."""
        return self.path.name

    @property
    def models(self) -> tuple[ModelSpec, ...]:
        """Return every model that it asks, other roles and judges included."""
        return (*(() if self.judge_again else self.players.values()), *self.grading.judges)

    @cached_property
    def grading_hash(self) -> str:
        """Return the name of the grading's folder."""
        return grading_hash(self.grading)

    @property
    def grading_path(self) -> Path:
        """Return the grading's folder."""
        return self.path / "gradings" / self.grading_hash

    @cached_property
    def judgings(self) -> list[Judging]:
        """Return all that judges are asked for on its answers."""
        return judgings(self.path, self.grading, self.metrics)

    @property
    def has_controls(self) -> bool:
        """Return whether its judges are to be asked about controls."""
        own = self.judgings
        return any(one.sample_size(judge, self.controls, 1) for one in own for judge in one.judges)

    def score(self, plan: Plan, controls: float = 0.0) -> RunRecord:
        """Return the record of its stored answers, graded now; `controls`: share of the cases that judges were asked about."""
        card, protocol = self.card, self.protocol
        return score_run(self.path, plan, self.grading, self.metrics, card, protocol, controls)


def grading_of(
    benchmark: Benchmark,
    registry: Registry,
    scoring: Scoring,
    jury: JurySpec | None,
    settings: Mapping[str, Any],
    folder: Path,
    *,
    asking: Asking | None,
    further: Iterable[str] = (),
) -> tuple[tuple[Metric, ...], GradingSpec]:
    """Return a benchmark's metrics, those of a jury with its judges and criteria, and all that decides the grading.

    `settings` are those of graders, `folder` holds the benchmark's data files, `further` metrics come last.
    """
    names = dict.fromkeys([*metric_names(benchmark, scoring, asking), *further])
    terms = jury_terms(benchmark, jury) if jury is not None else None
    own = [registry.metric(name, scoring).prepare(folder) for name in names]
    metrics = with_judges(with_jury(own, terms), jury)
    return metrics, GradingSpec(
        scoring=scoring,
        metrics=tuple(metric_ref(m, benchmark.parts) for m in metrics),
        parts=benchmark.parts,
        jury=terms,
        graders=grader_terms(benchmark, metrics, jury, settings) if jury is not None else (),
    )


def benchmark_card(benchmark: Benchmark, registry: Registry, spec: RunSpec) -> BenchmarkCard:
    """Return what reporting needs of a benchmark, on the data of a run, without its plugin."""
    subcategory = registry.taxonomy.subcategory(benchmark.subcategory)
    return BenchmarkCard(
        name=benchmark.name,
        title=benchmark.title or benchmark.name,
        category=registry.taxonomy.category_of(subcategory.id).name,
        subcategory=subcategory.name,
        redistributable=is_redistributable(benchmark, spec.data, spec.split, spec.dataset_sha256),
        tasks=tuple(benchmark.tasks),
        source=benchmark.dataset.source,
        plugin=_plugin(benchmark.origin),
        public_since=benchmark.exposure.public_since,
        **fields_of(benchmark, *_ON_CARD),
    )


def _plugin(origin: str) -> str:
    path = Path(origin)
    if not path.is_file():
        return origin
    return f"{path.name} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
