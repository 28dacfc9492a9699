"""Judges under stress: scripted ones that prefer what comes first, or long answers, stand out."""

import json
import random
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

import medhelm
from medhelm.cli import run_command
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec
from tests.clinicians.test_stored_decisions import PLUGIN
from tests.made import scripted
from tests.quiz import at
from tests.server import FaultServer, serve_in_thread
from tests.shell import Shell

CASES, CRITERIA, MODELS = 15, 4, ("m/a", "m/b")
ESSAY = Path(__file__).parents[1] / "plugins" / "essay.py"
BROKEN = 3
"""The case of which the fair judge's reply cannot be read in reverse order."""
DICE = random.Random(5)
TRUTH = {
    (m, n, k): DICE.random() < 0.5 for m in MODELS for n in range(CASES) for k in range(CRITERIA)
}
WORDS = {(m, n): DICE.randrange(5, 200) for m in MODELS for n in range(CASES)}
ANSWERS = {
    (m, n): f"{m} {n} of {w}: " + "word " * w for (m, n), w in WORDS.items()
}  # lengths have no part in what experts decide


def decides(judge: str, model: str, case: int, listed: list[int]) -> dict[int, bool]:
    """Return what a judge says of criteria in the order in which it is shown them."""
    truth = {k: TRUTH[model, case, k] for k in listed}
    if judge == "first":
        return truth | {listed[0]: True, listed[-1]: False}
    if judge == "long":
        return {k: met or WORDS[model, case] > 60 + 40 * k for k, met in truth.items()}
    return {k: met != ((case + 2 * k) % 9 == 0) for k, met in truth.items()}


