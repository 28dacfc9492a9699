"""Lists that the budget cut, and lists that contradict one another."""

from __future__ import annotations

import pytest

from medhelm.extract import Reading, extract_codes, extract_labels, read_codes, read_labels

CLINICS = ("Cardiology", "Neurology", "Renal medicine")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("Cardiology, neurology, ren", ("Cardiology", "Neurology")),
        ("Cardiology, neurology", ("Cardiology",)),  # the last item may go on
        ("- Cardiology\n- Neurology\n- R", ("Cardiology", "Neurology")),
        ('["Cardiology", "Neurology", "Ren', ("Cardiology", "Neurology")),
        ("The labels are cardiology, neurology, re", ("Cardiology", "Neurology")),
        ("Answer: cardiology, neurology\n\nBecause of", ("Cardiology", "Neurology")),
        ("Cardiology", None),
        ("The patient was seen by cardiology last year, then", None),
        ("The patient has chest pain, so cardiology, or neurology, ", None),
        ("none", None),
    ],
)
def test_the_last_item_of_a_cut_list_is_dropped(text: str, labels: tuple[str, ...] | None) -> None:
    assert read_labels(text, CLINICS, is_cut=True).value == labels


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("sepsis, anaemia, acute kid", ("sepsis", "anaemia")),
        ("The note of this man who was admitted last week, then", None),
    ],
)
def test_open_labels_of_a_cut_list(text: str, labels: tuple[str, ...] | None) -> None:
    assert read_labels(text, is_cut=True).value == labels


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("I10, E11.9, N18", ("I10", "E119")),
        ("1. Hypertension: I10\n2. Diabetes: E11.9\n3. CKD: N1", ("I10", "E119")),
        ("Answer: I10, E11.9\n\nHypertension is", ("I10", "E119")),
        ("The patient has J10.1 in the history and", None),
        ("I10", None),
    ],
)
def test_codes_of_a_cut_list(text: str, codes: tuple[str, ...] | None) -> None:
    assert read_codes(text, is_cut=True).value == codes


def test_reasons() -> None:
    differ = Reading(None, "lists that differ are marked as final")
    assert read_codes("Answer: I10\n\nHmm.\n\nAnswer: E11.9") == differ
    assert read_labels("Answer: cardiology\n\nAnswer: neurology", CLINICS) == differ
    assert read_codes("Answer: I10, E11.9\n\nFinal answer: E11.9, I10").value == ("E119", "I10")
    assert read_labels("Hello.", CLINICS) == Reading(None, "nothing is listed")
    assert read_codes("I1", is_cut=True) == Reading(None, "the reply was cut before its list")


def test_a_next_question_is_not_part_of_the_list() -> None:
    assert read_codes("I10\nE11.9\n\nPatient note: a man with J10.1").value == ("I10", "E119")


MENU = ("cardiology", "nephrology", "neurology", "oncology")


@pytest.mark.parametrize(
    ("text", "is_cut", "labels"),
    [
        ("| cardiology | no |\n| oncology | yes |\n\nFinal labels: oncology", False, ("oncology",)),
        ("| neurology | 0 |\n| oncology | 1 |", False, ("oncology",)),
        ("neurology: absent, cardiology: present", False, ("cardiology",)),
        ("Allowed labels: cardiology, nephrology", False, None),
        ("Allowed labels:\n- cardiology\n- oncology\n\nLabels: oncology", False, ("oncology",)),
        ("cardiology\n\nNote: a stroke.\nLabels: neurology", True, ("cardiology",)),
        ("Note: chest pain.\nLabels: cardiology", False, ("cardiology",)),
        ("Predicted labels: cardiology\nFinal labels: oncology", False, None),
    ],
)
def test_what_is_marked_as_the_list_counts(
    text: str, is_cut: bool, labels: tuple[str, ...] | None
) -> None:
    assert read_labels(text, MENU, is_cut=is_cut).value == labels


@pytest.mark.parametrize(
    ("reply", "codes"),
    [
        ("Not E11.9. I10", ("I10",)),
        ("I10\nNot coded: N17.9, Z3A20", ("I10",)),
        ("I10\nExcluded: N17.9, Z3A20", ("I10",)),
        ("I10\n**Ruled out:** N17.9\nE11.9", ("I10", "E119")),
        ("I10\nNot coded:\n- N17.9\n- Z3A20", ("I10",)),
        ('{"codes": ["I10"], "excluded": ["E11.9"]}', ("I10",)),
        ("I10, not E11.9 or E11.8, N17.9", ("I10", "N179")),
        ("I10\nE11.9 (ruled out)", ("I10",)),
        ("I10; E11.9 is not coded", ("I10",)),
        ("I10\nN17.9 Acute kidney failure - not documented", ("I10",)),
        ("E11.9 \u2013 I13.9", None),
        ("E11.9 to E11.65", None),
        ("E11.9 - I13.9, I10", ("I10",)),
        ("Not coded: N17.9, Z3A20", None),
        ("E11.9 Type 2 diabetes mellitus without complications, I10", ("E119", "I10")),
        ("Type 2 diabetes mellitus without complications: E11.9", ("E119",)),
        ("Z03.89 Encounter for observation for other suspected conditions ruled out", ("Z0389",)),
        ("I10 - Essential (primary) hypertension", ("I10",)),
        ("J18.9: Pneumonia, not otherwise specified", ("J189",)),
    ],
)
def test_codes_that_are_denied_or_bound_a_range_are_not_given(
    reply: str, codes: tuple[str, ...] | None
) -> None:
    assert extract_codes(reply) == codes


SPECIALTIES = ("cardiology", "neurology", "urology")


@pytest.mark.parametrize(
    ("reply", "labels"),
    [
        ("- [x] cardiology\n- [ ] neurology\n- [x] urology", ("cardiology", "urology")),
        ("\u2611 cardiology\n\u2610 neurology", ("cardiology",)),
        ("\u274c cardiology\n\u2705 neurology", ("neurology",)),
        ("- [ ] cardiology\n- [ ] neurology", None),
        ("cardiology (ruled out)\nneurology", ("neurology",)),
        ("Although cardiology is tempting, neurology fits.", ("neurology",)),
    ],
)
def test_boxes_without_a_tick_and_crosses_give_no_label(
    reply: str, labels: tuple[str, ...] | None
) -> None:
    assert extract_labels(reply, SPECIALTIES) == labels


def test_ticks_are_no_part_of_a_label_or_a_code() -> None:
    assert extract_labels("- [x] sepsis\n- [ ] stroke") == ("sepsis",)
    assert extract_labels("\u2705 sepsis\n\u274c stroke") == ("sepsis",)
    assert extract_codes("- [x] I10\n- [ ] E11.9") == ("I10",)
    assert extract_labels("[]") == ()
