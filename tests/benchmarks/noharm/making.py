"""Cases for tests, written in a line or drawn; `perf/noharm.py` measures the drawn ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from medhelm_benchmarks.noharm.rules.cases import Case, to_case


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
    texts += [f"Give {n} {_FIRST[number]}" for n in wrong]
    actions = zip(made.actions, texts, strict=True)
    return msgspec.structs.replace(
        made, actions=tuple(msgspec.structs.replace(a, text=t) for a, t in actions)
    )


_FIRST = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]
