"""`medhelm qc noharm` as a user meets it: right use, wrong files, damaged files, pipes."""

from __future__ import annotations

import io
import json
import os
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from medhelm_benchmarks.noharm.rules.cases import read_cases, write_cases
from medhelm_benchmarks.noharm.rules.quality import is_strong
from tests.benchmarks.noharm.making import SAMPLES, case, each, tell_tale
from tests.made import model_file
from tests.server import serve_in_thread
from tests.shell import Shell

LINES = SAMPLES.read_bytes().splitlines()


Qc = Callable[..., str]


@pytest.fixture
def qc(shell: Shell) -> Qc:
    return partial(shell, "qc", "noharm")


@pytest.fixture
def error(shell: Shell) -> Qc:
    return partial(shell.error, "qc", "noharm")


@pytest.fixture
def flagged(tmp_path: Path) -> Path:
    """A file of two cases, of which the second has a duplicate, a leak and no references."""
    made = case({"a1": 8, "a2": 8, "a3": 5, "a4": 2}, code="NOHARM-CARD-BAD-001")
    texts = ("Record an ECG", "record ECG.", "Weigh her", "Give aspirin though contraindicated")
    path = tmp_path / "cases.jsonl"
    write_cases(path, [read_cases(SAMPLES)[0], each(made, "text", texts)])
    return path


@pytest.mark.slow
def test_without_a_file_the_bundled_cases_pass(qc: Qc, shell: Shell) -> None:
    out = qc()
    assert shell.err == ""
    assert "Total actions            475" in out
    assert out.count("12/12") == 11
    assert "Flagged: 0 of 12" in out
    assert "class away: 0" in out
    assert qc(SAMPLES) == out
    qc(SAMPLES, "--strict")


def test_flags_are_shown_and_fail_nothing(flagged: Path, qc: Qc) -> None:
    before = flagged.read_bytes()
    out = qc(flagged)
    assert "Flagged: 1 of 2" in out
    for said in ("NOHARM-CARD-BAD-001", "a1 + a2", "a1, a2, a4", "contraindicated", "1/43"):
        assert said in out
    qc(flagged, "--strict", code=1)
    assert flagged.read_bytes() == before


@pytest.mark.slow
def test_a_file_of_flags(flagged: Path, qc: Qc) -> None:
    target = flagged.with_name("flags.jsonl")
    qc(flagged, "--flags", target)
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert {line["schema"] for line in lines} == {"medhelm.noharm-flag/1"}
    assert [(line["case"], line["check"], line["actions"]) for line in lines] == [
        ("NOHARM-CARD-BAD-001", "references", [["a1"], ["a2"], ["a4"]]),
        ("NOHARM-CARD-BAD-001", "duplicates", [["a1", "a2"]]),
        ("NOHARM-CARD-BAD-001", "leak", [["a4"]]),
    ]
    assert lines[-1]["found"] == "contraindication: contraindicated"
    qc("--flags", target)
    assert target.read_bytes() == b""  # nothing found is an empty file


def test_formats(flagged: Path, qc: Qc, error: Qc) -> None:
    documents = json.loads(qc(flagged, "--format", "json"))
    assert {d["schema"] for d in documents} == {"medhelm.table/1"}
    names = ["summary", "checks", "rates", "flags", "leaks"]
    assert [d["table"] for d in documents] == names
    target = flagged.with_name("flags.csv")
    qc(flagged, "--table", "flags", "--out", target)
    head, first, second = target.read_text().splitlines()
    assert head == "case,check,found,actions"
    assert second.startswith("NOHARM-CARD-BAD-001,duplicates,pairs of near-duplicates: 1")
    assert "a1, a2, a4" in first
    out = qc(flagged, "--table", "measures", "--format", "csv")
    assert out.count("\n") == 1 + 2 * 10
    assert "--table" in error(flagged, "--format", "csv")


def test_every_fault_of_a_file_is_named(tmp_path: Path, qc: Qc, shell: Shell) -> None:
    def rated(line: bytes, rating: int) -> bytes:
        value = json.loads(line)
        value["actions"][4]["ratings"][0] = rating
        value["vignette"] = " "
        return json.dumps(value).encode()

    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"\n".join([LINES[0], rated(LINES[1], 12), b'{"a":', LINES[2], LINES[0]]))
    assert qc(path, code=3) == ""
    lines = shell.err.splitlines()
    assert "line 2:" in lines[0] and "field vignette is empty" in lines[0]
    assert "'a5', field ratings: 12" in lines[1]
    assert "line 3: not readable" in lines[2]
    assert "line 5:" in lines[3] and "stands in line 1" in lines[3]
    assert lines[4].startswith("medhelm: cases.jsonl: 4 faults, all above")
    assert len(lines) == 5


def test_names_that_are_wrong(tmp_path: Path, error: Qc, shell: Shell) -> None:
    assert "no such file" in error(tmp_path / "absent.jsonl", code=3)
    assert "is a directory" in error(tmp_path, code=3)
    assert "did you mean 'noharm'?" in shell.error("qc", "nohram")


