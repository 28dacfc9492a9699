"""Write `.eval_results` of the Hugging Face hub: a file of each run, below a folder of its model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from medhelm.interop.finished import CONFIDENCE, Finished, portable
from medhelm.files.durable import write_whole


def write(runs: Iterable[Finished], out: Path, source_url: str) -> Iterator[Path | str]:
    """Write the main score of each run; yield the files, and why a run has none."""
    for run in runs:
        if run.unfit or run.hub is None:
            yield f"{run.name} x {run.record.spec.model.name} is left out: {run.unfit}"
            continue
        spec, metric = run.record.spec, run.record.grading.metrics[0].name
        asking, row = f"+{spec.asking.name}" if spec.asking else "", run.facts["scores"][metric]
        said = f"{run.name}{asking}: {metric}"
        if row["low"] is not None:
            said += f" ({CONFIDENCE:.0%} interval {row['low']:.4g} to {row['high']:.4g})"
        said += f", n {row['n']}, coverage {row['coverage']:.1%}"
        task, source = run.hub.config or "default", {"url": source_url, "name": "medhelm"}
        entry = {
            "dataset": {"id": run.hub.repo, "task_id": task, "revision": run.hub.revision},
            "value": row["score"],
            "date": run.ended,
            **({"source": source} if source_url else {}),
            "notes": f"{said}, split {run.hub.split}; medhelm grading {run.record.grading_hash}",
        }
        folder = out / portable(spec.model.name.removesuffix(asking)) / ".eval_results"
        path = folder / (portable(f"{run.name}{asking}-{run.record.grading_hash}") + ".yaml")
        write_whole(path, yaml.safe_dump([entry], sort_keys=False, allow_unicode=True).encode())
        yield path
