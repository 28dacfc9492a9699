"""Write runs as records of Every Eval Ever 0.3.0: an aggregate file and one line an answer and metric."""

from __future__ import annotations

import hashlib
import math
from calendar import timegm
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import strptime
from typing import Any
from uuid import UUID

import msgspec

from medhelm.exports.finished import (
    CONFIDENCE,
    Answer,
    Finished,
    best_of,
    portable,
    tokens_of,
)
from medhelm.files.durable import write_whole
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JuryTerms
from medhelm.tables.run_estimates import label
from medhelm.tables.study.judge_errors import grader_of

_SCHEMA = "0.3.0"
_AVAILABLE = {"open": "open_weights", "closed": "closed_weights"}


def write(
    runs: Iterable[Finished],
    out: Path,
    organization: str = "not stated",
    relationship: str = "other",
) -> list[Path]:
    """Write both files of each run below a folder, as its datastore names them; return them.

    `relationship`: the evaluator's to the model's maker, as the schema names it.
    """
    source = {
        "source_type": "evaluation_run",
        "source_organization_name": organization,
        "evaluator_relationship": relationship,
    }
    return [path for run in runs for path in _write(run, out, source)]


def _write(run: Finished, out: Path, source: dict[str, str]) -> Iterator[Path]:
    record = run.record
    developer, _, name = _model_id(record.spec.model).partition("/")
    place = Path("data", portable(run.name), portable(developer), portable(name))
    digest = hashlib.sha256(f"{record.request_hash} {record.grading_hash}".encode()).digest()
    own = f"{UUID(bytes=digest[:16], version=4)}"
    samples = place / f"{own}_samples.jsonl"
    content, rows = b"", 0
    for answer in run.answers:
        for line in _lines(run, answer):
            content, rows = content + msgspec.json.encode(line) + b"\n", rows + 1
    found = _aggregate(run, source)
    if rows:
        found["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": samples.as_posix(),
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(content).hexdigest(),
            "total_rows": rows,
        }
        write_whole(out / samples, content)
        yield out / samples
    written = msgspec.json.format(msgspec.json.encode(found), indent=2)
    write_whole(out / place / f"{own}.json", written)
    yield out / place / f"{own}.json"


def _model_id(model: ModelSpec) -> str:
    return model.name if "/" in model.name else f"{model.provider}/{model.name}"


def _evaluation_id(run: Finished) -> str:
    seconds = timegm(strptime(run.ended, "%Y-%m-%dT%H:%M:%SZ"))
    model = _model_id(run.record.spec.model)
    return f"{run.name}/{model}/{seconds}/{run.record.grading_hash}"


def _aggregate(run: Finished, source: dict[str, str]) -> dict[str, Any]:
    dates = run.record.provenance
    seconds = timegm(strptime(dates.get("graded_at", run.ended), "%Y-%m-%dT%H:%M:%SZ"))
    return {
        "schema_version": _SCHEMA,
        "evaluation_id": _evaluation_id(run),
        "evaluation_timestamp": run.ended,
        "retrieved_timestamp": f"{seconds}",
        "source_metadata": source,
        "eval_library": {
            "name": "medhelm-framework",
            "version": dates.get("version.medhelm", "unknown"),
            "additional_details": _extra(run.facts),
        },
        "model_info": _model(run.record.spec.model),
        "evaluation_results": [_result(run, metric) for metric in run.estimates],
    }


def _extra(value: object) -> dict[str, str]:
    """Return what the schema has no place for: its values are texts."""
    return {"medhelm": msgspec.json.encode(value).decode()}


def _model(model: ModelSpec) -> dict[str, Any]:
    is_local = model.endpoint_class == "local"
    return {
        "name": model.name,
        "id": _model_id(model),
        "developer": _model_id(model).partition("/")[0],
        "inference_platform": model.provider,
        "additional_details": {
            "deployment_type": "self_deployed" if is_local else "externally_managed",
            "model_availability": _AVAILABLE.get(model.weights, "unknown"),
        },
    }


def _result(run: Finished, metric: str) -> dict[str, Any]:
    record, found = run.record, run.estimates[metric]
    own = next(m for m in record.grading.metrics if m.name == metric)
    interval, uncertainty = found.interval, dict[str, Any](num_samples=found.n)
    if not math.isnan(found.error):
        uncertainty["standard_error"] = {"value": found.error}
    if interval.low is not None:
        uncertainty["confidence_interval"] = {
            "lower": interval.low,
            "upper": interval.high,
            "confidence_level": CONFIDENCE,
            "method": interval.described,
        }
    config: dict[str, Any] = {
        "metric_id": metric,
        "metric_name": label(record, metric),
        "lower_is_better": not own.higher_is_better,
        "score_type": "continuous",
        "min_score": _bound(own.minimum),
        "max_score": _bound(own.maximum),
        "additional_details": _extra({"version": own.version, "floor": own.floor}),
    }
    if scoring := _judged_by(run, metric):
        config["llm_scoring"] = scoring
    model = record.spec.model
    return {
        "evaluation_result_id": f"{_evaluation_id(run)}/{metric}",
        "evaluation_name": run.name,
        "source_data": _source(run),
        "evaluation_timestamp": run.ended,
        "metric_config": config,
        "score_details": {
            "score": found.score,
            "uncertainty": uncertainty,
            "details": _extra(
                run.facts["scores"][metric] | {"outcomes": run.facts["outcomes"][metric]}
            ),
        },
        "generation_config": {
            "generation_args": {
                "temperature": model.sampling.temperature,
                "top_p": model.sampling.top_p,
                "max_tokens": record.spec.max_output_tokens or None,
                "reasoning": model.reasoning,
                "execution_command": run.facts["command"],
            },
        },
    }


