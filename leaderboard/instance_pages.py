"""Define the run page's data of single instances and answers, published of open data only.

Lists of these are cut into shards, which `RunPage` names.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from medhelm.schema.score import Outcome

Details = tuple[tuple[str, msgspec.Raw], ...]
"""(page, what it shows), as the page's plugin returned it."""


class InstanceLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One instance of a benchmark whose text may be published."""

    id: str
    context: str
    question: str
    choices: tuple[str, ...]
    references: tuple[str, ...]
    answer_key: tuple[tuple[str, str], ...]
    metadata: tuple[tuple[str, str], ...]
    criteria: tuple[tuple[str, str], ...]
    prompt: tuple[tuple[str, str], ...]
    """(role, content) as models are asked; empty where only baselines ran."""
    details: Details | UnsetType = UNSET
    """Of plugins' pages; absent where none shows anything."""
    gold: str | UnsetType = UNSET
    """The page whose detail shows the gold, in place of references and answer key."""


class JudgeReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Holds one judge's verdict on an answer."""

    judge: str
    ended: str
    ratings: tuple[int | None, ...] | None
    """1 or 0 of a binary criterion; None: no valid verdict."""
    reasons: tuple[str, ...]
    """One of each rating; empty where the judge gave none."""
    replies: tuple[str, ...]
    """Raw replies, repairs included."""


class MetricLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Holds one metric's score of an answer."""

    metric: str
    value: float | None
    outcome: Outcome
    reason: str


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One answer of a model."""

    text: str
    finish: str
    error: str
    extracted: str
    scores: tuple[MetricLine, ...]
    judges: tuple[JudgeReply, ...]
    latency_s: float
    input_tokens: int | None
    output_tokens: int | None
    prompt: tuple[tuple[str, str], ...] | None
    """Holds the value where it differs from the instance's."""
    details: Details | UnsetType = UNSET
    """Of plugins' pages; absent where none shows anything."""
    turns: tuple[tuple[str, str], ...] | UnsetType = UNSET
    """(who, text) of an episode of many calls, in order; absent of one with a single call."""
