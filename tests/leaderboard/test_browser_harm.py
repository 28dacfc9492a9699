"""The page Harm and labelled cases in a browser: the table's numbers, and the way to each label."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.leaderboard.browsing import Opens, World, grid, opened, rows_by_name, spelled
from tests.leaderboard.labelling import CLOSED, bundled, labels_of

pytestmark = pytest.mark.browser

UNVALIDATED = "Ratings of synthetic cases are not validated by clinicians"
SEVERITIES = ("mild", "moderate", "severe")


def rows(world: World, level: str, benchmark: str = "labelled") -> list[Mapping[str, Any]]:
    table = world.table("harm")
    return [r for r in table.rows if (r["level"], r["benchmark"]) == (level, benchmark)]


# The numbers -------------------------------------------------------------------------------------


def test_the_papers_table_is_that_of_the_command(opens: Opens, labelled: World) -> None:
    table = labelled.table("harm")
    page = opens(labelled).open("harm")
    found = grid(page.get_by_role("table", name="Safety, completeness and restraint by model"))
    heads = ["Overall", "Safety", "Completeness", "Restraint", "Severe harm rate", "NNH", "n"]
    assert found[0] == ["model", *heads]
    shown = {row[0].split(" ")[0]: row for row in found[1:]}
    own = rows(labelled, "model")
    assert list(shown) == [r["model"] for r in own] and len(own) == 6  # by Overall
    for row in own:
        cells = shown[row["model"]]
        names = ("overall", "safety", "completeness", "restraint")
        assert cells[1:5] == [spelled(table, row, name) for name in names]
        assert cells[5].startswith(spelled(table, row, "severe_rate"))
        assert f"{row['severe_cases']} of {row['n']} cases" in cells[5]
        assert cells[7] == str(row["n"]) == ("11" if row["model"] == "vendor/coarse" else "12")
        if row["nnh"] is not None:
            assert cells[6] == spelled(table, row, "nnh", "nnh_low", "nnh_high").replace(
                f"{row['nnh_low']:,.2f}", f"{row['nnh_low']:,.1f}"
            )


def test_a_model_without_a_severe_error_is_told_with_what_that_leaves_open(
    opens: Opens, labelled: World
) -> None:
    page = opens(labelled).open("harm")
    shown = rows_by_name(page.get_by_role("table", name="Safety, completeness"))
    severe, nnh = shown["baseline/oracle"][5:7]
    assert severe == "0.000 [0.000, 0.221] 0 of 12 cases one-sided"
    assert nnh.startswith("– (no severe error was seen)") and nnh.endswith("at least 4.5")
    assert "one-sided" not in shown["baseline/random"][5]


def test_what_was_asked_and_read(opens: Opens, labelled: World) -> None:
    page = opened(opens(labelled).open("harm"))
    shown = rows_by_name(page.get_by_role("table", name="Cases asked and read by model"))
    assert shown["vendor/coarse"][1:9] == [
        "12",
        "11",
        "11",
        "11",
        "1 unparsed",
        "6",
        "5",
        "0",
    ]
    assert shown["lab/bold"][1:9] == ["12", "12", "12", "0", "", "0", "0", "0"]


def test_charts_show_the_counts(opens: Opens, labelled: World) -> None:
    reader = opens(labelled, has_charts=True)
    page = opened(reader.open("harm"))
    figure = page.get_by_role("figure", name="Errors by severity", exact=True)
    assert "vendor/coarse 11 of 12" in figure.locator("figcaption").inner_text()
    own = [r for r in rows(labelled, "model") if r["model"] != "baseline/oracle"]
    drawn = "e => e.data.map((t) => [t.name, t.x, t.hovertext])"
    traces = figure.locator(".plot").evaluate(drawn)
    for (name, x, hover), severity in zip(traces, SEVERITIES, strict=True):
        assert (name, x) == (severity, [r[severity] for r in own])
        place = [r["model"] for r in own].index("vendor/coarse")
        assert f"commissions {own[place][f'commissions_{severity}']}" in hover[place]
        assert "11 of 11 cases read" in hover[place]
    fills = [figure.locator(".plot .trace.bars").nth(i).locator("path").first for i in range(3)]
    light = [
        sum(map(int, re.findall(r"\d+", f.evaluate("e => getComputedStyle(e).fill"))[:3]))
        for f in fills
    ]
    assert light == sorted(light, reverse=True)  # the graver the darker
    behind = rows_by_name(figure.locator("table"))
    assert behind["lab/bold"][3:9] == [
        spelled(labelled.table("harm"), next(r for r in own if r["model"] == "lab/bold"), c)
        for c in ("errors", "errors_per_case", *SEVERITIES, "severe_per_error")
    ]


@pytest.mark.parametrize("of", ["", "severe"])
def test_shares_of_omissions_and_commissions(opens: Opens, labelled: World, of: str) -> None:
    table = labelled.table("harm")
    page = opens(labelled, has_charts=True).open("harm", **({"of": of} if of else {}))
    figure = page.get_by_role("figure", name="Omissions and commissions")
    own = [r for r in rows(labelled, "model") if r[of or "errors"]]
    traces = figure.locator(".plot").evaluate("e => e.data.map((t) => [t.name, t.x, t.hovertext])")
    assert [name for name, _, _ in traces] == ["omissions", "commissions"]
    for name, x, hover in traces:
        share = f"{of}_{name[:-1]}_share" if of else f"{name[:-1]}_share"
        count = f"{name}_severe" if of else name
        assert x == pytest.approx([100 * r[share] for r in own])
        for row, text in zip(own, hover, strict=True):
            assert f"{spelled(table, row, share)} ({row[count]})" in text
    (whole,) = rows(labelled, "all models")
    said = page.locator("#over-all").inner_text()
    assert f"among them: {whole['errors']} errors" in said
    assert f"{spelled(table, whole, 'omission_share')} omissions ({whole['omissions']})" in said
    assert f"Of {whole['severe']} severe ones" in said


@pytest.mark.parametrize("level", ["category", "specialty"])
@pytest.mark.parametrize(
    ("show", "column"), [("", "errors"), ("severe", "severe"), ("share", "share")]
)
def test_where_errors_lie(
    opens: Opens, labelled: World, level: str, show: str, column: str
) -> None:
    table = labelled.table("harm")
    page = opens(labelled).open("harm", **({"show": show} if show else {}))
    found = grid(page.get_by_role("grid", name=re.compile(f"by {level} and model")))
    models = found[0][1:]
    own = {(r[level], r["model"] or "all ranked models"): r for r in rows(labelled, level)}
    assert "baseline/oracle" not in models and models[-1] == "all ranked models"
    assert len(found) - 1 == len({name for name, _ in own})
    for name, *cells in found[1:]:
        for model, cell in zip(models, cells, strict=True):
            row = own[name, model.replace(" ", "") if "/" in model else model]
            assert cell.split(" (")[0] == spelled(table, row, column)
    if level == "specialty":  # of which the only case could not be read
        assert own[bundled()[0].specialty, "vendor/coarse"]["errors"] is None


# The run -----------------------------------------------------------------------------------------


def test_a_case_shows_rubric_label_and_error_of_each_action(opens: Opens, labelled: World) -> None:
    made = next(c for c in bundled() if c.alternatives)
    page = opens(labelled).open("run", "labelled", "lab/bold", instance=made.code)
    page.locator("summary", has_text="actions with the rubric").click()
    found = grid(page.get_by_role("table", name="Actions with their rubric"))
    assert found[0] == ["action", "rubric", "label given"]
    said = labels_of(made, "lab/bold")
    for action, (first, rubric, label) in zip(made.actions, found[1:], strict=True):
        assert first.startswith(f"{action.id} {action.text} {action.category}")
        assert rubric.startswith(str(sorted(action.ratings)[1]))
        assert rubric.endswith(f"rated {', '.join(map(str, action.ratings))}")
        assert label.split(" ")[0] == said[action.id].lower()
        median = sorted(action.ratings)[1]
        is_commission = median <= 3 and said[action.id] == "Appropriate"
        assert ("commission" in label) == is_commission
    pane = page.locator("#pane").inner_text()
    assert "actions" not in page.locator("#pane dl").all_inner_texts()
    assert '"ratings"' not in pane  # the raw case is not shown


def test_errors_in_words_the_gravest_first(opens: Opens, labelled: World) -> None:
    reader = opens(labelled)
    seen = 0
    for place, made in enumerate(bundled()[1:5], start=1):
        page = reader.open("run", "labelled", "vendor/coarse", instance=made.code)
        page.locator("#open-id", has_text=made.code).wait_for()
        words = page.locator(".errors li").all_inner_texts()
        order = [SEVERITIES[::-1].index(w.split(" ")[0]) for w in words]
        assert order == sorted(order)
        texts = {a.id: a.text for a in made.actions}
        for word in words:
            _, kind, name, text = word.split(" ", 3)
            assert kind in ("omission", "commission") and text == texts[name]
        seen += len(words)
        answer = page.get_by_role("region", name="Answer of vendor/coarse").inner_text()
        first, second = (a.id for a in made.actions[:2])
        expected = (
            f"Without a label: {first}." if place % 2 else f"With an invalid label: {second}."
        )
        assert expected in answer
    assert seen > 5
    page = reader.open("run", "labelled", "vendor/coarse", instance=bundled()[0].code)
    assert "the case is in no score" in page.locator("#pane").inner_text()
    page = reader.open("run", "labelled", "baseline/oracle")
    assert "None." in page.get_by_role("region", name="Answer of").inner_text()


def test_two_models_label_side_by_side(opens: Opens, labelled: World) -> None:
    made = bundled()[3]
    query = {"with": "vendor/shy-70b-instruct", "instance": made.code}
    page = opens(labelled).open("run", "labelled", "lab/bold", **query)
    page.locator("summary", has_text="actions with the rubric").click()
    found = grid(page.get_by_role("table", name="Actions with their rubric"))
    assert found[0][2:] == ["A lab/bold", "B vendor/shy-70b-instruct"]
    for action, row in zip(made.actions, found[1:], strict=True):
        for cell, name in zip(row[2:], ("lab/bold", "vendor/shy-70b-instruct"), strict=True):
            assert cell.split(" ")[0] == labels_of(made, name)[action.id].lower()


@pytest.mark.parametrize("name", CLOSED)
def test_closed_cases_show_counts_and_no_word(opens: Opens, labelled: World, name: str) -> None:
    reader = opens(labelled)
    page = opened(reader.open("harm", benchmark=name))
    shown = rows_by_name(page.get_by_role("table", name="Safety, completeness"))
    assert set(shown) == {"lab/bold", "lab/careful"}
    assert page.get_by_role("grid", name="Errors by category").is_visible()
    assert "Not published: a specialty" in page.locator("main").inner_text()
    assert "CANARY" not in page.content() and "SPECIALTY" not in page.content()
    page = reader.go("run", name, "lab/bold")
    assert "scores and hashes only" in page.locator("#no-text").inner_text()
    assert page.locator("#pane").count() == 0 and "CANARY" not in page.content()


# What stands above -------------------------------------------------------------------------------


def test_every_score_of_labelled_actions_stands_below_the_note(
    opens: Opens, labelled: World, full: World
) -> None:
    reader = opens(labelled)
    reader.open()
    for path in (("harm",), ("benchmark", "labelled"), ("run", "labelled", "lab/bold")):
        page = reader.go(*path)
        mark, table = (
            page.locator(".mark.warn", has_text=UNVALIDATED),
            page.locator("table, .headline").first,
        )
        assert mark.is_visible(), path
        above, below = mark.bounding_box(), table.bounding_box()
        assert above is not None and below is not None and above["y"] < below["y"]
    for path in (("run", "labelled_kept", "lab/bold"), ("benchmark", "labelled_kept")):
        page = reader.go(*path)
        assert page.get_by_text(UNVALIDATED).count() == 0, path
        said = page.locator(".mark", has_text="experts'").inner_text()  # who they are stays closed
        assert said == "labelled_kept: the ratings of 4 of 4 cases are experts'."
    with reader.changes():
        page.get_by_role("link", name="Its errors by severity").click()
    assert page.get_by_label("Benchmark", exact=True).input_value() == "labelled_kept"
    other = opens(full)
    page = other.open("benchmark", "triage")
    assert page.get_by_text(UNVALIDATED).count() == 0
    assert page.get_by_role("link", name="Harm", exact=True).count() == 0
    assert "no benchmark" in other.go("harm").locator("#nothing").inner_text().lower()


# For every reader --------------------------------------------------------------------------------

# Fill of each bar and of the number on it.
_BARS = """() => [...document.querySelectorAll(".plot .point")].filter((p) => p.querySelector(".bartext"))
  .map((p) => [p.querySelector("path"), p.querySelector(".bartext")].map((e) => getComputedStyle(e).fill.match(/[\\d.]+/g).map(Number)))"""


def luminance(rgb: list[float]) -> float:
    r, g, b = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)
    )
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_on_bars_can_be_read(opens: Opens, labelled: World, scheme: Any) -> None:
    page = opens(labelled, scheme=scheme, has_charts=True).open("harm")
    found = page.evaluate(_BARS)
    assert len(found) > 15 and len({str(bar) for bar, _ in found}) == 5
    for bar, ink in found:
        dark, light = sorted((luminance(bar), luminance(ink)))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (bar, ink)
