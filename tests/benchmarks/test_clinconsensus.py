"""ClinConsensus: cases and their findings, the paper's checkable figures, lint, calibration, tables."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import medhelm
from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.grading.rubric.metrics import (
    Decided,
    RubricAccuracy,
    RubricCoverage,
    RubricHits,
    RubricPass,
    coverage,
)
from medhelm.schema.data import Criterion, Instance
from medhelm_benchmarks.clinconsensus.benchmark import CLINCONSENSUS
from medhelm_benchmarks.clinconsensus.cases import (
    JOIN,
    case_findings,
    labels,
    public_findings,
    register_of,
    to_instance,
)
from medhelm_benchmarks.clinconsensus.commands.calibrate import calibrate
from medhelm_benchmarks.clinconsensus.commands.cases import bank
from medhelm_benchmarks.clinconsensus.commands.lint import lint
from medhelm_benchmarks.clinconsensus.tables.coverage import (
    Hits,
    alternatives,
    partial_correlation,
)
from tests.cases import cases
from tests.made import scripted
from tests.shell import Shell

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "benchmarks/clinconsensus/samples/clinconsensus.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in SAMPLES.read_text().splitlines()]


def changed(**more: Any) -> dict[str, Any]:
    return ROWS[0] | more


def criteria(n: int) -> list[dict[str, str]]:
    return [{"criterion_id": f"r{i}", "criterion": f"是否提到第{i}点？"} for i in range(n)]


# The paper's figures ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hits", "accuracy", "passed", "cacs"),
    [(9, 30.0, 0, 0.0), (10, 33.3, 1, 4.8), (15, 50.0, 1, 28.6), (30, 100.0, 1, 100.0)],
)
def test_table_9(hits: int, accuracy: float, passed: int, cacs: float) -> None:
    case = to_instance(ROWS[0])
    met = Decided(case.criteria, (True,) * hits + (False,) * (30 - hits))
    assert RubricAccuracy().of(case, met).value == pytest.approx(accuracy / 100, abs=0.0005)
    assert RubricPass().of(case, met).value == passed
    assert RubricCoverage().of(case, met).value == pytest.approx(cacs, abs=0.05)
    assert coverage([hits], 10, 30) == pytest.approx(cacs, abs=0.05)


def test_table_6_as_far_as_it_can_be_checked() -> None:
    counts = {
        "surgery_orthopedics": 472,
        "geriatrics_acute_rehab": 391,
        "im_immunology_infection": 311,
        "im_gastro_metabolic": 290,
        "obgyn_pediatrics": 281,
        "ent_derm_ophthal_dental": 275,
        "neurology_psychiatry": 254,
        "im_cardio_pulmonary": 226,
    }
    own = labels()
    assert sum(counts.values()) == 2500 == 900 + 800 + 800 == 1467 + 1033
    assert set(counts) == set(own.groups) == {s.group for s in own.specialties.values()}
    assert (len(own.specialties), len(own.themes)) == (36, 12)
    assert len({t.group for t in own.themes.values()}) == 5
    assert len(bank()) == 73 and sum(c.system for c in bank()) == 8


def test_the_calibration() -> None:
    # 285 cases with 2,904 hits, median 9, quartiles 6 and 14: one of many such samples
    hits = [4] * 70 + [6] * 4 + [8] * 68 + [9] * 3 + [12] * 66 + [14] * 4 + [17] * 70
    found = calibrate(_with_total(hits, 2904))
    assert (found.cases, found.hits, found.k) == (285, 2904, 10)
    assert (found.low, found.median, found.high) == (6, 9, 14)
    assert found.mean == pytest.approx(10.19, abs=0.005)
    assert found.rate == pytest.approx(0.3396, abs=0.0001)
    assert calibrate([10, 11]).k == 11  # a mean of 10.5 goes up
    for bad in ([5], [31, 2], [-1, 2]):
        with pytest.raises(DataError):
            calibrate(bad)


def _with_total(hits: list[int], total: int) -> list[int]:
    """Change hits of the uppermost quarter one by one until all have this sum."""
    found, at = sorted(hits), 0
    while (gap := total - sum(found)) != 0:
        found[-1 - at % 70] += 1 if gap > 0 else -1
        at += 1
    return found


def test_a_row_of_another_difficulty_is_found_in_the_public_file(
    tmp_path: Path, shell: Shell
) -> None:
    file = tmp_path / "clinconsensus" / "clinconsensus_low.jsonl"
    file.parent.mkdir()
    rows = [{**ROWS[0], "difficulty": level, "case_id": level} for level in ("low", "high")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    shown = shell("validate", "--data", "full", "--data-dir", tmp_path, "clinconsensus", code=1)
    said = "other_difficulty: row 2: the difficulty is 'high' in the file of the difficulty low"
    assert said in shown
    assert "row 1:" not in shown
    with pytest.raises(DataError, match="row 2: other_difficulty"):
        list(open_dataset(CLINCONSENSUS, "full", root=tmp_path).instances())


# Laws ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(1, 30))
def test_both_formulas_are_equal_and_fall_with_k(hits: list[int], k: int) -> None:
    own = coverage(hits, k, 30)
    reached = [sum(s >= t for s in hits) / len(hits) for t in range(k, 31)]
    assert own == pytest.approx(100 / (31 - k) * sum(reached), abs=1e-9)
    assert coverage(hits, 1, 30) == pytest.approx(100 * sum(hits) / (30 * len(hits)))
    assert coverage(hits, 30, 30) == pytest.approx(100 * hits.count(30) / len(hits))
    if k < 30:
        assert coverage(hits, k + 1, 30) <= own + 1e-9


@given(st.lists(st.booleans(), min_size=30, max_size=30), st.integers(0, 29), st.randoms())
def test_more_met_never_lowers_a_score_and_order_changes_nothing(
    met: list[bool], at: int, chance: random.Random
) -> None:
    case = to_instance(ROWS[0])
    more, mixed = [*met], [*met]
    more[at] = True
    chance.shuffle(mixed)
    for metric in (RubricCoverage(), RubricAccuracy(), RubricPass(), RubricHits()):
        values = [
            metric.of(case, Decided(case.criteria, tuple(m))).value for m in (met, more, mixed)
        ]
        assert values[0] is not None and values[1] is not None
        assert values[0] <= values[1] and values[0] == values[2]


def test_a_case_with_another_number_of_criteria_needs_a_rule() -> None:
    few = Instance(
        id="i",
        criteria=tuple(Criterion(name=f"c{n}", text="x") for n in range(15)),
        answer_key={"threshold": "10/30"},
    )
    met = Decided(few.criteria, (True,) * 5 + (False,) * 10)
    with pytest.raises(DataError, match="15 criteria.* 10 of 30"):
        RubricCoverage().of(few, met)
    scaled = Instance(
        id="i",
        criteria=few.criteria,
        answer_key={**few.answer_key, "threshold_scaling": "proportional"},
    )
    assert RubricPass().of(scaled, met).value == 1.0  # 5 of 15 are 10 of 30


# Cases -----------------------------------------------------------------------------------------


def test_the_bundled_cases() -> None:
    cases = [to_instance(row) for row in ROWS]
    assert [len(c.criteria) for c in cases] == [30] * 10
    found = {
        axis: {c.metadata[axis] for c in cases} for axis in ("language", "register", "difficulty")
    }
    assert found == {
        "language": {"zh", "en"},
        "register": {"lay", "professional"},
        "difficulty": {"low", "medium", "high"},
    }
    assert sum(c.metadata["language"] == "zh" for c in cases) == 5
    assert all(set(c.metadata["themes"].split(JOIN)) <= set(labels().themes) for c in cases)
    assert "unmapped" not in {c.metadata["group"] for c in cases}
    assert [f for row in ROWS for f in public_findings(row)] == []
    assert [f for row in ROWS for f in lint(row)] == []


@pytest.mark.parametrize(
    ("row", "check", "is_failure"),
    [
        (changed(rubrics=criteria(29)), "criteria_count", True),
        (changed(rubrics=[*criteria(29), {"criterion_id": "r30", "criterion": " "}]), "empty_criterion", True),
        (changed(rubrics=[*criteria(29), criteria(1)[0]]), "duplicate_criterion", True),
        (changed(difficulty="extreme"), "unknown_difficulty", True),
        (changed(language="fr"), "unknown_language", True),
        (changed(subject_labels=["Phrenology"]), "unknown_specialty", False),
        (changed(task_labels=["astrology"]), "unknown_task", False),
        (changed(clinical_context="Write to a.b@example.org"), "contact", False),
        (changed(clinical_context="电话13812345678"), "contact", False),
        (changed(clinical_context="证件号110101199003071234"), "contact", False),
        (changed(clinical_context="很长" * 60_000), "long_context", False),
        (changed(clinical_context="An English context.", user_request="Why is it so?"), "mixed_languages", False),
    ],
)  # fmt: skip
def test_what_is_found_in_a_case(row: dict[str, Any], check: str, is_failure: bool) -> None:
    found = [f for f in case_findings(row) if f.check == check]
    assert [f.is_failure for f in found] == [is_failure]
    assert "example.org" not in found[0].text and "138" not in found[0].text
    if is_failure:
        with pytest.raises(DataError, match=check):
            to_instance(row)
    else:
        assert len(to_instance(row).criteria) == 30


@pytest.mark.parametrize(("changes", "said"), cases(__file__, "a_finding_names_the_value_and_the_nearest"))  # fmt: skip
def test_a_finding_names_the_value_and_the_nearest(changes: dict[str, Any], said: str) -> None:
    assert said in [f.text for f in case_findings(changed(**changes))]


def test_a_misspelt_field_has_its_nearest() -> None:
    row = dict(ROWS[0])
    row["user_reqest"] = row.pop("user_request")
    with pytest.raises(DataError, match="'user_reqest'.* 'user_request'"):
        to_instance(row)
    first, *others = ROWS[0]["rubrics"]
    wrong = {"criterion_id": "r01", "criterium": first["criterion"], "criterion": "x"}
    with pytest.raises(DataError, match=r"rubrics.*criterium.*; did you mean '.*criterion'"):
        to_instance(changed(rubrics=[wrong, *others]))


def test_a_benchmark_of_judged_answers_prints_no_table_without_columns(
    shell: Shell,
) -> None:
    lines = shell("validate", "clinconsensus").splitlines()
    assert lines[0].startswith("clinconsensus passed") and not {"answer", "oracle"} & set(lines)


@pytest.mark.parametrize("piece", ["很长", "x", "a@", "1", "a.", "13812345678"])
def test_a_long_text_without_a_blank_is_checked_in_no_time(piece: str) -> None:
    row = changed(clinical_context=piece * (200_000 // len(piece)))
    started = time.process_time()
    assert "long_context" in {f.check for f in case_findings(row)}
    assert time.process_time() - started < 2


def test_what_the_maker_checks_of_a_public_row() -> None:
    row = {name: value for name, value in ROWS[0].items() if name != "user_role"}
    found = {f.check for f in public_findings(row | {"qc_note": "x", "reference_answer": "y"})}
    assert found == {"missing_field", "forbidden_field"}
    with pytest.raises(DataError, match="user_role"):
        to_instance(row)


@pytest.mark.parametrize(("role", "register"), cases(__file__, "the_register_is_by_the_role"))
def test_the_register_is_by_the_role(role: str, register: str) -> None:
    assert register_of(role) == register


def test_lint_points_at_each_kind() -> None:
    texts = [
        "States the dose and recommends a follow-up.",
        "Has a feedback mechanism for users.",
        "Names a cause, such as infection and recommends nothing else.",
        "Names a cause.",
        "names a  cause",
    ]
    row = {
        "case_id": "x",
        "rubrics": [
            {"criterion_id": f"r{n}", "criterion": t, "expectation_id": "e1" if n else ""}
            for n, t in enumerate(texts)
        ],
        "expectations": [{"expectation_id": "e1", "element": "a", "expectation": "b"}],
    }
    found = [(f.criterion, f.rule) for f in lint(row)]
    assert found == [
        ("", "count"),
        ("r0", "two_demands"),
        ("r0", "untraceable"),
        ("r1", "not_decidable"),
        ("r4", "duplicate"),
    ]


def test_lint_points_at_criteria_of_the_system() -> None:
    """Of the bank's criteria about a system one has no word that says so; no other is pointed at."""

    def is_found(text: str) -> bool:
        row = {"rubrics": [{"criterion": text}]}
        return any(f.rule == "not_decidable" for f in lint(row, 0))

    missed = {c.id for c in bank() if is_found(c.text) != c.system}
    assert missed == {"b44"}
    for text in (
        "Gives the same advice across questions on this drug.",
        "Keeps to its advice when asked again.",
        "在不同问题之间保持一致。",
    ):
        assert is_found(text)
    for text in ("Asks several questions about the fever.", "Explains the mechanism of metformin."):
        assert not is_found(text)


