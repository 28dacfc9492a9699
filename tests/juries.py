"""A benchmark that judges rate, what a judge says of it, and a jury in a folder of configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from medhelm import ModelSpec, Results, evaluate
from medhelm.schema.run import JurySpec
from tests.quiz import PLUGIN

ESSAY = PLUGIN.with_name("essay.py")
AXES = ("accuracy", "completeness", "clarity")


def rated(score: int = 4, reason: str = "") -> str:
    """Return the reply of a judge that gives each axis this score, with a reason where one is given."""
    mark = {"score": score, "reason": reason} if reason else score
    return json.dumps(dict.fromkeys(AXES, mark))


def judged(results: Path, *judges: ModelSpec, **more: Any) -> Results:
    """Let judges, each of which is enough, rate a baseline's answers to the samples of `ESSAY`."""
    jury = JurySpec(name="j", judges=judges, quorum=1, reasons=False)
    given: dict[str, Any] = {"data": "sample", "results_dir": results, "plugins": ESSAY} | more
    return evaluate("baseline/lead", "essay", jury=jury, **given)


def house_jury(
    folder: Path, base_url: str, *judges: str, place: dict[str, str] | None = None, **fields: Any
) -> list[str]:
    """Write a jury of local models of a server, named j/NAME; return what names it to a command.

    `place`: servers of some of them; `fields`: those of each judge.
    """
    specs = [
        {"name": f"j/{name}", "model": name, "endpoint_class": "local"}
        | {"base_url": (place or {}).get(name, base_url), **fields}
        for name in judges
    ]
    quorum = {"quorum": 1} if len(judges) == 1 else {}
    path = folder / "conf" / "jury" / "house.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "house", "judges": specs, **quorum}))
    return ["jury=house", "--config-dir", str(folder / "conf")]
