"""Write the main score of each run for the Hugging Face hub, and every score of each answer as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from medhelm.files.durable import write_whole
from medhelm.interop.finished import CONFIDENCE, Finished, portable
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


def write_hub(runs: Iterable[Finished], out: Path, source_url: str) -> Iterator[Path | str]:
    """Write `.eval_results` below a folder of each model; yield the files, and why a run has none."""
    for run in runs:
        if run.unfit or run.hub is None:
            yield f"{run.name} x {run.record.spec.model.name} is left out: {run.unfit}"
            continue
        spec, metric = run.record.spec, run.record.grading.metrics[0].name
        asking, row = f"+{spec.asking.name}" if spec.asking else "", run.facts["scores"][metric]
        said = f"{run.name}{asking}: {metric}"
        if row["low"] is not None:
            said += f" ({CONFIDENCE:.0%} interval {row['low']:.4g} to {row['high']:.4g})"
        said += f", n {row['n']}, coverage {row['coverage']:.1%}, split {run.hub.split}"
        task, source = run.hub.config or "default", {"url": source_url, "name": "medhelm"}
        entry = {
            "dataset": {"id": run.hub.repo, "task_id": task, "revision": run.hub.revision},
            "value": row["score"],
            "date": run.ended,
            **({"source": source} if source_url else {}),
            "notes": f"{said}; medhelm grading {run.record.grading_hash}",
        }
        folder = out / portable(spec.model.name.removesuffix(asking)) / ".eval_results"
        path = folder / (portable(f"{run.name}{asking}-{run.record.grading_hash}") + ".yaml")
        write_whole(path, yaml.safe_dump([entry], sort_keys=False, allow_unicode=True).encode())
        yield path


def write_csv(runs: Iterable[Finished], out: Path) -> Iterator[Path]:
    """Write a row of each answer and metric of all runs to one file, and yield it."""
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
