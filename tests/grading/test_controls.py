"""Controls: which verdicts are due, what they say of judges that are bad in a known way, and who is ranked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

import medhelm
from medhelm import Criterion, Instance
from medhelm.grading.graders.controls import (
    Controlled,
    Item,
    Sample,
    answer,
    count_controls,
    make_controls,
    together,
)
from medhelm.grading.panels import StoredVerdicts
from medhelm.grading.rubric.grader import CONTROLS
from medhelm.grading.rubric.verdicts import Verdicts, majority
from medhelm.schema.run import JurySpec, RunRecord
from medhelm.stats.intervals import exact_share
from medhelm.store import records
from medhelm.tables.study.judge_errors import failure
from medhelm_benchmarks.encounters.grading.evaluator import Verdict
from medhelm_benchmarks.encounters.grading.evaluator import Verdicts as EvaluatorVerdicts
from medhelm_benchmarks.encounters.grading.evaluator import majority as evaluators_majority
from tests.build_runs import EXACT, items, write_run
from tests.rubric.test_grader import PLUGIN, judge
from tests.server import FaultServer, serve_in_thread
from tests.shell import Shell


def case(name: str, *texts: str, points: float = 1.0, gold: str = "", asked: str = "") -> Instance:
    criteria = tuple(
        Criterion(name=f"c{n}", text=text, points=points) for n, text in enumerate(texts)
    )
    references = (gold,) if gold else ()
    return Instance(id=name, question=asked, criteria=criteria, references=references)


def test_a_verdict_is_due_only_where_it_is_known() -> None:
    """Of an answer without content no absence, limit or fault; of another case's only what is its own."""
    wards = case(
        "a", "Names amoxicillin.", "Doesn’t advise aspirin.", "Greets the patient.", "Speaks slowly.",
        gold="Amoxi.", asked="How much amoxicillin does the patient need?",
    )  # fmt: skip
    faults = case("b", "Advises surgery at once.", points=-1.0)
    third = case("c", "Greets the patient.", "Names furosemide.")
    given = [
        answer(i, text)
        for i, text in ((wards, "One."), (faults, "Take furosemide."), (third, "Rest."))
    ]
    found = make_controls(CONTROLS, {}, given, lambda e: e.text)
    due = [
        (c.instance_id, c.instance.answer_key["medhelm:control"], c.text, c.instance.answer_key["medhelm:due"])
        for c in found
    ]  # fmt: skip
    assert due == [
        ("a", "empty", "", "-.--"),
        # greeting is asked for in another case, too; who speaks slowly may do so in any case
        ("a", "other", "Take furosemide.", "-..."),
        ("a", "right", "Amoxi.", "++++"),
        ("c", "empty", "", "--"),
    ]


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("Asks about allergies.", True),
        ("Gives at most two doses.", False),
        ("Dismisses, ignores, or has little interest in patient perspective.", False),
        ("Minimal curiosity and incomplete efforts to elicit it.", False),
        ("Allows for silence.", False),
    ],
)
def test_silence_may_be_an_absence_too_little_or_calm(text: str, is_known: bool) -> None:
    assert Item(text).needs_content is is_known


def test_several_judges_decide_together_and_what_is_not_valid_is_in_no_share() -> None:
    def one(*given: bool | None, case: str = "a", due: str = "--+") -> Controlled:
        return Controlled(case, "empty", due, given)

    assert together([one(True, False, None), one(True, True, True)], 2).given == (True, False, None)
    positive, negative = count_controls("g", "j", [one(True, None, True), one(case="b")])
    assert (positive.wrong, positive.verdicts, positive.invalid, positive.cases) == (1, 1, 3, 1)
    assert (negative.wrong, negative.verdicts, negative.invalid) == (0, 1, 1)
    sums = {"wrong": 1, "verdicts": 1, "invalid": 3, "cases": 1, "ww": 1, "wv": 1, "vv": 1}
    assert positive.kinds == {"empty": sums}


