"""A benchmark whose rows are a data set of the hub."""

from medhelm import Benchmark, HubDataset, Instance, Row, hookimpl


def to_instance(row: Row) -> Instance:
    return Instance(id=row["id"], question=row["text"], choices=("yes", "no"), references=("A",))


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="wards",
            subcategory="supporting_diagnostic_decisions",
            dataset=HubDataset("owner/name", revision="0" * 40, config="en"),
            to_instance=to_instance,
            instruction="Choose.",
            metrics=["exact_match"],
        )
    ]
