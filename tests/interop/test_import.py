"""`medhelm import`: files that Inspect, lm-evaluation-harness and HELM wrote become graded runs here.

`scripts/others/foreign_runs.py` had each tool ask the bundled samples; the files lie in `data`.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm import load_results
from medhelm.interop import inspect_log
from medhelm.interop.recorded import Matched, Questions, Recorded, shown_options, skeleton
from medhelm.schema.data import Instance
from medhelm.schema.episode import Likelihood, Message, Response
from medhelm.store.imported import read_imported
from medhelm.store.runlog import read_log
from medhelm_leaderboard import own_words
from tests.shell import Shell

FILES = Path(__file__).parent / "data"


def bring(
    shell: Shell, tool: str, results: Path, *more: str, path: Path | None = None, code: int = 0
) -> str:
    words = ["import", tool, path or FILES / tool, *more, "--data", "sample"]
    return shell(*words, "--results-dir", results, code=code)


def compared(results: Path, shell: Shell, *more: str) -> list[dict[str, Any]]:
    words = ["compare", *more, "--scorer", "theirs,ours", "--results-dir", str(results)]
    return list(shell.json(*words)["rows"])


def means(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, float, float, int]]:
    return {
        (r["benchmark"], r["their_metric"]): (r["n"], r["theirs"], r["ours"], r["differ"])
        for r in rows
        if r["level"] == "benchmark"
    }


def test_a_log_of_inspect_comes_in_as_a_run(tmp_path: Path, shell: Shell) -> None:
    said = bring(shell, "inspect", tmp_path, "--model", "openai/gpt-4o")
    assert "16 answers to 8 of 8 questions" in said and "12 answers to 12 of 12" in said
    assert "2 (other, other, repeat" in said
    results = load_results(tmp_path)
    (run,) = (r for r in results.runs if r.benchmark == "med_qa")
    spec = run.record.spec
    assert (run.model, spec.repeats) == ("openai/gpt-4o+inspect", 2)
    assert spec.model.sampling.temperature == 0.0
    notes = results.typed("benchmarks").notes
    assert any("prompts of Inspect 0.3.285" in note for note in notes)
    first = next(e for e in read_log(run.path.parents[1]) if e.instance.id == "test-00000")
    assert first.messages[0].content.startswith("Answer the following multiple choice question")
    assert first.messages[0].content.endswith("D) Left main coronary artery")
    assert first.text == "Option A fits best."
    assert (first.usage.input_tokens, first.usage.output_tokens) == (112, 4)
    origin = read_imported(run.path.parents[1])
    assert origin is not None and origin.tool == "inspect" and origin.tasks == ("med_qa",)
    assert [Path(file).name for file in origin.files] == ["med_qa.eval"]
    assert len(origin.answers) == 16
    assert origin.unmatched["other"] == "no question of the benchmark has its text"
    # what Inspect reports of the 8 of its 9 questions that are ours: 4 of 9 with the other one wrong
    rows = compared(tmp_path, shell)
    assert means(rows) == {
        ("med_qa", "choice"): (16, 0.5, 0.875, 6),
        ("medcalc_bench", "match"): (12, 5 / 12, 5 / 12, 0),
    }
    unlike = {r["instance_id"]: r for r in rows if r["level"] == "instance"}
    assert {*unlike} == {"test-00000", "test-00004", "test-00005"}
    assert unlike["test-00000"]["why"] == "the tool read no answer"
    assert unlike["test-00000"]["read"] == "A"
    assert not own_words.is_prompt_packaged(spec)  # the site shows no prompt of another tool


def test_a_json_log_is_read_as_the_archive_is(tmp_path: Path, shell: Shell) -> None:
    (log,) = inspect_log.read_logs(FILES / "inspect" / "med_qa.eval")
    with zipfile.ZipFile(FILES / "inspect" / "med_qa.eval") as archive:
        members = {info.filename: inspect_log._member(archive, info) for info in archive.infolist()}
    samples = [value for name, value in members.items() if name.startswith("samples/")]
    long = samples[0]["messages"][0]["content"]
    samples[0]["attachments"] = {"f00": long}
    samples[0]["messages"][0]["content"] = "attachment://f00"
    path = tmp_path / "log.json"
    path.write_text(json.dumps(members["header.json"] | {"samples": samples}))
    (other,) = inspect_log.read_logs(path)
    assert replace(other, path=log.path) == log
    with zipfile.ZipFile(tmp_path / "cut.eval", "w") as archive:
        archive.writestr("_journal/start.json", "{}")
    bring(shell, "inspect", tmp_path, path=tmp_path / "cut.eval", code=2)


def test_samples_of_lm_eval_come_in_as_replies_and_as_likelihoods(
    tmp_path: Path, shell: Shell
) -> None:
    bring(shell, "lm_eval", tmp_path)
    rows = compared(tmp_path, shell)
    assert means(rows) == {
        ("med_qa", "exact_match,bare"): (8, 0.0, 0.875, 7),
        ("med_qa", "exact_match,marked"): (8, 0.5, 0.875, 3),
        ("med_qa", "acc"): (8, 0.375, 0.375, 0),
        ("med_qa", "acc_norm"): (8, 0.375, 0.375, 0),
    }
    assert {r["model"] for r in rows} == {"fixed+lm_eval", "likelihoods+lm_eval_logprobs"}
    bare = next(r for r in rows if r["instance_id"] == "test-00001" and "bare" in r["their_metric"])
    assert bare["why"] == "another answer was read"
    assert (bare["their_read"], bare["read"]) == ("ANSWER: B", "B")
    stored = {p: p.read_bytes() for p in tmp_path.rglob("responses.jsonl")}
    bring(shell, "lm_eval", tmp_path)  # the same files again add nothing
    assert {p: p.read_bytes() for p in tmp_path.rglob("responses.jsonl")} == stored


def test_a_run_folder_of_helm_comes_in(tmp_path: Path, shell: Shell) -> None:
    bring(shell, "helm", tmp_path)
    rows = compared(tmp_path, shell, "local/fixed+helm")
    assert means(rows) == {("med_qa", "exact_match"): (8, 0.0, 0.875, 7)}
    (run,) = load_results(tmp_path).runs
    usage = run.record.own.usage
    assert usage.unknown == 8 and not usage.output_tokens  # HELM's counts are not the server's


def test_other_answers_do_not_take_the_place_of_imported_ones(tmp_path: Path, shell: Shell) -> None:
    bring(shell, "helm", tmp_path)
    state = json.loads((FILES / "helm/med_qa_model=local_fixed/scenario_state.json").read_text())
    state["request_states"][0]["result"]["completions"][0]["text"] = "D"
    other = tmp_path / "other"
    other.mkdir()
    (other / "scenario_state.json").write_text(json.dumps(state))
    spec = (FILES / "helm/med_qa_model=local_fixed/run_spec.json").read_bytes()
    (other / "run_spec.json").write_bytes(spec)
    bring(shell, "helm", tmp_path, path=other, code=2)
    bring(shell, "helm", tmp_path / "elsewhere", path=other)
    (other / "scenario_state.json").write_text("{}")
    bring(shell, "helm", tmp_path / "elsewhere", path=other, code=2)


# Which question an answer is to -----------------------------------------------------------------

DRUG = Instance(
    id="q1", question="Which drug?", choices=("5 mg", "15 mg", "50 mg"), references=("B",)
)
LOST = "its options are not the benchmark's"


def answer(prompt: str, *texts: str, **more: Any) -> Recorded:
    messages = (Message("user", prompt),)
    fields = {"response": Response(instance_id="", text="A")} | more
    return Recorded(key="k", texts=texts or ("Which  drug?",), messages=messages, **fields)


def match(instances: list[Instance], *answers: Recorded) -> tuple[list[Matched], dict[str, str]]:
    made = Questions(instances).match(answers)
    return made.found, made.unmatched


def test_letters_of_a_reply_are_those_of_the_options_as_they_were_shown() -> None:
    ((own,), _) = match([DRUG], answer("Which drug?\nA. 15 mg\nB. 50 mg\nC. 5 mg\nAnswer:"))
    assert own.instance.choices == ("15 mg", "50 mg", "5 mg") and own.instance.references == ("A",)
    ((own,), _) = match([DRUG], answer("1) 5 mg\n2) 15 mg\n\n3) 50 mg"))
    assert own.instance.option_labels == ("1", "2", "3") and own.instance.references == ("B",)
    likely = tuple(Likelihood(logprob=-n, tokens=0) for n in (1.0, 2.0, 3.0))
    rated = {"response": Response(instance_id="", likelihoods=likely)}
    said = (" 50 mg", " 5 mg", " 15 mg")
    ((own,), _) = match([DRUG], answer("Which drug?", continuations=said, **rated))
    assert own.are_texts
    assert [x.logprob for x in own.answer.response.likelihoods] == [-2.0, -3.0, -1.0]
    prompt = "A. 15 mg\nB. 50 mg\nC. 5 mg"
    ((own,), _) = match([DRUG], answer(prompt, continuations=(" C", " A", " B"), **rated))
    assert own.instance.references == ("A",) and not own.are_texts
    assert [x.logprob for x in own.answer.response.likelihoods] == [-2.0, -3.0, -1.0]


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("Which drug?\nA. 5 mg\nB. 15 mg\nC. 50 mg\nD. 500 mg", LOST),
        ("Which drug?\nA. 5 mg\nB. 15 mg", LOST),
        ("Which drug?\nA. 5 mg\nB. 1.5 mg\nC. 50 mg", LOST),
        ("Which drug, 5 mg, 15 mg or 50 mg?", "its prompt does not show the options a line each"),
    ],
)
def test_an_answer_to_other_options_is_not_taken(prompt: str, why: str) -> None:
    found, unmatched = match([DRUG], answer(prompt))
    assert not found and unmatched["k"].startswith(why)


def test_a_question_is_found_by_its_text_and_context_alone() -> None:
    one = Instance(id="1", context="A man of 44.", question="What is the gap?", references=("20",))
    two = msgspec.structs.replace(one, id="2", context="A woman of 36.", references=("12",))
    ((own,), _) = match([one, two], answer("p", "A woman\nof 36.\n\nWhat is the gap?"))
    assert own.instance.id == "2"
    ((own,), _) = match([one, two], answer("p", "What is the gap?", "A man of 44."))
    assert own.instance.id == "1"
    (found, why) = match([one, two], answer("p", "What is the gap?", "A man of 45.", "1"))
    assert not found and why == {"k": "its context is not the benchmark's"}
    twin = msgspec.structs.replace(one, id="3", references=("21",))
    (found, why) = match([one, twin], answer("p", "A man of 44. What is the gap?"))
    assert why == {"k": "several questions of the benchmark have its text"}
    copy = msgspec.structs.replace(one, id="3")
    asked = [replace(answer("p", "A man of 44. What is the gap?"), key=k) for k in "abc"]
    (found, why) = match([one, copy], *asked)
    assert [own.instance.id for own in found] == ["1", "3"]
    assert why == {"c": "the question is answered already"}


def test_another_asking_is_known_by_the_words_around_the_question() -> None:
    two = msgspec.structs.replace(DRUG, id="q2", question="Which dose?", choices=("No", "Yes", "5"))
    prompts = ["Choose.\nWhich drug?\nA. 5 mg\nB. 15 mg\nC. 50 mg\nAnswer:"]
    prompts.append("Choose.\nWhich dose?\nA. No\nB. Yes\nC. 5\nAnswer:")
    asked = [answer(prompts[0]), replace(answer(prompts[1], "Which dose?"), key="l")]
    found, _ = match([DRUG, two], *asked)
    assert skeleton(found) == ["user: Choose.\n{}\nAnswer:"]


def test_the_last_whole_list_is_that_of_the_options() -> None:
    prompt = "A. first\nB. second\n\nIt rains.\nA) one\nB) two\nC) three\n\nB. or what?"
    assert shown_options(prompt) == [("A", "one"), ("B", "two"), ("C", "three")]
    assert shown_options("B. two\nC. three") == []


# The paper --------------------------------------------------------------------------------------


def test_published_scores_stand_beside_runs_and_in_no_rank(tmp_path: Path, shell: Shell) -> None:
    bring(shell, "helm", tmp_path)
    before = load_results(tmp_path).typed("overall").rows
    table = tmp_path / "leaderboard.csv"
    table.write_text("Model,Mean win rate,MedQA - EM,Nothing - EM\nM1,0.5,0.857,0.1\nM2,0.4,,0.2\n")
    words = ["import", "medhelm_paper", str(table), "--results-dir", str(tmp_path)]
    said = shell(*words)
    assert "3 scores" in said and "2 models" in said
    results = load_results(tmp_path)
    made = results.typed("as_published")
    assert [(r["model"], r["source"], r["score"], r["low"], r["n"]) for r in made.rows][1:] == [
        ("M1", "as published", 0.857, None, None)
    ]
    assert results.typed("overall").rows == before
    table.write_text("Model,Mean win rate,Nothing - EM\nM1,0.5,0.1\n")
    shell(*words)
    made = load_results(tmp_path).typed("as_published")
    assert {r["source"] for r in made.rows} == {"runs"}
    notes = " ".join(made.notes)
    assert "of none of the benchmarks" in notes and "arXiv" not in notes
    table.write_text("a,b\n1,2\n")
    shell(*words, code=2)