def says(body: Mapping[str, Any]) -> str:
    judge = body["model"]
    prompt = "\n".join(message["content"] for message in body["messages"])
    if judge.endswith("jury"):
        names = re.findall(r"^- (\w+): ", prompt, re.MULTILINE)
        given = {n: 2 + len(n) % 3 for n in names}
        if judge == "long-jury":
            words = int(re.findall(r"m/\w \d+ of (\d+): ", prompt)[-1])
            given = dict.fromkeys(names, 1 + words // 45)
        return json.dumps(given | ({names[0]: 5} if judge == "first-jury" else {}))
    model, case = re.findall(r"(m/\w) (\d+) of \d+: ", prompt)[-1]
    if one := re.findall(r"criterion \w+>\nword (\d)", prompt):
        met = decides(judge, model, int(case), [int(one[-1])])[int(one[-1])]
        return json.dumps({"explanation": "x", "criteria_met": met})
    listed = [int(k) for k in re.findall(r'"criterion": "word (\d)', prompt)]
    if judge == "fair" and int(case) == BROKEN and listed[0]:
        return "I would rather not."
    met = decides(judge, model, int(case), listed)
    own = [{"id": f"c{k}", "explanation": "x", "criteria_met": m} for k, m in met.items()]
    return json.dumps({"verdicts": own})


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with serve_in_thread(by_body=says) as running:
        yield running


def judges(server: FaultServer, *names: str) -> JurySpec:
    specs = tuple(server.model(f"j/{n}", endpoint_class="local") for n in names)
    return JurySpec(name="test", judges=specs, quorum=1, repairs=0)


def answering(ids: Mapping[int, str]) -> list[ModelSpec]:
    return [scripted(m, replies={i: ANSWERS[m, n] for n, i in ids.items()}) for m in MODELS]


def stress(results: Path, benchmark: str, plugin: Path, *more: str) -> list[dict[str, Any]]:
    words = ["--stored", benchmark, "--stress", "--plugin", str(plugin)]
    table = results / "table.json"
    at = ("--results-dir", str(results), "--out", str(table), *more)
    assert run_command(["fidelity", *words, *at]) == 0
    rows: list[dict[str, Any]] = json.loads(table.read_text())["rows"]
    return rows


def ward(folder: Path, server: FaultServer, mode: str, *names: str) -> Path:
    (folder / "samples").mkdir()
    rows = [
        {"i": f"w{n}", "c": "A note.", "q": f"What on day {n}?", "g": "Rest."}
        | {"t": [f"word {k} is named" for k in range(CRITERIA)]}
        for n in range(CASES)
    ]
    for name in ("ward", "notes"):
        (folder / "samples" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    plugin = folder / "ward.py"
    plugin.write_text(PLUGIN)
    own = at(folder, plugins=plugin, data="sample", controls=0, grader={"mode": mode})
    models = answering({n: f"w{n}" for n in range(CASES)})
    medhelm.evaluate(models, "ward", jury=judges(server, *names), **own)
    return plugin


def experts(path: Path) -> str:
    rows = [
        {"model": m, "case_id": f"w{n}"}
        | {
            "criteria": [
                {"criterion_id": f"c{k}", "criteria_met": TRUTH[m, n, k]} for k in range(CRITERIA)
            ]
        }
        for m in MODELS
        for n in range(CASES)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return f"--experts=doctors={path}"


@pytest.mark.slow
def test_judges_of_criteria(tmp_path: Path, server: FaultServer) -> None:
    plugin = ward(tmp_path, server, "batched", "fair", "first", "long")
    results = tmp_path / "results"
    before = server.requests
    rows = stress(results, "ward", plugin, "--sample", "100", experts(tmp_path / "experts.jsonl"))
    assert server.requests == before + 3 * 2 * CASES
    found = {(r["judge"], r["beyond"]): r for r in rows}
    places = [(m, n) for m in MODELS for n in range(CASES)]
    for name in ("fair", "first", "long"):
        row, beyond = found[f"j/{name}", "nobody"], found[f"j/{name}", "doctors"]
        said = {p: decides(name, *p, [0, 1, 2, 3]) for p in places}
        again = {p: decides(name, *p, [3, 2, 1, 0]) for p in places}
        read = [p for p in places if name != "fair" or p[1] != BROKEN]
        turned = sum(said[p][k] != again[p][k] for p in read for k in range(CRITERIA))
        assert (row["order"], row["asked"], row["missing"]) == ("reversed", 2 * CASES, 0)
        assert (row["turned"], row["verdicts"]) == (turned, CRITERIA * len(read))
        assert row["unreadable"] == CRITERIA * (len(places) - len(read))
        assert row["turned_share"] == pytest.approx(turned / row["verdicts"])
        assert row["turned_share_low"] <= row["turned_share"] < row["turned_share_high"]
        mark = [np.mean([*said[p].values()]) for p in places]
        human = [np.mean([TRUTH[(*p, k)] for k in range(CRITERIA)]) for p in places]
        length = [len(ANSWERS[p].strip()) for p in places]
        assert row["length"] == pytest.approx(spearmanr(mark, length).statistic)
        x, y, given = (rankdata(v) - np.mean(rankdata(v)) for v in (mark, length, human))
        x, y = (v - given * (v @ given) / (given @ given) for v in (x, y))
        assert beyond["length"] == pytest.approx((x @ y) / np.sqrt((x @ x) * (y @ y)))
        assert (beyond["answers"], row["answers"]) == (2 * CASES, 2 * CASES)
    assert found["j/first", "nobody"]["turned_share_low"] > 0.2
    assert found["j/fair", "nobody"]["turned"] == found["j/long", "nobody"]["turned"] == 0
    assert found["j/fair", "nobody"]["turned_share_high"] < 0.3
    assert found["j/long", "doctors"]["low"] > 0.4
    assert found["j/fair", "doctors"]["low"] < 0 < found["j/fair", "doctors"]["high"]

    again_rows = stress(results, "ward", plugin, "--sample", "100", experts(tmp_path / "e.jsonl"))
    assert again_rows == rows and server.requests == before + 6 * CASES, "nothing is asked twice"

    one = stress(results, "ward", plugin, "--sample", "1")[
        0
    ]  # verdicts of one case have no interval
    assert (one["asked"], one["turned_share_low"]) == (1, None) and one["turned_share"] is not None


def test_one_criterion_a_call_has_no_order(tmp_path: Path, server: FaultServer) -> None:
    plugin = ward(tmp_path, server, "strict", "fair")
    before = server.requests
    (row,) = stress(tmp_path / "results", "ward", plugin)
    assert (row["order"], row["turned_share"], row["turned"]) == ("not applicable", None, None)
    assert row["length"] is not None and server.requests == before


@pytest.mark.slow
def test_a_jury(tmp_path: Path, server: FaultServer, shell: Shell) -> None:
    plugin, results = tmp_path / "essay.py", tmp_path / "results"
    shutil.copy(ESSAY, plugin)
    (tmp_path / "samples").mkdir()
    rows = [{"id": f"e{n}", "question": f"Why {n}?", "gold": "So."} for n in range(CASES)]
    (tmp_path / "samples" / "essay.jsonl").write_text("\n".join(map(json.dumps, rows)))
    jury = judges(server, "first-jury", "even-jury", "long-jury")
    own = at(tmp_path, plugins=plugin, data="sample", controls=0)
    medhelm.evaluate(answering({n: f"e{n}" for n in range(CASES)}), "essay", jury=jury, **own)
    names = ("accuracy", "completeness", "clarity")
    ratings = [
        f"anna,essay,{m},e{n},{name},{1 + sum(TRUTH[m, n, k] for k in range(CRITERIA))}"
        for m in MODELS
        for n in range(CASES)
        for name in names
    ]
    (tmp_path / "anna.csv").write_text(
        "\n".join(["rater,benchmark,model,instance,item,value", *ratings])
    )
    experts = f"--experts=doctors={tmp_path / 'anna.csv'}"
    rows_ = stress(results, "essay", plugin, "--sample", "4", experts)
    found = {(r["judge"], r["beyond"]): r for r in rows_}
    for name, turned in (("first", 8), ("even", 0), ("long", 0)):  # the first and the last of three
        row = found[f"j/{name}-jury", "nobody"]
        assert (row["asked"], row["turned"], row["verdicts"]) == (4, turned, 12)
    long = found["j/long-jury", "doctors"]
    assert (long["answers"], found["j/long-jury", "nobody"]["answers"]) == (30, 30)
    assert long["length"] > long["low"] > 0.9
    assert found["j/even-jury", "nobody"]["length"] is None  # all marks are the same

    words = ("fidelity", "--stored", "essay", "--stress", "--results-dir", results)
    assert "essay_reversed" in shell(*words, "--plugin", plugin, "--estimate")
    said = shell.error(*words, "--plugin", plugin, "--table", "modes")
    assert "--stress needs --stored BENCHMARK" in said
