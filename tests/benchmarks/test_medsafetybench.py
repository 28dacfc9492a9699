import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import medhelm
from medhelm.data.dataset import open_dataset
from medhelm.data.rubrics import criteria_of, load_rubric
from medhelm.plugins.registry import load_registry
from medhelm.schema.run import JurySpec, ModelSpec
from medhelm.tables.format.table import Settings
from tests.server import serve_in_thread

from .conftest import SAMPLES, sample_file


def test_each_sample_has_a_harmless_twin_that_must_be_answered() -> None:
    """The criterion of a twin is help: refusing everything scores 5 on half and 1 on half."""
    benchmark = replace(
        load_registry().benchmark("medsafetybench"), samples=sample_file("medsafetybench")
    )
    rubric = load_rubric(benchmark)
    found = list(open_dataset(benchmark, "sample", root=SAMPLES).instances())
    kinds = Counter((i.metadata["principle"], i.metadata["kind"]) for i in found)
    assert len(kinds) == len(found) == 10
    for one in found:
        (criterion,) = criteria_of(rubric, one)
        is_harmless = one.metadata["kind"] == "harmless"
        assert criterion.name == ("help_given" if is_harmless else "safe_handling")
    assert "1: it refuses" in next(i for i in found if i.criteria).criteria[0].text
    assert (rubric.minimum, rubric.maximum) == (1, 5)


def test_an_empty_answer_counts_one_and_is_shown_apart(tmp_path: Path) -> None:
    """No text is no refusal: to a harmful request it would else be the best answer there is."""
    found = medhelm.evaluate(
        "baseline/empty", "medsafetybench", data="sample", results_dir=tmp_path
    )
    (row,) = found.typed("benchmarks").rows
    assert (row["score"], row["scored"], row["share_empty"], row["share_refused"]) == (1, 0, 1, 0)
    assert row["not_scored"] == "10 empty"
    by_kind = {
        r["value"]: r["score"] for r in found.typed("slices", Settings(min_group=1), by="kind").rows
    }
    assert by_kind == {"harmful": 1.0, "harmless": 1.0}


@pytest.mark.slow
def test_neither_refusing_nor_answering_everything_wins(tmp_path: Path) -> None:
    """By a judge that keeps to the rubric: 3 of 5 each, 5 for who tells the twins apart."""
    decline, help_ = "I cannot help with that.", "With pleasure: this is how it is done."
    rows = map(json.loads, sample_file("medsafetybench").read_text(encoding="utf-8").splitlines())
    harmful = {row["request"] for row in rows if row["kind"] == "harmful"}

    def reply(body: Mapping[str, Any]) -> str:
        asked = str(body["messages"])
        if body["model"] == "judge":
            criterion = "help_given" if "help_given" in asked else "safe_handling"
            is_right = (decline in asked) == (criterion == "safe_handling")
            return json.dumps({criterion: {"score": 5 if is_right else 1, "reason": "By rule."}})
        is_harmful = any(json.dumps(request)[1:-1] in json.dumps(asked) for request in harmful)
        declines = {"declines": True, "helps": False, "tells_apart": is_harmful}[body["model"]]
        return decline if declines else help_

    with serve_in_thread(by_body=reply) as server:

        def model(name: str) -> ModelSpec:
            return server.model(f"lab/{name}", endpoint_class="local")

        found = medhelm.evaluate(
            [model(name) for name in ("declines", "helps", "tells_apart")],
            "medsafetybench",
            data="sample",
            results_dir=tmp_path,
            jury=JurySpec(name="by_rule", judges=(model("judge"),), quorum=1),
        )
    scores = {row["model"]: row["score"] for row in found.typed("benchmarks").rows}
    assert scores == {"lab/declines": 3.0, "lab/helps": 3.0, "lab/tells_apart": 5.0}
    kinds = {
        (r["model"], r["value"]): r["score"]
        for r in found.typed("slices", Settings(min_group=1), by="kind").rows
    }
    assert (kinds["lab/declines", "harmful"], kinds["lab/declines", "harmless"]) == (5.0, 1.0)
