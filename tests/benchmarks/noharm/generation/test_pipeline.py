"""From a guideline to cases: what is made, mended, discarded, paid for, and found again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import DataError, UsageError
from medhelm.extract.json_reply import BadReply
from medhelm.models.scripted import ScriptedModel
from medhelm.protocols.protocol import terms_of
from medhelm.protocols.questions import REASONING_BUDGET
from medhelm.schema.episode import Request, Response
from medhelm.schema.model import ModelSpec, Price
from medhelm.store.records import is_same_model
from medhelm_benchmarks.noharm.generation import checks
from medhelm_benchmarks.noharm.generation.conduct import read_reply, series_run
from medhelm_benchmarks.noharm.generation.guideline import (
    Guideline,
    draw_setting,
    most_settings,
    read_guideline,
)
from medhelm_benchmarks.noharm.generation.stages import (
    STAGES,
    GroupsReply,
    OptionsReply,
    TrapsReply,
)
from medhelm_benchmarks.noharm.rules.cases import read_cases
from medhelm_benchmarks.noharm.rules.quality import is_strong
from tests.benchmarks.noharm.generation.author import (
    CANARY,
    GUIDELINE,
    KINDS,
    QUOTE,
    menu_ids,
    options,
    rating_of,
    ratings,
    scene,
    stage_of,
    traps,
)
from tests.benchmarks.noharm.generation.conftest import NAME, Studio, spec

MENU = [*options()["options"], *traps()["options"]]


def test_a_case_holds_what_its_authors_wrote_and_what_follows_by_rule(studio: Studio) -> None:
    end = studio.run(1)
    (case,) = read_cases(end.cases_path)
    assert case.code == "NOHARM-INFE-FEVER-001"
    assert case.vignette.startswith(scene()["vignette"])
    assert [f.status for f in case.red_flags] == ["present", "absent"]
    assert sorted(a.text for a in case.actions) == sorted(o["text"] for o in MENU)
    assert [a.id for a in case.actions] == [f"a{n}" for n in range(1, 41)]
    written = {o["text"]: o["category"] for o in MENU}
    for action in case.actions:
        assert action.category == written[action.text]
        assert action.ratings == (rating_of(action.text),) * 3
        assert action.references == (f'{NAME}: "{QUOTE}"',)
    assert case.alternatives == (("a1", "a2"),)
    assert [(b.broad, b.specific) for b in case.broad] == [("a3", ("a4", "a5"))]
    assert case.made_by == ("test/writer",)
    rated = {a.id: a.ratings[0] for a in case.actions}
    top = max(rated["a1"], rated["a2"])
    best = tuple(i for i in ("a1", "a2") if rated[i] == top)
    assert case.best_alternatives == ((best,) if top >= 7 else ())


def test_provenance_names_the_author_of_every_action(studio: Studio) -> None:
    studio.raters = ("test/one", "test/two", "test/writer")
    end = studio.run(2)
    cases = read_cases(end.cases_path)
    lines = (studio.folder / "provenance.jsonl").read_text().splitlines()
    kinds = {o["text"]: o.get("kind", "blind") for o in MENU}
    for case, line in zip(cases, lines, strict=True):
        found = json.loads(line)
        assert found["code"] == case.code
        assert found["tags"] == {a.id: kinds[a.text] for a in case.actions}
        assert found["raters"] == {
            "specialist_benefit": "test/one",
            "specialist_harm": "test/two",
            "generalist": "test/writer",
        }
        assert found["guideline_sha256"] == Guideline(NAME, GUIDELINE).sha256
    assert cases[0].made_by == ("test/writer", "test/one", "test/two")
    for line, (_, asked) in zip(
        lines, (p for p in studio.author.prompts if p[0] == "scene"), strict=True
    ):
        passage = json.loads(line)["setting"]["passage"]
        assert passage in " ".join(GUIDELINE.split()) and f">\n{passage}\n</passage" in asked


def test_a_maker_is_named_as_the_endpoint_names_it_where_that_differs(studio: Studio) -> None:
    studio.specs["test/one"] = spec("vllm/local", model="meta-llama/Llama-3.3-70B")
    studio.models["vllm/local"] = ScriptedModel(studio.specs["test/one"], studio.author)
    studio.specs["test/two"] = spec("test/two", model="x/Two")
    studio.raters = ("test/one", "test/two", "test/writer")
    (case,) = read_cases(studio.run(1).cases_path)
    assert case.made_by == ("test/writer", "vllm/local", "meta-llama/Llama-3.3-70B", "test/two")
    assert is_same_model(spec("together/llama-3.3-70b"), case.made_by[2])
    assert not is_same_model(spec("together/llama-3.3-8b"), case.made_by[2])
    assert is_same_model(spec("openai/gpt-4o-2024-08-06"), "azure/gpt-4o")
    assert is_same_model(spec("openai/gpt-4o"), "gpt-4o-2024-08-06")
    assert not is_same_model(spec("openai/gpt-4o-mini-2024-07-18"), "gpt-4o")


def sheet(**change: Any) -> str:
    """Return a rater's reply in which the first entry is changed."""
    line = {"rating": 5, "covered": False, "quote": "", "implausible": False}
    lines = [{"id": f"a{n}", **line} for n in range(1, 41)]
    return json.dumps({"ratings": [lines[0] | change, *lines[1:]]})


