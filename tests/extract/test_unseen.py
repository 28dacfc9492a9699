"""Replies written by people who had not seen the readers, with what each commits to.

Sets of worked solutions and replies in the styles of many models (`unseen/`). Of each row
`expected` is what a careful human reads, null where nobody should commit. The first set was opened
while the readers were mended, so it is a regression test. `own.jsonl` is by the authors of the readers. The figures of the others are those of
their first reading in `docs/reading.md`; what was misread there was mended afterwards.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medhelm import (
    Instance,
    Response,
    extract_choice,
    extract_codes,
    extract_labels,
    read_date,
    read_number,
    read_weeks_days,
)
from medhelm.plugins.registry import load_registry
from medhelm.schema.score import Metric
from medhelm_benchmarks.noharm.rules.labels import read_labels
from medhelm_metrics.medcalc import GLOSSARY
from tests.graded import grade

pytestmark = pytest.mark.slow

CONTRADICTED = frozenset({"c003_9"})
"""Replies whose reasoning is for another option than their letter, which is what is read."""
FOLDER = Path(__file__).parent / "unseen"
Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def medec() -> Metric:
    return load_registry().metric("medec_sentence_accuracy")


def read(row: Row, medec: Metric) -> Any:
    """Return what is read of a row, in the form of its `expected`; None where nothing is."""
    text, is_cut = row["text"], row.get("finish") == "length"
    asked = GLOSSARY.asked_by(row["question"]) if "question" in row else None
    match row["kind"]:
        case "number":
            return read_number(text, is_cut=is_cut, asked=asked).value
        case "date":
            date = read_date(text, is_cut=is_cut, asked=asked).value
            return date and f"{date:%m/%d/%Y}"
        case "weeks_days":
            pair = read_weeks_days(text, is_cut=is_cut, asked=asked).value
            return pair and list(pair)
        case "choice":
            return extract_choice(text, row["choices"], is_cut=is_cut)
        case "labels":
            found = (
                extract_codes(text, is_cut=is_cut)
                if "codes" in row
                else extract_labels(text, row["labels"], is_cut=is_cut)
            )
            return None if found is None else sorted(found)
        case "actions":
            labels = read_labels(text, row["actions"], is_cut=is_cut)
            if labels is None or (labels.missing and not is_cut):  # no score, as of a whole menu
                return None
            both = (("Appropriate", labels.endorsed), ("Inappropriate", labels.rejected))
            return {name: label for label, names in both for name in names} or None
        case "medec":
            note = Instance(
                id="note",
                references=("CORRECT",),
                answer_key={"error_flag": "0", "error_sentence_id": "-1"},
            )
            finish: Any = row.get("finish", "stop")
            score = grade(medec, note, Response(instance_id="note", text=text, finish=finish))
            if score.outcome != "scored":
                return None
            return int(score.extracted) if score.extracted.isdigit() else score.extracted
    raise AssertionError(row["kind"])


def is_right(row: Row, got: Any) -> bool:
    expected = row["expected"]
    if row["kind"] != "number" or expected is None or got is None:
        return bool(got == expected)
    allowed = [expected, *row.get("also", ())]
    return any(abs(got - value) <= max(0.005 * abs(value), 0.005) for value in allowed)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("set1.jsonl", 320),
        ("set2.jsonl", 252),
        ("set3.jsonl", 184),
        ("set4.jsonl", 107),
        ("set5.jsonl", 89),
        ("set6.jsonl", 80),
        ("set7.jsonl", 74),
        ("set8.jsonl", 229),
        ("set9.jsonl", 209),
        ("set10.jsonl", 200),
        ("set11.jsonl", 197),
        ("set12.jsonl", 195),
        ("set13.jsonl", 99),
        ("set14.jsonl", 100),
        ("set15.jsonl", 98),
        ("set16.jsonl", 99),
        ("set17.jsonl", 100),
        ("set18.jsonl", 99),
        ("set19.jsonl", 97),
        ("set20.jsonl", 88),
        ("set21.jsonl", 100),
        ("set22.jsonl", 96),
        ("set23.jsonl", 100),
        ("set24.jsonl", 100),
        ("set25.jsonl", 100),
        ("own.jsonl", 374),
    ],
)
def test_nothing_is_read_wrongly_and_most_is_read(name: str, least: int, medec: Metric) -> None:
    found: Counter[str] = Counter()
    wrong = []
    for row in rows(name):
        got = read(row, medec)
        if is_right(row, got):
            found["right"] += 1
        elif got is None:
            found["unread"] += 1
        else:
            wrong.append((row["id"], row["expected"], got))
    assert [row for row in wrong if row[0] not in CONTRADICTED] == []
    assert found["right"] >= least, found
