"""The kinds of runs that are stored, and the rules by which their models and judges answer.

The addresses end in `.invalid`, so that no machine has them: whoever resumes a stored run names a
local server as the proxy (`HTTP_PROXY`), and the run keeps its address, and so its hash, whatever
port the server got.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import medhelm
from medhelm import ModelSpec, Price, Results
from medhelm.schema.run import JurySpec
from tests.protocols import interview
from tests.server import Reply

HERE = Path(__file__).parent
WHOLE, TABLES, DATA = (HERE / name for name in ("whole", "tables", "data"))
OWN = HERE.parent / "plugins"
PLUGINS = [*(OWN / f"{name}.py" for name in ("quiz", "essay", "checklist")), interview.PLUGIN]
ADDRESS = "http://model.invalid/v1"
PRICE = Price(input=2.5, output=10.0, cached=1.25, date="2026-01-01")


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


def jury(*letters: str) -> JurySpec:
    """Return a jury of judges of the server."""
    judges = tuple(served(f"judges/judge-{letter}") for letter in letters)
    return JurySpec(name="stored", judges=judges, quorum=(len(judges) + 1) // 2, repairs=1)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Holds how the runs of one results folder are asked for."""

    models: tuple[str | ModelSpec, ...]
    benchmark: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    """Lines that each log of a half-finished run still holds, by the model that wrote them; of
    the next line there is a part. A judge with 0 was not asked yet."""

    def ask(self, results: Path) -> Results:
        """Run or resume these runs in a results folder."""
        given: dict[str, Any] = {"data": "full", "data_dir": DATA, "controls": 0} | dict(
            self.settings
        )
        return medhelm.evaluate(
            list(self.models), self.benchmark, results_dir=results, plugins=PLUGINS, **given
        )


ASKED = served("openai/asked")
KINDS = {
    "completion": Kind(
        models=(ASKED,),
        benchmark="quiz",
        settings={"max_instances": 12},
        kept={"openai/asked": 7},
    ),
    "repeats": Kind(
        models=(served("openai/asked", sampling=medhelm.Sampling(temperature=0.7)),),
        benchmark="quiz",
        settings={"max_instances": 4, "repeats": 3},
        kept={"openai/asked": 5},
    ),
    "baselines": Kind(
        models=("baseline/lexical", "baseline/random"),
        benchmark="quiz",
        kept={"baseline/lexical": 9, "baseline/random": 3},
    ),
    "jury": Kind(
        models=(ASKED,),
        benchmark="essay",
        settings={"jury": jury("a", "b", "c")},
        kept={"openai/asked": 3, "judge-a": 7, "judge-b": 4, "judge-c": 0},
    ),
    "criteria": Kind(
        models=(ASKED,),
        benchmark="checklist",
        settings={"jury": jury("a")},
        kept={"openai/asked": 2, "judge-a": 5},
    ),
    "interview": Kind(
        models=(ASKED,),
        benchmark="interview",
        settings={
            "data": "sample",
            "cast": {role: served(f"openai/{role}") for role in ("questioner", "referee")},
        },
        kept={"openai/asked": 11},
    ),
}


def answer(body: Mapping[str, Any]) -> str | Reply:
    """Return what the server replies to the body of a request: by model, text and seed alone."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    if "criteria_met" in prompt:
        return json.dumps({"explanation": "So.", "criteria_met": _draw(prompt) % 3 > 0})
    if body["model"].startswith("judge-"):
        return _verdict(body["model"], prompt)
    if found := re.search(r"\[(questioner|answerer|referee)\]", prompt):
        return interview.play(prompt[found.start() :])
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