@pytest.mark.parametrize(
    ("told", "said"), [(10, "other: 10 of 20"), (5, "other: 5 of 20"), (2, ""), (0, "")]
)
def test_many_easy_controls_hide_no_errors_on_the_others(told: int, said: str) -> None:
    """10 of 220 verdicts are wrong (up to 8 %), but 10 of the 20 on answers to another case; or 5, 2 and none.

    20 verdicts are too few for a faultless judge to pass, so that their share itself decides.
    """
    judged = [
        own
        for n in range(10)
        for own in (
            Controlled(f"c{n}", "empty", "-" * 20, (False,) * 20),
            Controlled(f"c{n}", "other", "--", (n < told, False)),
        )
    ]
    record: Any = SimpleNamespace(controls=[*count_controls("jury", "j", judged)])
    found = failure([record], "jury")
    assert said in found and bool(found) is bool(said)


def test_judges_without_a_valid_verdict_on_controls_rank_nobody() -> None:
    judged = [Controlled(f"c{n}", "empty", "---", (None,) * 3) for n in range(10)]
    record: Any = SimpleNamespace(controls=[*count_controls("jury", "j", judged)])
    assert "none of 30" in failure([record], "jury")


def test_a_person_beside_a_model_voids_no_control() -> None:
    """People are asked about none, so that a quorum of two is never met on controls."""
    panel = StoredVerdicts.__new__(StoredVerdicts)
    panel.judges = ("m/always", "rater/anna")
    told = {n: Controlled(f"c{n}", "empty", "---", (True,) * 3) for n in range(10)}
    panel._controls = [told, {}]
    terms = SimpleNamespace(jury=SimpleNamespace(quorum=2))
    panel._judging = SimpleNamespace(grader=SimpleNamespace(name="g"), terms=terms)
    record: Any = SimpleNamespace(
        controls=panel.controls(),
        grading=SimpleNamespace(graders=[SimpleNamespace(grader="g", metrics=["shares"])]),
    )
    assert "false positives 100%" in failure([record], "shares")


VOTES = st.lists(
    st.lists(st.sampled_from([True, False, None]), min_size=3, max_size=3), min_size=1, max_size=4
)


@given(VOTES, st.integers(0, 3), st.integers(0, 2), st.integers(1, 3))
def test_a_verdict_that_is_left_out_turns_no_decision(
    votes: list[list[bool | None]], judge: int, place: int, quorum: int
) -> None:
    """Whoever leaves one out and has others can take a decision away, and make no other one of it."""
    judge %= len(votes)
    fewer = [[*own] for own in votes]
    fewer[judge][place] = None
    if all(met is None for met in fewer[judge]):
        return  # has no verdict on the case: one judge less
    before = majority([Verdicts(met=tuple(own)) for own in votes], quorum)
    after = majority([Verdicts(met=tuple(own)) for own in fewer], quorum)
    items = [EvaluatorVerdicts(items=tuple(Verdict(met=m) for m in own)) for own in fewer]
    assert tuple(v.met for v in evaluators_majority(items, 3, quorum)) == after
    for number, (then, now) in enumerate(zip(before, after, strict=True)):
        assert now is then or (number == place and now is None)


@given(st.lists(st.integers(0, 10**6), unique=True, min_size=1, max_size=60), st.integers(1, 20))
def test_a_sample_is_the_same_in_any_order(names: list[int], size: int) -> None:
    def chosen(order: list[int]) -> list[str]:
        sample = Sample(size)
        for name in order:
            sample.add(answer(Instance(id=str(name)), ""))
        return [e.instance_id for e in sample.episodes(size)]

    assert chosen(names) == chosen(sorted(names)) and len(chosen(names)) == min(size, len(names))


