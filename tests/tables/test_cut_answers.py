"""Answers that the output budget ended: counted, also where they were scored all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm import evaluate, load_results
from medhelm.tables.format.formats import to_terminal
from tests.server import Reply, serve_in_thread


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs on HeadQA's 8 samples: 3 answers cut but read, 2 cut and unread, 3 whole."""
    folder, asked = tmp_path_factory.mktemp("cut"), iter(range(100))

    def answer(prompt: str) -> Reply:
        place = next(asked)
        if place < 3:
            return Reply("Answer: A\n\nThe patient", finish_reason="length")
        return Reply("The patient", finish_reason="length") if place < 5 else Reply("Answer: A")

    with serve_in_thread(answer) as server:
        model = server.model("lab/m", max_concurrency=1)
        evaluate([model, "baseline/first_option"], "headqa", data="sample", results_dir=folder)
    return folder


def test_tables_count_and_flag_them(results: Path) -> None:
    found = load_results(results)
    rows = {str(r["model"]): r for r in found.typed("benchmarks").rows}
    own, other = rows["lab/m"], rows["baseline/first_option"]
    assert (own["scored"], own["share_truncated"]) == (6, 2 / 8)
    assert (own["cut"], own["ended_at_budget"], own["cut_share"]) == (3, 5, 5 / 8)
    assert own["flags"] == "cut" and not other["flags"]
    assert (other["cut"], other["cut_share"]) == (0, 0.0)
    overall = {str(r["model"]): r for r in found.typed("overall").rows}
    assert overall["lab/m"]["cut_share"] == 5 / 8 and overall["lab/m"]["flags"] == "cut"
    said = "Ended at the output budget: headqa x lab/m 5 of 8, 3 of them scored."
    assert said in found.typed("benchmarks").notes
    text = to_terminal([found.typed("overall"), found.typed("benchmarks")], 80)
    assert "T cut: " in text.replace("\n", " ")
    assert said in text.replace("\n", " ")
