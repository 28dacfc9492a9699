"""Types of failure over unmet criteria: labelled by a model, by hand, and counted."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import medhelm
from medhelm.extract.json_reply import BadReply
from medhelm.schema.run import JurySpec
from medhelm_benchmarks.clinconsensus.failures.labelling import read_type
from medhelm_benchmarks.clinconsensus.failures.labels import failure_types
from tests.cases import cases
from tests.made import model_file
from tests.server import FaultServer, serve_in_thread
from tests.sheets import read_sheet, write_sheet
from tests.shell import Shell

pytestmark = pytest.mark.slow

MODELS = ("baseline/lead", "baseline/random")
TYPES = [*failure_types()]
CRITERION = re.compile(r"<criterion \w+>\n(.*?)\n</criterion", re.DOTALL)


def is_met(criterion: str) -> bool:
    return zlib.crc32(criterion.encode()) % 4 > 0


def type_of(criterion: str) -> str | None:
    """Return the label of a criterion; of every seventh the replies cannot be read."""
    number = zlib.crc32(criterion.encode()) // 4
    return None if number % 7 == 0 else TYPES[number % 3]


def says(prompt: str) -> str:
    criterion = CRITERION.findall(prompt)[-1]
    if "<finding" not in prompt:
        return json.dumps({"explanation": "It is not there.", "criteria_met": is_met(criterion)})
    return json.dumps({"reason": "So.", "type": type_of(criterion) or "bad luck"})


Failures = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with serve_in_thread(says) as running:
        yield running


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, server: FaultServer) -> Path:
    folder = tmp_path_factory.mktemp("failures")
    judge = server.model("j/one", endpoint_class="local")
    medhelm.evaluate(
        MODELS,
        "clinconsensus",
        data="sample",
        results_dir=folder / "results",
        jury=JurySpec(name="test", judges=(judge,), quorum=1),
    )
    return folder / "results"


@pytest.fixture
def failures(
    results: Path,
    server: FaultServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shell: Shell,
) -> Failures:
    monkeypatch.chdir(tmp_path)
    model_file(server, "labeller", endpoint_class="local")

    def call(*words: str, code: int = 0) -> str:
        out = shell(
            "rubric", "failures", "clinconsensus", "--results-dir", results, *words, code=code
        )
        return shell.err if code else out

    return call


def unmet() -> list[str]:
    path = Path(__file__).parents[3] / "benchmarks/clinconsensus/samples/clinconsensus.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    texts = [c["criterion"] for row in rows for c in row["rubrics"]]
    return [text for text in texts if not is_met(text)]


def overall(out: str) -> dict[str, dict[str, Any]]:
    return {r["type"]: r for r in json.loads(out)["rows"] if r["level"] == "overall"}


def check(rows: dict[str, dict[str, Any]], labels: list[str | None]) -> None:
    counts = Counter(labels)
    given = len(labels) - counts[None]
    assert sum(row["criteria"] for row in rows.values()) == len(labels)
    assert rows["unlabelled"]["criteria"] == counts[None]
    assert rows["unlabelled"]["share"] is None
    for name in TYPES:
        row = rows[name]
        assert (row["criteria"], row["labelled"], row["unmet"]) == (
            counts[name],
            given,
            len(labels),
        )
        assert row["share"] == pytest.approx(counts[name] / given)
        if counts[name]:
            assert row["share_low"] < row["share"] < row["share_high"]


def test_a_model_labels_once(failures: Failures, server: FaultServer) -> None:
    words = ("--judge", "labeller.yaml", "--answers", "10", "--format", "json")
    before = server.requests
    (planned,) = json.loads(failures(*words, "--estimate"))["runs"]
    assert planned["to_ask"] > 0 and server.requests == before
    out = failures(*words)
    labels = 2 * [type_of(text) for text in unmet()]
    check(overall(out), labels)
    assert "nobody has compared" in out
    unreadable = labels.count(None)
    assert unreadable > 0 and server.requests - before == len(labels) + unreadable, "no third time"
    again = server.requests
    assert overall(failures(*words)) == overall(out) and server.requests == again
    few = overall(failures("--judge", "labeller.yaml", "--answers", "3", "--format", "json"))
    assert server.requests == again  # the same first answers
    assert 0 < few[TYPES[0]]["labelled"] < overall(out)[TYPES[0]]["labelled"]
    assert few[TYPES[0]]["unmet"] == len(labels)


def test_a_log_that_is_deleted_meanwhile_ends_the_command_before_more_is_paid_for(
    failures: Failures, server: FaultServer, results: Path, tmp_path: Path
) -> None:
    known = {*results.glob("failures/*/*")}
    model_file(server, "labeller", model="slow", max_concurrency=1, endpoint_class="local")
    before = server.requests

    def deleting(prompt: str) -> str:
        if server.requests == before + 3:
            (log,) = {*results.glob("failures/*/*")} - known
            (log / "responses.jsonl").unlink()
        return says(prompt)

    server.answer, server.latency_s = deleting, 0.05
    try:
        words = ("--judge", "labeller.yaml", "--answers", "10", "--format", "json")
        error = failures(*words, code=4)
    finally:
        server.answer, server.latency_s = says, 0.0
    assert "responses.jsonl" in error
    assert server.requests - before < len(unmet())


def test_a_sheet_goes_out_and_comes_in(failures: Failures, tmp_path: Path) -> None:
    assert "criteria of 8 answers" in failures("--template", "sheet.csv", "--answers", "4")
    rows = read_sheet(tmp_path / "sheet.csv")
    assert not any("baseline/" in value for row in rows for value in row.values())
    labels: list[str | None] = 2 * [None for _ in unmet()]
    found = [line for row in rows for line in row["shown"].splitlines()]
    assert sum(line.endswith(": It is not there.") for line in found) == len(rows)
    for n, row in enumerate(rows):
        assert not is_met(row["text"])
        row["value"] = "" if n % 5 == 0 else TYPES[n % 4]
        labels[n] = row["value"] or None
    write_sheet(tmp_path / "filled.csv", rows)
    check(overall(failures("--labels", "filled.csv", "--format", "json")), labels)
    write_sheet(tmp_path / "bad.csv", [rows[1] | {"value": "folow_up"}])
    assert f"is not {TYPES[0]} or {TYPES[1]}" in failures("--labels", "bad.csv", code=3)
    write_sheet(tmp_path / "bad.csv", [rows[1] | {"item": "no such"}])
    assert "no item 'no such'" in failures("--labels", "bad.csv", code=3)
    (tmp_path / "again.csv").write_bytes((tmp_path / "filled.csv").read_bytes())
    assert "has a label already" in failures("--labels", "filled.csv", "again.csv", code=3)
    assert "name one of" in failures(code=2)
    assert "--estimate" in failures("--labels", "filled.csv", "--estimate", code=2)


@pytest.mark.parametrize(("text", "found"), cases(__file__, "what_is_read_as_a_type"))
def test_what_is_read_as_a_type(text: str, found: str | None) -> None:
    if found is None:
        with pytest.raises(BadReply):
            read_type(text)
    else:
        assert read_type(text) == found