def test_the_interval_of_a_share_in_clusters() -> None:
    """Of single verdicts Clopper and Pearson's, but for the spread by n - 1; of whole clusters fewer are worth it."""
    exact = scipy_stats.binomtest(30, 500).proportion_ci(0.95, "exact")
    assert exact_share(30, 500, (30, 30, 500), 500, 0.95) == pytest.approx(exact, abs=2e-3)
    low, high = exact_share(0, 40, (0, 0, 80), 20, 0.95)  # two verdicts of each of 20 cases
    worth = 40 * (scipy_stats.t.ppf(0.975, 39) / scipy_stats.t.ppf(0.975, 19)) ** 2
    assert (low, high) == (0.0, pytest.approx(1 - 0.025 ** (1 / worth)))
    # one of ten cases wrong in all of its 20 verdicts, by the formulas of Korn and Graubard
    wrong = np.array([20.0, *[0.0] * 9])
    variance = 10 / 9 * ((wrong - 0.1 * 20) ** 2).sum() / 200**2
    worth = (
        0.1 * 0.9 / variance * (scipy_stats.t.ppf(0.975, 199) / scipy_stats.t.ppf(0.975, 9)) ** 2
    )
    ends = (
        scipy_stats.beta.ppf(0.025, 0.1 * worth, 0.9 * worth + 1),
        scipy_stats.beta.ppf(0.975, 0.1 * worth + 1, 0.9 * worth),
    )
    assert exact_share(20, 200, (400, 400, 4000), 10, 0.95) == pytest.approx(ends)
    assert exact_share(0, 5, (0, 0, 25), 1, 0.95) == (0.0, 1.0)


WORDS = ("alpha", "bravo", "carol", "delta", "echo")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    path = folder / "checklist" / "checklist.jsonl"
    path.parent.mkdir()
    with path.open("w") as lines:
        for n in range(20):
            texts = [{"text": f"Names {word}{n:02}."} for word in WORDS]
            asked = ", ".join(f"{word}{n:02}" for word in WORDS)
            row = {"id": f"k{n}", "question": f"Which of {asked}?", "threshold": "2/5"}
            lines.write(json.dumps(row | {"criteria": texts}) + "\n")
    return folder


def by_words(prompt: str) -> str:
    """Decide as is right: by the word of the criterion in the answer."""
    (word,) = re.findall(r"Names (\w+)\.", prompt.rpartition("<criterion ")[2])
    (text,) = re.findall(r"<answer[^>]*>\n(.*?)\n?</answer", prompt, re.DOTALL)
    return json.dumps({"explanation": "So.", "criteria_met": word in text})


def always(verdict: bool) -> Callable[[str], str]:
    return lambda prompt: json.dumps({"explanation": "So.", "criteria_met": verdict})


class Asked:
    """Runs that one judge grades."""

    def __init__(self, server: FaultServer, data: Path) -> None:
        self.server = server
        jury = JurySpec(name="test", judges=(judge(server),), quorum=1)
        self.more: dict[str, Any] = {"data_dir": data, "plugins": PLUGIN, "jury": jury}

    def run(self, folder: Path, **more: Any) -> tuple[RunRecord, int]:
        """Return the record, and how many requests were sent."""
        before = self.server.requests
        medhelm.evaluate("baseline/lead", "checklist", results_dir=folder, **self.more, **more)
        (grading,) = records.find_gradings(folder)
        return records.read_record(grading), self.server.requests - before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "wrong", "high"), [(by_words, 0, 0.05), (always(True), 100, 1.0)]
)
def test_a_judge_that_says_yes_to_all_ranks_nobody(
    tmp_path: Path, data: Path, reply: Any, wrong: int, high: float
) -> None:
    with serve_in_thread(reply) as server:
        asked = Asked(server, data)
        record, sent = asked.run(tmp_path)
        assert (sent, asked.run(tmp_path)) == (200, (record, 0))
    (found,) = record.controls  # no golds, so that nothing is known of false negatives
    assert (found.wrong, found.verdicts, found.cases) == (wrong, 100, 10)
    assert found.what == "false positive"
    assert {k: v["verdicts"] for k, v in found.kinds.items()} == {"empty": 50, "other": 50}
    (totals,) = record.graders
    assert totals.ends == {"scored": 20} and totals.usage.requests == 200
    row = medhelm.load_results(tmp_path).typed("benchmarks").rows[0]
    assert row["false_positives_high"] == pytest.approx(high, abs=0.01)
    assert ("controls" in str(row["flags"])) is bool(wrong)