# Measures --------------------------------------------------------------------------------------


def test_measures_against_known_values() -> None:
    chance = np.random.default_rng(1)
    # what is a sum of model and case effects is gone; what is left is the product's
    noise = chance.normal(size=(3, 50))
    models, cases = chance.normal(size=(3, 1)), chance.normal(size=(1, 50))
    assert partial_correlation(noise + models + cases, noise) == pytest.approx(1.0)
    hits = Hits(10, 30, {"a": np.array([9.0, 10, 15, 30]), "b": np.array([30.0, 30, 30, 30])})
    found = alternatives(hits)
    assert found["CACS@15"]["a"] == pytest.approx(100 * (1 + 16) / (4 * 16))
    assert found["Pass@10"] == {"a": 0.75, "b": 1.0}
    assert sum(hits.counts("a")) == 4 and hits.counts("a")[30] == 1


def test_scores_at_every_threshold_have_intervals(tmp_path: Path) -> None:
    """People's answers that quote criteria, graded by the rule: what the table says of their hits."""
    cases = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]

    def quoted(counts: Iterable[int]) -> dict[str, str]:
        return {
            case["case_id"]: "\n".join(c["criterion"] for c in case["rubrics"][:count])
            for case, count in zip(cases, counts, strict=True)
        }

    answers = tmp_path / "ward.jsonl"
    with answers.open("w", encoding="utf-8") as file:
        for name, said in quoted(range(1, 31, 3)).items():
            file.write(json.dumps({"id": name, "answer": said}) + "\n")
    counts = {"best": range(4, 34, 3), "good": range(3, 33, 3), "less": [6] * 10}
    ranked = [scripted(f"m/{name}", replies=quoted(own)) for name, own in counts.items()]
    results = medhelm.evaluate(
        [f"human/{answers}", "baseline/empty", *ranked],
        "clinconsensus",
        data="sample",
        results_dir=tmp_path / "results",
    )
    scores = next((tmp_path / "results").glob("runs/*/human*/*/gradings/*/scores.parquet"))
    kept = pd.read_parquet(scores)
    hits = kept[kept.metric == "rubric_hits"].value.to_numpy()
    assert len(hits) == 10 and len(set(hits)) > 5 and hits.min() < 7 < 15 < hits.max()
    table = results.table("coverage")
    rows = table[table.model == "human/ward"]
    at = rows[rows.level == "score"].set_index("measure")
    assert list(at.index) == ["CACS@7", "CACS@8", "CACS@12", "CACS@15"]
    for k in (7, 8, 12, 15):
        row = at.loc[f"CACS@{k}"]
        expected = 100 * np.mean([sum(s >= t for t in range(k, 31)) / (31 - k) for s in hits])
        assert row.coverage == pytest.approx(expected) and row.k == k and row.n == 10
        assert row.coverage_low < row.coverage < row.coverage_high
    (own,) = rows[rows.level == "model"].to_dict("records")
    assert own["coverage"] < at.loc["CACS@8", "coverage"]
    assert own["coverage"] == pytest.approx(coverage([int(h) for h in hits], 10, 30))
    assert (own["accuracy"], own["hits"]) == pytest.approx((hits.mean() / 30, hits.mean()))
    for name in ("accuracy", "passed", "hits"):
        assert own[f"{name}_low"] < own[name] < own[f"{name}_high"]
    assert own["hits_third_quartile"] == np.quantile(hits, 0.75)
    ranks = table[table.level == "threshold"].set_index("measure")
    assert ranks.k["CACS@7"] == 7 and ranks.k["Pass@10"] == 10
    # with the main score, at 10, less and empty tie for the third place; at 7 one of them is ahead
    assert ranks.top3["CACS@7"] == "2.5/3" and ranks.top3["Pass@10"] == "3/3"
    assert ranks.top5.isna().all() and ranks.correlation["CACS@7"] == pytest.approx(0.9**0.5)
    assert {"CACS@7", "CACS@15", "Rubric Accuracy", "Pass@10"} <= set(table.measure.dropna())
    (empty,) = table[(table.level == "model") & (table.model == "baseline/empty")].to_dict(
        "records"
    )
    assert (empty["coverage"], empty["accuracy"], empty["hits"]) == (0, 0, 0)
    assert 0 < empty["hits_high"] < 30  # not of a thousand criteria
    register = table[(table.level == "slice") & (table.axis == "register")]
    assert sorted(set(register.value)) == ["lay", "professional"]
    assert (register.difference_high > 0).all() and (register.difference_low < 0).all()


