"""What completions state: hand-written ones, decorated ones, hostile ones."""

from __future__ import annotations

import datetime
import string
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medhelm.extract import (
    extract_choice,
    extract_codes,
    extract_date,
    extract_labels,
    extract_number,
    extract_weeks_days,
    final_answer,
    is_code,
)

LUNG = ("Asthma", "Acute pneumonia", "Pneumonia", "Gastro-esophageal reflux disease")
CARE = (
    "Start aspirin",
    "Order a chest CT",
    "Start low-molecular-weight heparin",
    "Reassurance and discharge",
    "Start aspirin and clopidogrel",
)
VIRUS = ("Hepatitis A virus", "Hepatitis B virus", "Hepatitis C virus", "Hepatitis E virus")
VITAMIN = ("Vitamin A", "Vitamin B12", "Vitamin C", "Vitamin D")
GERM = ("E. coli", "C. difficile", "B. cereus")
DOSE = ("5 mg", "50 mg", "0.5 mg")
YES_NO = ("yes", "no", "maybe")
BARE = ("A", "B", "C", "D", "E")
COMBINED = ("1 and 2", "2 and 3", "1 only", "All of the above", "None of the above")
TEN = tuple(f"Option text {i}" for i in range(10))

STATED: dict[tuple[str, ...], list[tuple[str, str | None]]] = {
    LUNG: [
        # the letter alone, decorated
        ("C", "C"),
        ("C.", "C"),
        ("(C)", "C"),
        ("C)", "C"),
        ("[C]", "C"),
        ("<C>", "C"),
        ("C;", "C"),
        ("C!", "C"),
        ("**C**", "C"),
        ("`C`", "C"),
        ("- C", "C"),
        ("> C", "C"),
        ("# C", "C"),
        ('"C"', "C"),
        ("\u201cC\u201d", "C"),
        ("['C']", "C"),
        ("c", "C"),
        (" c) ", "C"),
        ("\uff23", "C"),
        ("\uff08\uff23\uff09", "C"),
        ("\U0001d402", "C"),
        ("\ufeffC", "C"),
        ("C\u200b", "C"),
        ("\u00a0C\u00a0", "C"),
        # marked as final
        ("Answer: C", "C"),
        ("ANSWER: c", "C"),
        ("ANSWER = C", "C"),
        ("Answer - C", "C"),
        ("Answer \u2014 C", "C"),
        ("Answer C", "C"),
        ("Answer:\n\nC", "C"),
        ("Ans: B", "B"),
        ("Correct answer: B", "B"),
        ("Correct option: C", "C"),
        ("**Answer:** C\n\n**Explanation:** A is wrong, B is wrong.", "C"),
        ("**Final Answer**\n\nC", "C"),
        ("## Answer\nB. Acute pneumonia", "B"),
        ("My final answer is: (D)", "D"),
        ("<answer>C</answer>", "C"),
        (r"\boxed{C}", "C"),
        (r"$\boxed{\text{C}}$", "C"),
        (r"The final answer is $\boxed{\text{(C)}}$.", "C"),
        ('{"answer": "C"}', "C"),
        ("{'answer': 'C'}", "C"),
        ('```json\n{"answer": "C"}\n```', "C"),
        ("Final Answer: The final answer is C. I hope it is correct.", "C"),
        ("Answer: The correct option is C", "C"),
        ("Answer: Let's think step by step. Cough means lungs. So the answer is C.", "C"),
        ("Question: what is it?\nAnswer: C", "C"),
        ("Answer: (D)<|im_end|>", "D"),
        ("C\n\nAnswer:", "C"),
        ("Final answer: B, not C", "B"),
        ("Answer: B rather than C", "B"),
        # the last of several counts only where it is marked
        ("The answer is A. Wait.\nFinal answer: B", "B"),
        ("Answer: A\nHmm.\nAnswer: B", "B"),
        ("The answer is A. Wait, actually the answer is B.", None),
        ("Answer: B\n\nWait, the correct answer is C.", None),
        ("Answer: C\nIf she had fever, the answer would be D.", "C"),
        ("The answer is B.\nFinal answer: I cannot determine.", None),
        # with the text of the option
        ("C. Pneumonia", "C"),
        ("C - Pneumonia", "C"),
        ("C: Pneumonia", "C"),
        ("C Pneumonia", "C"),
        ("C) Pneumonia is likely", "C"),
        ("Pneumonia (C)", "C"),
        ("pneumonia", "C"),
        ("Acute Pneumonia.", "B"),
        ("gastro esophageal  reflux disease", "D"),
        ("Answer: pneumonia, because of the infiltrate", "C"),
        ("C. Asthma", None),
        ("Pneumonia (A)", None),
        ("The patient most likely has acute pneumonia.", "B"),
        ("The patient has pneumonia and asthma.", None),
        ("This is not asthma.", None),
        # said in a sentence
        ("The answer is C", "C"),
        ("So the answer is (A).</s>", "A"),
        ("the answer is a", "A"),
        ("The correct answer is (B).", "B"),
        ("The best answer is **B. Acute pneumonia**.", "B"),
        ("Based on the findings, the best choice is **C**.", "C"),
        ("I would choose option D.", "D"),
        ("I'd go with D", "D"),
        ("My choice is B", "B"),
        ("Option B is correct.", "B"),
        ("B is the most likely diagnosis", "B"),
        ("A is incorrect because of X. C is wrong. B is correct.", "B"),
        ("Therefore, C.", "C"),
        ("It's B.", "B"),
        ("Of the options, (B) fits best.", "B"),
        ("Option A seems wrong. Option C fits.", "C"),
        ("C because the infiltrate is not diffuse", "C"),
        ("B, not C", "B"),
        ("The answer to this question is B.", "B"),
        ("Thus the most appropriate next step is D.", "D"),
        # lines and lists
        ("Fever suggests infection, so A is out.\n\nC", "C"),
        ("C\n\nThe patient has an infiltrate.", "C"),
        ("C\n\nC", "C"),
        ("C\nB", None),
        ("C. Pneumonia\n\nWhy:\nA. Asthma is wrong\nB. Acute pneumonia is wrong\nD. no fit", "C"),
        ("A. Asthma\nB. Acute pneumonia\nC. Pneumonia\nD. Gastro-esophageal reflux disease", None),
        ("A. Asthma\nB. Acute pneumonia\nC. Pneumonia\nD. Reflux\n\nC", "C"),
        ("A) incorrect\nB) incorrect\nC) correct\nD) incorrect", None),
        ("A. B. C. D.", None),
        ("1. C", None),
        # thinking
        ("<think>The answer is A. Or B?</think>C", "C"),
        ("I think A first\n</think>\n\n**Answer:** B", "B"),
        ("<think>Answer: A", None),
        # several, none, doubt, refusal
        ("A or B", None),
        ("Either A or B.", None),
        ("A/B", None),
        ("A, B and C", None),
        ("Both A and D are reasonable.", None),
        ("It is between A and C.", None),
        ("The answer is B or C.", None),
        ("not B", None),
        ("It is not B.", None),
        ("The answer is not B.", None),
        ("The answer isn't C.", None),
        ("C is not correct.", None),
        ("Definitely not C.", None),
        ("I would not choose B", None),
        ("Anything except B.", None),
        ("C?", None),
        ("Possibly C", None),
        ("It could be C, but I am not sure.", None),
        ("I'm sorry, but I can't help with medical decisions.", None),
        ("As an AI language model, I cannot provide a diagnosis.", None),
        ("I cannot determine the answer.", None),
        ("None of these options is correct.", None),
        ("None of the above", None),
        ("If A is correct, fever is expected.", None),
        # letters that are no answer
        ("A 45-year-old man presents with cough.", None),
        ("A physician should be consulted.", None),
        ("Answer: A patient like this needs rest", None),
        ("The answer is a combination of things", None),
        ("I. Introduction\nThe patient has a cough.", None),
        ("C-reactive protein is elevated.", None),
        ("B cells are depleted", None),
        ("D-dimer should be measured.", None),
        ("A1c is high", None),
        ("A-fib", None),
        ("C. difficile colitis is present", None),
        ("The diagnosis is hepatitis B", None),
        ("The answer choices are A, B, C and D.", None),
        ("ABCD", None),
        ("N/A", None),
        # beyond the options
        ("E", None),
        ("Answer: F", None),
        ("The answer is E.", None),
        ('{"answer": "Z"}', None),
        ('{"answer": null}', None),
        ('{"answer": ["A", "B"]}', None),
        ("", None),
        ("   \n ", None),
        ("Answer:", None),
    ],
    CARE: [
        ("Start aspirin", "A"),
        ("Start aspirin and clopidogrel", "E"),
        ("start low molecular weight heparin", "C"),
        ("The best answer is Start aspirin and clopidogrel because of the stent.", "E"),
        ("Answer: E) Start aspirin and clopidogrel", "E"),
        ("Answer: E) Start aspirin", None),
        ('{"answer": "order a chest ct"}', "B"),
        ('{"reasoning": "A is wrong", "answer": "B. Order a chest CT"}', "B"),
        ("After careful consideration, I select (B) Order a chest CT as the answer.", "B"),
        (
            "The most likely diagnosis is pulmonary embolism. The best next step is to start "
            "low-molecular-weight heparin.\n\nTherefore, the correct answer is **C. Start "
            "low-molecular-weight heparin**.",
            "C",
        ),
        (
            "The correct answer is C) Start low-molecular-weight heparin.\n\nExplanation:\n"
            "- A) Start aspirin: not indicated\n- B) Order a chest CT: delays treatment\n"
            "- D) Reassurance: dangerous",
            "C",
        ),
        (
            "Let me work through this.\n\nA. Start aspirin \u2013 not enough.\nB. Order a chest CT "
            "\u2013 would delay.\nC. Start low-molecular-weight heparin \u2013 correct for PE.\n"
            "D. Reassurance and discharge \u2013 unsafe.\n\nThe answer is C.",
            "C",
        ),
        ("Step 1: The patient has PE.\nStep 2: Anticoagulate.\n\n**C**", "C"),
        ("Considering A, B, C, D and E, I go with D.", "D"),
        ("If the D-dimer were negative, the answer would be D. But here the answer is C.", None),
        ("I would say that A chest CT is needed", None),
        ("E. coli is the usual cause of this infection.", None),
    ],
    VIRUS: [
        ("Hepatitis B virus", "B"),
        ("The patient has hepatitis B virus infection.", "B"),
        ("This is hepatitis C.", None),
        ("The most likely cause is hepatitis A.", None),
    ],
    VITAMIN: [
        ("Vitamin C", "C"),
        ("vitamin b12.", "B"),
        ("Vitamin C deficiency (scurvy) explains the gum bleeding.", "C"),
        ("Not vitamin C but vitamin D", None),
        ("The answer is Vitamin D (option D).", "D"),
        ("The answer is Vitamin D (option C).", None),
        ("D. Vitamin D", "D"),
        ("D. Vitamin C", None),
    ],
    GERM: [("C. difficile", "B"), ("E. coli", "A"), ("Answer: B. C. difficile", "B")],
    DOSE: [("5 mg", "A"), ("0.5 mg", "C"), ("50mg", "B"), ("Give 50 mg daily.", "B")],
    ("1", "-1"): [("-1", "B"), ("\u22121", "B"), ("1", "A")],
    YES_NO: [
        ("Yes", "A"),
        ("**Yes**", "A"),
        ("no.", "B"),
        ("Maybe", "C"),
        ("Answer: no", "B"),
        ("The answer is yes.", "A"),
        ("The answer is: maybe.", "C"),
        ("A (yes)", "A"),
        ("A. yes", "A"),
        ("A. no", None),
        ("Final answer: B (no)", "B"),
        ("Final answer: B (yes)", None),
        ("Yes, because there was no difference", "A"),
        ("No, the trial showed no benefit.", "B"),
        ("No.\n\nThe study did not find an association.", "B"),
        ("Yes and no", None),
        ("Yes/No", None),
        ("No idea", None),
        ("There is no evidence.", None),
        ("Not enough information to say yes or no.", None),
    ],
    COMBINED: [
        ("1 and 2", "A"),
        ("Answer: 1 only", "C"),
        ("D. All of the above", "D"),
        ("none of the above", "E"),
        ("The answer is none of the above", "E"),
    ],
    BARE: [("A", "A"), ("C. C", "C"), ("The answer is E. E", "E")],
    ("B", "A"): [("A", "A")],
    TEN: [
        ("I", "I"),
        ("J", "J"),
        ("I. Option text 8", "I"),
        ("I would pick I", "I"),
        ("I think this patient needs an x-ray.", None),
        ("I don't know", None),
        ("I think the answer is D", "D"),
    ],
    (): [("A", None), ("yes", None)],
    ("same", "same"): [("same", None), ("A", "A")],
}
CASES = [(text, choices, letter) for choices, rows in STATED.items() for text, letter in rows]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "choices", "letter"), CASES)
def test_completions_and_the_option_that_they_state(
    text: str, choices: tuple[str, ...], letter: str | None
) -> None:
    assert extract_choice(text, choices) == letter
    assert extract_choice(f"\n  {text}\t\n\n", choices) == letter


