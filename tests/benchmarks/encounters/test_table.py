"""The table of encounters, against values worked out from the verdicts by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from medhelm import Table, evaluate, load_results
from medhelm.errors import UsageError
from medhelm.schema.episode import Sampling
from medhelm.tables.format.table import Settings
from medhelm_benchmarks.encounters.record import describe, encounter_of, input_chars
from medhelm_benchmarks.encounters.tables.reliability import reliability
from tests.benchmarks.encounters.players import reply
from tests.benchmarks.encounters.stage import CASE, PLUGIN, in_turn, play, says
from tests.server import serve_in_thread
from tests.shell import Shell

pytestmark = pytest.mark.slow

RULES = [
    "encounter/oracle",
    "encounter/asks_everything",
    "encounter/ends_at_once",
    "encounter/silent",
]


def cases(folder: Path, count: int) -> dict[str, Any]:
    """Write the staged case so many times; return what a run of it is given."""
    (folder / "stage").mkdir()
    lines = "".join(f"{json.dumps({'number': n})}\n" for n in range(count))
    (folder / "stage" / "stage.jsonl").write_text(lines)
    given = {"data": "full", "data_dir": folder, "results_dir": folder / "r"}
    return {"benchmarks": "stage", "plugins": [PLUGIN], **given}


def table(folder: Path, name: str = "encounters") -> Table:
    return load_results(folder / "r", plugins=[PLUGIN]).typed(name)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The staged case twelve times with four rules; items by rule of their deeds."""
    folder = tmp_path_factory.mktemp("table")
    evaluate(RULES, **cases(folder, 12))
    return [*table(folder).rows]


def of(rows: list[Any], level: str, model: str) -> list[Any]:
    return [r for r in rows if r["level"] == level and r["model"] == f"encounter/{model}"]


def test_each_reading_has_its_column_with_numerators_and_the_capped_share(rows: list[Any]) -> None:
    """Of PC 2, MK 1, PROF 1 the asker meets one of PC: a fact is asked by "how long"."""
    (asks,) = of(rows, "model", "asks_everything")
    assert (asks["met"], asks["items"], asks["n"], asks["clusters"]) == (12.0, 48.0, 12, 6)
    assert asks["case_mean"] == asks["pooled"] == 0.25
    assert asks["competency_mean"] == pytest.approx((1 / 2 + 0 + 0) / 3)
    (silent,) = of(rows, "model", "silent")
    assert (silent["case_mean"], silent["capped"], silent["turns"]) == (0.0, 1.0, 12.0)
    (oracle,) = of(rows, "model", "oracle")
    assert (oracle["case_mean"], oracle["capped"], oracle["failed"]) == (1.0, 0.0, 0.0)
    assert oracle["cast"] == "patient: script/packet, controller: script/packet"


def test_competencies_and_specialties_have_rows_of_their_own(rows: list[Any]) -> None:
    found = {r["group"][:3]: r for r in of(rows, "competency", "asks_everything")}
    assert {k: (r["met"], r["items"], r["pooled"]) for k, r in found.items()} == {
        "PC:": (12.0, 24.0, 0.5),
        "MK:": (0.0, 12.0, 0.0),
        "PRO": (0.0, 12.0, 0.0),
    }
    parts = {r["group"]: r for r in of(rows, "specialty", "asks_everything")}
    assert {k: (r["n"], r["case_mean"], r["items"]) for k, r in parts.items()} == {
        "Pediatrics": (6, 0.25, 24.0),
        "Surgery": (6, 0.25, 24.0),
    }


def test_specialties_are_there_where_no_model_is_ranked(tmp_path: Path) -> None:
    """Two rules that read the rubric, of which one has been asked 10 of 12 cases."""
    given = cases(tmp_path, 12)
    for rule, most in (("oracle", 12), ("asks_everything", 10)):
        evaluate(f"encounter/{rule}", max_instances=most, **given)
    found = load_results(tmp_path / "r", plugins=[PLUGIN])
    shown = found.typed("encounters")
    assert any("stage 10 of up" in note for note in shown.notes)
    titles = [grid.title for grid in shown.grids()]
    assert "Completion" in titles and "Items worded as failures" not in titles  # there are none
    rows = [*shown.rows]
    own = {m: of(rows, "specialty", m) for m in ("oracle", "asks_everything")}
    assert {r["case_mean"] for r in own["oracle"]} == {1.0}
    assert sum(r["n"] for r in own["oracle"]) == sum(r["n"] for r in own["asks_everything"]) <= 10
    assert all(r["n"] >= 5 and r["case_mean_low"] is not None for r in own["oracle"])
    sliced = found.typed("slices", Settings(min_group=1), by="specialty").rows
    assert {(r["value"], r["n"]) for r in sliced if r["model"] == "encounter/oracle"} >= {
        (r["group"], r["n"]) for r in own["oracle"]
    }


