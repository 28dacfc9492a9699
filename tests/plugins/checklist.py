"""A made-up benchmark whose answers are graded by binary criteria of each case."""

from __future__ import annotations

from typing import Any

from medhelm import Benchmark, Criterion, FileDataset, Instance, Row, SourceFile, hookimpl

METRICS = [
    "rubric_coverage",
    "rubric_accuracy",
    "rubric_pass_at_k",
    "rubric_hits",
    "rubric_invalid",
    "rubric_score",
    "rubric_critical_failure",
]


def to_instance(row: Row) -> Instance:
    """Return a case with its criteria; `threshold` is k/N."""
    more: dict[str, Any] = {"threshold": row["threshold"]} if row.get("threshold") else {}
    return Instance(
        id=row["id"],
        question=row["question"],
        criteria=tuple(
            Criterion(
                name=f"c{n:02}",
                text=c["text"],
                points=c.get("points", 1.0),
                is_critical=c.get("critical", False),
            )
            for n, c in enumerate(row["criteria"], 1)
        ),
        answer_key=more,
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark."""
    return [
        Benchmark(
            name="checklist",
            subcategory="clinical_knowledge_support",
            dataset=FileDataset(files=(SourceFile(name="checklist.jsonl"),)),
            to_instance=to_instance,
            prompt="plain",
            metrics=METRICS,
            answer="text",
            redistributable=True,
        )
    ]
