"""A reader measured on written replies: what it is shown, what counts as right, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import DataError
from medhelm.proof.reader_fidelity import ReaderTrial
from tests.shell import Shell

CHOICES = ["aspirin", "insulin", "heparin", "warfarin"]
ROWS: list[dict[str, Any]] = [
    {"id": "read", "kind": "choice", "text": "Answer: A", "choices": CHOICES, "expected": "A"},
    {
        "id": "right",
        "kind": "choice",
        "text": "I lean to warfarin or so, over insulin.",
        "choices": CHOICES,
    },
    {
        "id": "wrong",
        "kind": "choice",
        "text": "I lean to insulin, not far from heparin.",
        "choices": CHOICES,
    },
    {"id": "none", "kind": "choice", "text": "Who knows.", "choices": CHOICES, "expected": None},
    {"id": "missed", "kind": "number", "text": "At 3 or 4, so 3.5 then, 3 to 4.", "expected": 3.5},
    {"id": "cut", "kind": "number", "text": "So it", "finish": "length", "expected": None},
    {"id": "other", "kind": "date", "text": "On May 3", "expected": "05/03/2020"},
]
ROWS[1]["expected"], ROWS[2]["expected"] = "D", "B"


def written(folder: Path) -> Path:
    path = folder / "set.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


def reader(folder: Path, endpoint_class: str = "local") -> Path:
    def said(quote: str, option: str) -> str:
        return json.dumps({"quote": quote, "option": option})

    replies = {
        "set/right": said("lean to warfarin", "D"),
        "set/wrong": said("not far from heparin", "C"),
        "set/none": said("", "none"),
        "set/missed": '{"quote": ""}',
    }
    path = folder / "reads.yaml"
    spec = {"name": "reads", "provider": "scripted", "endpoint_class": endpoint_class}
    path.write_text(json.dumps({**spec, "extra_body": {"replies": replies}}))
    return path


def fidelity(folder: Path) -> tuple[object, ...]:
    """Return the command on the written replies."""
    given = ("--reader", folder / "reads.yaml", "--replies", written(folder))
    return ("fidelity", *given, "--results-dir", folder / "results")


def test_what_the_rules_cannot_read_is_shown_and_counted(tmp_path: Path, shell: Shell) -> None:
    reader(tmp_path)
    assert shell.json(*fidelity(tmp_path), "--estimate")["runs"][0]["to_ask"] == 4
    assert not (tmp_path / "results").exists()
    rows = {row["kind"]: row for row in shell.json(*fidelity(tmp_path))["rows"]}
    choice, number = rows["choice"], rows["number"]
    names = ("replies", "unread", "right", "wrong", "rightly_none", "missed", "without")
    assert [choice[n] for n in names] == [4, 3, 1, 1, 1, 0, 0]
    assert [number[n] for n in names] == [1, 1, 0, 0, 0, 1, 0]
    assert choice["wrong_share"] == 0.5 and choice["low"] < 0.5 < choice["high"]
    assert number["wrong_share"] is None
    (log,) = (tmp_path / "results" / "fidelity" / "reader").glob("*/responses.jsonl")
    size = log.stat().st_size
    assert "2 replies of another" in shell(*fidelity(tmp_path))
    assert log.stat().st_size == size, "nothing is asked twice"


def test_who_may_not_see_the_replies_is_refused(tmp_path: Path, shell: Shell) -> None:
    reader(tmp_path, "external")
    assert "private" in shell.error(*fidelity(tmp_path), code=5)
    shell(*fidelity(tmp_path), "--data-class", "public")
    said = shell.error(*fidelity(tmp_path), "--table", "graders")
    assert "--replies FILE alone" in said


@pytest.mark.parametrize("line", ["{", '{"id": "a"}', '{"id": 1, "kind": "choice"}'])
def test_a_row_of_another_form_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + line)
    with pytest.raises(DataError, match=r"set.jsonl, line 2"):
        ReaderTrial([path])
