"""The messages that ask a judge whether an answer meets a criterion, within a run or outside of one.

All calls of one case begin word for word alike (rules, request, answer) and differ in what follows,
the criterion, so that a provider's cache holds what they share.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from medhelm.extract.json_reply import BadReply
from medhelm.grading.rubric.verdicts import read_decision
from medhelm.prompts.fencing import fenced
from medhelm.schema.data import Benchmark, CriteriaRules, Criterion, FileDataset, Instance, LeftOut
from medhelm.schema.episode import Message

LANGUAGE = "language"
"""Key of `Instance.metadata`: the language that judges are addressed in, "zh" or any other."""

_TAGS = ("request", "answer", "criterion", "criteria")

_WORDS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("words.toml").read_text("utf-8")
)
STRICT_RULES = CriteriaRules(
    name="strict", version="1", en=_WORDS["en"]["rules"], zh=_WORDS["zh"]["rules"]
)
"""The rules of a benchmark that brings none of its own."""


def language_of(instance: Instance) -> str:
    """Return the language that judges are addressed in: "zh" or "en"."""
    return "zh" if instance.metadata.get(LANGUAGE) == "zh" else "en"


def shared_messages(
    benchmark: Benchmark, instance: Instance, answer: str, *, batched: bool = False
) -> tuple[Message, Message]:
    """Return the beginning that all calls of a case share: the rules, then request and answer."""
    language = language_of(instance)
    words = _WORDS[language]
    form = f'{{"explanation": "{words["why"]}", "criteria_met": true | false}}'
    if batched:
        form = f'{{"verdicts": [{{"id": "<id>", {form[1:]}, ...]}}'
    own = benchmark.criteria_rules or STRICT_RULES
    rules = words["frame"].format(
        rules=(language == "zh" and own.zh) or own.en,
        one=words["many" if batched else "one"],
        tag="criteria" if batched else "criterion",
        form=form,
        note=words["note"],
    )
    body = [
        fenced("request", request_text(benchmark, instance), _TAGS),
        fenced("answer", answer, _TAGS),
    ]
    return Message("system", rules), Message("user", "\n\n".join(body) + "\n\n")


def rules_version(benchmark: Benchmark) -> str:
    """Return what names a benchmark's own rules and their words; empty where it has none."""
    own = benchmark.criteria_rules
    if own is None:
        return ""
    words = hashlib.sha256(f"{own.en}\0{own.zh}".encode()).hexdigest()[:8]
    return f"rules {own.name} {own.version} ({words})"


def request_text(benchmark: Benchmark, instance: Instance) -> str:
    """Return what the user wrote: the turns of a conversation, else task, context and question."""
    if instance.turns:
        return "\n\n".join(f"[{turn.role}]\n{turn.content}" for turn in instance.turns)
    parts = (benchmark.instruction, instance.context, instance.question)
    return "\n\n".join(part for part in parts if part.strip())


def with_criterion(
    shared: tuple[Message, Message], criterion: Criterion
) -> tuple[Message, Message]:
    """Return the messages that ask for one criterion."""
    rules, case = shared
    return rules, Message("user", case.content + fenced("criterion", criterion.text, _TAGS))


def with_criteria(
    shared: tuple[Message, Message], criteria: Sequence[Criterion]
) -> tuple[Message, Message]:
    """Return the messages that ask for all criteria at once."""
    rules, case = shared
    listed = "\n".join(
        json.dumps({"id": c.name, "criterion": c.text}, ensure_ascii=False) for c in criteria
    )
    return rules, Message("user", case.content + fenced("criteria", listed, _TAGS))


def repair_message(instance: Instance, fault: str) -> Message:
    """Return the message to a judge whose reply could not be read."""
    return Message("user", _WORDS[language_of(instance)]["repair"].format(fault=fault))


def metadata_language(text: str) -> Mapping[str, str]:
    """Return the metadata that name a text's language: Chinese where a fifth of it is Han script."""
    letters = [c for c in text if c.isalpha()]
    han = sum("一" <= c <= "鿿" for c in letters)
    return {LANGUAGE: "zh" if letters and 5 * han >= len(letters) else "en"}


_NO_TASK = Benchmark(
    name="decisions",
    subcategory="",
    dataset=FileDataset(files=()),
    to_instance=lambda row: LeftOut(""),
    metrics=(),
)
"""Used as the benchmark of a decision: the request is the whole of what the user wrote."""


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
