"""Runs of labelled actions for tests: cases on disk, a plugin, models that say what they are told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medhelm.schema.model import ModelSpec
from tests.made import scripted

PLUGIN = Path(__file__).parent / "labelled_plugin.py"

Menus = Mapping[str, tuple[str, Mapping[str, tuple[str, int]]]]
"""Code of a case -> (specialty, action -> (category, rating of all three))."""


def write_cases(
    folder: Path, menus: Menus, *, name: str = "labelled", mark: str = "", **more: Any
) -> Path:
    """Write `NAME/cases.jsonl` below `folder/data` and return that; every text holds `mark`.

    `more`: further fields of all cases.
    """
    path = folder / "data" / name / "cases.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [_case(code, *menu, mark, more) for code, menu in menus.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "data"


def _case(
    code: str,
    specialty: str,
    menu: Mapping[str, tuple[str, int]],
    mark: str,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    actions = [
        {
            "id": name,
            "text": f"{mark}Do {name} now",
            "category": category,
            "ratings": [rating] * 3,
            "references": [f"{mark}GUIDELINE"],
        }
        for name, (category, rating) in menu.items()
    ]
    return {
        "code": code,
        "specialty": f"{mark}{specialty}",
        "vignette": f"{mark}A man of 60 with pain.",
        "question": f"{mark}What next?",
        "knowns": [f"{mark}Known"],
        "actions": actions,
        **more,
    }


def labels(**given: str) -> str:
    """Return a reply: y and n stand for the two labels, other words for themselves."""
    words = {"y": "Appropriate", "n": "Inappropriate"}
    return json.dumps({"labels": {i: words.get(word, word) for i, word in given.items()}})


def labeller(name: str, replies: Mapping[str, str], **script: Any) -> ModelSpec:
    """Return a model that answers by the code of the case."""
    return scripted(name, default="", replies=dict(replies), **script)
