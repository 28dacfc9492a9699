"""Samples of lm-evaluation-harness (`--log_samples`), with the results file beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import UsageError
from medhelm.interop.inspect_log import as_number
from medhelm.interop.recorded import Log, Recorded, leaves, messages_of
from medhelm.schema.episode import Likelihood, Response, Sampling
from medhelm.store.imported import TheirScore

_SAMPLES = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_INVALID = "[invalid]"
"""A filter's answer where it finds none."""


def read_logs(place: Path) -> Iterator[Log]:
    """Yield the log of a file of samples, or all of a folder. Raises UsageError."""
    for path in sorted(place.rglob("samples_*.jsonl")) if place.is_dir() else [place]:
        named = _SAMPLES.fullmatch(path.name)
        beside = path.with_name(f"results_{named[2]}.json") if named else None
        if named is None or beside is None or not beside.is_file():
            raise UsageError(f"{path}: beside samples_TASK_DATE.jsonl lies results_DATE.json")
        yield _log(path, named[1], msgspec.json.decode(beside.read_bytes()))


def _log(path: Path, task: str, results: Any) -> Log:
    config = (results.get("configs") or {}).get(task) or {}
    decoding = config.get("generation_kwargs") or {}
    rows: dict[Any, list[Any]] = {}
    for line in path.read_bytes().splitlines():
        row = msgspec.json.decode(line)
        rows.setdefault(row["doc_id"], []).append(row)
    return Log(
        tool="lm_eval",
        version=str(results.get("lm_eval_version") or ""),
        path=str(path),
        task=task,
        model=_model(results),
        sampling=Sampling(
            temperature=decoding.get("temperature"),
            top_p=decoding.get("top_p"),
            stop=tuple(leaves(decoding.get("until") or [])),
        ),
        max_output_tokens=decoding.get("max_gen_toks"),
        answers=[answer for own in rows.values() for answer in _answers(own)],
    )


def _model(results: Any) -> str:
    """Return the model's name; of a server the one that it was asked for by."""
    config = results.get("config") or {}
    given = config.get("model_args")
    if isinstance(given, str):
        given = dict(part.partition("=")[::2] for part in given.split(","))
    given = given or {}
    return str(given.get("model") or given.get("pretrained") or results.get("model_name") or "")


def _answers(rows: Sequence[Any]) -> Iterator[Recorded]:
    """Yield the answers to one question, of which there is a row for each filter."""
    row = rows[0]
    asked = [*row["arguments"].values()]
    first, second = asked[0]["arg_0"], asked[0].get("arg_1")
    messages = messages_of(_turns(first))
    shared: Mapping[str, Any] = {
        "key": str(row["doc_id"]),
        "texts": (*leaves(row["doc"]),),
        "messages": messages or (),
        "target": " ".join(leaves(row["target"])),
        "fault": "" if messages is not None else "its messages have roles that no run here has",
    }
    if isinstance(second, str):
        yield Recorded(
            **shared,
            response=Response(
                instance_id="",
                likelihoods=tuple(_likelihood(given[0]) for given in row["resps"]),
            ),
            continuations=tuple(own["arg_1"] for own in asked),
            scores=_scores(rows),
        )
        return
    replies = row["resps"][0]
    for repeat, text in enumerate(replies):  # of several its score is of all together
        response = Response(instance_id="", text=str(text))
        scores = _scores(rows) if len(replies) == 1 else ()
        yield Recorded(**shared, repeat=repeat, response=response, scores=scores)


def _turns(given: Any) -> list[tuple[str, str]]:
    """Return the messages of a prompt: a text, or JSON of a conversation in a list."""
    text = given[0] if isinstance(given, list) else given
    if not isinstance(given, list):
        return [("user", str(text))]
    turns = msgspec.json.decode(text) if isinstance(text, str) else given
    return [(turn["role"], turn["content"]) for turn in turns]


def _likelihood(given: Any) -> Likelihood:
    logprob, is_greedy = given
    return Likelihood(logprob=float(logprob), tokens=0, is_greedy=str(is_greedy) == "True")


def _scores(rows: Sequence[Any]) -> tuple[TheirScore, ...]:
    found = []
    for row in rows:
        read = row["filtered_resps"][0]
        is_text = isinstance(read, str) and read != _INVALID
        for metric in row["metrics"]:
            value = as_number(row.get(metric))
            name = metric if row["filter"] == "none" else f"{metric},{row['filter']}"
            found.append(TheirScore(name, value, read if is_text else ""))
    return tuple(found)
