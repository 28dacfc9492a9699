"""A benchmark of a few notes, for what needs no model."""

from __future__ import annotations

from dataclasses import dataclass

from medhelm.plugins.registry import Registry
from medhelm.plugins.taxonomy import load_taxonomy
from medhelm.schema.data import Benchmark, FileDataset, Instance, Row, SourceFile
from medhelm.schema.episode import Response
from medhelm.schema.score import Metric, Score


@dataclass(frozen=True, kw_only=True)
class Same(Metric):
    """1 where the completion is the gold."""

    name: str = "same"

    def score(self, instance: Instance, response: Response) -> Score:
        return Score(value=float(response.text == instance.references[0]))


def to_instance(row: Row) -> Instance:
    return Instance(id=row["id"], context=row["text"], references=("gold",))


BASE = Benchmark(
    name="bench",
    subcategory="planning_treatments",
    dataset=FileDataset(
        files=(SourceFile(name="test.jsonl"), SourceFile(name="dev.jsonl")), splits=("test", "dev")
    ),
    to_instance=to_instance,
    metrics=["same"],
    prompt="plain",
    answer="text",
)


def registry(*benchmarks: Benchmark) -> Registry:
    return Registry(
        taxonomy=load_taxonomy(),
        benchmarks={b.name: b for b in benchmarks},
        metrics={("same", "fixed"): Same()},
        models={},
    )
