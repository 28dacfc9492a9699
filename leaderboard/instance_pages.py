"""Define the run page's data of single instances and answers, published of open data only.

Lists of these are cut into shards, which `RunPage` names.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from medhelm.schema.score import Outcome


class ActionLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An action of a case with its rubric."""

    id: str
    text: str
    category: str
    ratings: tuple[int, ...]
    rating: int
    """Their median."""
    kind: str
    """appropriate, uncertain or inappropriate."""
    alternatives: tuple[str, ...]
    """Ids of the other actions of its group."""
    broad: tuple[str, ...]
    """Ids of the broad actions that hold it."""
    references: tuple[str, ...]
    """Guidelines behind the ratings."""


class LabelLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Holds a reply's label of an action, and its weight in the score."""

    id: str
    label: str
    """appropriate, inappropriate, missing or invalid."""
    error: str
    """omission, commission or empty."""
    severity: str
    why: str
    """Gives the reason why an action that was left out is not an omission."""


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
    actions: tuple[ActionLine, ...] | UnsetType = UNSET
    """Of a case with labelled actions: its gold, in place of references and answer key."""


class JudgeReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Holds one judge's verdict on an answer."""

    judge: str
    ended: str
    ratings: tuple[int, ...] | None
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
    labels: tuple[LabelLine, ...] | UnsetType = UNSET
    """Of each action, in the order of the menu."""
