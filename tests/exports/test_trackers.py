"""Trackers: who is told, and what a command says of one that cannot be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import medhelm
from medhelm.cli import run_command
from medhelm.errors import UnknownName
from tests.exports.test_exports import TRACKER
from tests.shell import Shell

ASKED = ("model=baseline/lexical", "benchmark=headqa", "data=sample")


@pytest.mark.slow
def test_a_tracker_is_told_each_time_under_one_id_and_never_stops_a_run(
    tmp_path: Path, shell: Shell
) -> None:
    (tmp_path / "own.py").write_text(TRACKER)
    command = ["run", *ASKED, f"plugins=[{tmp_path}/own.py]", f"results_dir={tmp_path}/r"]
    shell(*command, "track=[fail,keep]")
    said = "headqa x baseline/lexical: not tracked by fail: RuntimeError: the tracker is away"
    assert said in shell.err
    shell(*command, "track=keep")  # nothing is asked any more
    first, second = (tmp_path / "told.txt").read_text().splitlines()
    assert first == second
    table = medhelm.load_results(tmp_path / "r").table("benchmarks").iloc[0]
    assert f"'exact_match': {table['score']}" in first
    assert f"'exact_match.low': {table['low']}" in first and "'planned': 8.0" in first
    shell(*command)
    assert len((tmp_path / "told.txt").read_text().splitlines()) == 2  # none is told unasked


def test_a_tracker_that_is_not_there_is_refused_before_anything_is_asked(
    tmp_path: Path, shell: Shell
) -> None:
    with pytest.raises(UnknownName, match="did you mean 'mlflow'"):
        medhelm.evaluate("baseline/lexical", "headqa", data="sample", track="mlflo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medhelm.plugins.trackers.find_spec", lambda _: None)
        shell("run", *ASKED, "track=[wandb]", f"results_dir={tmp_path}/r", code=2)
    assert "pip install '.[wandb]'" in shell.err
    assert not (tmp_path / "r" / "runs").exists()


# By the tools themselves, in environments of their own: scripts/export_tools.py ------------

TOOLS = Path(os.environ.get("MEDHELM_TOOLS", "no-tools"))


def python_of(tool: str) -> str:
    """Return the interpreter of a tool's environment."""
    found = TOOLS / tool / "bin" / "python"
    if not found.is_file():
        pytest.skip(f"needs {tool} in an environment of its own: scripts/export_tools.py")
    return str(found)


def run_tool(tool: str, *argv: str, cwd: Path, **environ: str) -> str:
    """Return what a tool's Python prints, run with medhelm on its path."""
    env = {**os.environ, **environ}
    command = [python_of(tool), *argv]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs of the bundled samples, one of them rated by the offline jury."""
    folder = tmp_path_factory.mktemp("tools") / "results"
    names = ["headqa", "medec", "medication_qa"]
    medhelm.evaluate("baseline/lexical", names, data="sample", results_dir=folder, jury="offline")
    return folder


READ = """
import json, sys
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries
found = {}
for info in list_eval_logs(sys.argv[1]):
    log, lines = read_eval_log(info), read_eval_log_sample_summaries(info)
    assert log.eval.task and len(log.samples) == len(lines) == log.results.completed_samples
    assert read_eval_log(info, header_only=True).status == log.status == "success"
    score = log.results.scores[0]
    mean = [s.scores[score.name].value for s in log.samples if score.name in s.scores]
    assert abs(sum(mean) / len(mean) - score.metrics[score.name].value) < 1e-9
    found[log.eval.task] = [score.metrics[score.name].value, log.samples[0].output.completion]
print(json.dumps(found, sort_keys=True))
"""


@pytest.mark.slow
def test_inspects_reader_opens_its_logs(results: Path, tmp_path: Path) -> None:
    python_of("inspect")
    assert run_command(["export", "inspect", str(results), "-o", str(tmp_path / "logs")]) == 0
    said = run_tool("inspect", "-c", READ, str(tmp_path / "logs"), cwd=tmp_path)
    assert '"headqa.bundled-samples": [0.375, "A"]' in said and said.count("bundled-samples") == 3


@pytest.mark.slow
def test_every_eval_evers_validator_finds_no_fault(results: Path, tmp_path: Path) -> None:
    python_of("eee")
    assert run_command(["export", "eee", str(results), "-o", str(tmp_path)]) == 0
    files = [str(p.relative_to(tmp_path)) for p in (tmp_path / "data").rglob("*") if p.is_file()]
    said = run_tool("eee", "-m", "every_eval_ever", "validate", *files, cwd=tmp_path)
    assert "6 passed," in said and "0 failed" in said


@pytest.mark.slow
def test_mlflow_has_one_run_however_often_it_is_sent(tmp_path: Path) -> None:
    store = {"MLFLOW_TRACKING_URI": f"file://{tmp_path}/store", "MLFLOW_ALLOW_FILE_STORE": "true"}
    for _ in range(2):
        run_tool("mlflow", "-m", "medhelm", "run", *ASKED, "track=mlflow", cwd=tmp_path, **store)
    (score,) = (tmp_path / "store").glob("*/*/metrics/exact_match")
    assert [line.split()[1] for line in score.read_text().splitlines()] == ["0.375"] * 2
    (model,) = (tmp_path / "store").glob("*/*/params/model")
    assert model.read_text() == "baseline/lexical"


EMIT = """
import medhelm
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
provider, kept = LoggerProvider(), InMemoryLogRecordExporter()
provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
set_logger_provider(provider)
medhelm.evaluate("baseline/lexical", "headqa", data="sample", track=["opentelemetry", "wandb"])
for record in (own.log_record for own in kept.get_finished_logs()):
    own = record.attributes
    print(record.event_name, own["gen_ai.evaluation.name"], own["gen_ai.evaluation.score.value"])
"""


@pytest.mark.slow
def test_opentelemetry_and_weights_and_biases_get_every_number(tmp_path: Path) -> None:
    said = run_tool("mlflow", "-c", EMIT, cwd=tmp_path, WANDB_MODE="offline")
    assert "gen_ai.evaluation.result exact_match 0.375" in said
    assert list((tmp_path / "wandb").glob("offline-run-*"))