def option(text: str) -> str:
    found = options()
    found["options"][4]["text"] = text
    return json.dumps(found)


FAULTY = [
    ("scene", "I will not", "one JSON object"),
    ("scene", json.dumps(scene() | {"vignette": "A man has chest pain."}), "has 5 words"),
    ("scene", json.dumps({k: v for k, v in scene().items() if k != "knowns"}), "has no knowns"),
    ("scene", json.dumps(scene() | {"unknowns": []}), "unknowns has 0 entries"),
    ("options", json.dumps(options(19)), "19 actions"),
    ("options", option("Start aspirin, which is contraindicated"), "give away"),
    ("options", option("order NUMBER 3: measure item 3."), "actions 4 and 5 say the same"),
    ("options", option("x " * 200), "longer than one line"),
    (
        "options",
        json.dumps({"options": [o | {"category": "medication"} for o in options()["options"]]}),
        "22 of 22 actions are medication",
    ),
    ("options", json.dumps(options()).replace('"monitoring"', '"surgery"'), "surgery"),
    ("options", option("Take \ud800"), "half a character"),
    ("scene", json.dumps(scene() | {"question": "What does the guideline say?"}), "of a guideline"),
    ("scene", json.dumps(scene() | {"question": "Half a \udfff?"}), "half a character"),
    ("traps", json.dumps(traps(KINDS | {"dose": 1, "interaction": 1, "monitoring": 1})), "7 traps"),
    ("traps", json.dumps(traps(KINDS | {"prerequisite": 0})), "0 actions of kind prerequisite"),
    ("traps", json.dumps(traps(KINDS | {"first_line": 1})), "1 actions of kind first_line"),
    ("traps", "```json\n" + json.dumps(traps())[:-3] + "\n```", "one JSON object"),
    ("groups", '{"alternatives": [["a1", "a99"]], "broad": []}', "'a99' is not on the menu"),
    ("groups", '{"alternatives": [["a1", "a2"], ["a2", "a3"]], "broad": []}', "in two groups"),
    ("groups", '{"alternatives": [], "broad": [], "broad": [1]}', "a key stands twice"),
    (
        "groups",
        '{"alternatives": [], "broad": [{"broad": "a1", "specific": ["a2"]}, '
        '{"broad": "a2", "specific": ["a1"]}]}',
        "hold each other in a circle",
    ),
    ("options", option("Take aspirin\u0007 daily"), "U+0007"),
    ("scene", json.dumps(scene() | {"question": "What\u202e next?"}), "U+202E"),
    ("rating", '{"ratings": []}', "no rating of a"),
    ("rating", sheet(rating=0), "the rating of a1 is not from 1 to 9"),
    ("rating", sheet(rating=10), "the rating of a1 is not from 1 to 9"),
    ("rating", sheet(id="a99"), "no rating of a1"),
    ("rating", sheet(rating="9/10"), "ratings[0].rating"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "reply", "said"), FAULTY)