def test_the_cases_are_not_written_over(flagged: Path, error: Qc) -> None:
    before = flagged.read_bytes()
    beside = flagged.parent / "." / "link.jsonl"
    beside.symlink_to(flagged)
    for option in (("--flags", beside), ("--out", flagged, "--format", "json")):
        assert "file of cases itself" in error(flagged, *option)
    assert flagged.read_bytes() == before


def test_the_standard_input_and_a_pipe(
    flagged: Path, qc: Qc, error: Qc, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = qc(flagged)
    whole = flagged.read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(whole)))
    assert qc("-") == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(whole[:-40])))
    assert error("-", code=3).startswith("medhelm: standard input, line 2")
    fifo = flagged.with_name("pipe")
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(whole,))
    writer.start()
    assert qc(fifo) == expected
    writer.join(timeout=10)


def test_embeddings_without_the_extra(error: Qc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medhelm_benchmarks.noharm.rules.wording.find_spec", lambda name: None)
    assert "pip install '.[hf]'" in error("--embeddings", "owner/encoder")


def test_a_file_of_another_form_does_not_flood_the_terminal(
    tmp_path: Path, qc: Qc, shell: Shell
) -> None:
    path = tmp_path / "report.jsonl"
    path.write_text("a line of a report\n" * 500)
    assert qc(path, code=3) == "" and shell.err.count("\n") == 21
    assert "500 faults," in shell.err and "20 above" in shell.err


def test_copies_and_words_are_flagged_and_strict_minds_them(tmp_path: Path, qc: Qc) -> None:
    told = [tell_tale(number) for number in range(5)]
    path = tmp_path / "cases.jsonl"
    write_cases(path, [*told, msgspec.structs.replace(told[0], code="NOHARM-CARD-TWICE-001")])
    out = qc(path)
    assert "NOHARM-CARD-TWICE-001: identical" in " ".join(out.split())
    assert "AUC of 1.00" in out and "limit of 0.65" in out
    qc(path, "--strict", code=1)
    target = tmp_path / "flags.jsonl"
    qc(path, "--flags", target)
    last = json.loads(target.read_text().splitlines()[-1])
    assert (last["case"], last["check"], last["actions"]) == ("all cases", "words", [])


def test_where_actions_come_from_is_shown_where_generation_wrote_it(
    tmp_path: Path, qc: Qc, error: Qc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # so that no message is folded
    made = case({f"a{i}": 8 for i in range(1, 9)}, code="NOHARM-CARD-BAD-001")
    path = tmp_path / "cases.jsonl"
    write_cases(path, [made])
    error(path, "--table", "origins")
    tags = ["blind"] * 4 + ["first_line", "dose", "monitoring"]  # of the eighth it does not say
    line = {"code": made.code, "tags": {f"a{i}": t for i, t in enumerate(tags, 1)}, "schema": "x"}
    line["not_covered"] = {"a1": 3, "a2": 2, "a3": 3}  # on a2 one of the three has something
    (tmp_path / "provenance.jsonl").write_text(json.dumps(line) + "\n")
    out = qc(path, "--table", "origins", "--format", "json")
    rows = {r["origin"]: (r["count"], r["share"]) for r in json.loads(out)["rows"]}
    assert rows["blind generation"] == (4, 0.5)
    assert rows["traps"] == (2, 0.25) and rows["trap: dose"] == (1, 0.125)
    assert rows["conditional"] == (0, 0.0) and rows["not stated"] == (1, 0.125)
    said = " ".join(qc(path).split())
    assert "Where actions come from" in said
    assert "2 of 8 actions (25%)" in said
    strong = sum(is_strong(action) for action in made.actions)
    assert f"{strong} of {strong} (100.0%)" in said
    (tmp_path / "provenance.jsonl").write_text("[]\n")
    assert "provenance.jsonl, row 1" in error(path, code=3)


def test_a_judge_sees_actions_alone_and_its_error_is_told(
    flagged: Path, here: Path, qc: Qc, error: Qc
) -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        telling = re.findall(r"^(a\d+)\. .*(?:drug of choice|Weigh)", prompt, re.MULTILINE)
        found = {"telling": [{"id": i, "words": "Weigh"} for i in telling], "same": []}
        return json.dumps(found)

    with serve_in_thread(judge) as server:
        model = model_file(server, "judge", endpoint_class="external")
        options = ("--judge", model, "--results-dir", "results")
        public = ("--data-class", "public")
        qc(flagged, *options, *public, "--estimate")
        assert not asked
        assert "private" in error(flagged, *options, code=5)  # a file may be private
        assert not asked
        out = qc(flagged, *options, *public)
        assert len(asked) == 3
        assert qc(flagged, *options, *public) == out and len(asked) == 3  # nothing is asked twice
    said = " ".join(out.split())  # a narrow terminal breaks lines
    assert "2 of 2 menus" in said and "1 of 8 wordings" in said and "judge" in said, out
    for case_ in read_cases(flagged):
        (shown,) = [p for p in asked if case_.actions[3].text in p]
        assert case_.vignette not in shown and case_.code not in shown
        assert "rating" not in shown and "medication" not in shown
