"""Answers that were lost in tries that a later line of the log replaces: they may have been billed, too.

Whoever reads a log gets the last try of each call. What earlier ones lost is summed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from medhelm.schema.episode import MODEL, Finish
from medhelm.store.appendlog import without_checksum
from medhelm.store.records import Plan, order_key
from medhelm.store.runlog import ANSWERED

_NONE_LOST = b'"lost":0'


class _Response(msgspec.Struct):
    instance_id: str
    repeat: int = 0
    finish: Finish = "error"
    lost: int = 0


class _Call(msgspec.Struct):
    role: str
    step: str
    sent: str
    response: _Response
    attempt: int = 0


class _Line(msgspec.Struct):
    episode: str = ""
    call: _Call | None = None
    response: _Response | None = None


class ReplacedTry(NamedTuple):
    """One try that another followed, and how many answers it lost."""

    instance_id: str
    episode: str
    """The key of an episode of many calls; empty: one of one call."""
    role: str
    lost: int


def replaced_tries(log: Path) -> Iterator[ReplacedTry]:
    """Yield the failed tries with lost answers that the same request followed later in a log.

    One that was answered is read with its episode, also where that was asked again.
    """
    waiting: dict[tuple[str, ...], ReplacedTry] = {}
    decode = msgspec.json.Decoder(_Line).decode
    if not log.exists():
        return
    with open(log, "rb") as lines:
        for line in lines:
            if not waiting and _NONE_LOST in line:
                continue
            body = without_checksum(line)
            try:
                parsed = _Line() if body is None else decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            call = parsed.call
            response = call.response if call else parsed.response
            if response is None or (parsed.episode and call is None):
                continue
            key: tuple[str, ...] = (response.instance_id, str(response.repeat))
            if call is not None:  # one that was sent other text is stale, and counted as such
                key = (parsed.episode, call.role, call.step, str(call.attempt), call.sent)
            if key in waiting:
                yield waiting.pop(key)
            if response.lost and response.finish not in ANSWERED:
                role = call.role if call else MODEL
                waiting[key] = ReplacedTry(
                    response.instance_id, parsed.episode, role, response.lost
                )


def lost_before(run: Path, plan: Plan) -> Counter[str]:
    """Return by role how many answers were lost in replaced tries of the planned instances."""
    found: Counter[str] = Counter()
    for replaced in replaced_tries(run / "responses.jsonl"):
        if plan.cut is None or order_key(plan.spec.seed, replaced.instance_id) <= plan.cut:
            found[replaced.role] += replaced.lost
    return found
