"""Run folders of HELM: `run_spec.json`, `scenario_state.json`, `per_instance_stats.json`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import UsageError
from medhelm.interop.inspect_log import as_number
from medhelm.interop.recorded import Log, Recorded, leaves, messages_of
from medhelm.schema.episode import Finish, Response, Sampling
from medhelm.store.imported import TheirScore

_STATE, _STATS, _SPEC = "scenario_state.json", "per_instance_stats.json", "run_spec.json"
_FINISH: Mapping[str, Finish] = {"length": "length", "content_filter": "refusal"}
_CORRECT = "correct"


def read_logs(place: Path, metrics: Collection[str]) -> Iterator[Log]:
    """Yield the log of a run folder, or of each run of a suite's folder. Raises UsageError.

    `metrics`: the names of those statistics that are scores; HELM counts much besides.
    """
    found = [place] if (place / _STATE).is_file() else [p.parent for p in place.rglob(_STATE)]
    if not found:
        raise UsageError(f"{place}: no run folder of HELM lies there, with its {_STATE}")
    for path in sorted(found):
        yield _log(path, metrics)


def _log(path: Path, metrics: Collection[str]) -> Log:
    spec, state = (msgspec.json.decode((path / name).read_bytes()) for name in (_SPEC, _STATE))
    own, asked = state["adapter_spec"], state["request_states"]
    decoding = asked[0]["request"] if asked else {}
    stats = _stats(path / _STATS)
    return Log(
        tool="helm",
        version="",
        path=str(path / _STATE),
        task=str(spec["name"]).partition(":")[0],
        model=str(own.get("model") or own.get("model_deployment") or ""),
        sampling=Sampling(
            temperature=decoding.get("temperature"),
            top_p=decoding.get("top_p"),
            stop=tuple(decoding.get("stop_sequences") or ()),
        ),
        max_output_tokens=decoding.get("max_tokens"),
        answers=[_answer(one, stats, metrics) for one in asked],
    )


def _stats(path: Path) -> dict[tuple[str, int], dict[str, float | None]]:
    """Return the statistics of each question that was asked as it is, by id and trial."""
    if not path.is_file():
        return {}
    return {
        (one["instance_id"], one["train_trial_index"]): {
            stat["name"]["name"]: as_number(stat.get("mean")) for stat in one["stats"]
        }
        for one in msgspec.json.decode(path.read_bytes())
        if not one.get("perturbation")
    }


def _answer(
    one: Any,
    stats: Mapping[tuple[str, int], Mapping[str, float | None]],
    metrics: Collection[str],
) -> Recorded:
    instance, request, trial = one["instance"], one["request"], one["train_trial_index"]
    own = stats.get((instance["id"], trial), {})
    turns = request.get("messages") or [{"role": "user", "content": request["prompt"]}]
    messages = messages_of((m["role"], " ".join(leaves(m["content"]))) for m in turns)
    options = [ref["output"]["text"] for ref in instance["references"]]
    gold = (r["output"]["text"] for r in instance["references"] if _CORRECT in r["tags"])
    fault = "its roles are none that a run here has" if messages is None else ""
    if instance.get("perturbation"):
        fault = "its question was perturbed"
    if one.get("request_mode") not in (None, "original"):
        fault = "it rates one option of several"
    if one.get("prompt_truncated"):
        fault = "HELM cut its prompt"
    return Recorded(
        key=str(instance["id"]),
        repeat=trial,
        texts=(*leaves(instance["input"]), *options),
        messages=messages or (),
        response=_response(one.get("result") or {}),
        target=next(gold, ""),
        scores=tuple(
            TheirScore(name, value, _read(one)) for name, value in own.items() if name in metrics
        ),
        fault=fault,
    )


def _read(one: Any) -> str:
    """Return the option that HELM read the reply as; of other tasks it takes the reply whole."""
    said = (one.get("result") or {}).get("completions") or [{"text": ""}]
    return str((one.get("output_mapping") or {}).get(said[0]["text"].strip(), ""))


def _response(result: Any) -> Response:
    """Return what came, without tokens: HELM counts them by a tokenizer of its own."""
    said = next(iter(result.get("completions") or ()), None)
    is_lost = not result.get("success") or said is None
    ended = str(((said or {}).get("finish_reason") or {}).get("reason"))
    return Response(
        instance_id="",
        text="" if is_lost else str((said or {})["text"]),
        finish="error" if is_lost else _FINISH.get(ended, "stop"),
        error="an error in HELM" if is_lost else "",
        latency_s=float(result.get("request_time") or 0.0),
        finished_at=float(result.get("request_datetime") or 0.0),
    )
