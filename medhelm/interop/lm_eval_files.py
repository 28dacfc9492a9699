"""Samples of lm-evaluation-harness (`--log_samples`), with the results file beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import UsageError
from medhelm.interop.recorded import Log, Recorded, as_number, leaves, messages_of, sampling_of
from medhelm.schema.episode import Likelihood, Response
from medhelm.store.imported import TheirScore

_SAMPLES = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_INVALID = "[invalid]"
"""A filter's answer where it finds none."""


def read_logs(place: Path) -> Iterator[Log]:
    """Yield the log of a file of samples, or all of a folder. Raises UsageError."""
    for path in sorted(place.rglob("samples_*.jsonl")) if place.is_dir() else [place]:
        named = _SAMPLES.fullmatch(path.name)
        if not named or not (beside := path.with_name(f"results_{named[2]}.json")).is_file():
            raise UsageError(f"{path}: beside samples_TASK_DATE.jsonl lies results_DATE.json")
        results = msgspec.json.decode(beside.read_bytes())
        config = (results.get("configs") or {}).get(named[1]) or {}
        decoding = config.get("generation_kwargs") or {}
        rows: dict[Any, list[Any]] = {}
        for line in path.read_bytes().splitlines():
            row = msgspec.json.decode(line)
            rows.setdefault(row["doc_id"], []).append(row)
        yield Log(
            tool="lm_eval",
            version=str(results.get("lm_eval_version") or ""),
            path=str(path),
            task=named[1],
            model=_model(results),
            sampling=sampling_of(decoding, "until"),
            max_output_tokens=decoding.get("max_gen_toks"),
            answers=[answer for own in rows.values() for answer in _answers(own)],
        )


def _model(results: Any) -> str:
    """Return the model's name; of a server the one that it was asked for by."""
    given = (results.get("config") or {}).get("model_args") or {}
    if isinstance(given, str):
        given = dict(part.partition("=")[::2] for part in given.split(","))
    return str(given.get("model") or given.get("pretrained") or results.get("model_name") or "")


def _answers(rows: Sequence[Any]) -> Iterator[Recorded]:
    """Yield the answers to one question, of which there is a row for each filter."""
    row = rows[0]
    asked = [*row["arguments"].values()]
    shared: Mapping[str, Any] = {
        "key": str(row["doc_id"]),
        "texts": (*leaves(row["doc"]),),
        "messages": messages_of(_turns(asked[0]["arg_0"])),
        "target": " ".join(leaves(row["target"])),
    }
    if isinstance(asked[0].get("arg_1"), str):
        likely = tuple(
            Likelihood(logprob=float(n), tokens=0, is_greedy=str(is_greedy) == "True")
            for ((n, is_greedy),) in row["resps"]
        )
        response = Response(instance_id="", likelihoods=likely)
        compared = tuple(own["arg_1"] for own in asked)
        yield Recorded(**shared, response=response, continuations=compared, scores=_scores(rows))
        return
    replies = row["resps"][0]
    for repeat, text in enumerate(replies):  # of several its score is of all together
        response = Response(instance_id="", repeat=repeat, text=str(text))
        yield Recorded(
            **shared, response=response, scores=_scores(rows) if len(replies) == 1 else ()
        )


def _turns(given: Any) -> list[tuple[str, str]]:
    """Return the messages of a prompt: a text, or JSON of a conversation in a list."""
    if not isinstance(given, list):
        return [("user", str(given))]
    turns = msgspec.json.decode(given[0]) if isinstance(given[0], str) else given
    return [(turn["role"], turn["content"]) for turn in turns]


def _scores(rows: Sequence[Any]) -> tuple[TheirScore, ...]:
    found = []
    for row in rows:
        read = row["filtered_resps"][0]
        is_text = isinstance(read, str) and read != _INVALID
        for metric in row["metrics"]:
            name = metric if row["filter"] == "none" else f"{metric},{row['filter']}"
            found.append(TheirScore(name, as_number(row.get(metric)), read if is_text else ""))
    return tuple(found)