def test_a_faulty_reply_goes_back_to_its_author_with_the_fault(
    studio: Studio, stage: str, reply: str, said: str
) -> None:
    studio.author.bad = {stage: [reply]}
    end = studio.run(1)
    assert end.ends[0].status == "made"
    provenance = end.ends[0].provenance
    assert provenance is not None
    wanted = (
        [stage] if stage != "rating" else ["generalist", "specialist_benefit", "specialist_harm"]
    )
    assert [k.rpartition("/")[2] for k, n in provenance.repairs.items() if n == 1] == wanted
    repaired = [p for s, p in studio.author.prompts if s == stage and "cannot be used" in p]
    assert repaired and all(said in p for p in repaired)


@pytest.mark.parametrize("stage", ["options", "rating"])
def test_two_repairs_at_most_then_the_case_is_discarded_and_logged(
    studio: Studio, stage: str
) -> None:
    studio.author.bad = {stage: ["no"] * 3}
    end = studio.run(2)
    assert [e.status for e in end.ends] == ["discarded"] * 2
    asked = [s for s, _ in studio.author.prompts].count(stage)
    assert asked == 2 * 3 * (3 if stage == "rating" else 1)
    lines = [json.loads(x) for x in (studio.folder / "discarded.jsonl").read_text().splitlines()]
    assert [line["code"] for line in lines] == ["NOHARM-INFE-FEVER-001", "NOHARM-INFE-FEVER-002"]
    assert all(line["stage"].startswith(stage) and line["reasons"] for line in lines)
    assert not end.cases_path.exists()
    again = Studio(studio.folder, studio.author)
    assert [e.status for e in again.run(2).ends] == ["discarded"] * 2
    assert again.asked == 0  # a discarded case is not tried again


def answers(studio: Studio, change: Any) -> None:
    """Let the writer answer by `change(stage, request)` where that is not None."""

    def reply(request: Request) -> Response | str:
        prompt = "\n".join(m.content for m in request.messages)
        found = change(stage_of(prompt), request)
        return studio.author(request) if found is None else found

    studio.models["test/writer"] = ScriptedModel(spec(), reply)
    studio.specs["test/writer"] = spec()


def rated(studio: Studio, change: Callable[[dict[str, Any]], Any], *, once: bool = False) -> None:
    """Let raters' sheets be changed; `once`: not where they were sent back."""

    def reply(stage: str, request: Request) -> str | None:
        if stage != "rating" or (once and len(request.messages) > 2):
            return None
        found = ratings("\n".join(m.content for m in request.messages))
        change({line["id"]: line for line in found["ratings"]})
        return json.dumps(found)

    answers(studio, reply)


def ending(request: Request, finish: Any, text: str = "") -> Response:
    return Response(instance_id=request.instance_id, finish=finish, text=text, error="http 500")


def test_a_refusal_is_not_asked_again_and_a_failed_request_is(studio: Studio) -> None:
    answers(
        studio,
        lambda stage, request: {
            ("traps", "1"): ending(request, "refusal"),
            ("groups", "2"): ending(request, "error"),
        }.get((stage, request.instance_id[-1])),
    )
    end = studio.run(3)
    assert [e.status for e in end.ends] == ["discarded", "failed", "made"]
    assert end.ends[0].reasons == ("the model refused",)
    assert end.ends[1].reasons == ("http 500",)
    assert [c.code for c in read_cases(end.cases_path)] == ["NOHARM-INFE-FEVER-003"]
    again = Studio(studio.folder)
    end = again.run(3)
    assert [e.status for e in end.ends] == ["discarded", "made", "made"]
    assert again.asked == 1 + 3  # the groups and the sheets of the second case


def test_a_reply_that_was_cut_is_asked_for_in_fewer_words(studio: Studio) -> None:
    answers(
        studio,
        lambda stage, request: (
            ending(request, "length", '{"options": [{"te')
            if stage == "options" and len(request.messages) == 2
            else None
        ),
    )
    assert studio.run(1).ends[0].status == "made"
    (cut,) = [
        r for r in studio.models["test/writer"].requests if "write less" in r.messages[-1].content
    ]
    assert stage_of("\n".join(m.content for m in cut.messages)) == "options"


