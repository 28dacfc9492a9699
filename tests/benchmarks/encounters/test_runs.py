"""Encounters in runs: against a server that plays every role, with faults, kills and one slot."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm import Episode, ModelSpec, evaluate, load_results
from medhelm.errors import PrivacyRefused
from medhelm.schema.run import JurySpec, RunRecord
from medhelm.store import records
from tests.benchmarks.encounters.players import TURNS, reply
from tests.benchmarks.encounters.stage import PLUGIN, plugin_of, says
from tests.benchmarks.encounters.stage_plugin import STAGE
from tests.processes import asked, start
from tests.quiz import medhelm
from tests.server import FaultServer, Reply, serve_in_thread
from tests.stored import by_instance, episodes_of, log_of, newest_record

pytestmark = pytest.mark.slow

ROLES = ("clinician", "patient", "controller")
CALLS = dict.fromkeys(ROLES, TURNS)
"""Of one encounter: in each turn something is said, and something is ordered or a state is ended."""


def model(server: FaultServer, name: str, **more: Any) -> ModelSpec:
    return server.model(f"lab/{name}", timeout_s=2.0, **more)


def run(server: FaultServer, folder: Path, **more: Any) -> None:
    limit = more.pop("limit", None)
    made = {name: model(server, name, max_concurrency=limit) for name in (*ROLES, "judge")}
    specs = more.pop("specs", made)
    strategy = more.pop("strategy", "")
    given = {
        "jury": JurySpec(name="judges", quorum=1, judges=(specs["judge"],)),
        "plugins": str(PLUGIN),
        "controls": 0,
    }
    evaluate(
        msgspec.structs.replace(specs["clinician"], strategy=strategy),
        "stage",
        data="sample",
        cast={role: specs[role] for role in ROLES[1:]},
        results_dir=folder,
        **given | more,
    )


def test_a_run_is_played_judged_booked_by_role_and_not_sent_again(tmp_path: Path) -> None:
    with serve_in_thread(by_body=reply) as server:
        run(server, tmp_path, repeats=2, limit=1)  # all roles and the judge at one slot
        assert server.in_flight_max == 1
        sent = server.requests
        run(server, tmp_path, repeats=2)
        assert server.requests == sent == 8 * (sum(CALLS.values()) + 1)
    episodes = episodes_of(tmp_path)
    assert {e.ending for e in episodes} == {"completed"} and len(episodes) == 8
    calls = Counter(c.role for e in episodes for c in e.calls)
    assert calls == {role: 8 * n for role, n in CALLS.items()}
    found = newest_record(tmp_path)
    # by the judge's rule: "ill", "infusion", "fluids" and "respect" - the last is never said
    readings = {r.metric: round(r.value or 0, 4) for r in found.results}
    competencies = {"encounter_competency_mean", "encounter_competency_case_mean"}
    cast = {"simulation_fidelity": 1.0, "role_conduct": 1.0}
    due = {name: 0.6667 if name in competencies else 0.75 for name in STAGE.metrics}
    assert readings == due | cast
    asked = {p.role: p.usage.requests for p in found.parties}
    assert asked == {"model": 48, "patient": 48, "controller": 48, "judge": 8}


def calls_of(episode: Episode) -> dict[tuple[str, str], tuple[Any, ...]]:
    return {(c.role, c.step): (c.sent, c.messages, c.response.text) for c in episode.calls}


def test_one_damaged_line_of_an_encounter_asks_no_more_than_its_own_call_again(
    tmp_path: Path,
) -> None:
    with serve_in_thread(by_body=reply) as server:
        run(server, tmp_path, max_instances=1, jury="offline")
        log = log_of(tmp_path)
        (before,) = episodes_of(tmp_path)
        whole = log.read_bytes().splitlines(keepends=True)
        assert len(whole) == 2 + sum(CALLS.values())
        for place, line in enumerate(whole):
            asked = server.requests
            # never as long as before: a finished run is known by the length of its log
            damaged = b"" if place % 2 else line[:40] + line[90:]
            log.write_bytes(b"".join([*whole[:place], damaged, *whole[place + 1 :]]))
            run(server, tmp_path, max_instances=1, jury="offline")
            assert server.requests - asked == (b'"call":' in line), line[:200]
            (again,) = episodes_of(tmp_path)
            assert calls_of(again) == calls_of(before)
            if place in (0, 1, len(whole) - 1):
                run(server, tmp_path, max_instances=1, jury="offline")
                assert server.requests - asked <= 1, "what was mended stays so"


def line_of(server: FaultServer, *more: str) -> list[str]:
    """Return the command that runs the stage with three models of a server."""
    roles = {"model": "clinician", "cast.patient": "patient", "cast.controller": "controller"}
    given = [f"{key}=openai/{name}" for key, name in roles.items()]
    given += [f"{key}.base_url={server.base_url}" for key in roles]
    return [
        "run",
        *given,
        "benchmark=stage",
        "data=sample",
        f"plugins=[{PLUGIN}]",
        "jury=offline",
        *more,
    ]


def test_a_killed_run_sends_nothing_again_that_the_log_holds(tmp_path: Path) -> None:
    with serve_in_thread(by_body=reply, latency_s=0.02) as server:
        argv = line_of(server, f"results_dir={tmp_path}", "model.max_concurrency=3")
        start(*argv).kill(once=asked(server, 50))
        held = log_of(tmp_path).read_bytes().count(b'"call":')
        while server.in_flight:
            time.sleep(0.005)
        before = server.requests
        medhelm(*argv)
        assert 0 < held <= 50
        assert server.requests - before == 4 * sum(CALLS.values()) - held
    assert {e.ending for e in episodes_of(tmp_path)} == {"completed"}


def test_a_private_case_goes_to_no_role_that_may_not_have_it(tmp_path: Path) -> None:
    """Each role and the judge is checked before the first request; no packet leaves."""
    plugin = plugin_of(tmp_path, is_private=True)
    with serve_in_thread(by_body=reply) as server:
        local = {"endpoint_class": "local"}
        for blamed in ("clinician", "patient", "controller", "judge"):
            names = (*ROLES, "judge")
            specs = {n: model(server, n, **({} if n == blamed else local)) for n in names}
            with pytest.raises(PrivacyRefused, match=f"lab/{blamed}"):
                run(server, tmp_path / "results", plugins=str(plugin), specs=specs)
        assert server.requests == 0


def test_a_failed_patient_is_in_no_mean_and_a_clinician_in_prose_is(tmp_path: Path) -> None:
    def by_case(body: Any) -> str:
        """Number 1 has a clinician in prose; of number 3 the patient answers in prose."""
        first = body["messages"][0]["content"]
        if "Number 1" in first:
            return "I would ask how long."
        if body["model"] == "clinician" and "Number 3" in first:
            return reply(body).replace("How long", "THREE how long")
        shown = (*body["messages"][:2], body["messages"][-1])
        if body["model"] == "patient" and "THREE" in json.dumps(shown):
            return "prose"
        return reply(body)

    with serve_in_thread(by_body=by_case) as server:
        run(server, tmp_path)
    rows = by_instance(tmp_path)
    assert rows["art0/scenario1"].ending == "clinician_unreadable"
    assert [c.attempt for c in rows["art0/scenario1"].calls] == [0, 1]  # it says the same again
    failed = rows["art1/scenario1"]
    assert (failed.ending, failed.finish) == ("patient_failed", "error")
    result = newest_record(tmp_path).results[0]
    assert result.outcomes == {"scored": 2, "unparsed": 1, "error": 1}
    assert result.value == pytest.approx((0.75 + 0.75 + 0) / 3)
    # turns and capped are of the two that ended, failed is of the four that were asked for
    table = load_results(tmp_path, plugins=[str(PLUGIN)]).typed("encounters")
    (row,) = (row for row in table.rows if row["level"] == "model")
    shown = [row[name] for name in ("n", "attempted", "turns", "capped", "failed")]
    assert shown == [3, 4, 6, 0, 0.25]


def test_a_trial_says_what_the_whole_would_cost_and_the_ranking_names_the_cast(
    tmp_path: Path,
) -> None:
    price = "price={input: 2, output: 8, date: '2026-01-01'}"
    more = [f"{key}.{price}" for key in ("model", "cast.patient", "cast.controller")]
    with serve_in_thread(by_body=reply) as server:
        done = medhelm(*line_of(server, *more, f"results_dir={tmp_path}", "max_instances=1"))
    said = done.stdout
    assert "patient openai/patient, controller openai/controller" in said
    parties = newest_record(tmp_path).parties
    sent = sum(p.usage.input_tokens for p in parties), sum(p.usage.output_tokens for p in parties)
    usd = 4 * (2 * sent[0] + 8 * sent[1]) / 1e6
    of = f"stage x openai/clinician: 1 of 4 instances; all would take about {4 * sum(sent):,} "
    assert of in said and f"{usd:,.2f} USD" in said


FLOODS = {
    "Number 0": says("How long has she been ill?", *[f"vital signs {n}" for n in range(150)]),
    "Number 1": says("", "vital signs " + 12_000 * "x"),
    "Number 2": says("How long has she been ill? " * 1_000),
}


def cut(text: str, body: Any) -> str | Reply:
    """Return a reply as an endpoint gives it back that holds its budget, at four characters a token."""
    room = 4 * body["max_tokens"]
    return text if len(text) <= room else Reply(text[:room], finish_reason="length")


@pytest.mark.parametrize(
    ("chosen", "strategy", "tries", "ending"),
    [
        ({}, "", 2, "completed"),
        ({"retries": 0}, "best_of_5", 6, "completed"),
        # nothing that this server says is a vote, so that no state is ended
        ({"retries": 0, "turns": 6}, "specialist_panel", 11, "capped"),
    ],
)
def test_a_clinician_that_floods_the_others_fails_itself(
    tmp_path: Path, chosen: dict[str, int], strategy: str, tries: int, ending: str
) -> None:
    """What it asks for would be cut in the controller's reply: it is sent back, then its own failure."""

    def by_case(body: Any) -> str | Reply:
        first = body["messages"][0]["content"]
        if body["model"] != "clinician":
            return cut(reply(body), body)
        return next((said for case, said in FLOODS.items() if case in first), reply(body))

    with serve_in_thread(by_body=by_case) as server:
        run(server, tmp_path, protocol=chosen, strategy=strategy)
    rows = by_instance(tmp_path)
    for name in ("art0/scenario0", "art0/scenario1", "art1/scenario0"):
        assert (rows[name].ending, rows[name].finish) == ("clinician_unreadable", "stop")
        assert len(rows[name].calls) == tries
    assert rows["art1/scenario1"].ending == ending
    result = newest_record(tmp_path).results[0]
    assert result.outcomes == {"scored": 1, "unparsed": 3}
    assert result.value == pytest.approx(0.75 / 4)