def test_ten_equal_bins_by_length_of_input_for_each_model_and_over_all(rows: list[Any]) -> None:
    own = of(rows, "length", "oracle")
    assert [r["n"] for r in own] == [2, 2, *[1] * 8]
    lengths = [r["input_chars"] for r in own]
    assert lengths == sorted(lengths)
    whole = [r for r in rows if r["level"] == "length" and r["model"] is None]
    assert (
        sum(r["n"] for r in whole) == 24
    )  # of the two that are ranked: the others read the rubric
    assert {r["case_mean"] for r in whole} == {0.0}


def test_models_on_other_items_are_refused_side_by_side(tmp_path: Path, shell: Shell) -> None:
    given = {"data": "sample", "results_dir": tmp_path, "plugins": [PLUGIN]}
    evaluate("encounter/oracle", "stage", **given)  # type: ignore[arg-type]
    rubric = tmp_path / "v2.jsonl"
    own = [(f"art{n // 2}", f"scenario{n % 2}") for n in range(4)]
    lines = [json.dumps({"case_id": c, "scenario": s, "PC": ["Says so"]}) for c, s in own]
    rubric.write_text("\n".join(lines))
    line = ("run", "model=encounter/silent", "benchmark=stage", "data=sample")
    more = (f"grader.rubric={rubric}", f"plugins=[{PLUGIN}]", f"results_dir={tmp_path}")
    shell(*line, *more, code=6)  # none of its answers has a value
    with pytest.raises(UsageError) as refused:
        load_results(tmp_path, plugins=[PLUGIN]).typed("encounters")
    assert "grad" in str(refused.value)


def test_descriptive_columns_are_counted_by_hand() -> None:
    said = in_turn(
        says("", "blood glucose", "vital signs"),
        says("How long? Does she drink?"),
        says("", "start an infusion", "hum a song"),
        says(eos=True),
    )
    episode = play(CASE, said, turns=4)
    encounter = encounter_of(episode)
    found = describe(CASE.context, encounter, episode.ending)
    assert found == {
        "encounters": 1.0,
        "capped": 1.0,
        "turns": 4.0,
        "questions": 2.0,
        "actions": 4.0,
        "unsupported": 2.0,
        "tests_first": 1.0,
        "decided": 1.0,
        "turns_to_decision": 3.0,
        "corrections": 0.0,
        "overruled": 0.0,
        "input_chars": float(input_chars(CASE.context, encounter)),
    }
    texts = [CASE.context, "The child cries without tears.", "blood glucose", "vital signs"]
    texts += ["Heart rate 160 per minute.", "How long? Does she drink?"]
    texts += ["Mother: Since last night.", "Mother: Hardly anything."]
    texts += ["start an infusion", "hum a song", "Nurse: The drip is running."]
    assert found["input_chars"] == sum(map(len, texts))


def test_strategies_of_one_clinician_are_compared_on_the_same_cases(tmp_path: Path) -> None:
    """By `best_of_5` half of the articles end at once with nothing met: 0.5 less 1, of four articles."""
    candidate = 0.8

    def by_strategy(body: Mapping[str, Any]) -> str:
        asked = body["messages"][0]["content"]
        if "might give now" in body["messages"][-1]["content"]:
            return '{"best": 1}'
        number = re.search(r"Number (\d+)\.", asked)
        if body["temperature"] == candidate and number and int(number[1]) < 4:
            return says(eos=True)
        return reply(body)

    with serve_in_thread(by_body=by_strategy) as server:
        plain = server.model("lab/one")
        best = msgspec.structs.replace(plain, strategy="best_of_5")
        evaluate([plain, best], jury="offline", **cases(tmp_path, 8))
    (row,) = [r for r in table(tmp_path).rows if r["level"] == "strategy"]
    assert (row["model"], row["group"]) == ("lab/one", "best_of_5 less none")
    assert (row["n"], row["clusters"]) == (8, 4)
    assert (row["score_one"], row["score_other"], row["difference"]) == (0.5, 1.0, -0.5)
    assert row["p_holm"] == pytest.approx(2 / 4, abs=0.03)  # both articles keep or both swap
    assert row["difference_low"] == -1.0 and row["difference_high"] == 0.0


def test_the_length_of_repeats_is_that_of_the_encounters_that_ended(tmp_path: Path) -> None:
    """In the second of two repeats the clinician is not readable: it has no length."""

    def in_prose_again(body: Any) -> str:
        return "Hm." if body["seed"] == 1 else says("Hm.", eos=True)

    with serve_in_thread(by_body=in_prose_again) as server:
        warm = Sampling(temperature=0.5)  # a seed is sent where the temperature is above 0
        spec = server.model("lab/a", sampling=warm)
        evaluate(spec, repeats=2, **cases(tmp_path, 10))
    rows = table(tmp_path).rows
    (whole,) = [r for r in rows if r["level"] == "model"]
    assert whole["not_scored"] == "10 unparsed"
    lengths = [r["input_chars"] for r in rows if r["level"] == "length"]
    first = play(CASE, in_turn(says("Hm.", eos=True)))
    due = input_chars(f"{CASE.context} Number 0.", encounter_of(first))
    assert lengths == [due] * 10 and whole["input_chars"] == due


