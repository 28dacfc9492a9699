"""`medhelm new`: what it writes passes validation or a run as it is."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from medhelm.schema.data import Rubric
from medhelm.store.records import find_gradings, read_record
from tests.shell import Shell

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KINDS = ("choice", "text", "jury", "labels", "csv")


def ask(shell: Shell, model: str, benchmark: str, plugin: str) -> Any:
    asked = ("run", f"model={model}", f"benchmark={benchmark}", "data=sample")
    shell(*asked, "results_dir=r", f"plugins=[{plugin}]")
    (grading,) = find_gradings(Path("r"))
    return read_record(grading)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_benchmark_is_valid_and_runs(kind: str, here: Path, shell: Shell) -> None:
    out = shell("new", "benchmark", "ward_notes", "--kind", kind)
    plugin = "ward_notes.yaml" if kind == "csv" else "ward_notes.py"
    assert f"medhelm validate ward_notes --plugin {plugin}" in out
    shell("validate", "ward_notes", "--plugin", plugin)
    record = ask(shell, "baseline/lexical", "ward_notes", plugin)
    assert record.results[0].counted == record.instances >= 2
    if kind == "csv":
        table = ("validate", "ward_notes", "--data", "full", "--data-dir", "data")
        assert " ".join(table) in out and ";" in Path("data/ward_notes/ward_notes.csv").read_text()
        shell(*table, "--plugin", plugin)


def test_nothing_is_overwritten(here: Path, shell: Shell) -> None:
    shell("new", "benchmark", "ward_round", "--dir", "plugins")
    plugin = here / "plugins" / "ward_round.py"
    plugin.write_text("# mine\n")
    line = shell.error("new", "benchmark", "ward_round", "--dir", "plugins")
    assert "exists already" in line and plugin.read_text() == "# mine\n"
    (here / "samples").mkdir()
    (here / "samples" / "other.jsonl").write_text("{}\n")
    shell.error("new", "benchmark", "other")
    assert not (here / "other.py").exists()


def test_a_new_rubric_is_one_of_a_benchmark(here: Path, shell: Shell) -> None:
    shell("new", "benchmark", "ward_notes", "--kind", "jury")
    shell("new", "rubric", "handover")
    plugin = Path("ward_notes.py")
    plugin.write_text(plugin.read_text().replace('rubric="ward_notes"', 'rubric="handover"'))
    shell("validate", "ward_notes", "--plugin", plugin)


def test_the_rubric_of_the_docs_is_the_one_that_is_written_and_has_every_key() -> None:
    template = ROOT / "medhelm" / "cli" / "templates" / "rubric.yaml"
    text = template.read_text().replace("@NAME@", "ward_summary")
    assert f"```yaml rubrics/ward_summary.yaml\n{text}```" in (ROOT / "docs/jury.md").read_text()
    assert {*yaml.safe_load(text)} == {*Rubric.__struct_fields__}


def test_a_new_provider_and_a_new_protocol_run(here: Path, shell: Shell) -> None:
    for what in ("provider", "protocol"):
        shell("new", what, f"ward_{what}")
    shell("validate", "ward_protocol", "--plugin", "ward_protocol.py")
    record = ask(shell, "ward_provider/any", "ward_protocol", "ward_provider.py,ward_protocol.py")
    assert record.own.usage.requests == 2 * record.instances and record.results[0].value == 0.5
