"""Write `.eval_results` of the Hugging Face hub, and the table of a model card."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from medhelm.exports.finished import CONFIDENCE, Finished, portable
from medhelm.files.durable import write_whole
from medhelm.tables.format.column_kinds import count, measured, share, text
from medhelm.tables.format.formats import to_markdown
from medhelm.tables.format.table import make_table

_COLUMNS = (
    text("benchmark", "name of the benchmark", "benchmark"),
    text("metric", "its main metric", "metric"),
    *measured("score", "score on the run's instances", "metric", "score", digits=3),
    count("n", "instances with a value", "n"),
    share("coverage", "share of the planned answers that have a value", "coverage"),
    text("date", "day of the last answer", "date"),
    text("version", "version of medhelm", "medhelm"),
)


def write(runs: Iterable[Finished], out: Path, source_url: str = "") -> list[Path]:
    """Write the files of each model below a folder of its own; return them.

    `runs`: fit ones. The hub's file is of those alone whose data lie there. `source_url`: where the evidence lies.
    """
    written, rows = list[Path](), defaultdict[str, list[dict[str, Any]]](list)
    for run in runs:
        record, spec = run.record, run.record.spec
        metric = record.grading.metrics[0].name
        row = run.facts["scores"][metric]
        model, asking = spec.model.name, f"+{spec.asking.name}" if spec.asking else ""
        version = record.provenance.get("version.medhelm", "")
        shown = {"benchmark": f"{spec.column}{asking}", "metric": metric, "date": run.ended[:10]}
        own = {name: row[name] for name in ("score", "low", "high", "n", "coverage")}
        rows[model.removesuffix(asking)].append({**shown, **own, "version": version})
        if run.hub is not None:
            name = portable(f"{spec.column}{asking}-{record.grading_hash}")
            folder = out / portable(model.removesuffix(asking))
            path = folder / ".eval_results" / f"{name}.yaml"
            entry = _entry(run, metric, own, source_url)
            content = yaml.safe_dump([entry], sort_keys=False, allow_unicode=True)
            write_whole(path, content.encode())
            written.append(path)
    for model, own in rows.items():
        notes = [f"Scores with intervals of {CONFIDENCE:.0%}; n counts instances."]
        table = make_table("card", "Evaluation by medhelm", _COLUMNS, own, notes, {})
        path = out / portable(model) / "model_card.md"
        write_whole(path, to_markdown(table).encode())
        written.append(path)
    return written


def _entry(run: Finished, metric: str, own: dict[str, Any], source_url: str) -> dict[str, Any]:
    hub, spec = run.hub, run.record.spec
    assert hub is not None
    interval = f", {CONFIDENCE:.0%} interval {own['low']:.4g} to {own['high']:.4g}"
    said = [f"{metric}{interval if own['low'] is not None else ''}", f"n {own['n']}"]
    said += [f"coverage {own['coverage']:.1%}", f"{spec.repeats} repeats" * (spec.repeats > 1)]
    said += [f"asked {spec.asking.name}" if spec.asking else "", f"split {hub.split}"]
    entry: dict[str, Any] = {
        "dataset": {
            "id": hub.repo,
            "task_id": hub.config or "default",
            "revision": hub.revision,
        },
        "value": own["score"],
        "date": run.ended,
        "notes": "; ".join(filter(None, said)) + f"; medhelm run {run.record.grading_hash}",
    }
    if source_url:
        entry["source"] = {"url": source_url, "name": "medhelm"}
    return entry
