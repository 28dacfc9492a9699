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

from medhelm.files.durable import write_whole
from medhelm.interop.finished import CONFIDENCE, Answer, Finished, portable
from medhelm.tables.study.run_estimates import label

_VERSION = {"schema_version": "0.3.0"}
_AVAILABLE = {"open": "open_weights", "closed": "closed_weights"}


def write(
    runs: Iterable[Finished], out: Path, organization: str, relationship: str
) -> Iterator[Path]:
    """Write both files of each run below a folder, as its datastore names them; yield them.

    `relationship`: the evaluator's to the model's maker, as the schema names it.
    """
    source = {"source_type": "evaluation_run", "source_organization_name": organization}
    source["evaluator_relationship"] = relationship
    for run in runs:
        developer, _, name = _model_id(run).partition("/")
        known_by = f"{run.record.request_hash} {run.record.grading_hash}".encode()
        own = UUID(bytes=hashlib.sha256(known_by).digest()[:16], version=4)
        place = Path("data", portable(run.name), portable(developer), portable(name))
        lines = [msgspec.json.encode(line) for a in run.answers for line in _lines(run, a)]
        found = _aggregate(run) | {"source_metadata": source}
        if lines:
            content, path = b"\n".join([*lines, b""]), place / f"{own}_samples.jsonl"
            sums = {"hash_algorithm": "sha256", "checksum": hashlib.sha256(content).hexdigest()}
            named = {"format": "jsonl", "file_path": path.as_posix(), "total_rows": len(lines)}
            found["detailed_evaluation_results"] = named | sums
            write_whole(out / path, content)
            yield out / path
        path = out / place / f"{own}.json"
        write_whole(path, msgspec.json.format(msgspec.json.encode(found), indent=2))
        yield path


def _model_id(run: Finished) -> str:
    model = run.record.spec.model
    return model.name if "/" in model.name else f"{model.provider}/{model.name}"


def _ids(run: Finished, metric: str = "") -> dict[str, str]:
    """Return the ids by which an aggregate and its lines know each other, and those of a metric."""
    seconds = timegm(strptime(run.ended, "%Y-%m-%dT%H:%M:%SZ"))
    own = f"{run.name}/{_model_id(run)}/{seconds}/{run.record.grading_hash}"
    if not metric:
        return {"evaluation_id": own, "retrieved_timestamp": f"{seconds}"}
    return {"evaluation_result_id": f"{own}/{metric}", "evaluation_name": run.name}


def _extra(value: object) -> dict[str, dict[str, str]]:
    """Return what the schema has no place for: its values are texts."""
    return {"additional_details": {"medhelm": msgspec.json.encode(value).decode()}}


def _aggregate(run: Finished) -> dict[str, Any]:
    model, version = run.record.spec.model, run.record.provenance.get("version.medhelm", "unknown")
    is_local = model.endpoint_class == "local"
    kind = {"deployment_type": "self_deployed" if is_local else "externally_managed"}
    kind["model_availability"] = _AVAILABLE.get(model.weights, "unknown")
    named = {"name": model.name, "id": _model_id(run), "inference_platform": model.provider}
    return {
        **_VERSION,
        **_ids(run),
        "evaluation_timestamp": run.ended,
        "eval_library": {"name": "medhelm-framework", "version": version, **_extra(run.facts)},
        "model_info": {**named, "additional_details": kind},
        "evaluation_results": [_result(run, metric) for metric in run.estimates],
    }


def _result(run: Finished, metric: str) -> dict[str, Any]:
    record, found = run.record, run.estimates[metric]
    own = next(m for m in record.grading.metrics if m.name == metric)
    uncertainty: dict[str, Any] = {"num_samples": found.n}
    if not math.isnan(found.error):
        uncertainty["standard_error"] = {"value": found.error}
    if (ends := found.interval).low is not None:
        how = {"confidence_level": CONFIDENCE, "method": ends.described}
        uncertainty["confidence_interval"] = {"lower": ends.low, "upper": ends.high, **how}
    facts = run.facts["scores"][metric] | {"outcomes": run.facts["outcomes"][metric]}
    known = {"licence": record.card.licence, "sha256": record.spec.dataset_sha256}
    source = {"dataset_name": run.name, "source_type": "other"}
    if run.hub is not None:
        known["revision"] = run.hub.revision
        where = {"hf_repo": run.hub.repo, "hf_split": run.hub.split}
        source |= {"source_type": "hf_dataset", **where}
    return {
        **_ids(run, metric),
        "source_data": source | _extra(known),
        "metric_config": {
            "metric_id": metric,
            "metric_name": label(record, metric),
            "lower_is_better": not own.higher_is_better,
            "score_type": "continuous",
            "min_score": own.minimum,
            "max_score": own.maximum,
            **_extra({"version": own.version, "floor": own.floor}),
        },
        "score_details": {
            "score": found.score,
            "uncertainty": uncertainty,
            "details": _extra(facts)["additional_details"],
        },
    }


def _lines(run: Finished, answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield a line of each metric with a value: the schema has no place for a missing one."""
    said = (answer.get("context"), answer.get("question"))
    turns = [
        {"turn_idx": n, "role": role, "content": said}
        for n, (role, said) in enumerate(answer.get("turns", ()))
    ]
    output = {"raw": [answer["reply"]] if "reply" in answer else []}
    output |= {"reasoning_trace": [answer["thoughts"]]} if answer.get("thoughts") else {}
    last, read = max(len(turns) - 1, 0), answer.get("read")
    source = f"messages[{last}].content" if turns else "output.raw"
    reading = {"turn_idx": last, "source": source, "extracted_value": read}
    reading |= {"extraction_method": "medhelm", "is_terminal": True}
    shared = {
        **_VERSION,
        "evaluation_id": _ids(run)["evaluation_id"],
        "model_id": _model_id(run),
        "sample_id": answer["id"],
        "interaction_type": "multi_turn" if turns else "single_turn",
        "input": {
            "raw": f"[{run.withheld}]" if run.withheld else "\n\n".join(filter(None, said)),
            "formatted": "\n\n".join(said for _, said in answer.get("prompt", ())) or None,
            "reference": list(answer.get("references", ())),
            "choices": list(answer.get("choices", ())) or None,
        },
        "output": None if turns else output,
        "messages": turns or None,
        "answer_attribution": [reading] if read else [],
        "token_usage": answer.get("tokens"),
    }
    facts = {name: answer.get(name) for name in ("repeat", "cluster", "judges")}
    for metric in run.record.grading.metrics:
        if (value := answer["scores"].get(metric.name)) is None or metric.name not in run.estimates:
            continue
        best = metric.maximum if metric.higher_is_better else metric.minimum
        outcome = answer["outcomes"][metric.name]
        own = {"outcome": outcome, "reason": answer.get("reasons", {}).get(metric.name)}
        yield {
            **shared,
            **_ids(run, metric.name),
            "evaluation": {"score": value, "is_correct": value == best},
            "error": None if outcome == "scored" else outcome,
            "metadata": _extra(facts | own)["additional_details"],
        }
