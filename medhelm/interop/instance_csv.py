"""Write one row of each answer and metric as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from medhelm.interop.finished import Finished
from medhelm.files.durable import write_whole
from medhelm.tables.format.formats import clean
from medhelm.tables.format.spreadsheet import csv_text

_COLUMNS = [
    "benchmark",
    "model",
    "scoring",
    "run",
    "instance_id",
    "repeat",
    "cluster",
    "metric",
    "value",
    "outcome",
]
_TEXTS = ["read", "reply", "finish", "input_tokens", "output_tokens", "latency_s"]


def write(runs: Iterable[Finished], out: Path) -> Iterator[Path]:
    """Write all runs to one file, and yield it."""
    lines = [line for run in runs for line in _lines(run)]
    write_whole(out, csv_text([*_COLUMNS, *_TEXTS, "references", "reason"], lines).encode())
    yield out


def _lines(run: Finished) -> Iterator[list[object]]:
    of_run = run.name, run.record.spec.model.name, run.record.grading.scoring, run.folder
    for answer in run.answers:
        own = [*of_run, answer["id"], answer["repeat"], answer["cluster"]]
        texts = [*map(answer.get, _TEXTS), " | ".join(answer.get("references", ()))]
        for metric, outcome in answer["outcomes"].items():
            reason = answer.get("reasons", {}).get(metric)
            line = [*own, metric, answer["scores"][metric], outcome, *texts, reason]
            yield [clean(cell, "\n\r\t") if isinstance(cell, str) else cell for cell in line]
