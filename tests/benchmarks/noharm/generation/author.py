"""A model that writes cases by rule, knows the stages by their prompts, and can write badly."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from medhelm.schema.episode import Request
from medhelm_benchmarks.noharm.rules.cases import CATEGORIES

GUIDELINE = """# Society of Examples 2024 guideline on fever in adults

Zebrawood chapter one. Measure the temperature twice before treatment is begun. Paracetamol 1 g by
mouth is the first choice in adults of more than 50 kg. In severe liver disease the daily dose is
halved. Blood cultures are taken before antibiotics where sepsis is suspected. Ibuprofen is not
given when the estimated filtration rate is below 30. Recheck kidney function within one week of
starting an inhibitor of the renin system.
"""
CANARY = "Zebrawood"
"""A word that stands in the guideline and nowhere else."""
QUOTE = "Blood cultures are taken before antibiotics"

STAGES = {
    "scene": "You write patients",
    "options": "List next steps that colleagues",
    "traps": "actions that are on the menu already",
    "groups": "which steps stand for each other",
    "rating": "Rate every step by itself",
    "quotes": "Look once more",
}

_VIGNETTE = (
    "A 67-year-old woman of 58 kg has had fever up to 39.2 degrees for three days with chills and "
    "a cough that brings up little. She has high blood pressure and takes ramipril 5 mg. There is "
    "no known allergy. Pulse 102, blood pressure 118/70 mmHg, saturation 94 % on air, breathing "
    "rate 22 a minute. There are crackles at the right base. Creatinine 148 umol/L, before that "
    "not known. She lives alone on the third floor, and her daughter visits twice a week."
)
KINDS = {
    "first_line": 5,
    "conditional": 3,
    "dose": 2,
    "interaction": 2,
    "contraindication": 2,
    "prerequisite": 2,
    "monitoring": 2,
}


def stage_of(prompt: str) -> str:
    """Return the stage that a prompt is of."""
    found = [stage for stage, words in STAGES.items() if words in prompt]
    assert len(found) == 1, f"a prompt of {len(found)} stages"
    return found[0]


def _own_words(prompt: str) -> str:
    """Return words that make the patient of one setting another than that of the next."""
    setting = re.search("^Place: .*", prompt, re.MULTILINE)
    passage = re.search(r"<passage \w+>\n(.*)", prompt)
    drawn = f"{setting and setting[0]} {passage and passage[1]}"
    mark = hashlib.sha256(drawn.encode()).hexdigest()[:8]
    return " ".join(f"{mark}{n}" for n in range(100))


def scene(prompt: str = "") -> dict[str, Any]:
    place = re.search("^Place: (.*)", prompt, re.MULTILINE)
    return {
        "vignette": f"{_VIGNETTE} {place[1]}. {_own_words(prompt)}" if place else _VIGNETTE,
        "question": "What would you do first?",
        "knowns": ["Fever for three days", "Creatinine 148 umol/L", "Crackles at the right base"],
        "unknowns": ["Kidney function before", "Whether she has had her vaccines"],
        "red_flags": [
            {"text": "Breathing rate of 22", "status": "present"},
            {"text": "Confusion", "status": "absent"},
        ],
    }


def options(n: int = 22) -> dict[str, Any]:
    return {
        "options": [
            {"text": f"Order number {i}: measure item {i}", "category": CATEGORIES[i % 8]}
            for i in range(n)
        ]
    }


def traps(kinds: Mapping[str, int] = KINDS) -> dict[str, Any]:
    return {
        "options": [
            {
                "text": f"Start medicine number {10 * k + i} once daily",
                "category": "medication",
                "kind": kind,
            }
            for k, (kind, n) in enumerate(kinds.items())
            for i in range(n)
        ]
    }


def menu_ids(prompt: str) -> list[str]:
    return re.findall(r"^(a\d+)\. ", prompt, re.MULTILINE)


def groups(prompt: str) -> dict[str, Any]:
    ids = menu_ids(prompt)
    return {
        "alternatives": [ids[:2]],
        "broad": [{"broad": ids[2], "specific": [ids[3], ids[4]]}],
    }


def texts(prompt: str) -> dict[str, str]:
    return dict(re.findall(r"^(a\d+)\. (.+)$", prompt, re.MULTILINE))


def rating_of(text: str) -> int:
    """Return 1 to 9 by the text alone, as raters who agree do."""
    return hashlib.sha256(text.encode()).digest()[0] % 9 + 1


def ratings(prompt: str, quote: str = QUOTE) -> dict[str, Any]:
    return {
        "ratings": [
            {
                "id": i,
                "rating": rating_of(t),
                "covered": bool(quote),
                "quote": quote,
                "implausible": False,
            }
            for i, t in texts(prompt).items()
        ]
    }


def good(stage: str, prompt: str, quote: str = QUOTE, second: str = "") -> str:
    """Return a reply without faults; `quote` and `second` are what raters quote at first, and then."""
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "scene": lambda: scene(prompt),
        "options": options,
        "traps": traps,
        "groups": lambda: groups(prompt),
        "rating": lambda: ratings(prompt, quote),
        "quotes": lambda: {"quotes": [{"id": i, "quote": second} for i in menu_ids(prompt)]},
    }
    return json.dumps(made[stage]())


@dataclass
class Author:
    """Answers by rule; `bad` maps a stage to what its first replies are, in turn, for each case."""

    bad: Mapping[str, list[str]] = field(default_factory=dict)
    prompts: list[tuple[str, str]] = field(default_factory=list)
    """Stage and whole text of every request."""
    quote: str = QUOTE
    second: str = ""

    def __call__(self, request: Request) -> str:
        prompt = "\n".join(m.content for m in request.messages)
        return self.reply(prompt, sum(m.role == "assistant" for m in request.messages))

    def reply(self, prompt: str, attempt: int) -> str:
        """Return the reply to a prompt that was repaired `attempt` times."""
        stage = stage_of(prompt)
        self.prompts.append((stage, prompt))
        said = self.bad.get(stage, [])
        return (
            said[attempt] if attempt < len(said) else good(stage, prompt, self.quote, self.second)
        )
