"""Logs of Inspect, version 2, read and written by their published form, without its package."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import UsageError
from medhelm.files.durable import write_whole
from medhelm.interop.finished import Answer, Finished, portable, tokens_of
from medhelm.interop.recorded import Log, Recorded, as_number, leaves, messages_of, sampling_of
from medhelm.schema.episode import Finish, Response, Usage
from medhelm.store.imported import TheirScore
from medhelm.tables.study.run_estimates import label

_ZSTANDARD = 93
_FINISH: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_length": "oversize",
    "content_filter": "refusal",
}
_STOPS = {"stop": "stop", "length": "max_tokens", "refusal": "content_filter"}
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Values of its scores that are letters: correct, incorrect, partly correct, no answer."""

# Read ---------------------------------------------------------------------------------------------


def read_logs(place: Path) -> Iterator[Log]:
    """Yield the log of a file, or all of a folder but the parts of one log. Raises UsageError."""
    for path in sorted(place.rglob("*.eval")) if place.is_dir() else [place]:
        if ".shards" in str(path.parent):
            continue
        header, samples = _content(path)
        own = header["eval"]
        decoding = own.get("model_generate_config") or {}
        yield Log(
            tool="inspect",
            version=str((own.get("packages") or {}).get("inspect_ai", "")),
            path=str(path),
            task=str(own["task"]),
            model=str(own["model"]),
            sampling=sampling_of(decoding, "stop_seqs"),
            max_output_tokens=decoding.get("max_tokens"),
            answers=[*map(_answer, sorted(samples, key=lambda s: (str(s["id"]), s["epoch"])))],
        )


def _content(path: Path) -> tuple[Any, list[Any]]:
    """Return the header of a log and its samples, of an archive or of one JSON file."""
    if not zipfile.is_zipfile(path):
        whole = msgspec.json.decode(path.read_bytes())
        return whole, whole.get("samples") or []
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        if "header.json" not in members:
            raise UsageError(f"{path}: this log is not finished, it has no header.json")
        samples = [name for name in members if name.startswith("samples/")]
        read = [_member(archive, members[name]) for name in ("header.json", *samples)]
    return read[0], read[1:]


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    """Return the JSON of a member, also of one in Zstandard, which zipfile does not know."""
    if info.compress_type != _ZSTANDARD:
        return msgspec.json.decode(archive.read(info))
    import pyarrow as pa

    assert archive.fp is not None
    archive.fp.seek(info.header_offset)
    head = archive.fp.read(30)
    archive.fp.seek(sum(int.from_bytes(head[at : at + 2], "little") for at in (26, 28)), 1)
    packed = pa.BufferReader(archive.fp.read(info.compress_size))
    with pa.input_stream(packed, compression="zstd") as stream:
        return msgspec.json.decode(stream.read())


def _answer(sample: Any) -> Recorded:
    attached = {f"attachment://{k}": v for k, v in (sample.get("attachments") or {}).items()}

    def text(content: Any) -> str:
        """Return the text of a message, its long parts put back where the log names them."""
        if isinstance(content, list):
            return "".join(text(p["text"]) for p in content if p.get("type") == "text")
        return str(attached.get(content, content or ""))

    turns = [(m["role"], text(m.get("content"))) for m in sample["messages"]]
    if turns and turns[-1][0] == "assistant":
        turns.pop()
    given, output = sample["input"], sample.get("output") or {}
    asked = [text(given)] if isinstance(given, str) else [text(m["content"]) for m in given]
    said = (output.get("choices") or [{}])[0]
    is_lost = bool(sample.get("error")) or not said
    stamp, finish = sample.get("completed_at"), _FINISH.get(str(said.get("stop_reason")), "stop")
    return Recorded(
        key=str(sample["id"]),
        texts=(*asked, " ".join(asked), *leaves(sample.get("metadata") or {})),
        messages=messages_of(turns),
        response=Response(
            instance_id="",
            repeat=sample["epoch"] - 1,
            text="" if is_lost else text((said.get("message") or {}).get("content")),
            finish="error" if is_lost else finish,
            error="an error in inspect" if is_lost else "",
            usage=_usage(output.get("usage") or {}),
            latency_s=output.get("time") or 0.0,
            served_model=output.get("model") or "",
            finished_at=datetime.fromisoformat(stamp).timestamp() if stamp else 0.0,
        ),
        target=" ".join(leaves(sample["target"])),
        scores=tuple(_scores(sample.get("scores") or {})),
    )


def _usage(used: Any) -> Usage:
    cached, total = used.get("input_tokens_cache_read"), used.get("input_tokens")
    if total is not None:  # without those that a cache took or gave
        total += (cached or 0) + (used.get("input_tokens_cache_write") or 0)
    given = {"input_tokens": total, "cached_tokens": cached}
    return Usage(**given, **{n: used.get(n) for n in ("output_tokens", "reasoning_tokens")})


def _scores(scores: Any) -> Iterator[TheirScore]:
    for name, score in scores.items():
        value, read = score.get("value"), str(score.get("answer") or "")
        parts = value if isinstance(value, dict) else {"": value}
        for part, one in parts.items():
            number = _LETTERS.get(one) if isinstance(one, str) else as_number(one)
            yield TheirScore(f"{name}/{part}" if part else name, number, read)


# Write --------------------------------------------------------------------------------------------


def write(runs: Iterable[Finished], out: Path) -> Iterator[Path]:
    """Write a log of each run below a folder; yield the files."""
    for run in runs:
        header, samples = _header(run), [_sample(run, answer) for answer in run.answers]
        start = {name: header[name] for name in ("version", "eval", "plan")}
        members: dict[str, Any] = {"_journal/start.json": start}
        members |= {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}
        lines = [{**sample, "messages": [], "output": None} for sample in samples]
        members |= {"header.json": header, "summaries.json": lines}
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, value in members.items():
                archive.writestr(member, msgspec.json.encode(value))
        name = f"{run.ended.replace(':', '-')[:-1]}+00-00_{portable(run.name).replace('_', '-')}"
        short = run.record.request_hash[:11] + run.record.grading_hash[:11]
        path = out / f"{name}_{short}.eval"
        write_whole(path, content.getvalue())
        yield path


def _header(run: Finished) -> dict[str, Any]:
    record, spec = run.record, run.record.spec
    ids = list(dict.fromkeys(answer["id"] for answer in run.answers))
    metrics, decoding = [m.name for m in record.grading.metrics], spec.model.sampling
    used = {
        p.model.name: tokens_of(p.usage.input_tokens, p.usage.output_tokens) for p in record.parties
    }
    return {
        "version": 2,
        "status": "success" if record.state == "complete" else "cancelled",
        "eval": {
            **{"eval_id": record.grading_hash, "run_id": record.request_hash, "task": run.name},
            **{"task_id": record.request_hash, "task_version": spec.benchmark_version},
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
