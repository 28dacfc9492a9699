"""list, describe, validate, estimate, score, data and new, as a user calls them."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import medhelm_benchmarks
from medhelm.cli import run_command
from medhelm.files.durable import lock_file
from medhelm.store.records import (
    find_gradings,
    find_runs,
    read_plan,
    read_record,
    write_struct,
)
from tests.benchmarks.conftest import NAMES
from tests.data.test_fetch import Server, server
from tests.quiz import record_of
from tests.registry.distributions import install
from tests.shell import Shell

__all__ = ["server"]
pytestmark = pytest.mark.slow

BUNDLED = {path.stem for path in Path(medhelm_benchmarks.__path__[0]).glob("**/samples/*.jsonl")}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command runs in an empty folder, without keys and without data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDHELM_DATA_DIR", str(tmp_path / "data"))
    for name in ("OPENAI_API_KEY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


# list and describe ------------------------------------------------------------------------------

INCLUSION = "inclusion: Acts that create or change official clinical records."


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("list models", ["baseline/oracle", "openai/ITS-NAME"]),
        ("list metrics", ["exact_match", "bertscore"]),
        ("list suites", ["medhelm_core"]),
        ("list coverage", ["22 of 22"]),
        ("list juries", ["paper", "medhelm_2026_11", "small_2026_11", "offline"]),
        ("list taxonomy", [INCLUSION, "performer: Researchers and epidemiologists."]),
        ("describe medec", ["CC BY 4.0", "arXiv 2412.19260", "medhelm data fetch medec", "| 0 "]),
        ("describe aci_bench", ["performer: Providers, scribes", INCLUSION]),
        ("describe bertscore", ["matched token vectors"]),  # without its package
        ("describe medhelm_core", ["benchmarks: headqa, medbullets"]),
        ("describe paper", ["jury paper\n", "judges: "]),
        ("describe offline", ["jury offline\n"]),
        ("describe exact_match", ["maximum: 1.0", "fixed:", "helm:", "headqa"]),
        ("describe openai/anything-at-all", ["model: anything-at-all"]),
    ],
)  # fmt: skip
def test_what_is_shown(typed: str, words: list[str], shell: Shell) -> None:
    text = shell(*typed.split())
    assert [word for word in words if word not in text] == []
    assert typed != "describe offline" or "judges: " not in text


# list ------------------------------------------------------------------------------------------


def test_list_benchmarks(shell: Shell) -> None:
    text = shell("list")
    assert all(name in text for name in BUNDLED) and "samples" in text
    found = shell.json("list", "benchmarks")
    assert found["schema"] == "medhelm.list/1"
    by_name = {b["name"]: b for b in found["benchmarks"]}
    assert set(by_name) == BUNDLED
    assert by_name["headqa"]["instances"] == 2675
    assert by_name["headqa"]["subcategory"] == "Providing Clinical Knowledge Support"
    assert all(b["has_samples"] and not b["has_full_data"] for b in by_name.values())
    access = {name: by_name[name]["access"] for name in ("headqa", "ehrshot", "clear")}
    assert access == {"headqa": "public", "ehrshot": "gated", "clear": "private"}
    assert by_name["clear"]["instances"] is None


def test_list_says_whether_full_data_is_here(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "own" / "headqa"
    folder.mkdir(parents=True)
    (folder / "HEAD_EN.json").write_text("{}")
    found = shell.json("list", "--data-dir", str(tmp_path / "own"))
    assert [b["name"] for b in found["benchmarks"] if b["has_full_data"]] == ["headqa"]


def test_list_metrics_suites_coverage(shell: Shell) -> None:
    metrics = shell.json("list", "metrics")["metrics"]
    assert {"exact_match", "medcalc_accuracy"} <= {m["name"] for m in metrics}
    assert {m["scoring"] for m in metrics if m["name"] == "exact_match"} == {"fixed", "helm"}
    suites = {s["name"]: s["benchmarks"] for s in shell.json("list", "suites")["suites"]}
    apart = {"noharm", "clinconsensus", "clinconsensus_own", "agentclinic", "medsp1000"}
    assert set(suites["medhelm"]) | set(suites["today"]) == BUNDLED - apart
    assert len(suites["medhelm"]) == 35 and not set(suites["medhelm"]) & set(suites["today"])
    assert set(suites["medhelm_core"]) < set(suites["medhelm_public"]) < BUNDLED
    total = shell.json("list", "coverage")["coverage"][-1]
    assert (total["subcategories"], total["tasks"], total["published_tasks"]) == (22, 118, 121)
    assert total["benchmarks"] == len(BUNDLED)


def test_list_taxonomy_shows_what_has_a_benchmark_and_what_has_none(shell: Shell) -> None:
    text = shell("list", "taxonomy")
    (covered,) = [line for line in text.splitlines() if "(planning_treatments)" in line]
    assert covered.endswith(": medec, medsp1000, mtsamples, noharm")
    assert "no benchmark" not in text
    tree = shell.json("list", "taxonomy")["taxonomy"]
    assert len(tree) == 5 and all(c["inclusion"] and c["performer"] for c in tree)
    assert all(s["benchmarks"] for c in tree for s in c["subcategories"])
    tasks = {t["id"]: t["benchmarks"] for c in tree for s in c["subcategories"] for t in s["tasks"]}
    assert tasks["perform_medical_calculations"] == ["medcalc_bench"]
    assert [] in tasks.values()


# describe --------------------------------------------------------------------------------------


def test_describe_a_benchmark(shell: Shell) -> None:
    found = shell.json("describe", "medec")
    assert "did you mean" not in shell.error("describe", "bleu", code=2)
    assert found["kind"] == "benchmark" and found["schema"] == "medhelm.description/1"
    assert found["max_output_tokens"] < found["reasoning_output_tokens"]
    assert found["metrics"][0] == "medec_flag_accuracy"
    (file,) = found["data"]["files"]
    assert file["is_there"] is False and len(file["sha256"]) == 64
    assert "CORRECT" in found["example_prompt"]


def test_rows_that_are_left_out_are_counted_with_the_reason(shell: Shell, tmp_path: Path) -> None:
    """By `describe`, `validate` and the record of a run."""
    left_out = {
        "no plan, only a summary": 1,
        "no plan, only findings": 1,
        "no plan, summary or findings": 1,
    }
    described = shell("describe", "mtsamples_procedures")
    assert "of: bundled samples" in described
    assert "summary or findings: 1\n" in described
    reasons = ", ".join(f"{why} (1)" for why in left_out)
    assert f"are left out: {reasons}\n" in shell("validate", "mtsamples")
    shell("run", "model=baseline/lead", "benchmark=mtsamples", "data=sample", "results_dir=results")
    assert record_of(tmp_path).left_out == left_out


# validate --------------------------------------------------------------------------------------


def test_validate_passes_on_bundled_samples(shell: Shell) -> None:
    """`tests/benchmarks/test_all.py` proves the others."""
    named = sorted(BUNDLED - set(NAMES))
    found = shell.json("validate", *named)
    assert found["schema"] == "medhelm.validation/1"
    assert {r["benchmark"]: r["state"] for r in found["reports"]} == dict.fromkeys(named, "passed")
    text = shell("validate", "headqa", "medec")
    assert "oracle" in text and "constant A" in text and "2 passed, 0 failed" in text


def test_missing_full_data_fails_only_where_it_is_named(shell: Shell) -> None:
    text = shell("validate", "--data", "full")
    assert "medhelm data fetch headqa" in text and f"{len(BUNDLED)} without data" in text
    assert "medhelm data fetch headqa" in shell("validate", "headqa", "--data", "full", code=1)


def test_validate_names_the_benchmark_of_damaged_data_once(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "data" / "headqa").mkdir(parents=True)
    (tmp_path / "data" / "headqa" / "HEAD_EN.json").write_text("{")
    given = ("--data", "full", "--data-dir", str(tmp_path / "data"))
    text = shell("validate", "headqa", *given, code=1)
    assert "failure: headqa: " in text and "headqa: headqa" not in text


def test_a_failing_benchmark_ends_with_1_and_names_instance_and_metric(
    shell: Shell, tmp_path: Path
) -> None:
    shell("new", "benchmark", "broken")
    plugin = tmp_path / "broken.py"
    plugin.write_text(plugin.read_text().replace('row["answer"]', '"C"'))
    plugin.write_text(plugin.read_text().replace("exact_match", "never"))
    shell("new", "metric", "never")
    text = shell("validate", "broken", "--plugin", "broken.py", "--plugin", "never.py")
    never = tmp_path / "never.py"
    never.write_text(never.read_text().replace("answer in accepted", "answer not in accepted"))
    text = shell("validate", "broken", "--plugin", "broken.py", "--plugin", "never.py", code=1)
    assert "broken 1 never: the gold" in text
    assert "1 for 'C'; got 0" in text


# estimate --------------------------------------------------------------------------------------

ESTIMATE = ("estimate", "benchmark=headqa,medec", "data=sample")


def test_estimate_takes_what_run_takes_and_needs_no_key(shell: Shell, tmp_path: Path) -> None:
    text = shell(*ESTIMATE, "model=openai/gpt-4o-mini-2024-07-18", "-m")
    assert "headqa" in text and "medec" in text and "total" in text
    found = shell.json(*ESTIMATE, "model=openai/gpt-4o-mini-2024-07-18", "-m")
    assert found["schema"] == "medhelm.estimate/1"
    assert len(found["runs"]) == 2
    for run in found["runs"]:
        budget = shell.json("describe", run["benchmark"])["max_output_tokens"]
        assert run["output_tokens_limit"] == run["to_ask"] * budget
        assert 0 < run["usd_expected"] <= run["usd_limit"]
    assert found["total"]["usd_limit"] == pytest.approx(
        sum(run["usd_limit"] for run in found["runs"])
    )
    assert not (tmp_path / "medhelm-results").exists()


# score -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ran")
    asked = ["model=baseline/first_option", "benchmark=headqa,medec", "data=sample"]
    assert run_command(["run", *asked, f"results_dir={folder}"]) == 0
    return folder


@pytest.fixture
def results(ran: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ran, tmp_path / "medhelm-results"))


def values(results: Path) -> dict[tuple[str, str], float | None]:
    records = [read_record(path) for path in find_gradings(results)]
    return {(r.spec.benchmark, r.grading.scoring): r.results[0].value for r in records}


def test_score_grades_what_is_stored_with_no_model_and_no_data(shell: Shell, results: Path) -> None:
    before = values(results)
    for path in find_gradings(results):
        shutil.rmtree(path)
    assert "2 graded, 0 failed" in shell("score", "--results-dir", str(results))
    assert values(results) == before
    said = shell("score", "--scoring", "helm", "--benchmark", "headqa")
    assert "`medhelm tables --scoring helm" in said
    assert set(values(results)) == {*before, ("headqa", "helm")}


def test_score_adds_a_metric_behind_the_benchmarks_own(shell: Shell, results: Path) -> None:
    shell("new", "metric", "same_words")
    asked = ("score", "--benchmark", "headqa", "--metric", "same_words")
    (run,) = shell.json(*asked, "--plugin", "same_words.py")["runs"]
    assert [r["metric"] for r in run["results"]] == ["exact_match", "same_words"]
    assert "'exact_match'" in shell.error("score", "--metric", "exact_mach", code=2)


def test_score_leaves_a_run_in_progress_alone(shell: Shell, results: Path) -> None:
    busy = next(path for path in find_runs(results) if "headqa" in str(path))
    with lock_file(busy / "lock"):
        assert "1 graded, 1 failed" in shell("score", code=4)
    assert "headqa x baseline/first_option" in shell.err and "in use by" in shell.err


def change_spec(run: Path, **fields: str) -> None:
    plan = read_plan(run)
    spec = msgspec.structs.replace(plan.spec, **fields)
    write_struct(run / "spec.json", msgspec.structs.replace(plan, spec=spec))


def test_score_skips_what_is_not_installed_and_names_what_is_damaged(
    shell: Shell, results: Path
) -> None:
    one, two = find_runs(results)
    change_spec(one, benchmark="gone")
    assert "0 failed, 1 skipped" in shell("score")
    assert "gone x baseline/first_option" in shell.err
    (two / "spec.json").write_text("{")
    asked = ("score", "--results-dir", str(results))
    assert "1 failed, 1 skipped" in shell(*asked, code=4)
    assert str(two / "spec.json") in shell.err


def test_score_notes_another_version_of_the_benchmark(shell: Shell, results: Path) -> None:
    run = next(p for p in find_runs(results) if "headqa" in str(p))
    change_spec(run, benchmark_version="0")
    shell("score")
    assert "version 0" in shell.err and "now 1" in shell.err


def test_score_says_where_there_is_nothing(shell: Shell, results: Path) -> None:
    assert "did you mean 'headqa'" in shell.error("score", "--benchmark", "headq", code=2)
    assert "baseline/first_option" in shell.error("score", "--model", "baseline/frst", code=2)


# data ------------------------------------------------------------------------------------------


ROWS = b'{"id": "1", "note": "n", "question": "q", "options": ["a", "b"], "answer": "B"}\n'


def remote(shell: Shell, url: str, sha256: str = "") -> tuple[str, ...]:
    """Write a benchmark whose file has an address; return the options that name it."""
    shell("new", "benchmark", "remote")
    path = Path("remote.py")
    file = f'SourceFile(name="test.jsonl", url="{url}", sha256="{sha256}")'
    path.write_text(path.read_text().replace('SourceFile(name="test.jsonl")', file))
    return ("remote", "--plugin", "remote.py")


def test_data_where_names_every_file(shell: Shell, tmp_path: Path) -> None:
    found = shell.json("data", "where")
    assert {f["benchmark"] for f in found["files"]} == BUNDLED
    headqa = next(f for f in found["files"] if f["benchmark"] == "headqa")
    assert headqa["path"] == str(tmp_path / "data" / "headqa" / "HEAD_EN.json")
    assert headqa["status"] == "missing" and headqa["fix"] == "medhelm data fetch headqa"
    shell("new", "benchmark", "own")
    text = shell("data", "where", "own", "--plugin", "own.py")
    assert f"put test.jsonl into {tmp_path / 'data' / 'own'}" in text
    gated = next(f for f in found["files"] if f["benchmark"] == "n2c2_ct")
    assert gated["status"] == "missing" and "data fetch" not in gated["fix"]


def test_data_is_fetched_verified_and_then_validated(
    shell: Shell, server: Server, tmp_path: Path
) -> None:
    server.content = ROWS
    named = remote(shell, server.url, hashlib.sha256(ROWS).hexdigest())
    assert "missing" in shell("data", "verify", *named, code=3)
    assert ": ok" in shell("data", "fetch", *named)
    assert ": ok" in shell("data", "verify", *named)
    assert "1 passed" in shell("validate", *named, "--data", "full")
    stored = tmp_path / "data" / "remote" / "test.jsonl"
    stored.write_bytes(ROWS + ROWS)
    assert "not the right file" in shell("data", "verify", *named, code=3)
    shell("data", "fetch", *named)
    assert stored.read_bytes() == ROWS


# All -------------------------------------------------------------------------------------------


def test_a_broken_third_party_plugin_is_named_and_stops_nothing(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "acme-down", "raise OSError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "headqa" in shell("list")
    assert "acme-down (acme_down)" in shell.err and "OSError: no licence" in shell.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("argv", [["qc", "noharm"], ["list", "models"]])
def test_a_full_disk_below_the_output_is_one_line_and_a_code(argv: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "medhelm", *argv], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 4  # 1 would be FAIL of a gate
    assert done.stderr.startswith("medhelm: cannot write the output: the disk is full")
    assert done.stderr.count("\n") == 1


def test_a_closed_output_changes_no_exit_code() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m medhelm schema noharm >&- 2>&-', sys.executable], check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("argv", [["qc", "noharm"], ["list", "models", "--format", "json"]])
def test_a_reader_who_has_gone_is_no_failure(argv: list[str]) -> None:
    assert into_closed_pipe(argv) == 0


def test_a_category_and_a_subcategory_are_described(shell: Shell) -> None:
    sub = shell.json("describe", "care_coordination_and_planning")
    assert (sub["kind"], sub["category"]) == ("subcategory", "administration_and_workflow")
    assert sub["tasks"] and sub["benchmarks"]
    above = shell.json("describe", sub["category"])
    assert above["kind"] == "category" and sub["id"] in above["subcategories"]
    assert all(above[key] == sub[key] for key in ("definition", "inclusion", "performer"))
    assert set(above["tasks"]) > set(sub["tasks"])
    assert set(above["benchmarks"]) >= set(sub["benchmarks"])
    text = shell("describe", "administration_and_workflow")
    assert f"inclusion: {above['inclusion']}" in text and "subcategories: " in text


def into_closed_pipe(argv: list[str]) -> int:
    """Return the exit code of a command whose reader went before it wrote."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        done = subprocess.run([sys.executable, "-m", "medhelm", *argv], stdout=pipe, check=False)
    return done.returncode