TEMPLATES = [
    "{}",
    "({})",
    "{}.",
    "{})",
    "**{}**",
    "*{}*",
    "`{}`",
    "[{}]",
    '"{}"',
    "Answer: {}",
    "answer: {}.",
    "**Answer: {}**",
    "**Answer:** {}",
    "Final answer: ({})",
    "The answer is {}",
    "The answer is {}.",
    "The correct answer is **{}**.",
    "the correct option is ({})",
    r"\boxed{{{}}}",
    r"$\boxed{{\text{{{}}}}}$",
    '{{"answer": "{}"}}',
    "<answer>{}</answer>",
    "Let me think about the kidneys first.\n\nAnswer: {}",
    "The kidneys fail.\n\n{}",
    "<think>Is it A, or rather B?</think>\n{}",
    "I choose {}.",
    "Option {} is correct.",
    "{} is the correct answer.",
    "{}\n\nThe kidneys fail.",
]
SPACE = st.text(alphabet=" \n\t\r", max_size=4)


@given(st.sampled_from(TEMPLATES), st.integers(2, 26), st.data(), SPACE, SPACE)
@example("{}", 26, None, "", "")
def test_every_decoration_of_a_letter_is_read_back(
    template: str, n: int, data: st.DataObject | None, before: str, after: str
) -> None:
    choices = tuple(f"Organ system {i}" for i in range(n))
    letter = data.draw(st.sampled_from(string.ascii_uppercase[:n])) if data else "I"
    assert extract_choice(before + template.format(letter) + after, choices) == letter


