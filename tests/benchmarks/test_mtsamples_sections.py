import pytest

from medhelm_benchmarks.mtsamples import cut_section

HEADINGS = ("PLAN", "SUMMARY", "FINDINGS")


@pytest.mark.parametrize(
    ("note", "cut"),
    [
        (
            "Fever.\nPLAN: Rest.\nSent home. \nKeywords: x\n",
            ("PLAN", "Rest.", "Fever.", "Sent home. \nKeywords: x"),
        ),
        ("Fever.PLAN: Fluids.\nKeywords: x", ("PLAN", "Fluids.", "Fever.", "Keywords: x")),
        (
            "Fever. FINDINGS: Rash. PLAN:  Fluids. ",
            ("PLAN", "Fluids.", "Fever. FINDINGS: Rash.", ""),
        ),
        ("Cough. FINDINGS: Rales.\nPLAN:\nRest.", ("FINDINGS", "Rales.", "Cough.", "PLAN:\nRest.")),
        ("Cough.\nASSESSMENT AND PLAN: Rest.", ("PLAN", "Rest.", "Cough.", "")),
        ("Cough.ASSESSMENT/PLAN: Rest.", ("PLAN", "Rest.", "Cough.", "")),
        ("Has COPD. SUMMARY: Stable.", ("SUMMARY", "Stable.", "Has COPD.", "")),
        ("Plan: rest. PLAN: Rest. PLAN: More.", ("PLAN", "Rest. PLAN: More.", "Plan: rest.", "")),
        ("No section. Plan: rest.", None),
        ("PLAN:\nSUMMARY: \nFINDINGS:", None),
        ("", None),
    ],
)
def test_the_section_and_the_note_around_it(
    note: str, cut: tuple[str, str, str, str] | None
) -> None:
    assert cut_section(note, HEADINGS) == cut


def test_a_section_that_was_said_elsewhere_is_not_left_in_the_note() -> None:
    note = (
        "Hip fracture. Rehab as soon as\n cleared. Alert.\nPLAN: Rehab as soon  as cleared.\n"
        "Told: rehab as soon as cleared. Well."
    )
    assert cut_section(note, HEADINGS) == (
        "PLAN",
        "Rehab as soon  as cleared.",
        "Hip fracture.  Alert.",
        "Told:  Well.",
    )
    assert cut_section("Rest. Alert. PLAN: Rest.", HEADINGS) == (
        "PLAN",
        "Rest.",
        "Rest. Alert.",
        "",
    )
