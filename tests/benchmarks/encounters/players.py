"""A server that plays every role of an encounter and judges it, each by what it is sent alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from medhelm import Message, ModelSpec, Request
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000 as BENCHMARK
from medhelm_benchmarks.encounters.prompts import prompt_text
from medhelm_benchmarks.encounters.rules import RuleModel
from tests.benchmarks.encounters.stage import CASE, says

SCRIPT = RuleModel(ModelSpec(name="script/packet", provider="script", model="packet"))
TURNS = 6
MOVES = (
    says("How long has she been ill?", "vital signs"),
    says("Does she drink?", "start an infusion of fluids"),
    says("Thank you.", eos=True),
    says("Is she better now?", "vital signs"),
    says("I see.", "sodium"),
    says("Thank you.", eos=True),
)
"""Meets all four items of the staged case, in six turns."""


def reply(body: Mapping[str, Any]) -> str:
    """Return what the role that is asked says."""
    messages = [Message(m["role"], m["content"]) for m in body["messages"]]
    first = messages[0].content
    if first.startswith("You judge an encounter"):
        return judge(messages[1].content)
    if first.startswith((prompt_text("patient"), prompt_text("controller"))):
        request = Request(instance_id="", messages=tuple(messages), max_output_tokens=9)
        return SCRIPT.answer(BENCHMARK, CASE, 0, request)
    return MOVES[sum(m.role == "assistant" for m in messages) % TURNS]


def judge(asked: str) -> str:
    """Return a verdict on each item that is listed: met where its last word is in the encounter."""
    transcript, _, listed = asked.partition("\n\nThe items, one JSON object a line:\n")
    turns = [json.loads(line) for line in re.findall(r"^\{.*\}$", transcript, re.MULTILINE)]
    verdicts = []
    for item in map(json.loads, listed.splitlines()):
        word = item["item"].split()[-1].casefold()
        shown = [t for t in turns if word in json.dumps(t).casefold()]
        verdicts.append({**item, "met": bool(shown), "evidence": [*map(evidence, shown)]})
    return json.dumps({"items": verdicts})


def evidence(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn with what the clinician says in it."""
    return {"turn": turn["turn"], "quote": turn["clinician_says"]}
