"""Read the verdicts of a jury's judge as an earlier version stored them: one line per judgement.

    <run>/judges/<judge hash>/grades.jsonl

Nothing is written there any more. What a judge says now goes to `responses.jsonl` beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from medhelm.errors import OtherVersion
from medhelm.schema.data import Instance
from medhelm.schema.episode import SCHEMA, Call, Episode, Finish, Response, Usage
from medhelm.schema.run import JUDGE
from medhelm.store.appendlog import without_checksum
from medhelm.store.records import other_version

OLDER_LOG = "grades.jsonl"


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    reply: str
    finish: Finish
    parsed: str
    fault: str = ""
    usage: Usage = Usage()
    lost: int = 0
    latency_s: float = 0.0
    served_model: str = ""
    finished_at: float = 0.0


class _Judgement(msgspec.Struct, frozen=True, kw_only=True):
    schema: int
    key: int
    instance_id: str
    repeat: int
    scores: tuple[int, ...] | None
    reasons: tuple[str, ...] = ()
    calls: tuple[_Call, ...]
    is_broken_off: bool = False


def read_older(folder: Path) -> Iterator[tuple[int, Episode]]:
    """Yield what a judge said of each answer, with the answer's key; unreadable lines are passed over.

    One that was broken off, or could not be reached, ends as an error. Raises OtherVersion where another
    version wrote them.
    """
    decode = msgspec.json.Decoder(_Judgement).decode
    try:
        lines = open(folder / OLDER_LOG, "rb")  # noqa: SIM115 - closed below
    except (FileNotFoundError, NotADirectoryError):
        return
    with lines:
        for line in lines:
            body = without_checksum(line) if line.endswith(b"\n") else None
            if body is None:
                continue
            try:
                judgement = decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if judgement.schema != SCHEMA:
                raise OtherVersion(other_version("a judgement", judgement.schema))
            yield judgement.key, _as_grading(judgement)


def _as_grading(judgement: _Judgement) -> Episode:
    last = judgement.calls[-1]
    finish: Finish = "stop"
    if judgement.is_broken_off or last.parsed == "error":
        finish = "error"
    elif last.parsed == "oversize":
        finish = "oversize"
    state = {"scores": [*judgement.scores]} if judgement.scores is not None else {}
    if judgement.reasons:
        state["reasons"] = [*judgement.reasons]  # type: ignore[list-item]
    said = dict(instance_id=judgement.instance_id, repeat=judgement.repeat)
    return Episode(
        instance=Instance(id=judgement.instance_id),
        response=Response(finish=finish, error=last.fault, **said),  # type: ignore[arg-type]
        calls=tuple(_as_call(judgement, n) for n in range(len(judgement.calls))),
        ending="" if last.parsed == "scored" else last.parsed,
        state=state,
    )


def _as_call(judgement: _Judgement, attempt: int) -> Call:
    stored = judgement.calls[attempt]
    response = Response(
        instance_id=judgement.instance_id,
        repeat=judgement.repeat,
        text=stored.reply,
        finish=stored.finish,
        usage=stored.usage,
        lost=stored.lost,
        latency_s=stored.latency_s,
        served_model=stored.served_model,
        finished_at=stored.finished_at,
    )
    return Call(role=JUDGE, step="rating", attempt=attempt, sent="", messages=(), response=response)
