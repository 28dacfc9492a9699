from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from medhelm.errors import DataError
from medhelm.schema.data import Instance
from medhelm.schema.episode import Response
from tests.cases import cases
from tests.graded import grade, said

from .conftest import always, gold, mean, metric

FIXED, HELM = metric("medcalc_accuracy"), metric("medcalc_accuracy", "helm")


def instance(reference: str, output_type: str, category: str, low: str, high: str) -> Instance:
    key = {
        "output_type": output_type,
        "category": category,
        "lower_limit": low,
        "upper_limit": high,
    }
    return Instance(id="7", references=(reference,), answer_key=key)


LAB = instance("100", "decimal", "lab", "95", "105")
BODY = instance("-1.25", "decimal", "physical", "-1.3125", "-1.1875")
DOSE = instance("35.2", "decimal", "dosage", "33.44", "36.96")
NEW_DOSE = instance("35.2", "decimal", "dosage conversion", "33.44", "36.96")
RISK = instance("3", "integer", "risk", "3", "3")
ZERO = instance("0", "decimal", "risk", "0", "0")
DUE = instance("09/03/2014", "date", "date", "09/03/2014", "09/03/2014")
PAIR = "('14 weeks', '1 days')"
AGE = instance(PAIR, "integer", "date", PAIR, PAIR)


@pytest.mark.parametrize(
    ("item", "text", "fixed", "published"),
    [
        # decimals: the limits belong to the interval
        (LAB, "95", 1, 0),
        (LAB, "105.0", 1, 0),
        (LAB, "94.999", 0, 0),
        (LAB, "105.001", 0, 0),
        (LAB, "100 mg/dL", 1, 0),
        (BODY, "-1.3125", 1, 1),
        (BODY, "-1.2", 1, 1),
        (BODY, "1.25", 0, 0),
        (BODY, "Answer: -1.25 mEq/L", 1, 0),
        (DOSE, "35.2", 1, 0),
        (NEW_DOSE, "35.2", 1, 1),
        (NEW_DOSE, "35.2 mg", 1, 0),
        (ZERO, "0", 1, 1),
        (ZERO, "0.0", 1, 0),
        (ZERO, "0.001", 0, 0),
        # integers: equal as numbers, not as text
        (RISK, "3", 1, 1),
        (RISK, "3.0", 1, 0),
        (RISK, "3 points", 1, 0),
        (RISK, "The score is 3.", 1, 0),
        (RISK, "2.9", 0, 0),
        (RISK, "4", 0, 0),
        # dates
        (DUE, "09/03/2014", 1, 1),
        (DUE, "9/3/2014", 1, 1),
        (DUE, "Answer: 9/3/2014", 1, 0),
        (DUE, "2014-09-03", 1, 0),
        (DUE, "03/09/2014", 0, 0),
        # weeks and days, as the question shows them and as the file spells them
        (AGE, PAIR, 1, 1),
        (AGE, "(14 weeks, 1 day)", 1, 0),
        (AGE, "14 weeks and 1 day", 1, 0),
        (AGE, "(13 weeks, 8 days)", 1, 0),
        (AGE, "('13 weeks', '8 days')", 1, 1),
        (AGE, "(14 weeks, 2 days)", 0, 0),
    ],
)
def test_values(item: Instance, text: str, fixed: float, published: float) -> None:
    assert grade(FIXED, item, said(text)).value == fixed
    assert grade(HELM, item, said(text)).value == published


@pytest.mark.parametrize(
    ("item", "text", "extracted"),
    [
        (LAB, "about 1,234.5 mg", "1234.5"),
        (DUE, "9/3/2014", "09/03/2014"),
        (AGE, "14w1d", "14 weeks, 1 days"),
    ],
)
def test_what_was_read_is_kept(item: Instance, text: str, extracted: str) -> None:
    assert grade(FIXED, item, said(text)).extracted == extracted


@pytest.mark.parametrize(
    ("item", "text", "reason"),
    [
        (LAB, "between 90 and 110", "a range, no single number"),
        (LAB, "at least 100", "only a bound: at least 100"),
        (LAB, "Answer: 100\nAnswer: 120", "two results are stated: 100 and 120"),
        (LAB, "unknown", "no number is stated"),
        (DUE, "in autumn", "no date is stated"),
        (AGE, "99 days", "no number of weeks and days is stated"),
    ],
)
def test_what_cannot_be_read_is_unparsed(item: Instance, text: str, reason: str) -> None:
    score = grade(FIXED, item, said(text))
    assert (score.value, score.outcome, score.sums) == (0.0, "unparsed", {})
    assert score.reason == reason


def test_a_reply_that_the_budget_ended_is_read_only_where_it_is_whole() -> None:
    cut = Response(instance_id="i", text="Answer: 10", finish="length")
    score = grade(FIXED, LAB, cut)
    assert (score.outcome, score.reason) == (
        "truncated",
        "the answer was cut in the middle of a number",
    )
    whole = Response(instance_id="i", text="Answer: 100 mg/dL\n\nThe", finish="length")
    assert grade(FIXED, LAB, whole).value == 1


