"""Stored answers of a run whose outcome the user wants asked again."""

from __future__ import annotations

from medhelm.runs.planning import Run


def find_unread(run: Run) -> set[tuple[str, int]]:
    """Return instance and repeat of those with an outcome of `run.ask_again`, by the run's grading.

    The outcomes are those of the main metric; empty where there is no grading.
    """
    path = run.path / "gradings" / run.grading_hash / "scores.parquet"
    if not run.ask_again or not path.exists():
        return set()
    import pyarrow.parquet as pq

    main = run.grading.metrics[0].name
    columns = ["instance_id", "repeat", "metric", "outcome"]
    return {
        (instance_id, repeat)
        for batch in pq.ParquetFile(path).iter_batches(columns=columns)
        for instance_id, repeat, metric, outcome in zip(
            *(batch.column(name).to_pylist() for name in columns), strict=True
        )
        if metric == main and outcome in run.ask_again
    }