def test_a_declared_seed_is_sent_to_its_role_at_temperature_0(tmp_path: Path) -> None:
    """The seeds that a server is sent by model; without a declaration it is sent none."""

    def seeds(folder: str, **more: Any) -> dict[str, set[int | None]]:
        found: dict[str, set[int | None]] = {}
        with serve_in_thread(by_body=reply) as server:
            judge = model(server, "judge", send_seed=more.pop("judged", True))
            jury = JurySpec(name="judges", quorum=1, judges=(judge,))
            run(server, tmp_path / folder, seed=3, jury=jury, max_instances=1, **more)
            for body in server.bodies:
                assert body["temperature"] == 0
                found.setdefault(body["model"], set()).add(body.get("seed"))
        return found

    none = dict.fromkeys((*ROLES, "judge"), {None})
    assert seeds("default") == none
    declared = {"patient_seed": 40, "controller_seed": 500}
    due = none | {"patient": {43}, "controller": {503}, "judge": {0}}
    assert seeds("seeds", protocol=declared, judged="always") == due
    (spec,) = map(records.read_plan, records.find_runs(tmp_path / "seeds"))
    assert spec.spec.cast["patient"].send_seed == "always" and spec.spec.model.send_seed is True


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["protocol.patient_seed=1"], "protocol.patient_seed has no effect: script/packet"),
        (
            ["cast.patient=anthropic/claude-opus-5-5", "cast.patient.provider=anthropic", "cast.patient.send_seed=true", "protocol.patient_seed=1"],
            "no effect: anthropic/claude-opus-5-5",
        ),
        (["cast.patient=openai/x", "cast.patient.send_seed=false", "protocol.patient_seed=1"], "openai/x has send_seed: false"),
        (["cast.patient=hf/local", "cast.patient.model=x", "protocol.patient_seed=1"], "hf/local takes no seed at temperature 0"),
        (["cast.patient=hf/local", "cast.patient.model=x", "cast.patient.send_seed=always"], "send_seed=always is for providers"),
    ],
)  # fmt: skip
def test_a_seed_that_would_have_no_effect_is_refused_with_one_line(
    given: list[str], said: str, tmp_path: Path
) -> None:
    plain = ["benchmark=stage", "data=sample", f"plugins=[{PLUGIN}]", f"results_dir={tmp_path}"]
    keys = {"ANTHROPIC_API_KEY": "x"}
    done = medhelm("run", "model=openai/x", "jury=offline", *plain, *given, env=keys, code=2)
    (line,) = done.stderr.strip().splitlines()
    assert said in line


