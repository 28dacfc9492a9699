"""The kinds of runs that are stored, and the rules by which their models and judges answer.

The addresses end in `.invalid`, so that no machine has them: whoever resumes a stored run names a
local server as the proxy (`HTTP_PROXY`), and the run keeps its address, and so its hash, whatever
port the server got.
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import medhelm
from medhelm import ModelSpec, Price, Results
from medhelm.schema.run import JurySpec
from tests.server import Reply

HERE = Path(__file__).parent
WHOLE, HALF, TABLES, DATA = (HERE / name for name in ("whole", "half", "tables", "data"))
PLUGINS = [HERE.parent / "plugins" / f"{name}.py" for name in ("quiz", "essay")]
ADDRESS = "http://model.invalid/v1"
PRICE = Price(input=2.5, output=10.0, cached=1.25, date="2026-01-01")

_ACTION = re.compile(r"^(\w+)\. (.+)$", re.MULTILINE)
_QUESTION = re.compile(r'"question": "([^"]*)".*?"query": "([^"]*)"')


def served(name: str, **more: Any) -> ModelSpec:
    """Return a model of the server of `.invalid`."""
    return ModelSpec(
        name=name,
        model=name.rpartition("/")[2],
        base_url=ADDRESS,
        endpoint_class="local",
        price=PRICE,
        **more,
    )


JURY = JurySpec(
    name="three",
    judges=tuple(served(f"judges/judge-{letter}") for letter in "abc"),
    quorum=2,
    repairs=1,
)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Holds how the runs of one results folder are asked for."""

    models: tuple[str | ModelSpec, ...]
    benchmark: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    by: str
    """A metadata key for the table of slices."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """Lines that each log of a half-finished run still holds, by the model that wrote them; of
    the next line there is a part. A judge with 0 was not asked yet."""

    def ask(self, results: Path) -> Results:
        """Run or resume these runs in a results folder."""
        given: dict[str, Any] = {"data": "full", "data_dir": DATA} | dict(self.settings)
        return medhelm.evaluate(
            list(self.models), self.benchmark, results_dir=results, plugins=PLUGINS, **given
        )


KINDS = {
    "completion": Kind(
        models=(served("openai/asked"),),
        benchmark="quiz",
        settings={"max_instances": 20},
        by="ward",
        kept={"openai/asked": 11},
    ),
    "repeats": Kind(
        models=(served("openai/asked", sampling=medhelm.Sampling(temperature=0.7)),),
        benchmark="quiz",
        settings={"max_instances": 7, "repeats": 3},
        by="ward",
        kept={"openai/asked": 10},
    ),
    "baselines": Kind(
        models=("baseline/lexical", "baseline/majority", "baseline/random"),
        benchmark="quiz",
        by="ward",
        kept={"baseline/lexical": 9, "baseline/majority": 3, "baseline/random": 23},
    ),
    "jury": Kind(
        models=(served("openai/asked"),),
        benchmark="essay",
        settings={"jury": JURY},
        by="",
        kept={"openai/asked": 5, "judge-a": 5, "judge-b": 2, "judge-c": 0},
    ),
    "labels": Kind(
        models=(served("lab/free"), served("lab/schema", json_schema=True)),
        benchmark="noharm",
        by="",
        kept={"lab/free": 2, "lab/schema": 1},
    ),
    "queries": Kind(
        models=(served("openai/asked"),),
        benchmark="ehrsql",
        settings={"data": "sample"},
        by="answerable",
        kept={"openai/asked": 4},
    ),
}


def answer(body: Mapping[str, Any]) -> str | Reply:
    """Return what the server replies to the body of a request: by model, text and seed alone."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    if body["model"].startswith("judge-"):
        return _verdict(body["model"], prompt)
    if "Actions:\n" in prompt:
        return _labels(f"{body['model']}|{prompt}", has_schema="response_format" in body)
    if "<sql>" in prompt:
        return _query(prompt)
    if "Choose the drug." in prompt:
        return _letter(f"{prompt}|{body.get('seed')}")
    return f"Give fluids and look for source number {_draw(prompt) % 9}; measure again."


def _draw(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def _letter(text: str) -> str | Reply:
    match _draw("ending" + text) % 10:
        case 0:
            return Reply(None, refusal="I can't help with that.")
        case 1:
            return Reply("The drug would be", finish_reason="length")
        case 2:
            return "It depends on the patient."
        case 3:
            return Reply(f"Answer: {'ABCD'[_draw(text) % 4]}", usage=False)
    return f"The answer is {'ABCD'[_draw(text) % 4]}."


def _verdict(judge: str, prompt: str) -> str | Reply:
    """Rate by the text. Judge c abstains on every third answer, at the first try or for good."""
    if judge == "judge-c" and _draw(prompt) % 3 == 0:
        return "It is good."
    names = ("accuracy", "completeness", "clarity")
    scores = {name: 1 + _draw(f"{judge}|{name}|{prompt}") % 5 for name in names}
    if judge == "judge-b":
        return json.dumps({name: {"score": n, "reason": "Plain."} for name, n in scores.items()})
    return json.dumps(scores)


def _labels(prompt: str, *, has_schema: bool) -> str:
    """Label one action in 29 against the ratings. Without a schema leave out some labels, and
    all of some menus."""
    menu = dict(_ACTION.findall(prompt.partition("Actions:\n")[2]))
    lines = (DATA / "noharm" / "cases.jsonl").read_text().splitlines()
    rated = {
        (action["id"], action["text"]): statistics.median(action["ratings"]) >= 7
        for case in map(json.loads, lines)
        for action in case["actions"]
    }
    labels = {}
    for name, text in menu.items():
        is_right = rated[name, text] == (_draw(f"{name}|{prompt}") % 29 > 0)
        labels[name] = "Appropriate" if is_right else "Inappropriate"
    if not has_schema:
        if _draw("unread" + prompt) % 3 == 0:
            return "All of these steps seem appropriate."
        labels = {n: label for n, label in labels.items() if _draw(f"out|{n}|{prompt}") % 60}
    return json.dumps({"labels": labels})


def _query(prompt: str) -> str:
    sample = (HERE.parents[1] / "benchmarks/ehrsql/samples/ehrsql.jsonl").read_text()
    golds = [gold for question, gold in _QUESTION.findall(sample) if question in prompt]
    match _draw(prompt) % 4:
        case 0:
            return "UNANSWERABLE"
        case 1:
            return "<sql>select count(*) from patient</sql>"
        case 2:
            return "<sql>select nothing from nowhere</sql>"
    return f"<sql>{golds[0] if golds else 'select 1'}</sql>"
