"""Write a run as a log of Inspect (`.eval`, version 2), by its published form and without its package."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec

from medhelm.interop.finished import Answer, Finished, portable, tokens_of
from medhelm.files.durable import write_whole
from medhelm.tables.study.run_estimates import label

_STOPS = {"stop": "stop", "length": "max_tokens", "refusal": "content_filter"}


def write(runs: Iterable[Finished], out: Path) -> Iterator[Path]:
    """Write a log of each run below a folder; yield the files."""
    for run in runs:
        header, samples = _header(run), [_sample(run, answer) for answer in run.answers]
        members = {"_journal/start.json": {n: header[n] for n in ("version", "eval", "plan")}}
        members |= {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}
        content = io.BytesIO()
        with ZipFile(content, "w", ZIP_DEFLATED) as archive:
            for member, value in (members | {"header.json": header}).items():
                archive.writestr(member, msgspec.json.encode(value))
            lines = [{**sample, "messages": [], "output": None} for sample in samples]
            archive.writestr("summaries.json", msgspec.json.encode(lines))
        name = f"{run.ended.replace(':', '-')[:-1]}+00-00_{portable(run.name).replace('_', '-')}"
        short = run.record.request_hash[:11] + run.record.grading_hash[:11]
        path = out / f"{name}_{short}.eval"
        write_whole(path, content.getvalue())
        yield path


def _header(run: Finished) -> dict[str, Any]:
    record, spec = run.record, run.record.spec
    ids = list(dict.fromkeys(answer["id"] for answer in run.answers))
    metrics, decoding = [m.name for m in record.grading.metrics], spec.model.sampling
    own = {"eval_id": record.grading_hash, "run_id": record.request_hash, "task": run.name}
    own |= {"task_id": record.request_hash, "task_version": spec.benchmark_version}
    used = {
        p.model.name: tokens_of(p.usage.input_tokens, p.usage.output_tokens) for p in record.parties
    }
    return {
        "version": 2,
        "status": "success" if record.state == "complete" else "cancelled",
        "eval": {
            **own,
            "created": run.ended,
            "model": spec.model.name,
            "model_generate_config": {"temperature": decoding.temperature, "top_p": decoding.top_p},
            "dataset": {"name": record.card.title, "samples": len(ids), "sample_ids": ids},
            "config": {"limit": spec.max_instances, "epochs": spec.repeats},
            "scorers": [{"name": label(record, name), "metrics": []} for name in metrics],
            "metadata": {"medhelm": run.facts},
        },
        "plan": {"name": "medhelm", "steps": []},
        "results": {
            "total_samples": record.instances * spec.repeats,
            "completed_samples": len(run.answers),
            "scores": [_score(run, name) for name in metrics],
        },
        "stats": {"started_at": run.ended, "completed_at": run.ended, "model_usage": used},
    }


def _score(run: Finished, metric: str) -> dict[str, Any]:
    """Return the score of a metric and the ends of its interval, where it has them."""
    found, name = run.estimates.get(metric), label(run.record, metric)
    row = found.row("standard_error") if found else {}
    values = {name if k == "score" else k: v for k, v in row.items() if v is not None and v == v}
    n = sum(answer["scores"].get(metric) is not None for answer in run.answers)
    counts = {"scored_samples": n, "unscored_samples": len(run.answers) - n}
    metrics = {name: {"name": name, "value": value} for name, value in values.items()}
    return {"name": name, "scorer": name, **counts, "metrics": metrics}


def _sample(run: Finished, answer: Answer) -> dict[str, Any]:
    """Return an answer as a sample; a metric without a value is not among its scores."""
    model, own = run.record.spec.model.name, run.record.own.role
    facts = {"outcomes": answer["outcomes"], "cluster": answer["cluster"]}
    found: dict[str, Any] = {"id": answer["id"], "epoch": answer["repeat"] + 1}
    found |= {"input": f"[{run.withheld}]", "target": "", "metadata": {"medhelm": facts}}
    found["scores"] = {
        label(run.record, metric): {
            "value": value,
            "answer": answer.get("read"),
            "explanation": answer.get("reasons", {}).get(metric),
            "metadata": {"judges": answer.get("judges", [])},
        }
        for metric, value in answer["scores"].items()
        if value is not None
    }
    if run.withheld:
        return found
    asked = [{"role": role, "content": said} for role, said in answer["prompt"]]
    said = [
        {"role": "assistant" if who == own else "user", "content": text, "metadata": {"role": who}}
        for who, text in answer["turns"] or [(own, answer["reply"])]
    ]
    message = {"role": "assistant", "content": answer["reply"], "model": model}
    choice = {"message": message, "stop_reason": _STOPS.get(answer["finish"], "unknown")}
    output = {"model": model, "choices": [choice], "usage": answer["tokens"]}
    return found | {
        "input": asked or "\n\n".join(filter(None, (answer["context"], answer["question"]))),
        "choices": list(answer["choices"]) or None,
        "target": list(answer["references"]),
        "messages": [*asked, *said],
        "output": output | {"time": answer["latency_s"], "error": answer["error"] or None},
        "model_usage": {model: answer["tokens"]} if answer["tokens"] else {},
    }