@given(st.sampled_from(TEMPLATES), st.integers(1, 25), st.data())
def test_no_decoration_makes_a_letter_beyond_the_options_an_answer(
    template: str, n: int, data: st.DataObject
) -> None:
    beyond = data.draw(st.sampled_from(string.ascii_uppercase[n:]))
    choices = tuple(f"Organ system {i}" for i in range(n))
    assert extract_choice(template.format(beyond), choices) is None


FRAGMENTS = st.sampled_from(
    ["A", "B", "c", "D.", "(E)", "I", "not", "or", "and", "answer", "Answer:", "is", "final", "**"]
    + [
        "\n",
        " ",
        ",",
        ".",
        "pneumonia",
        "asthma",
        "correct",
        "<think>",
        "</think>",
        "{",
        '"',
        "\\boxed{",
    ]
)


@given(st.lists(FRAGMENTS, max_size=30).map(" ".join) | st.text(max_size=200), st.integers(0, 5))
def test_what_is_read_is_an_option_whatever_the_text(text: str, n: int) -> None:
    choices = (*LUNG, "Asthma and pneumonia")[:n]
    letter = extract_choice(text, choices)
    assert letter is None or letter in "ABCDE"[:n]
    assert extract_choice(f" \n{text}\n\t", choices) == letter


