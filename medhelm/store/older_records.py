"""Summaries of runs as earlier versions wrote them -> today's form."""

from __future__ import annotations

from typing import Any

from medhelm.schema.episode import MODEL
from medhelm.schema.run import JUDGE


def with_parties(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a summary with one list of all who were asked.

    Up to 0.1.0 the usage of the model under test and that of the judges had keys of their own.
    """
    if "usage" not in summary:
        return summary
    own = {
        "role": MODEL,
        "model": summary["spec"]["model"],
        "usage": summary.pop("usage"),
        "served_models": summary.pop("served_models"),
    }
    graders = [
        {
            "role": JUDGE,
            "model": judge["judge"],
            "usage": judge["usage"],
            "served_models": judge["served_models"],
            "is_grader": True,
            "ends": judge["judgements"],
        }
        for judge in summary.pop("judges", ())
    ]
    return summary | {"parties": [own, *summary.pop("parties", ()), *graders]}
