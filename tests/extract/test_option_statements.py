"""Replies that name an option without choosing it, and what is read then."""

from __future__ import annotations

import pytest

from medhelm import read_choice

DRUGS = ("Aspirin", "Heparin", "Warfarin", "Insulin")


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Heparin.", "B"),
        ("It is difficult to say: heparin.", None),
        ("Heparin, but I am unsure.", None),
        ("The patient needs heparin.", "B"),
        ("I am not sure. The patient needs heparin.", None),
        ("It depends on the weight. Start heparin.", None),
        ("Heparin is the best choice.", "B"),
        ("Heparin is the best choice. Actually, let me reconsider.", None),
        ("I would choose B. Hmm, wait, that is wrong.", None),
        ("Answer: B", "B"),
        ("Answer: B is incorrect", None),
        ("Answer: B) is wrong", None),
        ("Answer: F", None),
        ("Answer: Aspirin or Heparin", None),
        ("Answer: Heparin (A)", None),
        ("Answer: A\n\nAnswer: F", None),
        ("The answer is B. Wait, the answer is C.", None),
    ],
)
def test_what_is_named_and_not_chosen_is_no_answer(text: str, letter: str | None) -> None:
    assert read_choice(text, DRUGS).value == letter


@pytest.mark.parametrize(
    "text",
    [
        "I find it hard to believe that B is correct.",
        "B is correct for children, not adults.",
        "'B is correct' is what most say.",
        "One might think B is correct.",
        "B seems correct at first glance, but it isn't.",
        "B is correct, or so I thought.",
        "B would be correct in adults.",
        "B is the classic trap answer.",
        "B is far from correct.",
        "B is anything but correct.",
        "It can be argued that B is correct.",
        "It has been suggested that B is correct.",
        "The attending said the answer is B.",
        "The user claims the answer is B.",
        "I was going to say B.",
        "I almost chose B.",
        "I was leaning towards B.",
        "Answer: B (see edit)\nEdit: C",
        "\u274c B",
        "D \u274c",
        "For example, Answer: B",
        "The format: Answer: B",
        "Backup answer: B",
        "Example answer: B",
        "Heparin levels should be monitored.",
        "Insulin dosing needs care.",
        "\u6b63\u786e\u7684\u9009\u9879\u4e0d\u662fD\u3002",
        '{"answer_index": 2}',
    ],
)
def test_what_others_say_or_a_sentence_undoes_is_no_answer(text: str) -> None:
    assert read_choice(text, DRUGS).value is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("One might think B is correct. The answer is C.", "C"),
        ("B would be correct in adults. In this child, the answer is C.", "C"),
        ("B seems correct at first glance, but it isn't. The answer is C.", "C"),
        ("The user says the answer is B. I believe the answer is C.", "C"),
        ("Give a letter, for example, Answer: A\n\nAnswer: C", "C"),
        ("B would be correct in this patient.", "B"),
        ("I would have to say B.", "B"),
        ("B is by far the best answer.", "B"),
        ('{"answer_idx": "C", "confidence": 0.9}', "C"),
        ("\u3010\u7b54\u6848\u3011C\n\u3010\u89e3\u6790\u3011B\u9879\u9519\u8bef\u3002", "C"),
        ("\u6240\u4ee5\uff0c\u6b63\u786e\u7684\u9009\u9879\u662f D", "D"),
        ("My pick is D.", "D"),
        ("C \u2705", "C"),
        ("Heparin should be monitored.", "B"),
    ],
)
def test_what_is_set_right_or_marked_in_a_short_form_is_read(text: str, letter: str) -> None:
    assert read_choice(text, DRUGS).value == letter


@pytest.mark.parametrize("text", ["no, wait, yes", "No, wait, yes.", "No, sorry, yes."])
def test_a_no_that_leads_and_is_taken_back_is_no_answer(text: str) -> None:
    found = read_choice(text, ("Yes", "No"))
    assert (found.value, found.reason) == (None, "two options are stated: A and B")


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("She has a clot. Heparin is the best choice here. However,", None),
        ("B is the most appropriate option.\nOn the other hand, the kidneys", None),
        ("The answer is B. However, the rest of", "B"),
        ("She has a clot. Heparin is the best choice here. It acts", "B"),
    ],
)
def test_what_is_best_until_a_however_that_was_cut_is_no_answer(
    text: str, letter: str | None
) -> None:
    assert read_choice(text, DRUGS, is_cut=True).value == letter


INFECTION = ("Vancomycin", "Ceftriaxone", "Metronidazole", "Gentamicin")
VERDICTS = ("yes", "no", "maybe")


