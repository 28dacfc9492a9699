"""A series of cases on a scripted author, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from medhelm.models import ModelPool
from medhelm.models.costs import Ledger
from medhelm.models.scripted import ScriptedModel
from medhelm.schema.model import InstanceModel, Model, ModelSpec
from medhelm_benchmarks.noharm.generation.folder import SeriesEnd, run_series
from medhelm_benchmarks.noharm.generation.guideline import Guideline
from medhelm_benchmarks.noharm.generation.pipeline import Series
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


@dataclass
class Studio:
    """Runs a series in one folder, as often as asked."""

    folder: Path
    author: Author = field(default_factory=Author)
    raters: tuple[str, str, str] = ("test/writer", "test/writer", "test/writer")
    models: dict[str, ScriptedModel] = field(default_factory=dict)
    specs: dict[str, ModelSpec] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)

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
        series = self.series(**more)

        async def work() -> SeriesEnd:
            return await run_series(
                series,
                n,
                self.folder,
                Pool(self.models),
                ledger or Ledger(),
                lambda end: self.ends.append(end.code),
                lambda text: None,
            )

        return asyncio.run(work())

    @property
    def asked(self) -> int:
        return sum(len(m.requests) for m in self.models.values())


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path / "series")


Make = Callable[..., Studio]
