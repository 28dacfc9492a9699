"""The page Harm where something is missing: nothing may look safer, or other, than it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from medhelm.tables.format.table import Settings
from medhelm_benchmarks.noharm.tables.harm_notes import UNVALIDATED
from medhelm_leaderboard.site import SiteOptions
from tests.leaderboard.browsing import DRAWS, Opens, World, grid, make, rows_by_name, spelled
from tests.leaderboard.labelling import EXPERTS, bundled, write_uneven

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def uneven(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A site of labelled actions with gaps."""
    options = SiteOptions(settings=Settings(draws=DRAWS))
    return make(write_uneven, tmp_path_factory.mktemp("uneven"), options)


def whole(world: World, benchmark: str) -> Mapping[str, Any]:
    (row,) = (
        r
        for r in world.table("harm").rows
        if (r["benchmark"], r["level"]) == (benchmark, "all models")
    )
    return row


def test_a_model_of_fewer_cases_is_marked_wherever_its_errors_are_counted(
    opens: Opens, uneven: World
) -> None:
    page = opens(uneven).open("harm", benchmark="labelled")
    shown = rows_by_name(page.get_by_role("table", name="Safety, completeness"))
    marked = {name for name, row in shown.items() if "fewer cases" in " ".join(row)}
    assert marked == {"lab/lost", "lab/silent"}
    table = uneven.table("harm")
    read = {
        r["model"]: spelled(table, r, "read")
        for r in table.rows
        if (r["benchmark"], r["level"]) == ("labelled", "model")
    }
    assert [float(read[name]) for name in ("lab/lost", "lab/silent")] == [7, 0]
    said = f"of fewer: lab/lost {read['lab/lost']} of 12, lab/silent {read['lab/silent']} of 12."
    caption = page.get_by_role("figure", name="Errors by severity", exact=True)
    assert said in caption.locator("figcaption").inner_text()
    assert said in page.locator("h2#where + p").inner_text()


def test_why_restraint_is_missing(opens: Opens, uneven: World) -> None:
    page = opens(uneven).open("harm", benchmark="labelled")
    shown = rows_by_name(page.get_by_role("table", name="Safety, completeness"))
    assert shown["lab/silent"][4] == "– (no case was read)"


def test_sums_over_models_are_not_told_as_cases(opens: Opens, uneven: World) -> None:
    page = opens(uneven).open("harm", benchmark="labelled")
    heat = page.get_by_role("grid", name="Errors by category and model")
    heat.locator("tbody tr").first.locator("td .spot").last.hover()
    row, table = whole(uneven, "labelled"), uneven.table("harm")
    tip = page.get_by_role("tooltip").inner_text()
    assert f"{spelled(table, row, 'read')} replies read, of {row['models']} models" in tip


def test_means_over_repeats_keep_their_digit(opens: Opens, uneven: World) -> None:
    page = opens(uneven).open("harm", benchmark="labelled_gated")
    row = whole(uneven, "labelled_gated")
    assert row["errors"] % 1 == 0.5  # else the test could not fail
    said = page.locator("#over-all").inner_text()
    assert f"among them: {row['errors']:.1f} errors" in said
    caption = page.get_by_role("figure", name="Errors by severity", exact=True)
    assert "Counts are means over repeats." in caption.locator("figcaption").inner_text()


def test_whose_ratings_they_are_is_told_of_the_cases(opens: Opens, uneven: World) -> None:
    reader = opens(uneven)
    said = f"the ratings of 5 of 12 cases are experts', validated by {EXPERTS}, 2026-11-01."
    for path in (("harm",), ("benchmark", "labelled"), ("run", "labelled", "lab/bold")):
        page = reader.open(*path)
        marks = page.locator("main .mark").all_inner_texts()
        assert marks[:2] == [UNVALIDATED, f"labelled: {said}"], path


def test_no_error_at_all_and_nobody_to_compare(opens: Opens, uneven: World) -> None:
    reader = opens(uneven)
    page = reader.open("harm", benchmark="labelled_private")
    assert page.locator("#over-all").inner_text() == "Over all 1 ranked model: no error."
    assert "No model made an error" in page.locator("h3#category + p").inner_text()
    page = reader.go("harm", benchmark="labelled_kept")
    text = page.locator("main").inner_text()
    assert "Only models that read" in text
    assert "could be read" not in text


def test_without_a_severe_error_comes_first_by_number_needed_to_harm(
    opens: Opens, labelled: World
) -> None:
    page = opens(labelled).open("harm", benchmark="labelled")
    table = page.get_by_role("table", name="Safety, completeness and restraint by model")
    table.get_by_role("button", name="NNH").click()
    names = [row[0].split(" ")[0] for row in grid(table)[1:]]
    assert names[:2] == ["baseline/oracle", "lab/careful"]


def test_a_lost_table_is_not_told_as_no_labelled_actions(opens: Opens, labelled: World) -> None:
    page = opens(labelled).open("about")
    page.evaluate("() => medhelm.scorings.get('fixed').tables.delete('harm')")
    page.evaluate("() => { location.hash = '#/harm'; }")
    assert "the page About says why" in page.locator("#nothing").inner_text()
    page.reload()


def test_guidelines_of_a_rubric_are_searched(opens: Opens, labelled: World) -> None:
    made = bundled()[0]
    reference = next(r for a in made.actions for r in a.references)
    wanted = {c.code for c in bundled() if any(reference in a.references for a in c.actions)}
    page = opens(labelled).open("run", "labelled", "lab/bold")
    page.get_by_role("searchbox").fill(reference)
    page.get_by_role("searchbox").press("Enter")
    found = page.locator(".search-state", has_text=f"{len(wanted)} of 12 answers")
    found.wait_for()
    assert "with" in found.inner_text()