@pytest.mark.slow
def test_controls_are_in_no_score_and_are_asked_later_where_they_were_left_out(
    tmp_path: Path, data: Path
) -> None:
    with serve_in_thread(by_words) as server:
        asked = Asked(server, data)
        plain, sent = asked.run(tmp_path, controls=0)
        assert (sent, plain.controls) == (100, ())
        notes = " ".join(medhelm.load_results(tmp_path).typed("benchmarks").notes)
        assert "without controls" in notes
        measured, sent = asked.run(tmp_path)
        assert (sent, measured.results) == (100, plain.results)
        more, sent = asked.run(tmp_path, controls=1)
        assert (sent, more.results, more.controls[0].cases) == (100, plain.results, 20)


@pytest.mark.slow
def test_a_damaged_control_is_told_and_mended(tmp_path: Path, data: Path, shell: Shell) -> None:
    score = ("score", "--results-dir", str(tmp_path), "--plugin", PLUGIN)

    def told() -> list[str]:
        notes = medhelm.load_results(tmp_path).typed("controls").notes
        return [note for note in notes if note.startswith("Lines of judges' logs")]

    with serve_in_thread(by_words) as server:
        asked = Asked(server, data)
        whole, _ = asked.run(tmp_path)
        (log,) = set(tmp_path.rglob("*/responses.jsonl")) - set(
            tmp_path.glob("runs/*/*/*/responses.jsonl")
        )
        lines = log.read_bytes().splitlines(keepends=True)
        place = next(n for n, line in enumerate(lines) if b'"empty"' in line)
        lines[place] = lines[place].replace(b'"empty"', b'"emptx"')
        log.write_bytes(b"".join(lines))
        assert told() == []
        shell(*score)
        assert "checklist x baseline/lead (1)" in told()[0]
        assert told()[0] in medhelm.load_results(tmp_path).typed("benchmarks").notes
        damaged = records.read_record(*records.find_gradings(tmp_path))
        assert (damaged.results, damaged.controls != whole.controls) == (whole.results, True)
        mended, sent = asked.run(tmp_path)
        assert sent == 0, "its calls are in the log"
        assert (mended.controls, told()) == (whole.controls, [])


@pytest.mark.slow
def test_the_estimate_and_the_gate_know_them(tmp_path: Path, data: Path, shell: Shell) -> None:
    with serve_in_thread(always(True)) as server:
        asked, folder = Asked(server, data), tmp_path / "results"
        where: dict[str, Any] = {"results_dir": folder, **asked.more}
        (before,) = medhelm.estimate("baseline/lead", "checklist", **where)
        asked.run(folder)
        (after,) = medhelm.estimate("baseline/lead", "checklist", **where)
        assert (before.judges[0].calls, after.judges[0].calls) == (server.requests, 0)
    profile = tmp_path / "ward.yaml"
    lines = "description: d\n{}thresholds:\n  - {{benchmark: checklist, metric: rubric_accuracy, minimum: 0.5}}\n"
    argv = f"gate --profile {profile} --results-dir {folder} --plugin {PLUGIN}".split()
    for limit, code in (("", 2), ("max_false_positives: 1.0\n", 0)):
        profile.write_text(lines.format(limit))
        shell(*argv, "--model", "baseline/lead", code=code)
        assert ("fail their controls" in shell.out) is (code == 2)


def test_a_model_is_ranked_only_where_missing_verdicts_leave_its_place(tmp_path: Path) -> None:
    """a: 0.50 to 0.75 by what no judge said; b: 0.625, exactly; c: 0.25. So a may be before or behind b."""
    highest = msgspec.structs.replace(EXACT, name="exact_match_highest")
    for model, low, high in (("a", 4, 6), ("b", 5, 5), ("c", 2, 2)):
        rows = items([float(n < low) for n in range(8)])
        rows += items([float(n < high) for n in range(8)], metric=highest.name)
        write_run(tmp_path, "quiz", model, rows, metrics=(EXACT, highest))
    table = medhelm.load_results(tmp_path).typed("overall")
    assert {row["model"]: row["rank"] for row in table.rows} == {"a": None, "b": 1, "c": 2}
