"""What completions state: hand-written ones, decorated ones, hostile ones."""

from __future__ import annotations

import string
import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medhelm.extract import (
    extract_choice,
    extract_codes,
    extract_labels,
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
        # what is marked as final counts before what is stated; marks have to agree
        ("The answer is A. Wait.\nFinal answer: B", None),  # two commitments, whatever is marked
        ("Answer: A\nHmm.\nAnswer: B", None),
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
        ("A) incorrect\nB) incorrect\nC) correct\nD) incorrect", "C"),
        ("A) correct\nB) correct\nC) incorrect\nD) correct", None),
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
        ("If the D-dimer were negative, the answer would be D. But here the answer is C.", "C"),
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
        ("0270346, I25.10, GZHZZZZ", ("0270346", "I2510", "GZHZZZZ")),
        ("gzhzzzz; 0270346", ("GZHZZZZ", "0270346")),
        ("0270346 - Dilation of an artery\nI10 - Hypertension", ("0270346", "I10")),
        ("GENERAL anesthesia, HEALTHY donor, BLADDER stone, I10", ("I10",)),
        ("Call 5551234 about MRN 1234567: I10, N17.9", ("I10", "N179")),
        ("The CHANGED dressing of the DRAINED wound is I10.", ("I10",)),
        ("GENERAL, BLADDER, CHANGED", None),
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
    *("1,", "12 ", "= ", "I10 ", '["a",', "{"),
]


def hostile() -> Iterator[str]:
    for seed in SEEDS:
        yield (seed * (100_000 // len(seed) + 1))[:100_000] + "\nC"


@pytest.mark.slow
def test_100_kb_take_no_quadratic_time() -> None:
    for text in hostile():
        spent = []
        for _ in range(3):
            start = time.process_time()
            extract_choice(text, LUNG)
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
        ("Answer: A\nWait, no.\nAnswer: B", None),
        ("A looks right. Wait, the rash rules it out.\n\nFinal answer: C", "C"),
        ("Let me reconsider the history. The answer is D.", "D"),
        ("Wait for the culture before treatment: the answer is B.", "B"),
    ],
)
def test_what_is_taken_back_is_no_answer(text: str, letter: str | None) -> None:
    assert extract_choice(text, ("aspirin", "insulin", "heparin", "warfarin")) == letter
