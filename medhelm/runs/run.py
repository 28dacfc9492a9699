"""One run with all that it needs, nothing of it opened yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medhelm.data.dataset import Dataset
from medhelm.protocols.protocol import Protocol
from medhelm.protocols.strategy import Strategy
from medhelm.runs.tracking import Tracking
from medhelm.schema.data import Benchmark
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import BenchmarkCard, GradingSpec, RunSpec
from medhelm.schema.score import Metric, Unread
from medhelm.store.records import grading_hash
from medhelm.store.shards import Shard


@dataclass(frozen=True)
class Run:
    """One run with all that it needs, nothing of it opened yet."""

    benchmark: Benchmark
    protocol: Protocol
    dataset: Dataset
    spec: RunSpec
    strategies: Mapping[str, Strategy]
    """The strategy of each role that has one."""
    metrics: tuple[Metric, ...]
    grading: GradingSpec
    card: BenchmarkCard
    path: Path
    is_same_model: bool = False
    """True if models that are stored under other names are these, as the user says."""
    found: Path | None = None
    """The folder that is to become `path`, as its models are renamed; None where nothing is."""
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
    def grading_hash(self) -> str:
        """Return the name of the grading's folder."""
        return grading_hash(self.grading)