@pytest.mark.slow
def test_the_same_series_is_the_same_bytes(tmp_path: Path) -> None:
    found = [Studio(tmp_path / name).run(2).cases_path.read_bytes() for name in "ab"]
    assert found[0] == found[1]
    other = Studio(tmp_path / "c").run(2, seed=1)
    assert [e.provenance.setting for e in other.ends if e.provenance] != [
        e.provenance.setting for e in Studio(tmp_path / "a").run(2).ends if e.provenance
    ]


def test_a_series_that_grows_asks_only_for_what_is_new(studio: Studio) -> None:
    studio.run(2)
    assert studio.asked == 2 * 7
    end = studio.run(3)
    assert studio.asked == 3 * 7
    assert [c.code[-3:] for c in read_cases(end.cases_path)] == ["001", "002", "003"]
    assert len(studio.run(1).ends) == 3  # it never shrinks


def all_of(model: ModelSpec) -> dict[str, Any]:
    return {"generator": model, "raters": (model,) * 3}


def test_a_folder_is_of_one_series(studio: Studio) -> None:
    studio.run(1)
    for what, more in (
        ("data", {"guideline": Guideline(NAME, GUIDELINE + "More.")}),
        ("data", {"specialty": "Cardiology"}),
        ("seed", {"seed": 3}),
        ("model", all_of(spec(json_schema=True))),
        ("model", all_of(spec(max_output_tokens=999))),
        ("model", all_of(spec(model="other"))),
    ):
        with pytest.raises(UsageError, match=f"(another|other) {what}; name another folder"):
            studio.run(1, **more)
    assert studio.asked == 7
    priced = spec(price=Price(input=1, output=1, date="2026-01-01"))
    assert studio.run(1, **all_of(priced)).ends[0].status == "made"  # a price changes no case


def test_a_quote_that_the_guideline_does_not_have_is_no_reference(studio: Studio) -> None:
    quotes = {
        "QUOTE": f"  {QUOTE.upper()}\n",
        "made up": "Aspirin is given to everyone",
        "too short": "Blood cultures",
        "the whole": GUIDELINE,
    }

    def change(by_id: dict[str, Any]) -> None:
        for i, quote in enumerate(quotes.values(), 1):
            by_id[f"a{i}"]["quote"] = quote
        by_id["a5"] |= {"quote": "", "covered": False}

    rated(studio, change)
    end = studio.run(1)
    (case,) = read_cases(end.cases_path)
    assert len(case.actions[0].references) == 1
    assert [a.references for a in case.actions[1:5]] == [()] * 4
    assert end.ends[0].provenance is not None
    assert end.ends[0].provenance.unfounded_quotes == {"a2": 3, "a3": 3, "a4": 3}


def test_three_raters_decide_by_median_and_majority(studio: Studio) -> None:
    values = {"one": (9, True), "two": (2, True), "three": (7, False)}
    studio.raters = ("test/one", "test/two", "test/three")
    for name, (rating, implausible) in values.items():

        def reply(request: Request, rating: int = rating, implausible: bool = implausible) -> str:
            found = ratings("\n".join(m.content for m in request.messages))
            for r in found["ratings"]:
                r |= {"rating": rating, "implausible": implausible}
                r["quote"] = QUOTE if rating == 2 else ""
            return json.dumps(found)

        studio.specs[f"test/{name}"] = spec(f"test/{name}")
        studio.models[f"test/{name}"] = ScriptedModel(spec(f"test/{name}"), reply)
    (case,) = read_cases(studio.run(1).cases_path)
    for action in case.actions:
        assert action.ratings == (9, 2, 7) and median(action.ratings) == 7
        assert action.is_implausible
        assert action.references == ()  # the only quote is of a rater who says the opposite


def test_what_the_menu_has_already_is_not_written_again(studio: Studio) -> None:
    def second(change: dict[int, str], kinds: Any = KINDS) -> str:
        found = traps(kinds)
        for place, text in change.items():
            found["options"][place]["text"] = text
        return json.dumps(found)

    # the first of five first choices stands on the menu in other words; four are left
    studio.author.bad = {"traps": [second({0: "order NUMBER 3 - measure the item 3."})]}
    end = studio.run(1)
    assert end.ends[0].case is not None and end.ends[0].provenance is not None
    texts = [a.text for a in end.ends[0].case.actions]
    assert len(texts) == 39 and "Order number 3: measure item 3" in texts
    assert end.ends[0].provenance.repairs == {}
    assert [*end.ends[0].provenance.tags.values()].count("first_line") == 4


