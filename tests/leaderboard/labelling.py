"""Results of labelled actions for the tests of the site: the bundled cases under every class of data."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import medhelm
from medhelm.schema.model import ModelSpec
from medhelm_benchmarks.noharm.rules.cases import Case, read_cases
from medhelm_benchmarks.noharm.rules.score import action_class, consensus
from tests.benchmarks.noharm.labelled import PLUGIN, labeller, write_cases
from tests.benchmarks.noharm.making import SAMPLES

CLOSED = ("labelled_kept", "labelled_gated", "labelled_private")
SKILLS = {
    "lab/careful": (0.97, 0.99),
    "lab/bold": (0.97, 0.90),
    "vendor/shy-70b-instruct": (0.80, 0.99),
    "vendor/coarse": (0.85, 0.80),
}
"""Model -> chance to endorse what is appropriate, to reject what is not."""

NEUTRAL = [f"u{n}" for n in range(20)]
"""Uncertain actions: one label that is missing beside them leaves the reply read."""
MENUS = {
    f"NOHARM-CARD-ACS-{i:03d}": (
        "SPECIALTY" + ("Cardiology", "Nephrology")[i % 2],
        {"a1": ("medication", 9), "a2": ("diagnostic", 8), "a3": ("procedure", 1)}
        | {u: ("monitoring", 5) for u in NEUTRAL},
    )
    for i in range(4)
}
MARK = "CANARY"
EXPERTS = "Society of Examples"
SEED = 2
"""By which the rule that guesses makes an odd number of errors in two repeats."""


def bundled() -> list[Case]:
    """Return the bundled cases."""
    return [*read_cases(SAMPLES)]


def labels_of(case: Case, name: str) -> dict[str, str]:
    """Return labels of a model of some skill; always the same."""
    draw = random.Random(f"{name} {case.code}")
    endorse, reject = SKILLS[name]
    found = {}
    for action in case.actions:
        kind = action_class(consensus(action))
        is_yes = draw.random() < {"appropriate": endorse, "uncertain": 0.5}.get(kind, 1 - reject)
        found[action.id] = "Appropriate" if is_yes else "Inappropriate"
    return found


def models() -> list[ModelSpec]:
    """Return the models; the last one labels some actions badly and one case not at all."""
    found = []
    for name in SKILLS:
        replies = {}
        for place, case in enumerate(bundled()):
            given = labels_of(case, name)
            if name == "vendor/coarse" and place % 2:
                del given[case.actions[0].id]
            elif name == "vendor/coarse":
                given[case.actions[1].id] = "perhaps"
            replies[case.code] = json.dumps({"labels": given})
        if name == "vendor/coarse":
            replies[bundled()[0].code] = "I would rather not say."
        found.append(labeller(name, replies))
    return found


def write_labelled(folder: Path) -> Path:
    """Run models and baselines on open cases, and two models on marked ones that stay closed."""
    results = folder / "results"
    path = folder / "data" / "labelled" / "cases.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(SAMPLES.read_text())
    _run([*models(), "baseline/random", "baseline/oracle"], ["labelled"], folder, results)
    for name in CLOSED:
        more = {"validation": {"by": f"{MARK}SOCIETY", "date": "2026-11-01"}}
        write_cases(folder, MENUS, name=name, mark=MARK, **(more if name == CLOSED[0] else {}))
    given = {"a1": "Appropriate"} | dict.fromkeys(["a2", *NEUTRAL], "Inappropriate")
    reply = json.dumps({"labels": given})
    closed = [
        labeller(name, dict.fromkeys(MENUS, f"{MARK}REPLY {reply}"))
        for name in ("lab/careful", "lab/bold")
    ]
    _run(closed, list(CLOSED), folder, results)
    return results


def write_uneven(folder: Path) -> Path:
    """Run what leaves gaps: lost and unread replies, repeats, no error at all, nobody to compare."""
    results = folder / "results"
    for name in ("labelled", *CLOSED):
        path = folder / "data" / name / "cases.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(SAMPLES.read_text())
    _validate(folder / "data" / "labelled" / "cases.jsonl", count=5)
    whole = {name: _replies(name) for name in ("lab/bold", "lab/careful")}
    lost = dict.fromkeys(list(whole["lab/bold"])[:5], "error")
    models: list[Any] = [labeller(name, replies) for name, replies in whole.items()]
    models.append(labeller("lab/lost", whole["lab/bold"], finish=lost))
    models.append(labeller("lab/silent", {}))
    _run(models, ["labelled"], folder, results)
    _run(["baseline/oracle"], ["labelled_kept"], folder, results)
    _run(["baseline/random", models[0]], ["labelled_gated"], folder, results, repeats=2, seed=SEED)
    right = {
        case.code: _reply({a.id: action_class(consensus(a)) == "appropriate" for a in case.actions})
        for case in bundled()
    }
    _run([labeller("lab/right", right)], ["labelled_private"], folder, results)
    return results


def _validate(path: Path, count: int) -> None:
    """Say of the first cases of a file that experts validated them."""
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    for own in cases[:count]:
        own["validation"] = {"by": EXPERTS, "date": "2026-11-01"}
    path.write_text("".join(json.dumps(own) + "\n" for own in cases))


def _replies(name: str) -> dict[str, str]:
    return {c.code: json.dumps({"labels": labels_of(c, name)}) for c in bundled()}


def _reply(endorsed: dict[str, bool]) -> str:
    words = {i: "Appropriate" if is_yes else "Inappropriate" for i, is_yes in endorsed.items()}
    return json.dumps({"labels": words})


def _run(
    who: list[Any],
    benchmarks: list[str],
    folder: Path,
    results: Path,
    repeats: int = 1,
    seed: int = 0,
) -> None:
    medhelm.evaluate(
        who,
        benchmarks,
        data="full",
        data_dir=folder / "data",
        results_dir=results,
        plugins=PLUGIN,
        repeats=repeats,
        seed=seed,
    )