@given(st.sampled_from([(text, letter) for text, letter in STATED[LUNG] if text.isascii()]))
def test_full_width_forms_are_read_like_plain_ones(row: tuple[str, str | None]) -> None:
    text, letter = row
    wide = "".join(chr(ord(c) + 0xFEE0) if c.isupper() else c for c in text)
    assert extract_choice(wide, LUNG) == letter


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
    ("Answer: 3\nAnswer: 4", 4),
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
    ("The patient is 45 years old with score 3.", None),
    ("Age 2\nDiabetes 1\nTotal 3", None),
    ("3\n1 for age\n4", None),
    ("12.3.4", None),
    ("09/23/2014", None),
    ("three", None),
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


CLINICS = ("Cardiology", "Neurology", "Pediatric cardiology", "Ear, nose and throat")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("cardiology, neurology", ("Cardiology", "Neurology")),
        ("Pediatric cardiology", ("Pediatric cardiology",)),
        ("- Neurology\n- Ear, nose and throat", ("Neurology", "Ear, nose and throat")),
        ('["Cardiology"]', ("Cardiology",)),
        ('{"labels": ["neurology"], "why": "x"}', ("Neurology",)),
        ("The labels are cardiology and neurology.", ("Cardiology", "Neurology")),
        ("Not cardiology, but neurology", ("Neurology",)),
        ("Not cardiology, neurology", ("Neurology",)),
        ("Answer: neurology", ("Neurology",)),
        (
            "Maybe cardiology.\n\nAnswer:\n- Neurology\n- Pediatric cardiology",
            ("Neurology", "Pediatric cardiology"),
        ),
        ("Cardiology, cardiology", ("Cardiology",)),
        ("neurology, wizardry", ("Neurology",)),
        ("wizardry", None),
        ("none", ()),
        ("No labels apply.", ()),
        ("[]", ()),
        ("", None),
    ],
)
def test_known_labels(text: str, labels: tuple[str, ...] | None) -> None:
    assert extract_labels(text, CLINICS) == labels


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("a, b", ("a", "b")),
        ("1. a\n2. b", ("a", "b")),
        ("a; b and c; a", ("a", "b and c")),
        ('{"labels": ["a", "b, c"]}', ("a", "b, c")),
        ("Labels: a, b", ("a", "b")),
        ("**a**, `b`.", ("a", "b")),
        ("None", ()),
        ('["a", 1', ("a", "1")),
    ],
)
def test_open_labels(text: str, labels: tuple[str, ...] | None) -> None:
    assert extract_labels(text) == labels


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("I10, E11.9", ("I10", "E119")),
        ("i10, e11.9.", ("I10", "E119")),
        ("- I10\n- E11.9", ("I10", "E119")),
        ('["I10", "E11.9"]', ("I10", "E119")),
        ("ICD-10 codes: I10, E11.9", ("I10", "E119")),
        ("The codes are I10 and E11.9.", ("I10", "E119")),
        ("1. Hypertension: I10\n2. Diabetes: E11.9", ("I10", "E119")),
        ("Hypertension (I10)\nDiabetes (E11.9)", ("I10", "E119")),
        ("| I10 | Hypertension |\n| E11.9 | Diabetes |", ("I10", "E119")),
        ("**I10** - Hypertension\n**E11.9** - diabetes, A1C of 9, with B12 low", ("I10", "E119")),
        (
            "M1A.9XX0, C7B.00, O9A.111, S72.001A, Z3A.38, 0DTJ4ZZ",
            ("M1A9XX0", "C7B00", "O9A111", "S72001A", "Z3A38", "0DTJ4ZZ"),
        ),
        ("COVID-19, U07.1", ("U071",)),
        ("H1N1 influenza: J10.1", ("J101",)),
        ("Answer:\nI10\nE11.9\n\nI left out J10.1.", ("I10", "E119")),
        ("I10 I10", ("I10",)),
        ("none", ()),
        ("I cannot code this", None),
        ("", None),
    ],
)
def test_codes(text: str, codes: tuple[str, ...] | None) -> None:
    assert extract_codes(text) == codes


