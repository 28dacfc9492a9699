"""Triage level from a complaint: a benchmark in Python."""

from medhelm import Benchmark, FileDataset, Instance, Row, SourceFile, hookimpl


def to_instance(row: Row) -> Instance:
    return Instance(
        id=row["id"],
        context=row["complaint"],
        choices=("immediate", "urgent", "can wait"),
        references=(row["level"],),
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="example_triage",
            subcategory="supporting_diagnostic_decisions",
            dataset=FileDataset(files=(SourceFile(name="triage.jsonl"),)),
            to_instance=to_instance,
            metrics=["exact_match", "example_length"],
            instruction="Choose how soon the patient must be seen.",
            redistributable=True,
        )
    ]
