import pytest

from medhelm_benchmarks.mtsamples import cut_section
from tests.cases import cases

HEADINGS = ("PLAN", "SUMMARY", "FINDINGS")


@pytest.mark.parametrize(("note", "cut"), cases(__file__, "the_section_and_the_note_around_it"))
def test_the_section_and_the_note_around_it(
    note: str, cut: tuple[str, str, str, str] | None
) -> None:
    assert cut_section(note, HEADINGS) == (cut and tuple(cut))


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
