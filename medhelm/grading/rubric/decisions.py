"""One decision on one criterion, outside of a run: what a judge is sent about it, and what it replies."""

from __future__ import annotations

from medhelm.extract.json_reply import BadReply
from medhelm.grading.rubric.prompt import metadata_language, shared_messages, with_criterion
from medhelm.grading.rubric.verdicts import read_decision
from medhelm.schema.data import Benchmark, Criterion, FileDataset, Instance, LeftOut
from medhelm.schema.episode import Message

_NO_TASK = Benchmark(
    name="decisions",
    subcategory="",
    dataset=FileDataset(files=()),
    to_instance=lambda row: LeftOut(""),
    metrics=(),
)
"""Stands for the benchmark of a decision: the request is the whole of what the user wrote."""


def decision_messages(request: str, answer: str, criterion: str) -> tuple[Message, ...]:
    """Return what the grader of criteria sends about an answer, in Chinese where the request is."""
    asked = Instance(question=request, metadata=dict(metadata_language(request)))
    shared = shared_messages(_NO_TASK, asked, answer)
    return tuple(with_criterion(shared, Criterion(name="criterion", text=criterion)))


def decision_of(reply: str) -> bool | None:
    """Return whether a judge's reply finds the criterion met, as the grader reads it; None: invalid."""
    try:
        return read_decision(reply).is_met
    except BadReply:
        return None
