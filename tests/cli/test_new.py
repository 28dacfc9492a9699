"""`medhelm new`: what it writes passes validation or a run as it is."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from medhelm.cli import run_command
from medhelm.schema.data import Rubric
from medhelm.store.records import find_gradings, read_record

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KINDS = ("choice", "text", "jury", "labels", "csv")


def run(*argv: str | Path) -> int:
    return run_command([*map(str, argv)])


def ask(model: str, benchmark: str, plugin: str | Path) -> Any:
    asked = ("run", f"model={model}", f"benchmark={benchmark}", "data=sample")
    assert run(*asked, "results_dir=r", f"plugins=[{plugin}]") == 0
    (grading,) = find_gradings(Path("r"))
    return read_record(grading)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_benchmark_is_valid_and_runs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("new", "benchmark", "ward_notes", "--kind", kind) == 0
    out = capsys.readouterr().out
    plugin = "ward_notes.yaml" if kind == "csv" else "ward_notes.py"
    assert f"medhelm validate ward_notes --plugin {plugin}" in out
    assert run("validate", "ward_notes", "--plugin", plugin) == 0
    record = ask("baseline/lexical", "ward_notes", plugin)
    assert record.results[0].counted == record.instances >= 2
    if kind == "csv":
        table = ("validate", "ward_notes", "--data", "full", "--data-dir", "data")
        assert " ".join(table) in out and ";" in Path("data/ward_notes/ward_notes.csv").read_text()
        assert run(*table, "--plugin", plugin) == 0
    assert run("new", "benchmark", "ward_notes", "--kind", kind) == 2, "nothing is overwritten"


def test_a_new_rubric_is_one_of_a_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("new", "benchmark", "ward_notes", "--kind", "jury") == 0
    assert run("new", "rubric", "handover") == 0
    plugin = Path("ward_notes.py")
    plugin.write_text(plugin.read_text().replace('rubric="ward_notes"', 'rubric="handover"'))
    assert run("validate", "ward_notes", "--plugin", plugin) == 0


def test_the_rubric_of_the_docs_is_the_one_that_is_written_and_has_every_key() -> None:
    template = ROOT / "medhelm" / "cli" / "templates" / "rubric.yaml"
    text = template.read_text().replace("@NAME@", "ward_summary")
    assert f"```yaml rubrics/ward_summary.yaml\n{text}```" in (ROOT / "docs/jury.md").read_text()
    assert {*yaml.safe_load(text)} == {*Rubric.__struct_fields__}


def test_a_new_provider_and_a_new_protocol_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for what in ("provider", "protocol"):
        assert run("new", what, f"ward_{what}") == 0
    assert run("validate", "ward_protocol", "--plugin", "ward_protocol.py") == 0
    record = ask("ward_provider/any", "ward_protocol", "ward_provider.py,ward_protocol.py")
    assert record.own.usage.requests == 2 * record.instances and record.results[0].value == 0.5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("metric", "m", "--kind", "jury"), "--kind is for benchmarks"),
        (("rubric", "visit_note"), "the rubric 'visit_note' is there already"),
        (("provider", "openai"), "the provider 'openai' is there already"),
        (("protocol", "completion"), "the protocol 'completion' is there already"),
        (("benchmark", "Ward-Notes"), "is not a name"),
    ],
)
def test_what_cannot_be_new_is_refused(words: tuple[str, ...], said: str, capsys: Any) -> None:
    assert run("new", *words) == 2
    assert said in capsys.readouterr().err
