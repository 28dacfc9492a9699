"""Numbers, dates and durations that completions commit to."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm import (
    extract_date,
    extract_number,
    extract_weeks_days,
    read_date,
    read_number,
    read_weeks_days,
)
from medhelm_metrics.medcalc import GLOSSARY
from tests.extract.value_replies import CUT as CUT_REPLIES
from tests.extract.value_replies import DATES as DATE_REPLIES
from tests.extract.value_replies import DURATIONS, SAFE, SHORT, STEPS, STYLES, WORKED

NUMBERS: list[tuple[str, float | None]] = [
    ("12.3", 12.3),
    ("-5", -5),
    ("\u22125", -5),
    ("+5", 5),
    (".5", 0.5),
    ("5.", 5),
    ("0", 0),
    ("1,234.5", 1234.5),
    ("\uff11\uff12.\uff13", 12.3),
    ("**22.9**", 22.9),
    ("$22.9$", 22.9),
    (r"$\boxed{22.9 \text{ mg/dL}}$", 22.9),
    ("12.3 mg/dL", 12.3),
    ("12 %", 12),
    ("12%", 12),
    ("1.2e3", 1200),
    ("1.2e-3", 0.0012),
    ("1.2 x 10^3", 1200),
    ("1.2\u00d710\u00b3", 1200),
    (r"1.2 \times 10^{3}", 1200),
    ("38.256 mL/min/1.73 m\u00b2", 38.256),
    ("38 mL/min per 1.73 m2", 38),
    ("25.3 kg/m^2", 25.3),
    ("100 mg/100 mL", 100),
    ("~22.9", 22.9),
    ("approximately 22.9 kg", 22.9),
    ("3 points", 3),
    ("4 out of 9", 4),
    ("The CHA2DS2-VASc score is 4.", 4),
    ("CURB-65 score: 2", 2),
    ("The patient's FIB-4 index is 3.82", 3.82),
    ("A 45-year-old man has score 3.", 3),
    ("The free water deficit is -0.828 L.", -0.828),
    ("The MAP is 93.3 mmHg (93.3)", 93.3),
    ("12.3 mEq/L (normal 8-12)", 12.3),
    ("BMI = 70 / 1.75^2 = 22.86 kg/m^2", 22.86),
    ("70 / 1.75^2 \u2248 22.9", 22.9),
    ("Answer: 12.3 mg/dL", 12.3),
    ("Answer: about 22.9 mg", 22.9),
    ("Answer: 4 points (hypertension 1, age 2, diabetes 1)", 4),
    ("Answer: 70 / 1.75^2 = 22.86", 22.86),
    ("Step 1: age 75 gives 2.\nStep 2: total 4.\nAnswer: 4", 4),
    ("Answer: 3\nAnswer: 4", None),
    ("Final answer: 12.3\n\nNormal is 10 to 12.", 12.3),
    ('{"answer": 12.3}', 12.3),
    ('{"answer": "12.3 mg/dL"}', 12.3),
    ("<think>12 or 13</think>12.3", 12.3),
    ("3\n\nExplanation: 1 for age, 2 for sex.", 3),
    ("Explanation: 1 for age and 2 for sex.\n\n3", 3),
    ("Age 2\nDiabetes 1\nFinal score: 3", 3),
    ("The answer is **22.9 kg/m\u00b2**.", 22.9),
    ("12, 12.0", 12),
    # two meanings, or two values
    ("12,5", None),
    ("3/4", None),
    ("120/80", None),
    ("> 60", None),
    ("\u226560", None),
    ("12-15", None),
    ("12 to 15", None),
    ("12 \u00b1 3", None),
    ("Answer: 12 or 13", None),
    ("12, 13", None),
    ("The answer is 3. No, the answer is 4.", None),
    ("The patient is 45 years old with score 3.", 3),
    ("Age 2\nDiabetes 1\nTotal 3", 3),
    ("3\n1 for age\n4", None),
    ("12.3.4", None),
    ("09/23/2014", None),
    ("three", 3),
    ("inf", None),
    ("nan", None),
    ("1e999", None),
    ("I cannot compute this.", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "number"), NUMBERS)
def test_numbers(text: str, number: float | None) -> None:
    assert extract_number(text) == number
    assert extract_number(f"\n {text} \n") == number


@given(
    st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: round(x, 4)),
    st.sampled_from(
        ["{}", "{} mg/dL", "Answer: {}", "**{}**", "The value is {} kg/m\u00b2.", "= {}"]
    ),
)
def test_any_number_is_read_back(number: float, template: str) -> None:
    assert extract_number(template.format(f"{number:.4f}")) == number
    assert extract_number(template.format(f"{number:,.4f}")) == number
    assert extract_number(template.format(f"{number:.10e}")) == pytest.approx(number)


DATE = datetime.date(2014, 9, 3)
DATES: list[tuple[str, datetime.date | None]] = [
    ("09/03/2014", DATE),
    ("9/3/2014", DATE),
    ("09-03-2014", DATE),
    ("2014-09-03", DATE),
    ("September 3, 2014", DATE),
    ("Sept. 3rd, 2014", DATE),
    ("3 September 2014", DATE),
    ("**09/03/2014**", DATE),
    ("Answer: 9/3/2014", DATE),
    ('{"answer": "9/3/2014"}', DATE),
    ("The due date is 09/03/2014.", DATE),
    ("Answer: 09/03/2014 (LMP 12/17/2013)", DATE),
    ("LMP 12/17/2013, due 09/03/2014\nAnswer: 09/03/2014", DATE),
    ("LMP 12/17/2013, due 09/03/2014", None),
    ("09/03/14", None),
    ("23/09/2014", None),
    ("02/30/2014", None),
    ("109/03/2014", None),
    ("09/03/20145", None),
    ("may 2014", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "date"), DATES)
def test_dates(text: str, date: datetime.date | None) -> None:
    assert extract_date(text) == date


@given(st.dates(datetime.date(1000, 1, 1)))
def test_any_date_is_read_back(date: datetime.date) -> None:
    for form in ("%m/%d/%Y", "%Y-%m-%d", "%B %d, %Y", "%d %b %Y"):
        assert extract_date(f"It is {date.strftime(form)}.") == date
    assert extract_date(f"{date.month}/{date.day}/{date.year}") == date


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("('14 weeks', '1 days')", (14, 1)),
        ('("14 weeks", "1 day")', (14, 1)),
        ("(14 weeks, 1 day)", (14, 1)),
        ("(1 week, 5 days)", (1, 5)),
        ("0 weeks 6 days", (0, 6)),
        ("14 weeks and 1 day", (14, 1)),
        ("14w1d", (14, 1)),
        ("14 wks 1 d", (14, 1)),
        ("14 1/7 weeks", (14, 1)),
        ("14+1 weeks", (14, 1)),
        ("14 weeks", (14, 0)),
        ("(14, 1)", (14, 1)),
        ("**(14 weeks, 1 day)**", (14, 1)),
        ("The gestational age is 14 weeks and 1 day.", (14, 1)),
        ("Answer: 14 weeks 1 day (99 days)", (14, 1)),
        ("10 weeks 0 days passed.\nAnswer: (14 weeks, 1 day)", (14, 1)),
        ("(14 weeks, 1 day) or (14 weeks, 2 days)", None),
        ("14 weeks and 15 weeks", None),
        ("1.5 weeks 2 days", None),
        ("99 days", None),
        ("14", None),
        ("", None),
    ],
)
def test_weeks_and_days(text: str, pair: tuple[int, int] | None) -> None:
    assert extract_weeks_days(text) == pair


@pytest.mark.parametrize(("text", "number"), WORKED + SHORT + STYLES)
def test_replies_of_many_styles(text: str, number: float | None) -> None:
    assert read_number(text).value == number


@pytest.mark.parametrize(("asked", "text", "number"), STEPS)
def test_steps_on_the_way_to_a_result(asked: str, text: str, number: float | None) -> None:
    question = f"What is the patient's {asked}?"
    assert read_number(text, asked=GLOSSARY.asked_by(question)).value == number


@pytest.mark.parametrize("text", SAFE)
def test_what_is_hard_to_read_is_not_read_wrongly(text: str) -> None:
    assert read_number(text).value is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Answer: 24.9\n\nAnswer: 25.4", "two results are stated: 24.9 and 25.4"),
        ("The BMI is 24.9. The BMI is 25.4.", "two results are stated: 24.9 and 25.4"),
        ("The answer is 3. No, the answer is 4.", "two results are stated: 3 and 4"),
        ("12-15", "a range, no single number"),
        ("Answer: between 12 and 15", "a range, no single number"),
        ("The score is at least 4.", "only a bound: at least 4"),
        ("\u226560 mL/min", "only a bound: \u2265 60"),
        ("Answer: 1:1", "a ratio (1:1) is not a number"),
        ("3/4", "a fraction (3/4) is not a number"),
        ("12,5", "12,5 can be read in two ways"),
        ("70 / 1.75^2", "a calculation without its result"),
        ("Score \u20144", "a number whose sign can be read in two ways"),
        (
            "3 for age, 4 for sex, 5 for stroke",
            "several values and no single number is stated as the answer",
        ),
        ("The BMI is 24.9. No wait, 25.4 is right.", "a result is stated and then taken back"),
        ("I do not know.", "no number is stated"),
    ],
)
def test_why_there_is_no_number(text: str, reason: str) -> None:
    reading = read_number(text)
    assert (reading.value, reading.reason) == (None, reason)


@pytest.mark.parametrize(("text", "number"), CUT_REPLIES)
def test_what_a_cut_reply_has_committed_to(text: str, number: float | None) -> None:
    assert read_number(text, is_cut=True).value == number


@pytest.mark.parametrize(("text", "date"), DATE_REPLIES)
def test_dates_of_many_styles(text: str, date: str | None) -> None:
    value = read_date(text).value
    assert (value and f"{value:%m/%d/%Y}") == date


@pytest.mark.parametrize(("text", "pair"), DURATIONS)
def test_durations_of_many_styles(text: str, pair: tuple[int, int] | None) -> None:
    assert read_weeks_days(text).value == pair


SIGNS = ["-1.25", "\u22121.25", "\u20131.25", "\u20101.25", "minus 1.25", "negative 1.25"]


@pytest.mark.parametrize("spelling", SIGNS)
@pytest.mark.parametrize(
    "template",
    [
        "The deficit is {}.",
        "Answer: {} L",
        "The gap is {} mEq/L",
        "10.75 - 12 = {}",
        "Result: **{}**",
    ],
)
def test_every_spelling_of_a_negative_number(template: str, spelling: str) -> None:
    assert read_number(template.format(spelling)).value == -1.25


CUT = "the answer was cut in the middle of a number"
OPEN = "the answer was cut before a result is stated"


@pytest.mark.parametrize(
    ("text", "number", "reason"),
    [
        ("Answer: 1000 msec\n\nThe QT interval ...\n\nAnswer: 1", 1000, ""),
        ("Answer: 1000 msec\n\nAnswer: 2", None, CUT),
        ("Answer: 1", None, CUT),
        ("Answer: 25.", None, CUT),
        ("Answer: 1.2 x 10", None, CUT),
        ("Answer: -", None, OPEN),
        ("25", None, CUT),
        ("25.2 kg/m", 25.2, ""),
        ("25 ", 25, ""),
        ("Answer: 25.2 kg/m^2 (normal 18.5-24", 25.2, ""),
        ("22.86\n\nThe BMI is the weight (70 kg) divided by the square of", 22.86, ""),
        ("The answer is 22.86 kg/m^2, which is", 22.86, ""),
        ("The weight is 70 kg. The height is 1.75 m. The BMI", None, OPEN),
        ("Hence, the ideal body weight is 59.6 kg. To find the adjusted", None, OPEN),
        ("The height is 1.75 m and", None, OPEN),
    ],
)
def test_replies_that_the_budget_ended(text: str, number: float | None, reason: str) -> None:
    reading = read_number(text, is_cut=True)
    assert (reading.value, reading.reason) == (number, reason)
    assert extract_number(text, is_cut=True) == number


def test_a_budget_that_ends_a_date_or_a_duration() -> None:
    day = datetime.date(2000, 3, 16)
    assert read_date("LMP 06/10/1999.\nAnswer: 03/16/2000", is_cut=True).value == day
    assert read_date("LMP 06/10/1999. The due date is", is_cut=True).value is None
    assert read_weeks_days("Answer: 14 weeks 1 day", is_cut=True).value == (14, 1)
    assert read_weeks_days("Answer: 14 weeks", is_cut=True).value is None
    assert read_date("Answer: 2000-03-1", is_cut=True).value is None
    assert read_weeks_days("It was 3 weeks 2 days on Monday. Today", is_cut=True).value is None


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("Her LMP was 06/10/1999. The answer is 03/16/2000.", "2000-03-16"),
        ("LMP 06/10/1999 + 280 days = 03/16/2000", "2000-03-16"),
        ("LMP: 06/10/1999\n\nDue date: 03/16/2000", "2000-03-16"),
        ("LMP 06/10/1999 \u2192 EDD 03/16/2000", "2000-03-16"),
        (
            "Naegele's rule: subtract three months from June 10, 1999 and add 7 days and a year.\n"
            "Therefore, the estimated due date is **March 16, 2000** (03/16/2000).",
            "2000-03-16",
        ),
        ("Adding 40 weeks to 06/10/1999 gives 03/16/2000.", "2000-03-16"),
        ("The estimated due date is 03/16/2000, based on an LMP of 06/10/1999.", "2000-03-16"),
        ("$\\boxed{03/16/2000}$", "2000-03-16"),
        ("The due date is 03/16/2000. Wait, that is wrong: it is 03/18/2000.", None),
        ("Answer: 03/16/2000\nAnswer: 03/18/2000", None),
        ("LMP 06/10/1999, scan on 08/01/1999", None),
    ],
)
def test_dates_of_worked_solutions(text: str, date: str | None) -> None:
    assert read_date(text).value == (datetime.date.fromisoformat(date) if date else None)


def test_why_there_is_no_date() -> None:
    reading = read_date("Answer: 03/16/2000\nAnswer: 03/18/2000")
    assert reading.reason == "two results are stated: 03/16/2000 and 03/18/2000"
    assert read_date("Answer: 02/30/2000").reason == "a date that does not exist"
    assert read_weeks_days("It is 2 weeks 1 day or 2 weeks 3 days").reason == (
        "two results are stated: 2 weeks 1 days and 2 weeks 3 days"
    )


@pytest.mark.parametrize(
    "text",
    [
        "LMP 03/23/2020, today 06/30/2020. The gap is 99 days, so it is 14 weeks and 1 day.",
        "99 days / 7 = 14 weeks 1 day.\n\nThe gestational age is **14 weeks, 1 day**.",
        "It was 12 weeks 1 day. Two weeks later the gestational age is therefore 14w1d.",
        "{\"answer\": ('14 weeks', '1 days')}",
    ],
)
def test_durations_of_worked_solutions(text: str) -> None:
    assert read_weeks_days(text).value == (14, 1)


SEEDS = [
    "The patient has a cough and fever, so we think that it is B. ",
    *("a", "A.\n", "*", " ", "\n", "(", "- ", "\u00e9 ", "\uff21", "\\boxed{", "<think>"),
    *("</think>", "answer is ", "answer: ", "1,", "12 ", "1e5 ", "x10^", "= ", "09/23/2014 "),
    *("14 weeks 1 day ", "Answer: 1\n", "answer is 1. ", "\\boxed{1} ", "BMI = 1 + 1 = 2\n"),
    *("(1 + ", "} ", "\\frac{", "{{", "wait, 1 ", "| 1 ", "> ", "about ", "a = 1, ", "1/", "1:"),
    *("-", "negative ", "**1", "So BMI is 4. Therefore it is 4. ", "1;2 ", "\u00bd", "1 or "),
    "the final score is 3 ",
    *(
        "one ",
        "is two. ",
        "**1** Values > 2. ",
        "Question: 1\n",
        " . ",
        "......",
        "round(1, ",
        ",5 mg ",
    ),
    *(
        "~",
        ">>> ",
        "with it would ",
        "Score 1/2 ",
        "36+5 ",
        "(a 1) ",
        "| 1 + 1 | 2 |\n",
        "So 1. 2. ",
    ),
]
READERS: list[Callable[[str], object]] = [
    extract_number,
    extract_date,
    extract_weeks_days,
    partial(extract_number, is_cut=True),
]


def _hostile(size: int) -> Iterator[str]:
    for seed in SEEDS:
        yield (seed * (size // len(seed) + 1))[:size] + "\nC"


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_30_kb_take_no_quadratic_time(reader: Callable[[str], object]) -> None:
    for text in _hostile(30_000):
        start = time.process_time()
        reader(text)
        spent = time.process_time() - start
        assert spent < 1, repr(text[:30])  # some 0.03 s; quadratic would be seconds


@given(st.lists(st.sampled_from(SEEDS), max_size=40).map("".join), st.booleans())
def test_whatever_the_text_there_is_a_value_or_a_reason(text: str, is_cut: bool) -> None:
    for reading in (
        read_number(text, is_cut=is_cut),
        read_date(text, is_cut=is_cut),
        read_weeks_days(text, is_cut=is_cut),
    ):
        assert (reading.value is None) == bool(reading.reason)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("HAS-BLED: hypertension 1, age 1", None),
        ("HAS-BLED = hypertension 1 + age 1 + drugs 1", None),
        ("HAS-BLED score: 1 for hypertension, 1 for age", None),
        ("Hypertension: 1. Age: 1.", None),
        ("One point for hypertension, one for age.", None),
        ("One for hypertension, two in all.", 2),
        ("+1 hypertension\n+1 age\n+1 drugs", None),
        ("Hypertension gives 1, age gives 1, so", None),
        ("Hypertension 1, age 0, drugs 0. HAS-BLED: 1.", 1),
        ("HAS-BLED: 2 (hypertension, age)", 2),
        ("HAS-BLED score: 2. So the patient has 2 points.", 2),
        ("Hypertension (1), age (1). Total: 2.", 2),
    ],
)
def test_points_of_several_findings_without_a_total_are_no_score(
    text: str, points: float | None
) -> None:
    reading = read_number(text, asked=GLOSSARY.asked_by("What is the patient's HAS-BLED score?"))
    assert reading.value == points


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("The patient's heart rate is 88.", "What is the patient's corrected QTc in msec?"),
        ("The patient's GCS is 11.", "What is the patient's APACHE II score?"),
        ("INR: 1.5", "What is the patient's MELD-Na score?"),
        ("The patient's age is 66.", "What is the patient's CURB-65 score?"),
    ],
)
def test_the_only_number_is_not_read_by_another_quantitys_name(text: str, question: str) -> None:
    assert read_number(text, asked=GLOSSARY.asked_by(question)).value is None


def test_the_only_date_is_not_read_by_another_name() -> None:
    due = GLOSSARY.asked_by("What is the patient's estimated due date?")
    assert read_date("The LMP was 06/10/1999.", asked=due).value is None
    assert read_date("The due date is 03/16/2000.", asked=due).value == datetime.date(2000, 3, 16)
    assert read_number("CrCl: 52", asked=GLOSSARY.asked_by("What is the CrCl?")).value == 52
