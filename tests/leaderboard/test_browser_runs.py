"""The run page: its instances found, read, compared, linked; closed data stay closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from medhelm.schema.model import ModelSpec
from medhelm.schema.run import MetricRef
from tests.build_runs import EXACT
from tests.leaderboard.browsing import Opens, Reader, World, at, grid, rows_by_name, spelled
from tests.leaderboard.casting import CLOSED, data_of
from tests.leaderboard.worlds import ENDS, LIKERT, ONE, THREE, TWO, answers, case

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

PAGE = 50


def lines(name: str, model: ModelSpec, metric: MetricRef = EXACT) -> list[Any]:
    """Return (item, episode) of a run in the order of the site."""
    return sorted(answers(name, model, metric), key=lambda line: (line[0].id, line[0].repeat))


def listed(page: Page) -> list[str]:
    return page.locator("#list a .id > bdi").all_inner_texts()


def count(page: Page) -> str:
    return page.locator(".browser .count").inner_text()


def pane(page: Page) -> Locator:
    return page.get_by_role("region", name="Open instance")


def opened(page: Page) -> str:
    return page.locator("#open-id").inner_text()


def search(reader: Reader, text: str) -> Page:
    page = reader.page
    page.get_by_role("searchbox").fill(text)
    with reader.changes():
        page.keyboard.press("Enter")
    page.get_by_role("progressbar").wait_for(state="detached")
    return reader.wait()


# Filters -----------------------------------------------------------------------------------------


def test_filter_by_outcome(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open("run", "mishaps", ONE.name)
    own = lines("mishaps", ONE)
    assert count(page) == "18 answers" and listed(page) == [item.id for item, _ in own]
    options = page.get_by_label("Outcome", exact=True).locator("option").all_inner_texts()
    assert options == ["All (18)", *(f"{name} (2)" for name, _, _ in ENDS)]
    for outcome, _, text in ENDS:
        reader.choose("Outcome", outcome)
        wanted = [item.id for item, _ in own if item.outcome == outcome]
        assert listed(page) == wanted and opened(page) == wanted[0]
        assert count(page) == "2 of 18 answers"
        answer = page.get_by_role("region", name=f"Answer of {ONE.name}").inner_text()
        assert outcome in answer
        assert text.split("{")[0] in answer if text else "No text came." in answer
    assert page.get_by_text("http 500").count() == 0
    reader.choose("Outcome", "error")
    assert page.get_by_text("http 500").is_visible()
    with reader.changes():
        page.get_by_role("button", name="Reset filters").click()
    assert count(page) == "18 answers"


def test_filter_by_score_and_order(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open("run", "notes", ONE.name)
    values = {item.id: item.value for item, _ in lines("notes", ONE, LIKERT)}
    with reader.changes():
        page.get_by_label("Score from", exact=True).fill("4")
        page.keyboard.press("Tab")
    high = [i for i, v in values.items() if v >= 4]
    assert count(page) == f"{len(high)} of 160 answers" and listed(page) == high[:PAGE]
    with reader.changes():
        page.get_by_label("Score to", exact=True).fill("4")
        page.keyboard.press("Enter")
    assert count(page) == f"{sum(v == 4 for v in values.values())} of 160 answers"
    reader.go("run", "notes", ONE.name)
    reader.choose("Order", "low")
    assert listed(page)[0] == min(values, key=lambda i: (values[i], i))
    shown = page.locator("#list a .of").all_inner_texts()
    assert [float(s) for s in shown] == sorted(v for v in values.values())[:PAGE]


# Search ------------------------------------------------------------------------------------------


def test_search_in_cases_answers_and_ids(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open("run", "triage", TWO.name)
    assert listed(search(reader, "pAtient 7 OF")) == ["triage-007"]
    assert "1 of 40 answers" in page.locator(".search-state").inner_text()
    assert page.evaluate("CSS.highlights.get('found').size") >= 1
    wrong = [i.id for i, e in lines("triage", TWO) if "none of these" in e.response.text]
    assert 5 < len(wrong) < 35
    assert listed(search(reader, "none of these")) == wrong
    assert listed(search(reader, "triage-03")) == [f"triage-03{i}" for i in range(10)]
    assert listed(search(reader, "no such words")) == []
    assert page.get_by_text("No instance passes the filters.").is_visible()
    reader.choose("Outcome", "scored")
    assert "no+such+words" in page.url  # filters join the search


def test_search_in_what_judges_said(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open("run", "open", ONE.name)
    found = listed(search(reader, '"completeness": 4'))
    assert found == ["IDopen1", "IDopen2", "IDopen4", "IDopen5"]
    text = pane(page).inner_text()
    assert '{"accuracy": 5, "completeness": 4, "clarity": 5}' in text  # its details are open


def test_a_search_can_be_stopped_and_taken_up_again(opens: Opens, full: World) -> None:
    reader = opens(full)
    held: list[Any] = []
    # Before the page is there, since what is on disk is not intercepted later.
    reader.page.route("**/data/text-*-2.js", lambda route: held.append(route))
    page = reader.load("run", "notes", ONE.name)
    (run,) = reader.loaded("run")
    files = data_of(full.site, run.removesuffix(".js"))
    total = len(files["answers"]) + len(files["texts"])
    assert total >= 8
    page.get_by_role("searchbox").fill("patient 159 of")
    with reader.changes():
        page.keyboard.press("Enter")
    page.get_by_text(f"2 of {total} files searched").wait_for()
    page.get_by_role("button", name="Stop").click()
    (waiting,) = held
    waiting.continue_()
    page.get_by_text(f"Stopped after 2 of {total} files").wait_for()
    assert listed(page) == []
    before = len(reader.loaded("text")) + len(reader.loaded("answers"))
    assert before < total
    page.get_by_role("button", name="Search all").click()
    page.get_by_text("1 of 160 answers with").wait_for()
    assert listed(page) == ["notes-159"]
    page.unroute_all()


# Paging and files --------------------------------------------------------------------------------


def test_paging(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open("run", "notes", ONE.name)
    ids = [item.id for item, _ in lines("notes", ONE, LIKERT)]
    pager = page.get_by_role("navigation", name="Pages of the list")
    assert listed(page) == ids[:PAGE] and "Page 1 of 4" in pager.inner_text()
    assert pager.get_by_role("button", name="Page before").is_disabled()
    pager.get_by_role("button", name="Page after").click()
    assert listed(page) == ids[PAGE : 2 * PAGE] and "Page 2 of 4" in pager.inner_text()
    assert "page=2" in page.url
    pager.get_by_role("button", name="Last page").click()
    assert (
        listed(page) == ids[150:] and pager.get_by_role("button", name="Page after").is_disabled()
    )
    page.reload()
    reader.wait()
    assert listed(page) == ids[150:]
    pager.get_by_role("button", name="First page").click()
    assert listed(page) == ids[:PAGE]


def test_only_the_files_of_the_open_instance_are_read(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.load("run", "notes", ONE.name)
    files = data_of(full.site, reader.loaded("run")[0].removesuffix(".js"))
    texts, answers_ = ([f"{key}.js" for _, key in files[k]] for k in ("texts", "answers"))
    assert len(texts) >= 4 and len(answers_) >= 3
    assert reader.loaded("text") == texts[:1] and reader.loaded("answers") == answers_[:1]
    last = page.get_by_role("button", name="Last page")
    last.click()
    page.get_by_role("link", name="notes-159").click()
    page.locator("#open-id", has_text="notes-159").wait_for()
    assert "Patient 159 of notes" in pane(page).inner_text()
    assert reader.loaded("text") == [texts[0], texts[-1]]
    assert reader.loaded("answers") == [answers_[0], answers_[-1]]
    page.get_by_role("link", name="notes-158").click()  # of the files that are there already
    page.locator("#open-id", has_text="notes-158").wait_for()
    assert len(reader.loaded("text")) == len(reader.loaded("answers")) == 2
    assert page.locator("head script[src^='data/']").count() == 0  # none is left behind


# One instance ------------------------------------------------------------------------------------


def test_an_instance_is_shown_whole(opens: Opens, full: World) -> None:
    page = opens(full).open("run", "coding", ONE.name, instance="coding-003", repeat="1")
    instance = case("coding", 3)
    text = pane(page).inner_text()
    for expected in (instance.context, instance.question, *instance.references, "unit", "ward"):
        assert expected.strip() in text
    assert "900 in, 60 out" in text and "0.80 s" in text and "by itself" in text
    page.get_by_text("Prompt as sent (1 message)").click()
    message = page.locator(".message")
    message.first.wait_for()
    assert message.count() == 1  # the system prompt is not published
    assert instance.context.strip() in message.inner_text() and "user" in message.inner_text()
    repeats = page.locator(".repeats")
    assert repeats.locator("[aria-current]").inner_text() == "1"
    repeats.get_by_role("link", name="2").click()
    page.wait_for_url("**repeat=2")
    values = {(i.id, i.repeat): i.value for i, _ in lines("coding", ONE)}
    page.locator(".repeats [aria-current]", has_text="2").wait_for()
    assert page.locator(".verdict .value").inner_text() == f"{values['coding-003', 2]:.0f}"


def test_a_long_text_is_folded_and_opens(opens: Opens, full: World) -> None:
    page = opens(full).open("run", "notes", ONE.name)
    box = pane(page).locator(".textbox").first
    whole = case("notes", 0).context
    assert len(box.inner_text()) < 2000 < len(whole)
    box.get_by_role("button", name=f"Show all {len(whole):,} characters").click()
    box.get_by_role("button", name="Show less").wait_for()
    page.wait_for_timeout(200)  # it grows by frames
    assert box.locator(".long").text_content() == whole


def test_judges_of_an_answer(opens: Opens, full: World) -> None:
    page = opens(full).open("run", "open", ONE.name, instance="IDopen1")
    judges = pane(page).locator(".judges > li")
    assert judges.count() == 3
    strict = judges.first.inner_text().split()
    assert strict[:2] == ["judge/strict", "scored"]
    assert strict[2:8] == ["accuracy", "2", "completeness", "1", "clarity", "2"]
    judges.first.get_by_text("Its reply").click()
    reply = judges.first.locator(".long").inner_text()
    assert reply == '{"accuracy": 2, "completeness": 1, "clarity": 2}'
    scores = rows_by_name(page.get_by_role("table", name="Scores of this instance"))
    assert scores["jury[judge/strict]"][1] == "1.667" and {"jury", "rouge_l"} < set(scores)


def test_a_link_opened_cold_shows_the_same_instance(opens: Opens, full: World) -> None:
    first = opens(full)
    page = first.open("run", "notes", ONE.name)
    page.get_by_role("button", name="Page after").click()
    page.get_by_role("link", name="notes-077").click()
    page.locator("#open-id", has_text="notes-077").wait_for()
    first.wait()
    second = opens(full)
    other = second.page
    other.goto(page.url)
    second.wait()
    assert len(second.loaded("answers")) == 1
    assert opened(other) == "notes-077" == other.locator("#list [aria-current] bdi").inner_text()
    assert pane(other).inner_text() == pane(page).inner_text()
    assert listed(other) == listed(page)
    other = second.load("run", "notes", ONE.name, instance="nobody")
    assert "does not have: nobody" in other.locator("#unknown").inner_text()


def test_next_and_previous_by_keys_and_buttons(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open("run", "triage", ONE.name)
    page.locator("#list a").first.focus()
    for key, expected in (("j", 1), ("ArrowDown", 2), ("j", 3), ("k", 2), ("ArrowUp", 1)):
        page.keyboard.press(key)
        page.locator("#open-id", has_text=f"triage-00{expected}").wait_for()
        assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"
    assert "Instance triage-001: scored" in page.get_by_role("status").inner_text()
    previous, following = (
        page.get_by_role("button", name=f"{n} instance") for n in ("Previous", "Next")
    )
    following.click()
    page.locator("#open-id", has_text="triage-002").wait_for()
    previous.click()
    page.locator("#open-id", has_text="triage-001").wait_for()
    previous.press("Enter")
    page.locator("#open-id", has_text="triage-000").wait_for()
    assert previous.is_disabled() and "instance=triage-000" in page.url
    assert page.evaluate("document.activeElement.id") == "go-next"  # the focus is not lost


# Two models --------------------------------------------------------------------------------------


def test_two_models_side_by_side(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open("run", "triage", ONE.name, instance="triage-005")
    reader.choose("Beside it (B)", TWO.name)
    assert opened(page) == "triage-005"  # the instance stays
    own = {m.name: {i.id: i.value for i, _ in lines("triage", m)} for m in (ONE, TWO)}
    for model in (ONE, TWO):
        answer = page.get_by_role("region", name=f"Answer of {model.name}", exact=True)
        assert (
            answer.locator(".verdict .value").inner_text() == f"{own[model.name]['triage-005']:.0f}"
        )
    differing = [i for i in own[ONE.name] if own[ONE.name][i] != own[TWO.name][i]]
    higher = [i for i in differing if own[ONE.name][i] > own[TWO.name][i]]
    assert 0 < len(higher) < len(differing) < 40
    assert page.locator("#list li.differs").count() == len(differing)
    reader.choose("Differences", "any")
    assert listed(page) == differing
    assert "scores differ: " in pane(page).inner_text().lower()
    reader.choose("Differences", "higher")
    assert listed(page) == higher
    pairs = page.locator("#list a").first.locator(".of").all_inner_texts()
    assert pairs == ["1", "0"]
    with reader.changes():
        page.get_by_role("link", name="Swap A and B").click()
    assert page.locator("h1").inner_text().startswith(TWO.name)
    assert opened(page) == higher[0]
    scores = grid(page.get_by_role("table", name="Scores of this instance"))
    assert scores[1] == ["exact_match", "0", "1", "differs"]


def test_side_by_side_where_one_has_no_answer(opens: Opens, full: World) -> None:
    path = ("run", "mishaps", ONE.name)
    reader = opens(full)
    page = reader.open(*path, **{"with": TWO.name, "instance": "mishaps-017"})
    answer = page.get_by_role("region", name=f"Answer of {TWO.name}", exact=True)
    assert "no answer to this instance" in answer.inner_text()
    page = reader.open(*path, **{"with": "lab/nobody"})
    assert page.get_by_text("a second model that has no run").is_visible()


# Closed data and the other tabs ------------------------------------------------------------------


@pytest.mark.parametrize("name", CLOSED)
def test_closed_benchmarks_show_scores_and_hashes_only(
    opens: Opens, full: World, name: str
) -> None:
    reader = opens(full)
    page = reader.load("run", name, ONE.name)
    ids = listed(page)
    assert len(ids) == 6 and all(len(i) == 16 and int(i, 16) >= 0 for i in ids)
    assert "scores and hashes only" in page.locator("#no-text").inner_text()
    assert pane(page).count() == 0 and page.get_by_text("Search hashes").is_visible()
    assert reader.loaded("text") == reader.loaded("answers") == []
    scores = [float(s) for s in page.locator("#list a .of").all_inner_texts()]
    table = full.table("benchmarks")
    row = next(r for r in table.rows if (r["benchmark"], r["model"]) == (name, ONE.name))
    assert sum(scores) / 6 == pytest.approx(row["score"], abs=1e-3)
    assert listed(search(reader, ids[3][:9])) == [ids[3]]
    reader.go("run", name, ONE.name, **{"with": TWO.name})
    assert listed(page) == ids and pane(page).count() == 0
    assert "CANARY" not in page.content()
    page = reader.go("benchmark", name)
    closed = "The instruction of this benchmark is not published."
    assert (closed in page.locator("main").inner_text()) == (name != "unlicensed")
    assert "CANARY" not in page.content()


def test_results_and_usage_of_a_run(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open("run", "mishaps", TWO.name)
    assert "before its end: 14" in page.locator("main").inner_text()
    table = full.table("benchmarks", metrics="all")
    row = next(r for r in table.rows if (r["benchmark"], r["model"]) == ("mishaps", TWO.name))
    headline = page.locator(".headline").inner_text()
    assert spelled(table, row, "score") in headline.replace("\n", " ")
    assert spelled(table, row, "coverage") in headline and "not run 4" in headline
    with reader.changes():
        page.get_by_role("link", name="Results and usage").click()
    assert page.url.endswith(at("run", "mishaps", TWO.name, tab="results"))
    shown = rows_by_name(page.get_by_role("table", name="Results by metric"))["exact_match"]
    assert shown[1] == spelled(table, row, "score") and shown[3] == spelled(table, row, "n")
    outcomes = rows_by_name(page.get_by_role("table", name="Outcomes on the main metric"))
    assert outcomes["error"][1:3] == ["1", "5.6 %"] and outcomes["scored"][1] == "2"
    facts = page.locator("dl.numbers").inner_text()
    assert "16,200" in facts and spelled(table, row, "cost_usd") in facts


def test_settings_and_judges_of_a_run(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open("run", "open", THREE.name, tab="settings")
    command = page.locator(".command").first.inner_text()
    assert f"medhelm run benchmark=open model={THREE.name} data=full jury=panel" in command
    text = page.locator("main").inner_text()
    assert "CANARY" not in text and "sha256" in text and "request hash" in text
    page = reader.go("run", "open", THREE.name, tab="results")
    judges = rows_by_name(page.get_by_role("table", name="Judges", exact=True))
    assert {name: row[1] for name, row in judges.items()} == {
        "judge/strict": "6",
        "judge/mild": "6",
        "judge/own": "6",
    }
