"""Run folders of HELM: `run_spec.json`, `scenario_state.json`, `per_instance_stats.json`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import UsageError
from medhelm.interop.recorded import Log, Recorded, as_number, leaves, messages_of, sampling_of
from medhelm.schema.episode import Finish, Response
from medhelm.store.imported import TheirScore

_STATE, _STATS, _SPEC = "scenario_state.json", "per_instance_stats.json", "run_spec.json"
_FINISH: Mapping[str, Finish] = {"length": "length", "content_filter": "refusal"}


def read_logs(place: Path, metrics: Collection[str]) -> Iterator[Log]:
    """Yield the log of a run folder, or of each run of a suite's folder. Raises UsageError.

    `metrics`: the names of those statistics that are scores; HELM counts much besides.
    """
    found = sorted(place.rglob(_STATE))
    if not found:
        raise UsageError(f"{place}: no run folder of HELM lies there, with its {_STATE}")
    for path in found:
        spec, state = (
            msgspec.json.decode(path.with_name(name).read_bytes()) for name in (_SPEC, _STATE)
        )
        own, asked = state["adapter_spec"], state["request_states"]
        decoding = asked[0]["request"] if asked else {}
        stats = _stats(path.with_name(_STATS), metrics)
        yield Log(
            tool="helm",
            path=str(path),
            task=str(spec["name"]).partition(":")[0],
            model=str(own.get("model") or own.get("model_deployment") or ""),
            sampling=sampling_of(decoding, "stop_sequences"),
            max_output_tokens=decoding.get("max_tokens"),
            answers=[_answer(one, stats) for one in asked],
        )


_Stats = Mapping[tuple[str, int], Mapping[str, float | None]]
"""Scores of each question that was asked as it is, by id and trial."""


def _stats(path: Path, metrics: Collection[str]) -> _Stats:
    if not path.is_file():
        return {}
    return {
        (one["instance_id"], one["train_trial_index"]): {
            stat["name"]["name"]: as_number(stat.get("mean"))
            for stat in one["stats"]
            if stat["name"]["name"] in metrics
        }
        for one in msgspec.json.decode(path.read_bytes())
        if not one.get("perturbation")
    }


def _answer(one: Any, stats: _Stats) -> Recorded:
    instance, request, result = one["instance"], one["request"], one.get("result") or {}
    trial, said = one["train_trial_index"], (result.get("completions") or [{}])[0]
    turns = request.get("messages") or [{"role": "user", "content": request["prompt"]}]
    options = [ref["output"]["text"] for ref in instance["references"]]
    gold = (r["output"]["text"] for r in instance["references"] if "correct" in r["tags"])
    faults = {
        "HELM cut its prompt": one.get("prompt_truncated"),
        "it rates one option of several": one.get("request_mode") not in (None, "original"),
        "its question was perturbed": instance.get("perturbation"),
    }
    # HELM says which option it read the reply as; of other tasks it takes the reply whole.
    read = str((one.get("output_mapping") or {}).get(said.get("text", "").strip(), ""))
    is_lost = not result.get("success") or not said
    ended = str((said.get("finish_reason") or {}).get("reason"))
    return Recorded(
        key=str(instance["id"]),
        texts=(*leaves(instance["input"]), *options),
        messages=messages_of((m["role"], " ".join(leaves(m["content"]))) for m in turns),
        response=Response(  # without tokens: HELM counts them by a tokenizer of its own
            instance_id="",
            repeat=trial,
            text="" if is_lost else str(said["text"]),
            finish="error" if is_lost else _FINISH.get(ended, "stop"),
            error="an error in HELM" if is_lost else "",
            latency_s=float(result.get("request_time") or 0.0),
            finished_at=float(result.get("request_datetime") or 0.0),
        ),
        target=next(gold, ""),
        scores=tuple(
            TheirScore(name, value, read)
            for name, value in stats.get((instance["id"], trial), {}).items()
        ),
        fault=next((fault for fault, holds in faults.items() if holds), ""),
    )