def test_an_answer_without_a_gold_is_expected_to_be_a_page(
    shell: Shell,
) -> None:
    """Three times no gold and five tokens is no answer, nor what a judge is then sent thirty times."""
    words = ("model=openai/gpt-4o", "benchmark=clinconsensus", "data=sample", "controls=0")
    (found,) = shell.json("estimate", *words, "jury=criteria_2026_11")["runs"]
    assert found["output_tokens_expected"] == 10 * 500
    (judge,) = found["judges"]
    assert judge["calls"] == 300 and judge["input_tokens_expected"] > 300 * 1000


def test_no_id_is_that_of_another_criterion_in_stored_verdicts() -> None:
    """Stored verdicts call criteria c01, c02, ... by place, and experts' files may name them so."""
    ordered = [c | {"criterion_id": f"c{n:02}"} for n, c in enumerate(ROWS[0]["rubrics"], 1)]
    found = to_instance(changed(rubrics=ordered))
    assert [c.name for c in found.criteria] == [c["criterion_id"] for c in ordered]
    with pytest.raises(DataError, match="criterion 1 .*'c30'"):
        to_instance(changed(rubrics=ordered[::-1]))


def test_lint_finds_an_id_twice_and_refuses_a_file_of_no_case(tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "cases.jsonl"
    rows = [dict(c) for c in ROWS[0]["rubrics"]]
    rows[7]["criterion_id"] = rows[3]["criterion_id"]
    path.write_text(json.dumps(changed(rubrics=rows)), encoding="utf-8")
    shown = shell("rubric", "lint", path, code=1)
    assert "criterion 8" in shown and "id of criterion 4" in shown
    path.write_text("\n", encoding="utf-8")
    assert "holds no case" in shell.error("rubric", "lint", path, code=3)
