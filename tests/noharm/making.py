"""Cases for tests, written in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medhelm.noharm.cases import Case, to_case


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
