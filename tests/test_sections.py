import pytest

from medhelm import cut_section

HEADINGS = ("PLAN", "SUMMARY", "FINDINGS")


@pytest.mark.parametrize(
    ("note", "cut"),
    [
        ("Fever.PLAN: Fluids.\nKeywords: x", ("PLAN", "Fluids.", "Fever.")),
        ("Fever. FINDINGS: Rash. PLAN:  Fluids. ", ("PLAN", "Fluids.", "Fever. FINDINGS: Rash.")),
        ("Cough. FINDINGS: Rales.\nPLAN:\nRest.", ("FINDINGS", "Rales.", "Cough.")),
        ("Cough.\nASSESSMENT AND PLAN: Rest.", ("PLAN", "Rest.", "Cough.")),
        ("Cough.ASSESSMENT/PLAN: Rest.", ("PLAN", "Rest.", "Cough.")),
        ("Has COPD. SUMMARY: Stable.", ("SUMMARY", "Stable.", "Has COPD.")),
        ("Plan: rest. PLAN: Rest. PLAN: More.", ("PLAN", "Rest. PLAN: More.", "Plan: rest.")),
        ("No section. Plan: rest.", None),
        ("PLAN:\nSUMMARY: \nFINDINGS:", None),
        ("", None),
    ],
)
def test_the_section_and_what_stands_before_it(note: str, cut: tuple[str, str, str] | None) -> None:
    assert cut_section(note, HEADINGS) == cut


def test_a_section_that_was_said_before_is_not_left_in_the_note() -> None:
    note = "Hip fracture. Rehab as soon as\n cleared. Alert.\nPLAN: Rehab as soon  as cleared."
    assert cut_section(note, HEADINGS) == (
        "PLAN",
        "Rehab as soon  as cleared.",
        "Hip fracture.  Alert.",
    )
    assert cut_section("Rest. Alert. PLAN: Rest.", HEADINGS) == ("PLAN", "Rest.", "Rest. Alert.")
