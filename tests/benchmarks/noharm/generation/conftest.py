"""A series of cases on a scripted author, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import MedhelmError
from medhelm.models import ModelPool
from medhelm.models.costs import Ledger
from medhelm.models.scripted import ScriptedModel
from medhelm.runs.runner import run_sweep
from medhelm.schema.model import InstanceModel, Model, ModelSpec
from medhelm.schema.run import RunRecord
from medhelm_benchmarks.noharm.generation.conduct import (
    CaseEnd,
    Series,
    case_ends,
    series_run,
    write_products,
)
from medhelm_benchmarks.noharm.generation.guideline import Guideline
from tests.benchmarks.noharm.generation.author import GUIDELINE, Author

NAME = "Society of Examples 2024 guideline on fever in adults"


class Pool(ModelPool):
    """A pool whose models are scripted."""

    def __init__(self, models: dict[str, ScriptedModel]) -> None:
        super().__init__({})
        self.models = models

    def open(self, spec: ModelSpec) -> Model | InstanceModel:
        return self.models[spec.name]


def spec(name: str = "test/writer", **more: Any) -> ModelSpec:
    return ModelSpec(name=name, provider="scripted", **more)


class Silent:
    """Shows nothing of a sweep."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


@dataclass(frozen=True)
class SeriesEnd:
    """What came of a series."""

    ends: list[CaseEnd]
    stopped: MedhelmError | None
    cases_path: Path
    record: RunRecord | None


@dataclass
class Studio:
    """Runs a series in one folder, as often as asked."""

    folder: Path
    author: Author = field(default_factory=Author)
    raters: tuple[str, str, str] = ("test/writer", "test/writer", "test/writer")
    models: dict[str, ScriptedModel] = field(default_factory=dict)
    specs: dict[str, ModelSpec] = field(default_factory=dict)

    def series(self, **more: Any) -> Series:
        for name in {"test/writer", *self.raters}:
            self.specs.setdefault(name, spec(name))
            self.models.setdefault(name, ScriptedModel(self.specs[name], self.author))
        first, second, third = (self.specs[r] for r in self.raters)
        values: dict[str, Any] = {
            "prefix": "NOHARM-INFE-FEVER",
            "specialty": "Infectious diseases",
            "guideline": Guideline(NAME, GUIDELINE),
            "generator": self.specs["test/writer"],
            "raters": (first, second, third),
        }
        return Series(**(values | more))

    def run(self, n: int = 1, ledger: Ledger | None = None, **more: Any) -> SeriesEnd:
        run = series_run(self.series(**more), n, self.folder, "public", None)
        pool = Pool(self.models)
        end = asyncio.run(run_sweep([run], ledger or Ledger(), Silent(), pool))
        ends = case_ends(self.folder)
        write_products(self.folder, ends)
        return SeriesEnd(ends, end.stopped, self.folder / "cases.jsonl", end.endings[0].record)

    @property
    def asked(self) -> int:
        return sum(len(m.requests) for m in self.models.values())


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path / "series")