def _bound(value: float) -> float | str:
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _source(run: Finished) -> dict[str, Any]:
    card, spec = run.record.card, run.record.spec
    known = {"licence": card.licence, "data": spec.data, "dataset_sha256": spec.dataset_sha256}
    found: dict[str, Any] = {"dataset_name": run.name, "source_type": "other"}
    if run.hub is not None:
        found |= {"source_type": "hf_dataset", "hf_repo": run.hub.repo, "hf_split": run.hub.split}
        found["samples_number"] = run.record.instances
        known["revision"] = run.hub.revision
    return found | {"additional_details": _extra(known)}


def _judged_by(run: Finished, metric: str) -> dict[str, Any] | None:
    """Return the judges behind a metric; None where it needs none, or the offline rules stand in."""
    grading = run.record.grading
    for terms in grading.judged_by:
        is_jury = isinstance(terms, JuryTerms)
        grader = JURY if isinstance(terms, JuryTerms) else terms.grader
        if grader_of(run.record, metric) != grader or not terms.jury.judges:
            continue
        rubric = terms.rubric if isinstance(terms, JuryTerms) else None
        asked = f"medhelm grader {grader}, version {terms.version}"
        if rubric is not None:
            lines = [f"medhelm jury, rubric {rubric.name} version {rubric.version}", rubric.task]
            asked = "\n".join(filter(None, [*lines, *(c.text for c in rubric.criteria)]))
        judges = [{"model_info": _model(judge)} for judge in terms.jury.judges]
        way = {"aggregation_method": "average"} if is_jury else {}
        more = _extra({"quorum": terms.jury.quorum, "controls": run.record.controls})
        return {"judges": judges, "input_prompt": asked, **way, "additional_details": more}
    return None


def _lines(run: Finished, answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield a line of each metric with a value: the schema has no place for a missing one."""
    texts, spec = answer.texts or {}, run.record.spec
    raw = "\n\n".join(filter(None, (texts.get("context"), texts.get("question"))))
    turns, references = texts.get("turns") or (), list(texts.get("references") or ())
    sums = hashlib.sha256(msgspec.json.encode([raw, references])).hexdigest()
    shared = {
        "schema_version": _SCHEMA,
        "evaluation_id": _evaluation_id(run),
        "model_id": _model_id(spec.model),
        "evaluation_name": run.name,
        "sample_id": answer.id,
        "sample_hash": None if run.withheld else sums,
        "interaction_type": "multi_turn" if turns else "single_turn",
        "input": {
            "raw": f"[withheld: {run.withheld}]" if run.withheld else raw,
            "formatted": "\n\n".join(said for _, said in answer.prompt) or None,
            "reference": references,
            "choices": list(texts.get("choices") or ()) or None,
        },
        "output": None
        if turns
        else {
            "raw": [texts["reply"]] if texts else [],
            "reasoning_trace": [texts["thoughts"]] if texts.get("thoughts") else None,
        },
        "messages": [
            {"turn_idx": n, "role": role, "content": said} for n, (role, said) in enumerate(turns)
        ]
        or None,
        "answer_attribution": _attribution(texts.get("read"), len(turns)),
        "token_usage": tokens_of(texts),
        "performance": {"latency_ms": 1000 * texts["latency_s"]} if texts else None,
    }
    for metric in run.estimates:
        value = answer.scores[metric]
        if value is None:
            continue
        outcome = answer.outcomes[metric]
        facts = {"repeat": answer.repeat, "cluster": answer.cluster, "outcome": outcome}
        judged = {"judges": texts["judges"]} if texts.get("judges") else {}
        reason = (texts.get("reasons") or {}).get(metric)
        yield shared | {
            "evaluation_result_id": f"{_evaluation_id(run)}/{metric}",
            "evaluation": {"score": value, "is_correct": value == best_of(run.record, metric)}
            | ({"num_turns": len(turns)} if turns else {}),
            "error": None if outcome == "scored" else outcome,
            "metadata": _extra(facts | judged | ({"reason": reason} if reason else {})),
        }


def _attribution(read: str | None, turns: int) -> list[dict[str, Any]]:
    if not read:
        return []
    return [
        {
            "turn_idx": max(turns - 1, 0),
            "source": f"messages[{turns - 1}].content" if turns else "output.raw",
            "extracted_value": read,
            "extraction_method": "medhelm",
            "is_terminal": True,
        }
    ]
