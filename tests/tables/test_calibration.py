"""Runs that ask for log-probabilities, from the command to the tables and the site."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medhelm
from medhelm import load_results
from medhelm.tables.format.table import Settings
from medhelm.tables.multiple_choice import confidence_pairs
from tests.server import FaultServer, Reply, prompt_of, serve_in_thread
from tests.shell import Shell
from tests.tables.test_robustness import PLUGIN, shown, write_exam

TOP = "ABCDEF"


def shares_of(prompt: str) -> np.ndarray[Any, Any]:
    """Return the probabilities of the first tokens behind a prompt, by its hash."""
    digest = hashlib.sha256(prompt.encode()).digest()
    weights = np.array([1.0 + digest[n] / 32 + n / 1000 for n in range(6)])
    return weights / weights.sum()


def lacks(number: int) -> bool:
    return number % 8 == 5


def answer(body: Mapping[str, Any]) -> Reply:
    """Answer with the likeliest first tokens, of some questions without one of the letters."""
    prompt = prompt_of(body)
    letters = TOP.replace("D", "") if lacks(shown(prompt)[0]) else TOP
    shares = dict(zip(TOP, shares_of(prompt), strict=True))
    top = [{"token": t, "logprob": math.log(shares[t])} for t in letters]
    logprobs = {"content": [{"token": "A", "logprob": -1.0, "top_logprobs": top}]}
    message = {"role": "assistant", "content": "A"}
    choice = {"index": 0, "message": message, "finish_reason": "length", "logprobs": logprobs}
    usage = {"prompt_tokens": 50, "completion_tokens": 1}
    return Reply(body={"model": "m", "choices": [choice], "usage": usage})


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FaultServer]:
    folder = tmp_path_factory.mktemp("calibration")
    data = write_exam(folder)
    with serve_in_thread(by_body=answer) as server:
        spec = server.model("openai/m")
        given: dict[str, Any] = {"data_dir": data, "plugins": [PLUGIN], "form": "logprobs"}
        for _ in range(2):
            medhelm.evaluate(spec, "exam", results_dir=folder / "results", **given)
        assert server.requests == 24, "nothing is asked twice"
    return folder / "results", server


def test_the_tables_are_those_counted_from_what_the_server_gave(
    asked: tuple[Path, FaultServer],
) -> None:
    results, server = asked
    assert {(b["max_tokens"], b["top_logprobs"]) for b in server.bodies} == {(1, 20)}
    sure, right, brier = [], [], []
    for body in server.bodies:
        number, options = shown(prompt_of(body))
        if lacks(number):
            continue
        shares = shares_of(prompt_of(body))[:4]
        shares /= shares.sum()
        golds = np.array([text.startswith("right") for _, text in options], dtype=float)
        sure.append(shares.max())
        right.append(golds[shares.argmax()])
        brier.append(((shares - golds) ** 2).sum())
    loaded = load_results(results, plugins=[PLUGIN])
    (row,) = loaded.typed("calibration", Settings(draws=200)).rows
    assert (row["model"], row["n"]) == ("openai/m+logprobs", 21)
    assert row["score"] == pytest.approx(sum(right) / 21), "without a number it is in no mean"
    assert row["acc_norm"] == pytest.approx(sum(right) / 21)
    assert row["brier"] == pytest.approx(np.mean(brier))
    assert row["confidence"] == pytest.approx(np.mean(sure))
    order = np.argsort(sure)
    halves = [order[:10], order[10:]]
    gaps = [abs(np.sum(np.array(sure)[own] - np.array(right)[own])) for own in halves]
    others = [
        abs(np.sum(np.array(sure)[own] - np.array(right)[own])) for own in (order[:11], order[11:])
    ]
    assert row["ece"] in (pytest.approx(sum(gaps) / 21), pytest.approx(sum(others) / 21))
    assert row["ece_low"] <= row["ece"] <= row["ece_high"] and row["ece_by_chance"] > 0
    assert row["coverage_50"] == pytest.approx(np.mean(np.array(sure) >= 0.5))
    bins = loaded.typed("reliability", Settings(draws=200)).rows
    assert [b["bin"] for b in bins] == [1, 2] and sum(b["n"] for b in bins) == 21
    assert bins[0]["coverage"] == 1.0 and bins[0]["kept"] == pytest.approx(np.mean(right))
    (cell,) = loaded.study().cells["exam"].values()
    pairs = confidence_pairs(cell)
    assert sorted(pairs[0]) == pytest.approx(sorted(sure)) and pairs[1].sum() == sum(right)
    assert len(np.unique(pairs[2])) == 12, "two questions to a stem"


def test_grading_again_and_the_site_show_the_same(
    asked: tuple[Path, FaultServer], tmp_path: Path, shell: Shell
) -> None:
    results, _ = asked
    before = load_results(results, plugins=[PLUGIN]).table("calibration", draws=100)
    where = ("--results-dir", results, "--plugin", PLUGIN)
    shell("score", *where)
    assert load_results(results, plugins=[PLUGIN]).table("calibration", draws=100).equals(before)
    shell("leaderboard", "build", *where, "--out", tmp_path, "--draws", "100")
    table = json.loads((tmp_path / "tables" / "fixed" / "reliability.json").read_text())
    assert len(table["rows"]) == 2
    narrow = shell("tables", "--table", "calibration", *where, "--draws", "100")
    assert "openai/m+logprobs" in narrow


def test_runs_that_are_read_from_text_have_no_row_and_the_table_says_so(tmp_path: Path) -> None:
    medhelm.evaluate("baseline/random", "headqa", data="sample", results_dir=tmp_path)
    table = load_results(tmp_path).typed("calibration")
    assert not table.rows and "form=logprobs" in " ".join(table.notes)


EXAM = ("run", "benchmark=exam", f"plugins=[{PLUGIN}]")


@pytest.mark.slow
def test_what_cannot_be_asked_so_is_refused_in_one_line_before_anything_is_sent(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    with serve_in_thread(by_body=answer) as server:
        rest = [
            f"data_dir={write_exam(tmp_path)}",
            f"results_dir={tmp_path / 'r'}",
            "form=logprobs",
        ]
        model = ["model=openai/m", f"model.base_url={server.base_url}", *rest]
        assert "thinks before it answers" in shell.error(*EXAM, *model, "model.reasoning=true")
        assert "none of whole texts" in shell.error(*EXAM, *model, "ask.candidates=texts")
        assert "asks for no text" in shell.error(*EXAM, *model, "ask.reasons=true")
        rule = "for form=logprobs alone"
        assert rule in shell.error(*EXAM, *model[:-1], "form=line", "ask.candidates=texts")
        assert server.requests == 0
    with serve_in_thread(answer="A") as plain:
        line = ["model=openai/m", f"model.base_url={plain.base_url}", *rest]
        shell(*EXAM, *line, code=6)
        assert "answers without log-probabilities" in shell.err and "form=line" in shell.err


def test_validate_proves_the_prompts_of_the_form(tmp_path: Path, shell: Shell) -> None:
    line = ("validate", "exam", "--ask", "logprobs", "--plugin", PLUGIN)
    shell(*line, "--data", "full", "--data-dir", write_exam(tmp_path))


@pytest.mark.slow
def test_the_chart_shows_the_bins_of_the_table(asked: tuple[Path, FaultServer]) -> None:
    results = load_results(asked[0], plugins=[PLUGIN])
    rows = [r for r in results.typed("reliability").rows]
    line, ideal, bars = results.plot("reliability").data
    assert list(line.x) == [r["confidence"] for r in rows]
    assert list(line.y) == [r["right"] for r in rows]
    assert list(ideal.x) == list(ideal.y) == [0, 1]
    assert list(bars.y) == [r["n"] for r in rows]