def test_a_trap_that_the_menu_has_already_does_not_count(studio: Studio) -> None:
    found = traps()
    for place, option in enumerate(found["options"]):
        if option["kind"] == "dose":
            option["text"] = f"Order number {place}: measure item {place}"
    studio.author.bad = {"traps": [json.dumps(found)]}
    assert studio.run(1).ends[0].status == "made"
    repaired = studio.author.prompts[3][1]
    assert "0 actions of kind dose" in repaired
    assert "menu already: 9, 10" in repaired


SECRET = "Blood cultures are taken"


@pytest.mark.parametrize(
    ("stage", "reply"),
    [
        ("options", json.dumps({SECRET: 1})),
        ("options", json.dumps({f"x` - at `$.{SECRET}": 1})),
        ("options", json.dumps({"options": [{"text": "x", "category": f"'{SECRET}'\x1b[31m"}]})),
        ("options", option(f"It is contraindicated: {SECRET}")),
        ("groups", json.dumps({"alternatives": [[SECRET, "a2"]], "broad": []})),
        ("groups", json.dumps({"alternatives": [["a1", "a2"]] * 2 + [[SECRET] * 2], "broad": []})),
        ("groups", json.dumps({"alternatives": [], "broad": [{"broad": SECRET, "specific": []}]})),
        ("rating", json.dumps({"ratings": [{"id": SECRET}]})),
        ("traps", json.dumps(traps()).replace('"dose"', f'"{SECRET}"')),
    ],
)
def test_reasons_are_shown_without_words_of_a_model(studio: Studio, stage: str, reply: str) -> None:
    studio.author.bad = {stage: [reply] * 3}
    end = studio.run(1).ends[0]
    assert end.status == "discarded" and end.shown_reasons
    shown = " ".join(end.shown_reasons)
    assert not any(word in shown for word in SECRET.split()) and "\x1b" not in shown
    assert "it is not one JSON object" not in shown


def test_budgets_of_replies_and_sampling_are_those_of_stage_and_model(studio: Studio) -> None:
    studio.specs["test/one"] = spec("test/one", reasoning=True)
    studio.specs["test/two"] = spec("test/two", max_output_tokens=999)
    studio.raters = ("test/one", "test/two", "test/writer")
    studio.run(1, seed=5)
    asked = {
        (name, stage_of("\n".join(m.content for m in r.messages))): r
        for name, model in studio.models.items()
        for r in model.requests
    }
    assert asked["test/writer", "scene"].max_output_tokens == STAGES["scene"].budget
    assert asked["test/one", "rating"].max_output_tokens == REASONING_BUDGET
    assert asked["test/two", "rating"].max_output_tokens == 999
    assert {r.seed for r in asked.values()} == {5}
    assert {r.sampling.temperature for r in asked.values()} == {0.0}


@pytest.mark.parametrize(("passages", "most"), [(("p",), 832), (("p", "q"), 1_664)])
def test_no_two_numbers_of_a_series_share_a_setting(passages: tuple[str, ...], most: int) -> None:
    assert most_settings(passages) == most  # 8 places, 13 complications, 8 gaps
    drawn = [draw_setting(0, "N", n, passages) for n in range(1, min(most, 999) + 1)]
    assert len(set(drawn)) == len(drawn)
    assert drawn[:50] == [draw_setting(0, "N", n, passages) for n in range(1, 51)]


def test_a_patient_of_a_lower_number_is_discarded(studio: Studio) -> None:
    same = json.dumps(scene())
    answers(studio, lambda stage, request: same if stage == "scene" else None)
    first, *others = studio.run(3).ends
    assert first.status == "made"
    assert [(e.status, e.stage) for e in others] == [("discarded", "series")] * 2
    assert all("the patient of NOHARM-INFE-FEVER-001" in e.reasons[0] for e in others)
    lines = (studio.folder / "discarded.jsonl").read_text().splitlines()
    assert [json.loads(line)["code"][-3:] for line in lines] == ["002", "003"]


