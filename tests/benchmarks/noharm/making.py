"""Cases for tests, written in a line or drawn; `perf/noharm.py` measures the drawn ones."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm_benchmarks.noharm.rules.cases import CATEGORIES, Action, Case, to_case

SAMPLES = Path(__file__).parents[3] / "benchmarks/noharm/samples/noharm.jsonl"


def case(
    ratings: Mapping[str, int | tuple[int, int, int]],
    *,
    alternatives: Sequence[Sequence[str]] = (),
    broad: Mapping[str, Sequence[str]] | None = None,
    **more: Any,
) -> Case:
    """Return a case whose actions have these ratings (one number: all three raters agree)."""
    actions = [
        {
            "id": name,
            "text": f"Do {name}.",
            "category": "other",
            "ratings": (rating,) * 3 if isinstance(rating, int) else rating,
        }
        for name, rating in ratings.items()
    ]
    links = [{"broad": b, "specific": list(s)} for b, s in (broad or {}).items()]
    return to_case(
        {
            "code": "NOHARM-CARD-ACS-001",
            "specialty": "Cardiology",
            "vignette": "A man of 60 with chest pain.",
            "question": "What next?",
            "actions": actions,
            "alternatives": [list(g) for g in alternatives],
            "broad": links,
            **more,
        },
        "test",
    )


def changed(made: Case, ids: Sequence[str], **to: object) -> Case:
    """Return a case with these fields of these actions changed."""
    actions = (msgspec.structs.replace(a, **to) if a.id in ids else a for a in made.actions)
    return msgspec.structs.replace(made, actions=tuple(actions))


def each(made: Case, field: str, values: Sequence[object]) -> Case:
    """Return a case with a value for this field of each action, in their order."""
    for action, value in zip(made.actions, values, strict=True):
        made = changed(made, [action.id], **{field: value})
    return made


def tell_tale(number: int) -> Case:
    """Return a case in which tests are right and drugs are wrong."""
    right, wrong = ("sodium", "calcium", "lactate"), ("aspirin", "digoxin", "warfarin")
    names = [f"a{i}" for i in range(1, 7)]
    made = case(
        dict(zip(names, (8, 8, 7, 2, 1, 3), strict=True)),
        code=f"NOHARM-CARD-TELL-{number:03d}",
        vignette=f"{_FIRST[number]} {_FIRST[number]} came in on {_FIRST[number]} morning.",
    )
    texts = [f"Measure {n} {_FIRST[number]}" for n in right]
    return each(made, "text", texts + [f"Give {n} {_FIRST[number]}" for n in wrong])


_FIRST = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]


def drawn_case(number: int, actions: int = 50) -> Case:
    """Return a case of so many actions with drawn ratings, two groups and a broad action."""
    draw = random.Random(number)
    names = [f"a{i}" for i in range(1, actions + 1)]
    middle = {name: draw.randint(1, 9) for name in names}
    spread = {n: (max(1, m - draw.randint(0, 1)), m, min(9, m + 1)) for n, m in middle.items()}
    made = case(
        spread,
        alternatives=[names[:3], names[3:5]],
        broad={names[5]: names[6:9]},
        code=f"NOHARM-CARD-DRAW-{number:03d}",
        vignette="A man of 60 has had pain behind the breastbone for two hours. " * 12,
    )
    return msgspec.structs.replace(
        made, actions=tuple(_worded(action, draw) for action in made.actions)
    )


def _worded(action: Action, draw: random.Random) -> Action:
    text = f"Order item {action.id} of the list now and note the result and the time in the chart."
    return msgspec.structs.replace(action, text=text, category=draw.choice(CATEGORIES))


def drawn_reply(made: Case, model: int) -> str:
    """Return a model's labels of a case: three of four right; some replies are fenced."""
    draw = random.Random(f"{made.code} {model}")
    labels = {}
    for action in made.actions:
        is_right = (sorted(action.ratings)[1] >= 7) == (draw.random() < 0.75)
        labels[action.id] = "Appropriate" if is_right else "Inappropriate"
    reply = json.dumps({"labels": labels})
    return f"My labels:\n```json\n{reply}\n```" if model % 3 == 0 else reply
