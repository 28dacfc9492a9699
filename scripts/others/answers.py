"""Answers that are put to every harness alike, so that their scores can be read side by side.

Imported in environments that hold another harness and nothing of this package.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEALTHBENCH = "healthbench/healthbench_245.jsonl.gz"
MMLU = "mmlu_medical/mmlu_medical_test.medagents.jsonl"

UNREADABLE = "The answer meets it, I think."


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines, compressed or not."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return [json.loads(line) for line in content.splitlines()]


def place_in(prompt: str) -> int:
    """Return the place of the item in a prompt, which was written at the head of its text."""
    (place,) = set(re.findall(r"\[item (\d+)\]", prompt))
    return int(place)


def verdict(is_met: bool) -> str:
    """Return the JSON that HealthBench's prompt to a judge asks for."""
    return json.dumps({"explanation": "", "criteria_met": is_met})


def judge_all(meets: Callable[[float], bool]) -> Callable[[int, float], str]:
    """Return a judge that reads every criterion rightly."""
    return lambda place, points: verdict(meets(points))


def judge_but_first(place: int, points: float) -> str:
    """Return a right verdict on a perfect answer, but on the first criterion an unreadable one."""
    return verdict(points > 0) if place else UNREADABLE


# What a judge replies on the criterion in a place of the row's list, by the kind of answer.
HEALTH_ANSWERS: dict[str, Callable[[int, float], str]] = {
    "meets every wanted criterion, no harmful one": judge_all(lambda points: points > 0),
    "meets every criterion, harmful ones too": judge_all(lambda points: True),
    "meets every harmful criterion, no wanted one": judge_all(lambda points: points < 0),
    "meets no criterion": judge_all(lambda points: False),
    "as the first; the judge's reply on the first criterion is unreadable": judge_but_first,
    "as the first; every reply of the judge is unreadable": lambda place, points: UNREADABLE,
}


def replies(row: dict[str, Any]) -> dict[str, str]:
    """Return replies to a question of MMLU, by their form with B for the letter of the gold."""
    gold: str = row["answer_idx"]
    other = "B" if gold == "A" else "A"
    return {
        "B": gold,
        "(B)": f"({gold})",
        "B. and the option's text": f"{gold}. {row['options'][gold]}",
        "Answer: B": f"Answer: {gold}",
        "ANSWER: B": f"ANSWER: {gold}",
        "The answer is B.": f"The answer is {gold}.",
        "The answer is (B).": f"The answer is ({gold}).",
        "The correct answer is **B**.": f"The correct answer is **{gold}**.",
        "The answer is not (A). The answer is (B).": (
            f"The answer is not ({other}). The answer is ({gold})."
        ),
        "wrong: The answer is not (B). The answer is (A).": (
            f"The answer is not ({gold}). The answer is ({other})."
        ),
        "empty": "",
    }