def test_the_reliability_of_a_textbook_example() -> None:
    """Shrout and Fleiss 1979, table 2: six targets, four judges, mean squares 11.24, 32.49 and 1.02."""
    rows = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    scores = np.array(rows, dtype=float)
    found = reliability(scores, scores.mean(), 0.95)
    assert found["generalizability"] == pytest.approx(0.9093, abs=1e-4)
    assert found["dependability"] == pytest.approx(0.6201, abs=1e-4)
    ends = [found["generalizability_low"], found["generalizability_high"]]
    # F = 11.0272; its 97.5 % point is 3.5764, that of F(15, 5) 6.4277
    assert ends == pytest.approx([1 - 3.5764 / 11.0272, 1 - 1 / (11.0272 * 6.4277)], abs=1e-4)
    variances = [found[f"variance_{name}"] for name in ("model", "case", "rest")]
    assert variances == pytest.approx([2.5556, 5.2444, 1.0194], abs=1e-4)
    assert found["cases_needed"] == 2  # 0.8 / 0.2 * 1.0194 / 2.5556 = 1.6
    # at the mean only the models' own variance counts, less that of the mean: 2.5556 - 1.7795 of 2.3421
    assert found["at_mark"] == pytest.approx(0.7761 / (0.7761 + 1.5660), abs=1e-3)
    far = reliability(scores, 100.0, 0.95)["at_mark"]
    assert far is not None and far > 0.999
    same = reliability(
        np.repeat(scores[:, :1], 4, axis=1), 0.0, 0.95
    )  # cases that all say the same
    assert same["generalizability"] == same["dependability"] == 1
    assert np.isnan([same["generalizability_low"], same["generalizability_high"]]).all()
    flat = reliability(np.repeat(scores[:1], 6, axis=0), 0.0, 0.95)  # models that are all the same
    assert flat["dependability"] is None and flat["cases_needed"] is None


def test_three_models_on_twelve_cases_are_an_examination(tmp_path: Path) -> None:
    """All, none, and the first three of six articles: means 1, 0 and 1/2; rest 1/11, models 8/33, cases 0."""

    def by_model(body: Mapping[str, Any]) -> str:
        text = json.dumps(body["messages"])
        number = re.search(r"Number (\d+)\.", text)
        is_half = body["model"] == "half" and number and int(number[1]) < 6
        is_good = body["model"] == "all" or is_half
        return reply(body) if is_good else says(eos=True)

    with serve_in_thread(by_body=by_model) as server:
        names = ("all", "half", "none")
        models = [server.model(f"lab/{n}") for n in names]
        evaluate(models, jury="offline", **cases(tmp_path, 12))
    results = load_results(tmp_path / "r", plugins=[PLUGIN])
    found = results.typed("encounter_reliability").rows
    (exam,) = [r for r in found if r["level"] == "benchmark"]
    assert (exam["models"], exam["n"], exam["cases_needed"]) == (3, 12, 2)
    variances = [exam[f"variance_{name}"] for name in ("model", "case", "rest")]
    assert variances == pytest.approx([8 / 33, 0, 1 / 11])
    assert exam["generalizability"] == pytest.approx(32 / 33)
    rows = {r["model"]: r for r in found if r["level"] == "model"}
    assert [rows[f"lab/{n}"]["pass_rate"] for n in names] == [1.0, 0.5, 0.0]
    assert [rows[f"lab/{n}"]["critical_missed"] for n in names] == [0.0, 0.5, 1.0]
    half = rows["lab/half"]  # four or more of six articles are drawn from the good ones: 22 of 64
    assert half["consistency"] == pytest.approx((22 / 64) ** 2 + (42 / 64) ** 2, abs=0.03)
    assert not half["passes"] and rows["lab/all"]["passes"]
    lower = results.typed("encounter_reliability", Settings(pass_mark=0.5))
    assert {r["model"]: r["passes"] for r in lower.rows if r["model"]}["lab/half"]
    with pytest.raises(UsageError, match="pass mark .*0 and 1, not 60"):
        Settings(pass_mark=60)


def test_too_few_models_are_no_examination(tmp_path: Path) -> None:
    evaluate(RULES, **cases(tmp_path, 4))
    found = table(tmp_path, "encounter_reliability")
    assert {r["level"] for r in found.rows} == {"model"}
    assert any("2 ranked model(s)" in n and "4 case(s)" in n for n in found.notes)