def test_an_estimate_foretells_the_replies_of_each_role(tmp_path: Path) -> None:
    """4 encounters of (2 x 12 + 2) / 3 turns; the patient thinks 1,000 tokens a reply besides."""
    given = ["model=openai/a", "cast.patient=openai/b", "cast.controller=openai/c", "data=sample"]
    given += ["cast.patient.reasoning=true", "benchmark=stage", f"plugins=[{PLUGIN}]"]
    done = medhelm("estimate", *given, f"results_dir={tmp_path}", "--format", "json")
    (own,) = json.loads(done.stdout)["runs"]
    calls = 4 * 26 / 3
    assert own["output_tokens_expected"] == round(calls * 80)
    said = {role["role"]: role["output_tokens_expected"] for role in own["cast"]}
    assert said == {"patient": round(calls * 1_060), "controller": round(calls * 250)}


STRICT = "strict"


def completion(record: RunRecord) -> float | None:
    (found,) = [r.value for r in record.results if r.metric == "encounter_completion"]
    return found


def rubric(path: Path, *items: str) -> str:
    lines = [
        {"case_id": f"art{n // 2}", "scenario": f"scenario{n % 2}", "PC": items} for n in range(4)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def test_by_another_evaluator_a_jury_and_another_rubric(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    def played(body: Mapping[str, Any]) -> str:
        asked[body["model"]] += 1
        said = reply(body)
        return said.replace('"met": true', '"met": false') if body["model"] == STRICT else said

    def jury(server: FaultServer, *names: str) -> JurySpec:
        judges = tuple(model(server, name) for name in names)
        return JurySpec(name="-".join(names), quorum=1, judges=judges)

    def again(server: FaultServer, *names: str, **more: Any) -> tuple[float | None, dict[str, int]]:
        asked.clear()
        run(server, tmp_path / "r", jury=jury(server, *names), **more)
        return completion(newest_record(tmp_path / "r")), dict(asked)

    with serve_in_thread(by_body=played) as server:
        assert again(server, "one")[0] == 0.75  # as in test_runs
        assert again(server, STRICT) == (0.0, {STRICT: 4})
        # of three, the two that say yes; `one` and `strict` are in the log
        assert again(server, "one", "two", STRICT) == (0.75, {"two": 4})
        assert again(server, "one", STRICT) == (0.0, {})  # half is not enough
        file = rubric(tmp_path / "second.jsonl", "Asks how long she has been ill", "Shows respect")
        second = {"grader": {"rubric": file}}
        assert again(server, "one", **second) == (0.5, {"one": 4})
        rubric(tmp_path / "second.jsonl", "Asks how long she has been ill", "Gives an infusion")
        assert again(server, "one", **second) == (1.0, {"one": 4})  # the file was changed