def test_the_form_of_a_code() -> None:
    assert all(map(is_code, ("I10", "E11.9", "S72.001A", "M1A.9XX0", "0DTJ4ZZ")))
    assert not any(map(is_code, ("B12", "A1C", "i10", "I1", "250.00", "cardiology", "")))


def test_the_final_answer_is_what_is_marked_or_all() -> None:
    assert final_answer("<think>no</think> 8 He gets insulin. ") == "8 He gets insulin."
    assert final_answer("Hm.\n**Answer:** CORRECT\nBye") == "CORRECT"
    assert final_answer("Final answer: 8 He gets insulin.") == "8 He gets insulin."


SEEDS = [
    "The patient has a cough and fever, so we think that it is B. ",
    *("a", "A ", "A.\n", "(A) ", "*", " ", "\n", "(", "- ", "\u00e9 ", "\uff21"),
    *("\\boxed{", "<think>", "</think>", "answer is ", "answer: ", "Answer: A\n", "option: "),
    *("the answer is B, ", "best most likely ", "I choose A. ", "C is correct. ", "pneumonia "),
    *("1,", "12 ", "1e5 ", "x10^", "= ", "09/23/2014 ", "14 weeks 1 day ", "I10 ", '["a",', "{"),
]
READERS: list[Callable[[str], object]] = [
    lambda text: extract_choice(text, LUNG),
    extract_number,
    extract_date,
    extract_weeks_days,
]


