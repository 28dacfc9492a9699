"""Fidelity of the roles: rules on planted faults, a judge on loopback, casts and variance."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm import Episode, Instance, ModelSpec, Response, evaluate
from medhelm.data.dataset import open_dataset
from medhelm.schema.run import JurySpec
from medhelm.tables.clinicians.rated_answers import graded_runs
from medhelm.tables.format.table import Settings
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000
from medhelm_benchmarks.encounters.fidelity.judge import (
    Judged,
    Report,
    control_tallies,
    controls_of,
    report_faults,
    to_judge,
)
from medhelm_benchmarks.encounters.fidelity.stored import CheckedRun, check_run
from medhelm_benchmarks.encounters.grading.cast_fidelity import (
    BY_ROLE,
    SCRIPT,
    Fault,
    RoleConduct,
    SimulationFidelity,
    faults_by_rule,
    lines_of,
    speaker_of,
)
from medhelm_benchmarks.encounters.packets import (
    ControllerPacket,
    Packets,
    PatientPacket,
    case_instance,
    packets_of,
)
from medhelm_benchmarks.encounters.record import encounter_of
from medhelm_benchmarks.encounters.tables.cast import Tally, role_rows
from medhelm_benchmarks.encounters.tables.simulation import cast_rows, components, variance_rows
from tests.benchmarks.encounters.stage import (
    CASE,
    PLUGIN,
    answers,
    in_turn,
    play,
    rule,
    says,
    shows,
)
from tests.cases import cases
from tests.made import model_file
from tests.server import serve_in_thread
from tests.shell import Shell

ROOT = Path(__file__).parents[3]


def faults(episode: Episode) -> list[Fault]:
    packets = packets_of(episode.instance)
    lines = lines_of(encounter_of(episode), packets)
    return list(faults_by_rule(lines, packets, episode.instance.context))


def test_roles_that_are_played_by_rule_have_no_fault() -> None:
    lines = 0
    for case in open_dataset(MEDSP1000, "sample", root=Path("none")).instances():
        for name in ("oracle", "asks_everything", "orders_everything"):
            episode = play(case, rule(case, name))
            assert episode.ending == "completed"
            assert faults(episode) == [], f"{case.id} {name}"
            lines += len(lines_of(encounter_of(episode), packets_of(case)))
    assert lines > 200


@pytest.mark.parametrize(("line", "kind"), cases(__file__, "a_line_of_the_patients_side"))
def test_a_line_of_the_patients_side(line: str, kind: str | None) -> None:
    asks = says("How long has this been so?", eos=True)
    episode = play(CASE, in_turn(asks), patient=in_turn(answers(line)), turns=1)
    found = [f for f in faults(episode) if f.role == "patient"]
    assert [f.kind for f in found] == ([kind] if kind else [])
    assert all(f.quote and f.turn == 1 for f in found)


@pytest.mark.parametrize(
    ("line", "staff", "unsupported", "kind"),
    cases(__file__, "a_line_of_the_surroundings"),
)
def test_a_line_of_the_surroundings(
    line: str, staff: tuple[str, ...], unsupported: str, kind: str | None
) -> None:
    orders = says("", "heart rate", "call the surgeon", "order MRI of the brain")
    said = shows(line, staff=staff, unsupported=unsupported)
    found = faults(play(CASE, in_turn(orders), controller=in_turn(said), turns=1))
    assert [f.kind for f in found] == ([kind] if kind else [])


def test_a_companion_who_is_not_there_does_not_speak() -> None:
    alone = answers("Mother: I do not know.", present=["Patient"])
    uncle = answers("(cries)", present=["Patient", "Uncle"])
    for said, quote in ((alone, "Mother"), (uncle, "Uncle")):
        episode = play(CASE, in_turn(says("How is she?")), patient=in_turn(said), turns=1)
        assert [(f.kind, f.quote) for f in faults(episode)] == [("role_break", quote)]


def test_what_was_asked_for_later_leaked_before() -> None:
    both = [says("Does she drink?"), says("How long has she been ill?", eos=True)]
    leaks = in_turn(answers("Mother: Since last night."), answers("Mother: Since last night."))
    found = faults(play(CASE, in_turn(*both), patient=leaks, turns=2))
    assert [(f.kind, f.turn) for f in found] == [("volunteered", 1)]


def test_the_fidelity_of_an_encounter_is_the_share_of_its_clean_lines() -> None:
    said = answers("Mother: Since last night.", "Nurse: The drip is running.")
    orders = says("How long has this been so?", "heart rate")
    lines = shows("Heart rate 160 per minute.", "Heart rate 212 per minute.", staff=["Nurse"])
    heard, seen = in_turn(said), in_turn(lines)
    episode = play(CASE, in_turn(orders), patient=heard, controller=seen, turns=1)
    score = SimulationFidelity().score(CASE, episode)
    assert (score.value, score.outcome) == (0.5, "scored")
    assert score.sums == {"clean": 2, "lines": 4}
    score = RoleConduct().score(CASE, episode)
    assert score.value == 0.8  # of five lines, the clinician's among them, one is the nurse's
    assert score.sums["patient/mixed_speech"] == score.sums["controller/invented_finding"] == 1
    assert (score.sums["patient/any"], score.sums["patient/any/lines"]) == (1, 2)
    silent = play(CASE, in_turn(says()), turns=1)
    for metric in (SimulationFidelity(), RoleConduct()):
        found = metric.score(CASE, silent)
        assert (found.value, found.outcome) == (None, "uninformative")


def test_of_packets_of_text_alone_rules_say_what_they_cannot_tell() -> None:
    script = "The pain began at breakfast.\nHe swallowed warfarin pills."
    packets = Packets(
        patient=PatientPacket(text=script),
        controller=ControllerPacket(text="Pulse 110. Troponin 86 ng/L."),
    )
    case = case_instance("art2/scenario1", "A man of 60 has chest pain.", packets)
    reads = answers("It began at breakfast.", "I swallowed warfarin.", present=())
    early, late = shows("Embolism of the right lung."), shows("Troponin 86 ng/L.")
    repeats = "So how long has this been?\nPatient: It hurts."
    moves = in_turn(says(repeats, "CT"), says(repeats, eos=True))
    told = {"patient": in_turn(reads), "controller": in_turn(early, late)}
    episode = play(case, moves, turns=2, **told)
    found = [(f.kind, f.role, f.turn) for f in faults(episode)]
    assert found == [
        ("mixed_speech", "clinician", 1),
        ("mixed_speech", "clinician", 2),
        ("loop", "clinician", 2),
        ("unordered_result", "controller", 2),
    ]
    score = SimulationFidelity().score(case, episode)
    assert (score.value, score.outcome) == (None, "uninformative")
    assert score.reason == "not checkable: packets of text alone"
    score = RoleConduct().score(case, episode)
    assert (
        score.value == 6 / 8
    )  # two of the clinician's, four of the patient, two of the controller
    told_of = {n for n in score.sums if n.endswith("/lines") and score.sums[n]}
    assert told_of == {
        *("patient/lines", "patient/loop/lines", "clinician/lines", "clinician/loop/lines"),
        *("clinician/mixed_speech/lines", "clinician/any/lines", "controller/lines"),
        *("controller/loop/lines", "controller/mixed_speech/lines"),
        "controller/unordered_result/lines",
    }
    # began, breakfast, swallowed, warfarin, pills; "pain" is the clinician's own
    assert [score.sums[name] for name in SCRIPT] == [5, 4, 0, 4]
    asked = in_turn(says("Do you take pills?", eos=True))
    score = RoleConduct().score(case, play(case, asked, turns=1, **told))
    assert [score.sums[name] for name in SCRIPT] == [5, 4, 3, 2]


def test_a_share_of_a_mixed_set_is_of_the_cases_that_can_be_checked() -> None:
    def tally(case: str, faulty: int, lines: int, told: int) -> Tally:
        sums = dict.fromkeys(BY_ROLE, 0) | {"patient/lines": lines, "patient/volunteered": faulty}
        sums["patient/volunteered/lines"] = told
        return Tally("role", "b", {"patient": "p"}, case, case, sums)

    structured = [tally("a", 1, 4, 4), tally("b", 0, 6, 6)]
    rows = role_rows([*structured, tally("text", 2, 9, 0)], Settings())
    by_fault = {row["fault"]: row for row in rows}
    row = by_fault["volunteered"]
    assert (row["cases"], row["lines"], row["found"], row["share"]) == (2, 10, 3, 0.1)
    assert row["share_low"] < 0.1 < row["share_high"]  # type: ignore[operator]
    assert "share" not in by_fault["hint"] and by_fault["hint"]["cases"] == 0
    alone = role_rows([tally("text", 2, 9, 0)], Settings())
    (only,) = [row for row in alone if row["fault"] == "volunteered"]
    assert "share" not in only and only["found"] == 2
    # none in 60 cases of one line: the exact bound, 1 - 0.05^(1/60)
    clean = role_rows([tally(str(n), 0, 1, 1) for n in range(60)], Settings())
    bound = next(row["share_high"] for row in clean if row["fault"] == "volunteered")
    assert bound == pytest.approx(1 - 0.05 ** (1 / 60), abs=0.003)


def test_a_report_of_the_judge_is_checked() -> None:
    asks = says("How long has this been so?")
    episode = play(CASE, in_turn(asks), patient=in_turn(answers("Mother: For a week.")), turns=1)
    lines = lines_of(encounter_of(episode), packets_of(CASE))[1:]

    def found(**values: Any) -> list[str]:
        fault = {"line": 2, "kind": "hint", "quote": "for a week", "against": ""} | values
        return report_faults(msgspec.convert({"faults": [fault]}, Report), lines, packets_of(CASE))

    assert found() == []
    assert found(line=1) == ["there is no line 1"]  # the clinician's
    assert found(quote="for a month") == ["the quote of line 2 is not in it"]
    assert "neither in the material" in found(kind="contradiction")[0]
    assert found(kind="contradiction", against="too young to answer") == []


def test_variance_components_by_hand() -> None:
    """Exact effects: cases 0, 2, 4 (variance 4), runs 0, 1 (variance 0.5), and nothing else."""
    exact = {(f"c{c}", f"r{r}", "p"): 2.0 * c + 1.0 * r for c in range(3) for r in range(2)}
    found = {c.factor: c for c in components(exact, ("case", "run", "patient"))}
    assert found["case"].variance == pytest.approx(4.0)
    assert found["run"].variance == pytest.approx(0.5)
    assert found["patient"].variance is None and found["rest"].variance == pytest.approx(0.0)
    # a two-way table with one value moved by 6: rest sum of squares 6^2 * (1-1/3)(1-1/2) = 12, 2 df
    moved = exact | {("c0", "r0", "p"): 6.0}
    assert components(moved, ("case", "run", "patient"))[-1].variance == pytest.approx(6.0)
    incomplete = {key: v for key, v in exact.items() if key != ("c0", "r1", "p")}
    assert components(incomplete, ("case", "run", "patient"))[0].levels == 2
    assert components({}, ("case",)) == []


def roles(prompt: str) -> str:
    """Return a patient that talks of its script, and a judge that finds it."""
    if "You check how true" not in prompt:
        return answers("Uncle: The script is mute.", present=["Patient"])
    lines = [line for line in prompt.splitlines() if line.startswith("[") and "script" in line]
    if not lines:
        return json.dumps({"faults": []})
    number = int(lines[0][1 : lines[0].index("]")])
    found = [{"line": number, "kind": "hint", "quote": "the script", "against": ""}]
    return json.dumps({"faults": found})


@pytest.mark.slow
def test_stored_encounters_are_checked_by_rule_and_by_a_judge(here: Path, shell: Shell) -> None:
    with serve_in_thread(roles) as server:
        who = model_file(server, "patient")
        base = ("run", "benchmark=agentclinic", "data=sample", "results_dir=r")
        for clinic in ("encounter/oracle", "encounter/asks_everything"):
            for cast in ((), (f"cast.patient={who}",)):
                shell(*base, f"model={clinic}", *cast)
        args = ("qc", "simulation", "--results-dir", "r")
        rows = by_level(shell.json(*args, "--examples", "e.jsonl"))
        by_rule = {(r["role"], r["model"], r["fault"]): r for r in rows["role"]}
        assert by_rule["patient", "test/patient", "role_break"]["share"] == 1.0
        assert by_rule["patient", "test/patient", "hint"]["share"] is None, "no rule tells"
        assert by_rule["patient", "script/packet", "any"]["share"] == 0.0
        assert {r["shown"] > 0 for r in rows["script"] if r["model"] == "test/patient"} == {False}
        marked = {(r["model"], r["cast"]): r for r in rows["clinician"]}
        bad = marked["encounter/asks_everything", "test/patient + script/packet"]
        assert bad["marked"] == bad["cases"] == 3 and bad["mean_unmarked"] is None
        silent = marked["encounter/oracle", "script/packet + script/packet"]
        assert (silent["marked"], silent["unchecked"]) == (None, 3)  # nobody was asked anything
        assert {r["moved"] for r in rows["cast"]} == {0} and len(rows["cast"]) == 4
        assert rows["variance"]
        cast = ("tables", "--table", "encounter_cast", "--results-dir", "r", "--data", "sample")
        shown = shell.json(*cast, "--latest")["rows"]
        found = {(r["level"], r["model"], r["fault"]): r for r in shown}
        for fault in ("role_break", "any"):
            row = found["role", "test/patient", fault]
            assert (row["cases"], row["share"]) == (3, 1.0)
        asked = found["clinician", "encounter/asks_everything", None]
        assert asked["clean"] == 0.0
        assert (asked["marked"], asked["cases"], asked["mean_unmarked"]) == (3, 3, None)
        assert ("clinician", "encounter/oracle", None) not in found  # nobody was asked anything
        first = json.loads((here / "e.jsonl").read_text().splitlines()[0])
        assert (first["kind"], first["by"], first["quote"]) == ("role_break", "rule", "Uncle")

        judge = model_file(server, "judge")
        before = server.requests
        judged = (*args, "--judge", judge, "--level", "judge")
        (planned,) = shell.json(*judged, "--estimate")["runs"]
        assert planned["to_ask"] > 0 and server.requests == before
        assert "--judge" in shell.error(*args, "--estimate")
        out = shell.json(*judged, "--model", "encounter/asks_everything")
        assert server.requests > before
        sent = server.requests
        rows = by_level(out)
        row = {(r["model"], r["fault"]): r for r in rows["judge"]}["test/patient", "hint"]
        assert (row["cases"], row["share"]) == (3, 1.0)
        control = {r["fault"]: r for r in rows["control"]}
        assert control["any"]["missed"] == 1.0 and control["any"]["planted"] >= 12
        assert control["hint"]["wrong"] == 0.0 and control["hint"]["wrong_high"] > 0.0
        assert shell.json(*judged, "--model", "encounter/asks_everything") == out
        assert server.requests == sent


def test_controls_have_lines_whose_fault_is_known() -> None:
    cases = [*open_dataset(MEDSP1000, "sample", root=Path("none")).instances()]
    played = [to_judge("run", play(case, rule(case, "asks_everything"))) for case in cases]
    encounters = [*filter(None, played)]
    assert [*controls_of(encounters, 0)] == []
    controls = [*controls_of(encounters, None)]
    assert controls == [*controls_of(encounters[::-1], None)] and len(controls) == 6
    kinds: set[str | None] = set()
    known = {case.id: packets_of(case) for case in cases}
    for control in controls:
        own = known[control.id.split("/", 2)[2].rsplit("/", 1)[0]]
        judged = msgspec.convert(control.payload, Judged)
        by_number = {line.number: line for line in judged.lines}
        rule_kinds = {
            (f.line, f.kind)
            for f in faults_by_rule([*lines_of(judged.encounter, own)], own, control.context)
        }
        for number, kind in judged.planted:
            line = by_number[number]
            kinds.add(kind)
            texts = own.patient.text + own.controller.text
            is_own = line.text.removeprefix(f"{speaker_of(line.text)}: ") in texts
            assert is_own == (kind in (None, "volunteered")), (kind, line.text)
            if kind is None:
                assert not {found for n, found in rule_kinds if n == number} - {"loop"}
    assert kinds == {None, "volunteered", "leak", "invented_finding", "contradiction"}

    def says_of(control: Instance) -> list[dict[str, object]]:
        """Return what a judge says who names every planted fault, and one clean line of each control."""
        lines = msgspec.convert(control.payload, Judged).planted
        wrong = next(n for n, kind in lines if kind is None)
        found = [(n, kind) for n, kind in lines if kind] + [(wrong, "hint")]
        return [{"kind": kind, "role": "patient", "turn": 1, "line": n} for n, kind in found]

    judged = [ended(control, says_of(control)) for control in controls]
    found, n = told([*judged, ended(encounters[0], []), ended(controls[0], None)])
    assert n == 7 and found["unread"] == 1
    assert found["planted/any"] >= 15 and found["missed/any"] == 0
    assert (found["wrong/any"], found["wrong/hint"], found["wrong/leak"]) == (6, 6, 0)
    assert found["clean_lines/any"] == found["clean_lines/leak"] >= 12
    silent, _ = told([ended(control, []) for control in controls])
    assert silent["missed/any"] == silent["planted/any"] == found["planted/any"]


def told(episodes: list[Episode]) -> tuple[Counter[str], int]:
    """Return what a judge made of controls, over all of them, and how many there are."""
    tallies = [*control_tallies("medsp1000", episodes)]
    return sum((Counter(tally.sums) for tally in tallies), Counter()), len(tallies)


def ended(control: Instance, faults: object) -> Episode:
    state = {} if faults is None else {"faults": faults}
    return Episode(instance=control, response=Response(instance_id=control.id), state=state)


def by_level(table: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in table["rows"]:
        found.setdefault(row["level"], []).append(row)
    return found


def test_what_the_rules_find_is_right_and_the_docs_say_how_much_they_miss() -> None:
    spec = importlib.util.spec_from_file_location("rules_on_lines", ROOT / "perf/fidelity_rules.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    rows = [*script.judged()]
    assert len(rows) == 176 and sum(not due for _, due, _ in rows) == 92
    found = [*script.counts(rows)]
    assert all(right >= 0.9 * said for _, _, said, right in found)
    by_kind = {kind: counted for kind, *counted in found}
    faults, said, right = by_kind["any"]
    unseen = [by_kind[kind] for kind in ("hint", "meta_language")]
    assert said - right == 1 and all(said == 0 for _, said, _ in unseen)
    docs = " ".join((ROOT / "docs" / "encounters.md").read_text("utf-8").split())
    assert f"Of {faults} faults in {len(rows)} lines" in docs
    assert f"rules find {right}," in docs and f"none of {sum(n for n, *_ in unseen)} hints" in docs


def test_a_grading_by_other_metrics_is_not_another_evaluator(tmp_path: Path) -> None:
    change = msgspec.structs.replace
    given = {"data": "sample", "results_dir": tmp_path, "plugins": [str(PLUGIN)]}
    evaluate(["encounter/oracle", "encounter/asks_everything"], "stage", **given)  # type: ignore[arg-type]
    runs = [check_run(run) for run in graded_runs(tmp_path)[0]]

    def graded(run: CheckedRun, name: str, cast: str = "", **more: Any) -> CheckedRun:
        """Return a run as another grading has it, or as with another patient."""
        record = run.run.record
        spec, players = record.spec, record.spec.cast
        if cast:
            spec = change(spec, cast={**players, "patient": change(players["patient"], name=cast)})
        terms = tuple(change(own, **more) for own in record.grading.graders)
        grading = change(record.grading, graders=terms)
        record = change(record, spec=spec, grading=grading, grading_hash=name)
        path = run.run.path.parents[2] / f"request{cast}" / "gradings" / name
        own = dataclasses.replace(run.run, record=record, path=path)
        return with_values(dataclasses.replace(run, run=own), run.values)

    def with_values(run: CheckedRun, values: Mapping[tuple[str, int], float]) -> CheckedRun:
        run.__dict__["values"] = values  # in place of those in the folder
        return run

    def evaluators(*found: CheckedRun) -> set[object]:
        rows = variance_rows(found)
        return {row["levels"] for row in rows if row["factor"] == "evaluator"}

    again = [graded(run, "same") for run in runs]
    other = [
        graded(run, "other", jury=JurySpec(name="x", judges=(ModelSpec(name="x/judge"),)))
        for run in runs
    ]
    assert evaluators(*runs, *again) == set() and evaluators(*runs, *other) == {2}
    # the newest grading of one cast is by another evaluator than those of the other cast
    zero = [with_values(dataclasses.replace(run), dict.fromkeys(run.values, 0.0)) for run in other]
    beside = [graded(run, "same", cast="x/patient") for run in runs]
    rows = [*cast_rows([*runs, *beside, *zero])]
    means = {(row["model"], row["cast"]): row["mean"] for row in rows}
    assert len(means) == 4
    for cast in ("script/packet", "x/patient"):
        assert means["encounter/oracle", f"{cast} + script/packet"] == 1.0
        assert means["encounter/asks_everything", f"{cast} + script/packet"] == 0.25
