"""An examination for tests: data_dir/exam/exam.jsonl, each question with options of its own."""

from medhelm import Benchmark, FileDataset, Instance, Row, SourceFile, hookimpl


def to_instance(row: Row) -> Instance:
    return Instance(
        id=row["id"],
        question=row["question"],
        choices=tuple(row["options"]),
        references=(row["gold"],),
        cluster=row["stem"],
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="exam",
            subcategory="providing_clinical_knowledge_support",
            dataset=FileDataset(files=(SourceFile(name="exam.jsonl"),)),
            to_instance=to_instance,
            metrics=["exact_match"],
            cluster="stem",
        )
    ]
