"""A benchmark of any size for tests: data_dir/quiz/quiz.jsonl, four options each."""

from medhelm import Benchmark, FileDataset, Instance, Row, SourceFile, hookimpl


def to_instance(row: Row) -> Instance:
    return Instance(
        id=row["id"],
        context=row["context"],
        question=row["question"],
        choices=("aspirin", "insulin", "heparin", "warfarin"),
        references=(row["gold"],),
        metadata={"ward": row["ward"]},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="quiz",
            subcategory="providing_clinical_knowledge_support",
            dataset=FileDataset(files=(SourceFile(name="quiz.jsonl"),)),
            to_instance=to_instance,
            metrics=["exact_match"],
            instruction="Choose the drug.",
        )
    ]
