"""The strict and the batched grading of the same stored answers, side by side."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sklearn import metrics as sklearn_metrics

import medhelm
from medhelm.schema.run import JurySpec
from tests.clinicians.test_stored_decisions import PLUGIN, WORDS
from tests.server import FaultServer, serve_in_thread
from tests.shell import Shell

CASES = 6
LOST = 4
"""The case of which the batched reply forgets a criterion."""


def strict_says(case: int, place: int) -> bool | None:
    return None if (case, place) == (2, 1) else (case + place) % 2 == 0


def batched_says(case: int, place: int) -> bool | None:
    return None if case == LOST else (case + place) % 2 == 0 or place == 3


def says(prompt: str) -> str:
    case = int(re.findall(r"on day (\d+)\?", prompt)[0])
    if many := re.findall(r"<criteria \w+>\n(.*?)\n</criteria", prompt, re.DOTALL):
        listed = [json.loads(line) for line in many[-1].splitlines()]
        verdicts = [
            {"id": row["id"], "explanation": "x", "criteria_met": batched_says(case, place)}
            for place, row in enumerate(listed)
        ]
        return json.dumps({"verdicts": verdicts[case == LOST :]})
    criterion = re.findall(r"<criterion \w+>\n(.*?)\n</criterion", prompt, re.DOTALL)[-1]
    place = next(n for n, word in enumerate(WORDS) if criterion.startswith(word))
    return json.dumps({"explanation": "x", "criteria_met": strict_says(case, place)})


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with serve_in_thread(says) as running:
        yield running


def test_both_modes_of_one_judge(tmp_path: Path, server: FaultServer, shell: Shell) -> None:
    (tmp_path / "samples").mkdir()
    rows = [
        {
            "i": f"w{n}",
            "c": "The patient sleeps badly.",
            "q": f"What now, on day {n}?",
            "g": "Rest and fluids.",
            "t": [f"{word} is named" for word in WORDS],
        }
        for n in range(CASES)
    ]
    for name in ("ward", "notes"):
        (tmp_path / "samples" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    plugin, results = tmp_path / "ward.py", tmp_path / "results"
    plugin.write_text(PLUGIN)
    judge = server.model("j/one", endpoint_class="local")

    fidelity = ("fidelity", "--results-dir", results, "--stored", "ward", "--table", "modes")
    for mode in ("strict", "batched"):
        medhelm.evaluate(
            ["baseline/lead", "baseline/random"],
            "ward",
            data="sample",
            plugins=plugin,
            results_dir=results,
            jury=JurySpec(name="test", judges=(judge,), quorum=1, repairs=0),
            grader={"mode": mode},
        )
        if mode == "strict":
            error = shell.error(*fidelity)
            assert "in both modes" in error and "grader.mode=batched" in error
    said = shell.json(*fidelity)["rows"]
    assert [row["model"] for row in said] == [None, "baseline/lead", "baseline/random"]
    pairs = [
        (strict_says(case, place), batched_says(case, place))
        for case in range(CASES)
        for place in range(len(WORDS))
    ]
    for row, times in zip(said, (2, 1, 1), strict=True):
        one, other = ([p[n] is True for p in times * pairs] for n in (0, 1))
        invalid = [None in p for p in times * pairs]
        wrong = [not a if bad else b for a, b, bad in zip(one, other, invalid, strict=True)]
        assert (row["judge"], row["answers"], row["unpaired"]) == ("j/one", times * CASES, 0)
        assert (row["cases"], row["decisions"]) == (CASES, times * len(pairs))
        assert row["same"] == sum(a == b for a, b in zip(one, other, strict=True))
        assert row["kappa"] == pytest.approx(sklearn_metrics.cohen_kappa_score(one, other))
        assert row["kappa_low"] < row["kappa"] < row["kappa_high"]
        f1 = sklearn_metrics.f1_score
        assert row["mf1"] == pytest.approx(f1(one, other, average="macro"))
        assert row["mf1_wrong"] == pytest.approx(f1(one, wrong, average="macro"))
        assert row["batched_only"] == sum(b and not a for a, b in zip(one, other, strict=True))
        assert row["strict_only"] == sum(a and not b for a, b in zip(one, other, strict=True))
        assert row["met_strict"] == pytest.approx(sum(one) / len(one))
        assert row["invalid_strict"] == times and row["invalid_batched"] == times * len(WORDS)
    (row, _) = shell.json(*fidelity, "--model", "baseline/lead")["rows"]
    assert row["answers"] == CASES
    assert "did you mean 'baseline/lead'" in shell.error(*fidelity, "--model", "baseline/leed")
    error = shell.error(*fidelity, "--experts", "a=a.csv")
    assert "needs --stored BENCHMARK alone" in error