def test_the_published_scorer_calls_its_faults_by_name() -> None:
    score = grade(HELM, LAB, said("100"))
    assert (score.value, score.outcome) == (0.0, "scored")
    assert "'lab'" in score.reason
    assert grade(HELM, BODY, said("-1.25 mEq/L")).outcome == "unparsed"


@pytest.mark.parametrize("category", ["lab", "lab test", "dosage", "dosage conversion", "physical"])
def test_every_spelling_of_a_category_is_known(category: str) -> None:
    assert grade(FIXED, instance("5", "decimal", category, "4", "6"), said("5")).value == 1


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (instance("5", "decimal", "labs", "4", "6"), "unknown category 'labs'"),
        (instance("5", "float", "lab", "4", "6"), "output type 'float'"),
        (instance("5", "decimal", "lab", "6", "4"), "lower_limit is above"),
        (instance("5", "decimal", "lab", "x", "6"), "lower_limit is not a number"),
        (instance("x", "integer", "lab", "4", "6"), "reference is not a number"),
        (Instance(id="7", references=("5",)), "no 'output_type'"),
        (Instance(id="7", references=("5",), answer_key={"output_type": "decimal"}), "lower_limit"),
        (Instance(id="7"), "no reference"),
    ],
)
def test_instances_that_cannot_be_scored(bad: Instance, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        grade(FIXED, bad, said("5"))
    assert "'7'" in str(caught.value)


@pytest.mark.slow
def test_the_real_worked_solutions(data: Path, medcalc: list[Instance]) -> None:
    """Of every third, none is read wrongly; `perf/reading.py` reads all."""
    with (data / "medcalc_bench" / "test_data.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    outcomes: Counter[str] = Counter()
    for row, item in [*zip(rows, medcalc, strict=True)][::3]:
        name = row["Calculator Name"].partition(" (")[0]
        sentence = f"This gives a {name} of {row['Ground Truth Answer']}."
        assert grade(FIXED, item, said(sentence)).value == 1.0, sentence
        score = grade(FIXED, item, said(row["Ground Truth Explanation"]))
        outcomes[
            "right" if score.value else "wrong" if score.outcome == "scored" else "unread"
        ] += 1
    assert outcomes == {"right": 348, "unread": 1}


@pytest.mark.slow
def test_the_real_file(medcalc: list[Instance]) -> None:
    assert len(medcalc) == 1047
    assert mean(FIXED, medcalc, gold) == 1.0
    assert mean(HELM, medcalc, gold) == 680 / 1047
    assert mean(FIXED, medcalc, always("0")) == pytest.approx(0.0334, abs=5e-5)
    assert mean(HELM, medcalc, always("0")) == pytest.approx(0.0191, abs=5e-5)
    assert mean(FIXED, medcalc, always("2")) == pytest.approx(0.0630, abs=5e-5)
    assert mean(HELM, medcalc, always("2")) == pytest.approx(0.0592, abs=5e-5)
    assert mean(FIXED, medcalc, always("")) == mean(HELM, medcalc, always("")) == 0.0


@pytest.mark.slow
def test_the_real_golds_as_a_model_would_write_them(medcalc: list[Instance]) -> None:
    """In the form that the question asks for, with a unit, in a sentence, unpadded."""
    kinds: Counter[str] = Counter()
    for item in medcalc:
        text = item.references[0]
        if text.startswith("("):
            kinds["weeks"] += 1
            weeks, days = (int(part.strip("(' ").split()[0]) for part in text.split(","))
            shown = f"({weeks} week{'s' * (weeks != 1)}, {days} day{'s' * (days != 1)})"
        elif "/" in text:
            kinds["date"] += 1
            shown = "/".join(str(int(part)) for part in text.split("/"))
        else:
            kinds["number"] += 1
            shown = f"{text} units"
        for template in (
            "{}",
            "Answer: {}",
            "**{}**",
            "The value is {}.",
            "It is 1 of 2.\nFinal answer: {}",
        ):
            assert grade(FIXED, item, said(template.format(shown))).value == 1.0, item.id
    assert kinds == {"weeks": 20, "date": 40, "number": 987}


@pytest.mark.parametrize(
    ("question", "text", "value"),
    cases(__file__, "what_is_asked_tells_the_answer_from_other_numbers"),
)
def test_what_is_asked_tells_the_answer_from_other_numbers(
    question: str, text: str, value: str | None
) -> None:
    key = {"output_type": "decimal", "lower_limit": "1", "upper_limit": "9"}
    item = Instance(id="i", question=question, references=("5",), answer_key=key)
    score = FIXED.score(item, Response(instance_id="i", text=text))
    assert (score.extracted or None) == value
    assert (score.outcome == "scored") == (value is not None)