def test_a_judge_sends_a_patient_that_advises_back(studio: Studio) -> None:
    said = iter([True, False])
    words = "Ibuprofen is not an option"

    def reply(request: Request) -> str:
        assert all(word in request.messages[1].content for word in (CANARY, "Not known"))
        return json.dumps({"advises": next(said), "words": words})

    judge = spec("test/judge")
    studio.models["test/judge"] = ScriptedModel(judge, reply)
    end = studio.run(1, judge=judge)
    assert end.ends[0].provenance is not None
    assert end.ends[0].provenance.repairs == {"scene": 1}
    assert end.ends[0].provenance.judge == "test/judge"
    assert words in [p for s, p in studio.author.prompts if s == "scene"][1]
    assert studio.asked == 7 + 1 + 2
    assert end.record is not None
    assert {p.role: p.usage.requests for p in end.record.parties}["judge"] == 2


def test_a_judge_that_cannot_be_read_is_no_verdict(studio: Studio) -> None:
    judge = spec("test/judge")
    studio.models["test/judge"] = ScriptedModel(judge, lambda _: "It may well be")
    (end,) = studio.run(1, judge=judge).ends
    assert end.status == "made" and end.provenance is not None and end.provenance.judge == ""


def test_a_forecast_holds_what_a_series_uses(studio: Studio) -> None:
    studio.author.bad, studio.author.quote = {"traps": ["no"], "rating": ["no"]}, ""
    run = series_run(studio.series(), 1, studio.folder, "public", None)
    (instance,) = [row["instance"] for _, row in run.dataset.read()]
    terms = terms_of(run.protocol, run.spec, 0)
    expected = {f.role: f for f in run.protocol.forecast(run.benchmark, instance, terms)}
    end = studio.run(1)
    assert end.record is not None
    for party in end.record.parties:
        found = expected["writer" if party.role == "model" else party.role]
        assert party.usage.requests <= found.calls_limit
        assert party.usage.input_tokens < found.input_tokens_limit
        assert found.output_tokens_limit is not None
        assert party.usage.output_tokens < found.output_tokens_limit
    assert len(expected) == 4


def test_quotes_that_are_not_the_guidelines_go_back_to_the_rater(studio: Studio) -> None:
    def change(by_id: dict[str, Any]) -> None:
        first, second, third, *_ = by_id.values()
        first["quote"], second["quote"] = "Aspirin is given to everyone", ""
        third["covered"] = False

    rated(studio, change, once=True)
    end = studio.run(1).ends[0]
    assert end.provenance is not None
    assert end.provenance.unfounded_quotes == {} and end.provenance.not_covered == {}
    assert [n for k, n in end.provenance.repairs.items() if k.startswith("rating/")] == [1, 1, 1]
    said = [p for s, p in studio.author.prompts if s == "rating" and "cannot be used" in p]
    for what in ("does not stand in the guideline", "has no quote", "is not covered and has"):
        assert len([p for p in said if what in p]) == 3


def test_where_the_guideline_is_silent_is_recorded_apart_from_the_rating(studio: Studio) -> None:
    rated(studio, lambda by_id: by_id["a1"].update(rating=1, covered=False, quote=""))
    end = studio.run(1).ends[0]
    assert end.case is not None and end.provenance is not None
    assert end.case.actions[0].ratings == (1, 1, 1) and end.case.actions[0].references == ()
    assert end.provenance.not_covered == {"a1": 3} and end.provenance.repairs == {}


@pytest.mark.parametrize(
    ("second", "referenced"), [(QUOTE, 1.0), ("", 0.0), ("Aspirin is given to everyone", 0.0)]
)
def test_strong_actions_without_a_reference_go_back_to_their_raters_once(
    second: str, referenced: float, studio: Studio
) -> None:
    studio.author.quote, studio.author.second = "", second
    end = studio.run(1).ends[0]
    assert end.case is not None and end.provenance is not None
    strong = [a for a in end.case.actions if is_strong(a)]
    assert {bool(a.references) for a in strong} == {bool(referenced)}
    assert all(a.ratings == (rating_of(a.text),) * 3 for a in end.case.actions)
    asked = [p for s, p in studio.author.prompts if s == "quotes"]
    assert len(asked) == 3 and all(menu_ids(p) == [a.id for a in strong] for p in asked)
    silent = len(end.case.actions) - len(strong) * referenced
    assert len(end.provenance.not_covered) == silent and end.provenance.unfounded_quotes == {}


