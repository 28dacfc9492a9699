"""What leaves in the files of other tools: every score as tables have it, and no text that may not."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import msgspec
import pytest
import yaml
from huggingface_hub import EvalResultEntry, parse_eval_result_entries

import medhelm
from medhelm.cli import run_command
from medhelm.schema.model import ModelSpec
from tests.build_runs import Item, write_run
from tests.leaderboard.casting import CLOSED, run_all, write_data
from tests.leaderboard.worlds import case, episode
from tests.stored_folders.kinds import OWN, WHOLE

FORMATS = ("inspect", "eee", "hub", "csv")


def export(form: str, out: Path, *runs: Path, plugins: tuple[Path, ...] = (), **more: str) -> Path:
    """Return where a format is written."""
    options = [word for path in plugins for word in ("--plugin", str(path))]
    options += [word for name, value in more.items() for word in (f"--{name}", value)]
    assert run_command(["export", form, *map(str, runs), "-o", str(out), *options]) == 0
    return out


def everything(out: Path) -> dict[str, bytes]:
    """Return every file of a folder by name, those in archives too."""
    found = {str(p): p.read_bytes() for p in [out, *out.rglob("*")] if p.is_file()}
    for path in [path for path in found if path.endswith(".eval")]:
        with ZipFile(path) as archive:
            found |= {f"{path}/{name}": archive.read(name) for name in archive.namelist()}
        del found[path]
    return found


def log(out: Path) -> dict[str, Any]:
    """Return the one log of a folder, with its samples by name."""
    return {n.partition(".eval/")[2]: json.loads(raw) for n, raw in everything(out).items()}


TRACKER = '''"""Keeps what it is told."""

from pathlib import Path

from medhelm import hookimpl


def keep(run):
    with Path(__file__).with_name("told.txt").open("a") as told:
        told.write(f"{run!r}\\n")


def fail(run):
    raise RuntimeError("the tracker is away")


@hookimpl
def medhelm_trackers():
    return [keep, fail]
'''


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """Return results of data of every class, their plugin, and what a tracker was told of them."""
    folder = tmp_path_factory.mktemp("canaries")
    plugin = write_data(folder)
    tracker = folder / "plugins" / "tracker.py"
    tracker.write_text(TRACKER)
    results = run_all(folder, [plugin, tracker], track=["keep", "fail"])  # type: ignore[arg-type]
    return results, plugin, (folder / "plugins" / "told.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_no_text_of_closed_data_leaves(
    form: str, told: tuple[Path, Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, plugin, _ = told
    out = export(form, tmp_path / "out", results, plugins=(plugin,))
    said = capsys.readouterr().out
    files = everything(out)
    if form == "hub":  # no data of these is there
        assert not files and said.count("not all of its data, as they are on the hub") == 8
        return
    assert all(f"{name}: The data are" in said for name in CLOSED)
    for name, content in files.items():
        is_open = "/open/" in name or "_open_" in name
        if is_open or form == "csv":
            for answer in (b"ANSWERCANARY one: aspirin", b"ANSWERCANARY two: rest"):
                content = content.replace(answer, b"")
        assert b"CANARY" not in content, name
        assert b"WARD" not in content or is_open or form == "csv"
    whole = b"".join(files.values())
    assert b"QUESTION 1?" in whole or form == "csv"  # of the open benchmark
    assert b"ANSWERCANARY one: aspirin" in whole
    if form == "csv":
        rows = list(csv.DictReader(out.read_text().splitlines()))
        closed = [row for row in rows if row["benchmark"] in CLOSED]
        assert not any(row["read"] or row["reply"] or row["references"] for row in closed)
        of = {row["instance_id"] for row in closed if row["benchmark"] == "private"}
        assert len(of) == 6 and all(len(name) == 16 for name in of)
        wards = Counter(row["cluster"] for row in closed if row["metric"] == "rouge_l")
        assert set(wards.values()) == {4}  # two instances of a patient, two models
        assert all(row["value"] and row["outcome"] for row in closed)


@pytest.mark.slow
def test_trackers_are_told_numbers_and_no_text(told: tuple[Path, Path, str]) -> None:
    _, _, said = told
    assert "CANARY" not in said and "QUESTION" not in said
    lines = said.splitlines()
    assert len(lines) == 8  # two models, four benchmarks; the tracker that fails is no harm
    (one,) = [line for line in lines if "'private x lab/one'" in line]
    assert "'jury': 3.0" in one and "'outcome.scored': 6.0" in one and "'rouge_l.n': 6.0" in one


def test_what_was_public_when_run_and_is_not_any_more_stays(tmp_path: Path) -> None:
    instance = msgspec.structs.replace(case("own_notes", 0), context="CANARY")
    row = [Item(id=instance.id, value=1.0)]
    said = [episode(instance, 0, "CANARY", "stop")]
    write_run(tmp_path / "r", "own_notes", "m/x", row, episodes=said)
    opened = export("csv", tmp_path / "open.csv", tmp_path / "r").read_text()
    assert "CANARY" in opened
    plugin = tmp_path / "own_notes.py"
    plugin.write_text((OWN / "quiz.py").read_text().replace('"quiz"', '"own_notes"'))
    gated = 'data_class="gated",\n        subcategory='
    plugin.write_text(plugin.read_text().replace("subcategory=", gated, 1))
    closed = export("csv", tmp_path / "closed.csv", tmp_path / "r", plugins=(plugin,))
    assert "CANARY" not in closed.read_text() and instance.id not in closed.read_text()


def five(results: Path, **more: Any) -> Path:
    """Write a run of five triage questions by hand: right, wrong, unread, failed, right."""
    ends = (("scored", 1.0), ("scored", 0.0), ("unparsed", 0.0), ("error", None), ("scored", 1.0))
    rows = [
        Item(id=case("triage", n).id, value=value, outcome=outcome, extracted="A" * (n < 2))
        for n, (outcome, value) in enumerate(ends)
    ]
    said = [
        episode(case("triage", n), 0, f"=reply {n}", "error" if outcome == "error" else "stop")
        for n, (outcome, _) in enumerate(ends)
    ]
    dates = {"answered_until": "2026-11-26T10:00:00Z", "version.medhelm": "0.1.0"}
    return write_run(results, "triage", "lab/one", rows, episodes=said, provenance=dates, **more)


def test_a_log_of_inspect_by_hand(tmp_path: Path) -> None:
    five(tmp_path / "r")
    members = log(export("inspect", tmp_path / "out", tmp_path / "r"))
    header = members["header.json"]
    assert (header["version"], header["status"]) == (2, "success")
    assert header["eval"]["model"] == "lab/one" and header["eval"]["dataset"]["samples"] == 5
    (score,) = header["results"]["scores"]
    assert (score["scored_samples"], score["unscored_samples"]) == (4, 1)
    assert score["metrics"]["exact_match"]["value"] == 0.5  # of four: what failed is not 0
    facts = header["eval"]["metadata"]["medhelm"]
    assert facts["outcomes"]["exact_match"] == {"scored": 3, "unparsed": 1, "error": 1}
    table = medhelm.load_results(tmp_path / "r").table("benchmarks").iloc[0]
    assert score["metrics"]["low"]["value"] == pytest.approx(table["low"])
    assert facts["scores"]["exact_match"]["coverage"] == pytest.approx(0.8)
    failed = members["samples/triage-003_epoch_1.json"]
    assert failed["scores"] == {} and failed["output"]["error"] == "http 500"
    assert failed["metadata"]["medhelm"]["outcomes"] == {"exact_match": "error"}
    first = members["samples/triage-000_epoch_1.json"]
    assert [m["role"] for m in first["messages"]] == ["user", "assistant"]  # and no system prompt
    assert first["scores"]["exact_match"]["value"] == 1.0 and first["target"] == ["A"]
    assert first["output"]["usage"]["total_tokens"] == 960
    assert [line["id"] for line in members["summaries.json"]] == [f"triage-00{n}" for n in range(5)]


def test_records_of_every_eval_ever_by_hand(tmp_path: Path) -> None:
    five(tmp_path / "r")
    out = export("eee", tmp_path / "out", tmp_path / "r", organization="A ward")
    (found,) = out.rglob("*.json")
    assert found.parent == out / "data/triage/lab/one"
    whole = json.loads(found.read_text())
    assert whole["source_metadata"]["source_organization_name"] == "A ward"
    (result,) = whole["evaluation_results"]
    details = result["score_details"]
    assert details["score"] == 0.5 and details["uncertainty"]["num_samples"] == 4
    table = medhelm.load_results(tmp_path / "r").table("benchmarks").iloc[0]
    ends = details["uncertainty"]["confidence_interval"]
    assert (ends["lower"], ends["upper"]) == pytest.approx((table["low"], table["high"]))
    facts = json.loads(whole["eval_library"]["additional_details"]["medhelm"])
    assert facts["outcomes"]["exact_match"]["error"] == 1 and "cost" in facts and "judges" in facts
    files = whole["detailed_evaluation_results"]
    lines = [json.loads(line) for line in (out / files["file_path"]).read_text().splitlines()]
    assert files["total_rows"] == len(lines) == 4  # what failed has no score, and so no line
    scores = {line["sample_id"][-1]: line["evaluation"] for line in lines}
    assert [scores[n]["score"] for n in "0124"] == [1.0, 0.0, 0.0, 1.0]
    assert [scores[n]["is_correct"] for n in "0124"] == [True, False, False, True]
    assert [line["error"] for line in lines] == [None, None, "unparsed", None]
    assert lines[0]["output"]["raw"] == ["=reply 0"]
    assert lines[0]["answer_attribution"][0]["extracted_value"] == "A"
    assert {line["evaluation_result_id"] for line in lines} == {result["evaluation_result_id"]}
    assert {line["evaluation_id"] for line in lines} == {whole["evaluation_id"]}


def test_a_row_of_each_answer_and_metric_that_no_spreadsheet_runs(tmp_path: Path) -> None:
    run = five(tmp_path / "r")
    rows = list(csv.DictReader(export("csv", tmp_path / "a.csv", run).read_text().splitlines()))
    ends = [(row["value"], row["outcome"]) for row in rows]
    assert ends[2:4] == [("0.0", "unparsed"), ("", "error")]
    assert rows[0]["reply"] == "'=reply 0" and rows[0]["references"] == "A"
    assert {row["run"] for row in rows} == {run.relative_to(tmp_path / "r").as_posix()}


@pytest.mark.slow
def test_what_the_hub_gets_is_read_by_its_own_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, name = tmp_path / "r", "medcasereasoning"  # 897 cases, on the hub
    rows = [Item(id=f"i{n:03d}", value=float(n < 690)) for n in range(897)]
    cases = [msgspec.structs.replace(case("triage", 0), id=row.id) for row in rows]
    said = [episode(own, 0, "A", "stop") for own in cases]
    dates = {"answered_until": "2026-11-26T10:00:00Z"}
    write_run(results, name, "lab/one", rows, episodes=said, provenance=dates)
    oracle = ModelSpec(name="baseline/oracle", provider="baseline", model="oracle")
    write_run(results, name, oracle, rows, episodes=said)
    write_run(results, name, "lab/few", rows[:896], episodes=said[:896])
    write_run(results, name, "lab/stopped", rows[:800], planned=897, episodes=said[:800])
    write_run(results, name, "lab/shuffled", rows, episodes=said, variant="shuffled")
    five(results)
    source = {"source-url": "https://example.org/evidence"}
    out = export("hub", tmp_path / "out", results, results, **source)  # named twice, written once
    left = capsys.readouterr().out
    for model, why in (
        ("medcasereasoning x baseline/oracle", "it reads the gold"),
        ("medcasereasoning x lab/few", "not all of its data"),
        ("medcasereasoning x lab/stopped", "stopped before its end"),
        ("medcasereasoning x lab/shuffled", "not all of its data"),
        ("triage x lab/one", "not all of its data"),
    ):
        assert left.count(f"{model} is left out: {why}") == 1
    (path,) = out.rglob("*.yaml")
    assert path.parent == out / "lab_one" / ".eval_results"
    (entry,) = parse_eval_result_entries(yaml.safe_load(path.read_text()))
    table = medhelm.load_results(results, benchmarks=[name], models=["lab/one"])
    low, high = table.table("benchmarks").iloc[0][["low", "high"]]
    assert (low, high) == pytest.approx((0.7405, 0.7956), abs=2e-3)  # Wilson, 690 of 897
    ends = f"(95% interval {low:.4g} to {high:.4g})"
    note = f"{name}: exact_match {ends}, n 897, coverage 100.0%, split test"
    assert entry == EvalResultEntry(
        dataset_id="zou-lab/MedCaseReasoning",
        task_id="default",
        value=690 / 897,
        dataset_revision=entry.dataset_revision,
        date=dates["answered_until"],
        source_url="https://example.org/evidence",
        source_name="medhelm",
        notes=entry.notes,
    )
    assert entry.notes is not None and entry.notes.startswith(note)


def test_a_stand_in_is_named_wherever_its_score_goes(tmp_path: Path) -> None:
    medhelm.evaluate(
        "baseline/lead", "medication_qa", data="sample", results_dir=tmp_path, jury="offline"
    )
    for form in ("inspect", "eee"):
        files = everything(export(form, tmp_path / form, tmp_path / "runs"))
        assert all("medication-qa.bundled" in n or "medication_qa.bundled" in n for n in files)
        assert any(b"jury, by the offline jury, a stand-in" in raw for raw in files.values())


@pytest.mark.parametrize(
    ("kind", "plugin"), [("jury", "essay"), ("criteria", "checklist"), ("repeats", "quiz")]
)
def test_stored_runs_of_each_kind_go_out(kind: str, plugin: str, tmp_path: Path) -> None:
    own = (OWN / f"{plugin}.py",)
    shutil.copytree(WHOLE / kind, tmp_path / "r")  # a secret is kept in it
    for form in ("inspect", "eee", "csv"):
        assert everything(export(form, tmp_path / form, tmp_path / "r", plugins=own))


def test_a_folder_without_runs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["export", "csv", str(tmp_path), "-o", "x.csv"]) == 2
    assert "graded with scoring=fixed" in capsys.readouterr().err
