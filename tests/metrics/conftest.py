"""Metrics by name, and instances read from the real upstream files where they are."""

from __future__ import annotations

import csv
import importlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from medhelm.schema.data import Instance
from medhelm.schema.score import Metric, Scoring
from tests.graded import grade, said

_BESIDE = Path(__file__).parents[3] / "shared" / "data"
_MODULES = ("exact_match", "medcalc", "medec", "label_sets")


def metric(name: str, scoring: Scoring = "fixed") -> Metric:
    found = [
        m
        for module in _MODULES
        for m in importlib.import_module(f"medhelm_metrics.{module}").medhelm_metrics()
        if (m.name, m.scoring) == (name, scoring)
    ]
    assert len(found) == 1
    assert isinstance(found[0], Metric)
    return found[0]


def always(text: str) -> Callable[[Instance], str]:
    return lambda instance: text


def gold(instance: Instance) -> str:
    return instance.references[0]


def mean(metric: Metric, instances: Iterable[Instance], answer: Callable[[Instance], str]) -> float:
    """The share of right answers as the product counts it: floors included."""
    scores = [grade(metric, i, said(answer(i))) for i in instances]
    values = [s.value for s in scores if s.value is not None]
    assert len(values) == len(scores)
    return sum(values) / len(values)


def outcomes(
    metric: Metric, instances: Iterable[Instance], answer: Callable[[Instance], str]
) -> set[str]:
    return {grade(metric, i, said(answer(i))).outcome for i in instances}


@pytest.fixture(scope="session")
def data() -> Path:
    root = Path(os.environ.get("MEDHELM_DATA_DIR") or _BESIDE)
    if not (root / "medcalc_bench").is_dir():
        pytest.skip(f"no upstream files in {root}; name their folder in MEDHELM_DATA_DIR")
    return root


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


@pytest.fixture(scope="session")
def medcalc(data: Path) -> list[Instance]:
    return [
        Instance(
            id=row["Row Number"],
            references=(row["Ground Truth Answer"],),
            answer_key={
                "output_type": row["Output Type"],
                "category": row["Category"],
                "lower_limit": row["Lower Limit"],
                "upper_limit": row["Upper Limit"],
                "calculator_id": row["Calculator ID"],
            },
        )
        for row in _rows(data / "medcalc_bench" / "test_data.csv")
    ]


@pytest.fixture(scope="session")
def medec(data: Path) -> list[Instance]:
    instances = []
    for row in _rows(data / "medec" / "MEDEC-MS-TestSet-with-GroundTruth-and-ErrorType.csv"):
        if not row["Sentences"].strip():
            continue
        gold = "CORRECT"
        if row["Error Flag"] == "1":
            gold = f"{row['Error Sentence ID']} {' '.join(row['Corrected Sentence'].split())}"
        key = {"error_flag": row["Error Flag"], "error_sentence_id": row["Error Sentence ID"]}
        instances.append(
            Instance(
                id=row["Text ID"], context=row["Sentences"], references=(gold,), answer_key=key
            )
        )
    return instances


@pytest.fixture(scope="session")
def headqa(data: Path) -> list[Instance]:
    exams = json.loads((data / "headqa" / "HEAD_EN.json").read_text("utf-8"))["exams"]
    return [
        Instance(
            id=f"{name}/{question['qid']}",
            choices=tuple(a["atext"] for a in question["answers"]),
            references=("ABCD"[int(question["ra"]) - 1],),
        )
        for name, exam in exams.items()
        if exam["year"] in ("2016", "2017")
        for question in exam["data"]
        if not question["image"]
    ]


@pytest.fixture(scope="session")
def medbullets(data: Path) -> list[Instance]:
    return [
        Instance(
            id=str(i),
            choices=tuple(row[f"op{c}"] for c in "abcde"),
            references=(row["answer_idx"],),
        )
        for i, row in enumerate(_rows(data / "medbullets" / "medbullets_op5.csv"))
    ]


@pytest.fixture(scope="session")
def pubmed_qa(data: Path) -> list[Instance]:
    records = json.loads((data / "pubmed_qa" / "ori_pqal.json").read_text("utf-8"))
    options = ("yes", "no", "maybe")
    return [
        Instance(id=k, choices=options, references=("ABC"[options.index(r["final_decision"])],))
        for k, r in records.items()
    ]