def hostile() -> Iterator[str]:
    for seed in SEEDS:
        yield (seed * (100_000 // len(seed) + 1))[:100_000] + "\nC"


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=["choice", "number", "date", "weeks_days"])
def test_100_kb_take_no_quadratic_time(reader: Callable[[str], object]) -> None:
    for text in hostile():
        spent = []
        for _ in range(3):
            start = time.process_time()
            reader(text)
            spent.append(time.process_time() - start)
        assert min(spent) < 0.25, repr(text[:30])  # some 0.03 s; quadratic would be minutes


@pytest.mark.slow
def test_label_sets_take_time_in_proportion_to_the_text() -> None:
    for text in hostile():
        start = time.process_time()
        extract_labels(text, CLINICS)
        extract_labels(text)
        extract_codes(text)
        assert time.process_time() - start < 1.0, repr(text[:30])


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: A\nWait, no. Answer: B", None),
        ("A\n\nWait, I was wrong. B", None),
        ("**Answer: A**\n\nHmm, let me recheck. Correct answer: C", None),
        ("The answer is A. On reflection, the answer is B.", None),
        ("Answer: A\nWait, no.\nAnswer: B", "B"),
        ("A looks right. Wait, the rash rules it out.\n\nFinal answer: C", "C"),
        ("Let me reconsider the history. The answer is D.", "D"),
        ("Wait for the culture before treatment: the answer is B.", "B"),
    ],
)
def test_what_is_taken_back_is_no_answer(text: str, letter: str | None) -> None:
    assert extract_choice(text, ("aspirin", "insulin", "heparin", "warfarin")) == letter