def test_a_second_look_that_cannot_be_read_leaves_the_sheet_as_it_is(studio: Studio) -> None:
    studio.author.quote, studio.author.bad = "", {"quotes": ["no idea"]}
    assert studio.run(1).ends[0].status == "made"
    assert sum(stage == "quotes" for stage, _ in studio.author.prompts) == 3


def test_cases_turn_on_every_part_of_a_guideline_before_they_come_back_to_one() -> None:
    text = " ".join(f"word{i}" for i in range(2_100))
    passages = Guideline("X 2024", text).passages
    assert len(passages) == 10 and all(p in text and len(p.split()) == 25 for p in passages)
    drawn = [draw_setting(0, "N", i, passages).passage for i in range(1, 21)]
    assert set(drawn[:10]) == set(drawn[10:]) == set(passages)
    assert Guideline("X 2024", "Only a few words").passages == ("few words",)


WORDS = st.lists(st.sampled_from(["a", "b", "Ab", "5", "mg"]), max_size=12)


@pytest.mark.slow
@given(st.lists(st.sampled_from(["a", "b", "Ab", "5", "mg"]), min_size=1, max_size=30), WORDS)
def test_a_quote_stands_in_a_text_where_its_words_do_in_a_row(
    text: list[str], quote: list[str]
) -> None:
    found = Guideline("X 2024", "  ".join(text)).contains(", ".join(quote))
    assert found == (
        bool(quote) and f" {' '.join(quote)} ".lower() in f" {' '.join(text)} ".lower()
    )


def test_text_out_of_a_pdf_holds_its_quotes() -> None:
    text = "Anti-\ncoagu\u00adlation is of \ufb01rst choice in first-\nline care before dis-\n  charge."
    found = Guideline("X 2024", text)
    assert found.contains("anticoagulation is of first choice")
    assert found.contains("in first-line care before")
    assert found.contains("care before discharge")
    assert not found.contains("coagulation before discharge")


@pytest.mark.slow
@given(st.text(max_size=200))
def test_a_reply_is_read_or_refused_and_nothing_else_happens(text: str) -> None:
    for form in (OptionsReply, TrapsReply, GroupsReply):
        try:
            read_reply(text, form)
        except BadReply as e:
            assert str(e)


def test_groups_are_of_different_actions_of_the_menu() -> None:
    items = [f"a{i}" for i in range(1, 6)]

    def faults(alternatives: Any = (), broad: Any = ()) -> list[str]:
        links = [{"broad": b, "specific": s} for b, s in broad]
        reply = msgspec.convert({"alternatives": alternatives, "broad": links}, GroupsReply)
        return checks.group_faults(reply, items)

    assert faults([["a1", "a2"], ["a3", "a4"]], [("a1", ["a3"]), ("a2", ["a3"])]) == []
    assert "group of different actions" in faults([["a1", "a1"]])[0]
    assert len(faults([["a1"]])) == 1
    assert len(faults([], [("a1", ["a1"])])) == 1
    assert len(faults([], [("a1", [])])) == 1
    assert len(faults([], [("a1", ["a2"]), ("a1", ["a3"])])) == 1


def test_a_guideline_is_a_text_with_a_name_and_a_year(tmp_path: Path) -> None:
    path = tmp_path / "acs.md"
    path.write_bytes(b"\xef\xbb\xbf" + GUIDELINE.replace("\n", "\r\n").encode())
    found = read_guideline(path)
    assert found.name == NAME
    assert "\r" not in found.text and found.text.startswith("# Society")
    assert found.contains("taken  BEFORE\nantibiotics") and not found.contains("antibiotics before")
    assert not found.contains("") and not found.contains("ood cultures")
    assert read_guideline(path, "KDIGO 2024 fever").name == "KDIGO 2024 fever"
    for content, said in (
        (b"%PDF-1.7 ...", "is not text"),
        (b"PK\3\4 ...", "is not text"),
        (b"Two words 2024", "50 words"),
        ("Käse".encode("latin-1") * 100, "is not UTF-8"),
        (GUIDELINE.replace("2024", "").encode(), "--guideline-name"),
        (b"", "50 words"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=said):
            read_guideline(path)