@pytest.mark.parametrize(
    ("choices", "text", "letter"),
    [
        (INFECTION, "Of the options, the least likely is metronidazole.", None),
        (INFECTION, "From the list given, the worst choice is vancomycin. Next.", None),
        (INFECTION, "From the list, the only fast one is vancomycin. I'd avoid it.", None),
        (INFECTION, "Among these options, the one she is allergic to is ceftriaxone.", None),
        (INFECTION, "Of the choices, what was given last month is gentamicin.", None),
        (INFECTION, "From the options listed, the best drug here is gentamicin.", "D"),
        (INFECTION, "I would mark B as wrong.", None),
        (INFECTION, "I would mark B.", "B"),
        (INFECTION, "Others would mark D.", None),
        (INFECTION, "Eliminated: A, B, C. Remaining: D.", "D"),
        (INFECTION, "Eliminated: A, B. Remaining: C, D.", None),
        (INFECTION, "Remaining: D?", None),
        (INFECTION, "Escludo la A, la B e la D. Resta la C.", "C"),
        (INFECTION, "Descarto A y B. Queda descartada la C.", None),
        (INFECTION, "Nos queda la opción D.", "D"),
        (INFECTION, "Il reste B et C.", None),
        (INFECTION, "Il reste à exclure B.", None),
        (INFECTION, "Es bleibt nur Antwort C.", "C"),
        (INFECTION, "Based on the ECG, go with B, ceftriaxone.", "B"),
        (INFECTION, "If stable, go with B, ceftriaxone.", None),
        (INFECTION, "Do not go with B.", None),
        (INFECTION, "A – False.\nB – False.\nC – False.\nD – True.", "D"),
        (INFECTION, "A – True.\nB – True.\nC – False.\nD – True.", None),
        (INFECTION, "A – False.\nB – False.\nC – True if she is pregnant.\nD – False.", None),
        (INFECTION, "So the statement which is NOT a recommendation = A.", "A"),
        (INFECTION, "So the answer which is not right = A.", None),
        (INFECTION, "My first pick was B. I change my pick: metronidazole (C).", "C"),
        (INFECTION, "so A is true one.", "A"),
        (INFECTION, "A is not the true one.", None),
        (INFECTION, "C is the answer most students pick, but it is a trap.", None),
        (INFECTION, "C is the answer that most people choose, and it is wrong.", None),
        (INFECTION, "C is the classic answer, but not here.", None),
        (INFECTION, "C is correct, and not just for the abscess.", "C"),
        (INFECTION, "C is the answer, but many pick D.", "C"),
        (INFECTION, "C is right, and it is wrong to give A.", "C"),
        (VERDICTS, "So that would be a yes.", "A"),
        (VERDICTS, "Some would argue → yes", None),
        (VERDICTS, "I can't say a clear yes or no. → Maybe", "C"),
        (VERDICTS, "If the arms were larger, so that would be a yes.", None),
    ],
)
def test_what_a_reply_concludes_with_is_read(
    choices: tuple[str, ...], text: str, letter: str | None
) -> None:
    assert read_choice(text, choices).value == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("That leaves us with (A) and (B). We can eliminate (A).\n\nThe answer is (B).", "B"),
        ("This leaves B and C. C is cheap.\n\nTherefore, the answer is C.", "C"),
        ("We are left with A) Aspirin and B) Heparin. The answer is B) Heparin.", "B"),
        ("That leaves B.\n\nB is ruled out. That leaves A.\n\nThe answer is A.", "A"),
        ("That leaves (A) and (B).", None),
        ("The answer is D. On reflection, this leaves A and B.", None),
        ("This leaves us with B. Therefore, the answer is D.", None),
        ("This leaves us with (A) aspirin and (B) heparin.", None),
        ("The answer is (A) aspirin and (B) heparin.", None),
        ("The answer is aspirin (A) and heparin (B).", None),
        ("The answer is either A or B.", None),
        ("Let us see.\nD) Alteplase\nB) Heparin\n\nTherefore, the answer is B.", "B"),
        ("Choice A is correct here. Choice D is correct as well.\n\nThe answer is D.", "D"),
        ("The answer is D.\n\nChoice A is correct. Choice B is correct as well.", None),
        ("The answer is (B) heparin, and (A) is wrong.", "B"),
    ],
)
def test_what_leaves_several_options_open_states_none(text: str, letter: str | None) -> None:
    assert read_choice(text, DRUGS).value == letter


CLOTS = ("Thrombosis", "Thrombolysis", "Embolism", "Stroke")


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("A clot in (A) is local. One that moves is (C). To dissolve one is called (B).", "B"),
        ("A clot in (A) is local. One that moves is (C). To dissolve one is not called (B).", None),
        ("The answer is A) Thrombolisis.", None),
        ("A) Thrombolisis is what dissolves a clot.", None),
        ("The answer is B) Thrombolisis.", "B"),
        ("The answer is A) Thrombosys.", "A"),
        ("The answer is A, which is thrombolisis.", None),
    ],
)
def test_a_letter_that_is_named_at_the_end_or_with_a_text_like_another(
    text: str, letter: str | None
) -> None:
    assert read_choice(text, CLOTS).value == letter


def test_texts_that_begin_alike_are_told_apart() -> None:
    options = ("Repeat the test and treat if positive", "Repeat the test and treat at once")
    assert (
        read_choice("The answer is B, which is repeat the test and treat at once.", options).value
        == "B"
    )


@pytest.mark.parametrize(
    ("first", "last", "letter"),
    [
        ("Yes, it works.", "Therefore, among A through C, the answer is C.", None),
        ("We look at two studies.", "Therefore, among A through C, the answer is C.", "C"),
        ("The answer is yes.", "The answer is B.", "A"),
    ],
)
def test_a_question_on_the_way_to_a_conclusion(first: str, last: str, letter: str | None) -> None:
    text = f"{first}\n\n2. What is the evidence?\n\nA) A trial.\nB) None at all.\n\n{last}"
    assert read_choice(text, ("yes", "no", "maybe")).value == letter
