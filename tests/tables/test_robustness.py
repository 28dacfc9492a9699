"""Multiple choice in other forms, from the command to the tables: worked by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medhelm
from medhelm import load_results, read_choice
from medhelm.data.dataset import open_dataset
from medhelm.data.variants import OF_OPTIONS, as_shown, can_vary, vary, with_labels
from medhelm.errors import UsageError
from medhelm.plugins.registry import load_registry
from medhelm.prompts.messages import render_prompt
from medhelm.store import records
from medhelm.tables.format.table import Settings
from tests.server import Faults, Reply, serve_in_thread
from tests.shell import Shell

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).parents[1] / "plugins" / "exam.py"
QUESTIONS = 24
_LINE = re.compile(r"^([A-Z]|\d|[IVX]+)\. (.+)$", re.MULTILINE)


def write_exam(folder: Path) -> Path:
    """Write questions, two to a stem; the last but one has an option that names others."""
    path = folder / "data" / "exam" / "exam.jsonl"
    path.parent.mkdir(parents=True)
    rows = []
    for i in range(QUESTIONS):
        options = [f"{kind} number {i}" for kind in ("right", "wrong", "bad", "poor")]
        place = i * 5 % 4
        options[0], options[place] = options[place], options[0]
        if i == QUESTIONS - 2:
            options = ["right choice", "wrong choice", "both a and b", "poor choice"]
            place = 0
        row = {"id": f"q{i}", "stem": f"s{i // 2}", "question": f"Question {i}?"}
        rows.append(row | {"options": options, "gold": "ABCD"[place]})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "data"


def shown(prompt: str) -> tuple[int, list[tuple[str, str]]]:
    """Return the number of the question of a prompt, and its labels with the texts."""
    number = re.search(r"Question (\d+)\?", prompt)
    assert number is not None
    return int(number[1]), _LINE.findall(prompt)


def student(prompt: str) -> str | Reply:
    """Know the first 12 questions; choose the second place in the next 8; say nothing else."""
    i, options = shown(prompt)
    if i == 20:
        return Reply(text="", refusal="I cannot help with this.")
    if i == 21:
        return "It depends."
    if i > 21:
        return f"Answer: {options[0][0]}"
    label = options[1][0]
    if i < 12:
        label = next((name for name, text in options if text.startswith("right")), options[3][0])
    return f"The answer is {label}." if i % 2 else f"{label}) {dict(options)[label]}"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], dict[str, Any]]:
    """Run all forms against a server that fails now and then; return what it was asked."""
    folder = tmp_path_factory.mktemp("robustness")
    given: dict[str, Any] = {
        "benchmarks": "exam",
        "data_dir": write_exam(folder),
        "results_dir": folder / "results",
        "plugins": [PLUGIN],
        "variants": "all",
    }
    faults = Faults(rate=0.2, kinds=("500", "429_retry_after"), retry_after_s=0.0)
    with serve_in_thread(answer=student, faults=faults) as server:
        model = server.model("openai/student")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", "test-key")
            medhelm.evaluate(model, **given)
            prompts, before = list(server.asked), server.requests
            medhelm.evaluate(model, **given)
            assert server.requests == before > len(prompts), "some failed; nothing is asked twice"
    return folder / "results", prompts, given


def by_form(prompts: list[str]) -> dict[str, dict[int, list[tuple[str, str]]]]:
    """Return the options of each question as they were sent, by form."""
    found: dict[str, dict[int, list[tuple[str, str]]]] = {}
    rows = sorted(map(shown, prompts), key=lambda row: row[0])
    for i, options in rows:
        texts = [text for _, text in options]
        if options[0][0] == "A" and "None of these" not in texts:
            place = i * 5 % 4 if i != QUESTIONS - 2 else 0
            order = ["right", "wrong", "bad", "poor"]
            order[0], order[place] = order[place], order[0]
            is_plain = [t.split()[0] for t in texts] == order or i == QUESTIONS - 2
            form = "original" if is_plain else "shuffled"
        else:
            form = {"1": "digits", "I": "roman", "A": "none_of_these"}[options[0][0]]
        found.setdefault(form, {})[i] = options
    return found


def test_the_tables_are_those_counted_from_what_was_sent(
    asked: tuple[Path, list[str], dict[str, Any]],
) -> None:
    results, prompts, _ = asked
    forms = by_form(prompts)
    assert {form: len(own) for form, own in forms.items()} == {
        "original": 24,
        **dict.fromkeys(("shuffled", "digits", "roman", "none_of_these"), 23),
    }

    def chosen(form: str, i: int) -> tuple[str, str] | None:
        """Return the text that is chosen in a form, `none` as the right one; and the place."""
        options = forms[form][i]
        if i in (20, 21):
            return None
        texts = [t.replace("None of these", f"right number {i}") for _, t in options]
        if i < 12:
            is_known = form != "none_of_these"
            place = next(k for k, t in enumerate(texts) if t.startswith("right")) if is_known else 3
        else:
            place = 1 if i < 20 else 0
        return texts[place], "ABCD"[place]

    table = {row["variant"]: row for row in load_results(results).typed("robustness").rows}
    assert list(table) == ["original", "shuffled", "digits", "roman", "none_of_these"]
    for form, row in table.items():
        known = [i for i in forms[form] if i != QUESTIONS - 2 or form == "original"]
        score = {i: float(bool((c := chosen(form, i)) and c[0].startswith("right"))) for i in known}
        assert row["n"] == len(known)
        assert row["score"] == pytest.approx(np.mean(list(score.values())))
        assert (row["unread"], row["refused"], row["failed"]) == (1, 1, 0), (
            "neither is a wrong answer"
        )
        if form == "original":
            continue
        before = {
            i: float(bool((c := chosen("original", i)) and c[0].startswith("right"))) for i in known
        }
        assert row["original"] == pytest.approx(np.mean(list(before.values())))
        assert row["difference"] == pytest.approx(row["score"] - row["original"])
        read = [i for i in known if chosen(form, i)]
        flips = [chosen(form, i)[0] != chosen("original", i)[0] for i in read]  # type: ignore[index]
        assert (row["pairs"], row["left_out"]) == (len(read), 1)
        assert row["flipped"] == pytest.approx(np.mean(flips))
        assert row["clusters"] == 12
    assert table["digits"]["flipped"] == table["roman"]["flipped"] == 0.0
    assert table["shuffled"]["flipped"] > 0.2
    assert table["none_of_these"]["score"] < 0.4 < table["original"]["score"]
    assert (
        table["shuffled"]["flipped_low"]
        < table["shuffled"]["flipped"]
        < table["shuffled"]["flipped_high"]
    )


def test_the_places_are_counted(asked: tuple[Path, list[str], dict[str, Any]]) -> None:
    results, prompts, _ = asked
    shuffled = by_form(prompts)["shuffled"]
    rows = load_results(results).typed("positions").rows
    own = [row for row in rows if row["variant"] == "shuffled"]
    assert [row["position"] for row in own] == [1, 2, 3, 4]
    for row in own:
        place = int(str(row["position"])) - 1
        here = [i for i, options in shuffled.items() if options[place][1].startswith("right")]
        right = [i < 12 or (i < 20 and place == 1) or (i > 21 and place == 0) for i in here]
        assert (row["n"], row["score"]) == (len(here), pytest.approx(np.mean(right)))
    assert sum(float(str(row["chosen"])) for row in own) == pytest.approx(1)
    assert own[1]["chosen"] > own[1]["right"], "the place that it favours"


def test_other_tables_are_of_the_original_questions(
    asked: tuple[Path, list[str], dict[str, Any]],
) -> None:
    results, _, _ = asked
    found = load_results(results)
    (row,) = found.typed("benchmarks", Settings(draws=100)).rows
    assert row["n"] == QUESTIONS
    assert any("questions in other forms" in note for note in found.notes)
    hashes = {records.read_record(g).request_hash for g in records.find_gradings(results)}
    assert len(hashes) == 5


def test_runs_are_chosen_with_their_forms(asked: tuple[Path, list[str], dict[str, Any]]) -> None:
    results, _, _ = asked
    (row,) = load_results(results).typed("benchmarks").rows
    chosen = load_results(results, runs=[str(Path(str(row["run"])).parents[1])])
    assert len(chosen.typed("robustness").rows) == 5
    records_of = [records.read_record(g) for g in records.find_gradings(results)]
    (form,) = [r for r in records_of if r.spec.variant == "roman"]
    with pytest.raises(UsageError, match="of a graded run"):
        load_results(results, runs=[f"runs/exam/openai__student/{form.request_hash}"])


def test_rules_offline(tmp_path: Path, shell: Shell) -> None:
    """The oracle is right in all forms; always the first option is as right as chance lets it be."""
    argv = (
        "model=baseline/oracle,baseline/first_option,baseline/lexical",
        "benchmark=exam",
        f"data_dir={write_exam(tmp_path)}",
        f"results_dir={tmp_path / 'results'}",
        f"plugins=[{PLUGIN}]",
        "variants=all",
        "max_instances=20",
    )
    assert "Questions in other forms" in shell("run", *argv)
    found = load_results(tmp_path / "results").typed("robustness", Settings(draws=100))
    assert any("always takes it" in note for note in found.notes)
    rows = found.rows
    oracle = [row for row in rows if row["model"] == "baseline/oracle"]
    assert [row["score"] for row in oracle] == [1.0] * 5
    assert {row["flipped"] for row in oracle[1:]} == {0.0}
    first = {r["variant"]: r for r in rows if r["model"] == "baseline/first_option"}
    assert first["digits"]["difference"] == 0.0
    assert first["shuffled"]["flipped"] > 0.5
    assert max(int(str(row["n"])) for row in rows) == 20
    assert all(
        row["n"] + row.get("left_out", 0) == 20 for row in rows if row["variant"] != "original"
    )
    assert "exam (none_of_these)" in shell("estimate", *argv)


@pytest.mark.parametrize(
    ("benchmark", "variants", "words"),
    [
        ("medec", "all", "medec has no questions"),
        ("pubmed_qa", ["none_of_these"], "pubmed_qa has no questions"),
        ("med_qa", ["mirrored"], "mirrored"),
    ],
)
def test_what_has_no_options_is_refused(
    tmp_path: Path, benchmark: str, variants: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        more = {"data": "sample", "results_dir": tmp_path, "variants": variants}
        medhelm.evaluate("baseline/lexical", benchmark, **more)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_every_registered_benchmark_of_options_has_a_form(tmp_path: Path) -> None:
    """Of every sample in every form the gold is read, and no prompt asks for a letter it lacks."""
    shown = set()
    for benchmark in filter(can_vary, load_registry().benchmarks.values()):
        whole = open_dataset(benchmark, "sample", root=tmp_path)
        for how in OF_OPTIONS:
            asked = with_labels(benchmark, how)
            for one in form.instances() if (form := vary(whole, how, 0)) else ():
                reply = as_shown(one, one.references[0])
                letter = read_choice(reply, one.choices, labels=one.option_labels).value
                assert letter == one.references[0], (benchmark.name, how, one.id)
                if one.option_labels:
                    assert "its letter" not in render_prompt(asked, one)[-1].content
                shown.add((benchmark.name, how))
    assert len({name for name, _ in shown}) > 20
    assert len({name for name, how in shown if how == "none_of_these"}) > 10


def test_another_patient_is_a_pair_with_the_first_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 30 men the student misses two; of the same as women eight others: McNemar's p is 2 (1 + 10 + 45) / 2^10."""
    path = tmp_path / "data" / "exam" / "exam.jsonl"
    path.parent.mkdir(parents=True)
    rows = [
        {
            "id": f"q{i}",
            "stem": f"s{i}",
            "question": f"A {20 + i}-year-old man has had a cough since his holiday. He takes {i} pills."
            if i < 30
            else f"Question {i}?",
            "options": [f"{kind} number {i}" for kind in ("right", "wrong", "bad", "poor")],
            "gold": "A",
        }
        for i in range(32)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def student(prompt: str) -> str:
        number = int(re.findall(r"right number (\d+)", prompt)[0])
        misses = (
            range(8) if "woman has had a cough since her holiday. She takes" in prompt else (10, 11)
        )
        return "B" if number in misses else "A"

    with serve_in_thread(answer=student) as server:
        model = server.model("openai/student")
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        folders = {"data_dir": tmp_path / "data", "results_dir": tmp_path / "results"}
        forms = ("patient_female", "patient_name", "patient_black")
        with pytest.warns(UserWarning, match=r"30 of 32 .*refused: .*\(2\)"):
            medhelm.evaluate(model, "exam", plugins=[PLUGIN], variants=forms, **folders)  # type: ignore[arg-type]
    found = {r["variant"]: r for r in load_results(tmp_path / "results").typed("robustness").rows}
    row = found["patient_female"]
    assert (row["n"], row["left_out"], row["lost"], row["gained"]) == (30, 2, 8, 2)
    assert (row["original"], row["score"]) == (pytest.approx(28 / 30), pytest.approx(22 / 30))
    assert (row["test"], row["p"]) == ("McNemar exact", pytest.approx(0.109375))
    assert row["p_holm"] == pytest.approx(3 * 0.109375)
    assert row["flipped"] == pytest.approx(10 / 30)
    assert {r["p_holm"] for r in found.values() if "name" in r["variant"]} == {1.0}  # type: ignore[operator]
