"""A benchmark of copies of the staged case, each with a number of its own."""

from __future__ import annotations

from pathlib import Path

import msgspec

from medhelm import Benchmark, FileDataset, Instance, Row, SourceFile, hookimpl
from medhelm_benchmarks.encounters.packets import (
    Deed,
    EvaluatorPacket,
    RubricItem,
    case_instance,
)
from tests.benchmarks.encounters.stage import CASE, PACKETS

LAST = RubricItem(
    competency="PROF",
    text="Treats the mother with respect",
    deed=Deed(channel="speak", wordings=("thank you",)),
    critical=True,
)


def to_instance(row: Row) -> Instance:
    """Return the case under a number."""
    number = int(row["number"])
    items = (*PACKETS.evaluator.items[:3], LAST)
    packets = msgspec.structs.replace(PACKETS, evaluator=EvaluatorPacket(items=items))
    return case_instance(
        f"art{number // 2}/scenario{number % 2}",
        f"{CASE.context} Number {number}.",
        packets,
        cluster=f"art{number // 2}",
        metadata={"specialty": ("Pediatrics", "Surgery")[number % 2]},
    )


STAGE = Benchmark(
    name="stage",
    subcategory="planning_treatments",
    dataset=FileDataset(files=(SourceFile(name="stage.jsonl"),)),
    to_instance=to_instance,
    protocol="encounter",
    prompt="plain",
    answer="text",
    metrics=[
        "encounter_completion",
        "encounter_pooled",
        "encounter_competency_mean",
        "encounter_competency_case_mean",
        "encounter_completion_turned",
        "encounter_completion_left_out",
        "simulation_fidelity",
        "role_conduct",
    ],
    max_output_tokens=300,
    redistributable=True,
    cluster="article",
    samples=Path(__file__).parent / "stage.jsonl",
)


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark."""
    return [STAGE]
