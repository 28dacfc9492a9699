"""A made-up open-ended benchmark that a jury rates."""

from medhelm import Benchmark, FileDataset, Instance, Row, SourceFile, hookimpl


def to_instance(row: Row) -> Instance:
    return Instance(id=row["id"], question=row["question"], references=(row["gold"],))


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="essay",
            subcategory="planning_treatments",
            dataset=FileDataset(files=(SourceFile(name="essay.jsonl"),)),
            to_instance=to_instance,
            metrics=["jury", "rouge_l"],
            rubric="accuracy_completeness_clarity",
            prompt="plain",
            instruction="Answer in a sentence.",
            answer="text",
            data_class="gated",
        )
    ]
