"""Write a run as a log of Inspect (`.eval`, version 2), by its published form and without its package."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec

from medhelm.exports.finished import (
    Answer,
    Finished,
    portable,
    tokens_of,
)
from medhelm.files.durable import write_whole
from medhelm.tables.run_estimates import label

_STOPS = {"stop": "stop", "length": "max_tokens", "refusal": "content_filter"}


def write(runs: Iterable[Finished], out: Path) -> list[Path]:
    """Write a log of each run below a folder; return the files."""
    return [_write(run, out) for run in runs]


def _write(run: Finished, out: Path) -> Path:
    name, content = portable(run.name).replace("_", "-"), io.BytesIO()
    header = _header(run)
    samples = [_sample(run, answer) for answer in run.answers]
    with ZipFile(content, "w", ZIP_DEFLATED) as archive:

        def put(member: str, value: object) -> None:
            archive.writestr(member, msgspec.json.encode(value))

        start = {key: header[key] for key in ("version", "eval", "plan")}
        put("_journal/start.json", start)
        for sample in samples:
            put(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
        put("summaries.json", [_summary(sample) for sample in samples])
        put("header.json", header)
    moment = run.ended.replace(":", "-").replace("Z", "+00-00")
    short = f"{run.record.request_hash[:11]}{run.record.grading_hash[:11]}"
    path = out / f"{moment}_{name}_{short}.eval"
    write_whole(path, content.getvalue())
    return path


def _header(run: Finished) -> dict[str, Any]:
    record, spec = run.record, run.record.spec
    ids, ended = list(dict.fromkeys(answer.id for answer in run.answers)), _date(run.ended)
    decoding = {k: v for k, v in msgspec.to_builtins(spec.model.sampling).items() if v is not None}
    decoding.pop("stop", None)
    metrics = [m.name for m in record.grading.metrics]
    labels = [label(record, name) for name in metrics]
    return {
        "version": 2,
        "status": "success" if record.state == "complete" else "cancelled",
        "eval": {
            "eval_id": record.grading_hash,
            "run_id": record.request_hash,
            "created": ended,
            "task": run.name,
            "task_id": record.request_hash,
            "task_version": spec.benchmark_version,
            "dataset": {
                "name": record.card.title,
                "samples": len(ids),
                "sample_ids": ids,
                "shuffled": False,
            },
            "model": spec.model.name,
            "model_generate_config": {"max_tokens": spec.max_output_tokens, **decoding},
            "config": {"limit": spec.max_instances, "epochs": spec.repeats},
            "packages": {"medhelm-framework": record.provenance.get("version.medhelm", "")},
            "scorers": [{"name": name, "metrics": []} for name in labels],
            "metadata": {"medhelm": run.facts},
        },
        "plan": {"name": "medhelm", "steps": []},
        "results": {
            "total_samples": record.instances * spec.repeats,
            "completed_samples": len(run.answers),
            "scores": [_score(run, name) for name in metrics],
        },
        "stats": {
            "started_at": _date(record.provenance.get("answered_from", run.ended)),
            "completed_at": ended,
            "model_usage": {
                party.model.name: {
                    "input_tokens": party.usage.input_tokens,
                    "output_tokens": party.usage.output_tokens,
                    "total_tokens": party.usage.input_tokens + party.usage.output_tokens,
                }
                for party in record.parties
            },
        },
    }


def _score(run: Finished, metric: str) -> dict[str, Any]:
    """Return the score of a metric and the ends of its interval, where it has them."""
    found, name = run.estimates.get(metric), label(run.record, metric)
    named = {
        name: found and found.score,
        "stderr": found and found.error,
        "low": found and found.interval.low,
        "high": found and found.interval.high,
    }
    values = {name: value for name, value in named.items() if value is not None and value == value}
    counted = sum(answer.scores[metric] is not None for answer in run.answers)
    return {
        "name": name,
        "scorer": name,
        "scored_samples": counted,
        "unscored_samples": len(run.answers) - counted,
        "metrics": {name: {"name": name, "value": value} for name, value in values.items()},
        "metadata": {"interval": found and found.interval.described},
    }


def _sample(run: Finished, answer: Answer) -> dict[str, Any]:
    """Return an answer as a sample; a metric without a value is not among its scores."""
    texts, model = answer.texts or {}, run.record.spec.model.name
    facts = {"outcomes": answer.outcomes, "cluster": answer.cluster, "texts": run.withheld or None}
    found: dict[str, Any] = {
        "id": answer.id,
        "epoch": answer.repeat + 1,
        "input": "",
        "target": "",
        "scores": {
            label(run.record, metric): _sample_score(metric, value, texts)
            for metric, value in answer.scores.items()
            if value is not None
        },
        "metadata": {"medhelm": facts},
    }
    if answer.texts is None:
        return found
    asked = [{"role": role, "content": said} for role, said in answer.prompt]
    said = texts["turns"] or [("assistant", texts["reply"])]
    own = {run.record.own.role, "assistant"}
    replies = [
        {"role": "assistant", "content": text, "model": model}
        if who in own
        else {"role": "user", "content": text, "metadata": {"role": who}}
        for who, text in said
    ]
    message = {"role": "assistant", "content": texts["reply"], "model": model}
    tokens = tokens_of(texts)
    return found | {
        "input": asked or "\n\n".join(filter(None, (texts["context"], texts["question"]))),
        "choices": list(texts["choices"]) or None,
        "target": list(texts["references"]),
        "messages": [*asked, *replies],
        "output": {
            "model": model,
            "choices": [
                {"message": message, "stop_reason": _STOPS.get(texts["finish"], "unknown")}
            ],
            "usage": tokens,
            "time": texts["latency_s"],
            "error": texts["error"] or None,
        },
        "model_usage": {model: tokens} if tokens else {},
    }


def _sample_score(metric: str, value: float, texts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "value": value,
        "answer": texts.get("read"),
        "explanation": (texts.get("reasons") or {}).get(metric),
        "metadata": {"judges": texts["judges"]} if texts.get("judges") else None,
    }


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of a sample in the viewer's list."""
    names = ("id", "epoch", "input", "choices", "target", "metadata", "model_usage", "scores")
    return {name: sample[name] for name in names if name in sample} | {"completed": True}


def _date(moment: str) -> str:
    return moment.replace("Z", "+00:00")
