"""`medhelm data template`, and what the other commands say of data that a user must bring."""

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.cli import run_command
from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Benchmark, FileDataset, Instance, Row, SourceFile

pytestmark = pytest.mark.slow

PLUGIN = """
from medhelm import Benchmark, FileDataset, Instance, SourceFile, hookimpl

def to_instance(row):
    return Instance(id=row["id"], context=row["note"])

@hookimpl
def medhelm_benchmarks():
    return [
        Benchmark(
            name="ward", subcategory="planning_treatments", to_instance=to_instance,
            dataset=FileDataset(files=(SourceFile(name="notes.csv"),)),
            metrics=["exact_match"], answer="text", prompt="plain", CHANGES
        )
    ]
"""
COLUMNS = "columns={'note': 'the note', 'bed_number': 'the bed'}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDHELM_DATA_DIR", str(tmp_path / "data"))
    yield tmp_path


def ward(folder: Path, changes: str, samples: str = "") -> str:
    (folder / "ward.py").write_text(PLUGIN.replace("CHANGES", changes))
    if samples:
        (folder / "samples").mkdir()
        (folder / "samples" / "ward.jsonl").write_text(samples, encoding="utf-8")
    return "ward.py"


def refusal(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 2) -> str:
    assert run_command(list(argv)) == code
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line.removeprefix("medhelm: ")


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_a_template_holds_the_columns_and_two_samples(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["data", "template", "clear"]) == 0
    header, *rows = read(folder / "clear.csv")
    assert header == ["id", "condition", "text", "label", "patient"]
    samples = load_registry().benchmark("clear").samples
    assert samples is not None
    first = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()[:2]]
    assert rows == [[sample[name] for name in header] for sample in first]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "wrote clear.csv: a header and 2 synthetic rows"
    assert f"  put the file there: {folder / 'data' / 'clear' / 'clear.csv'}" in said
    assert said[-1] == "  medhelm validate clear --data full"
    assert (folder / "clear.csv").stat().st_mode & 0o077 == 0, "others must not read patients' data"


def test_the_template_in_its_place_is_data_that_validate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "own" / "ent_referral" / "ent_referral.csv"
    argv = ["data", "template", "ent_referral", "--data-dir", "own", "--output", str(path)]
    assert run_command(argv) == 0
    said = capsys.readouterr().out
    assert "put the file there" not in said, "it is there"
    assert "medhelm validate ent_referral --data full --data-dir own" in said
    assert run_command(["validate", "ent_referral", "--data", "full", "--data-dir", "own"]) == 0
    assert "2 instances" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_every_benchmark_with_columns_reads_its_own_template(folder: Path, suffix: str) -> None:
    registry = load_registry()
    names = [b.name for b in registry.benchmarks.values() if b.columns]
    assert len(names) == 14
    for name in names:
        benchmark = registry.benchmark(name)
        assert isinstance(benchmark.dataset, FileDataset)
        file = Path(benchmark.dataset.files[0].name).with_suffix(suffix)
        assert file.name in " ".join(benchmark.how_to_get)
        path = folder / "data" / name / file
        assert run_command(["data", "template", name, "--output", str(path)]) == 0
        dataset = open_dataset(benchmark, "full", root=folder / "data")
        samples = open_dataset(benchmark, "sample", root=folder / "data")
        assert [*dataset.instances()] == [*samples.instances()][:2], name


def test_a_template_of_json_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["data", "template", "note_extract", "--output", "own.jsonl"]
    assert run_command(argv) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "wrote own.jsonl: 2 synthetic rows"
    target = folder / "data" / "note_extract" / "note_extract.jsonl"
    assert f"  put the file there: {target}" in said
    rows = [json.loads(line) for line in (folder / "own.jsonl").read_text().splitlines()]
    assert [[*row] for row in rows] == [["id", "note", "patient"]] * 2
    target.parent.mkdir(parents=True)
    (folder / "own.jsonl").rename(target)
    assert run_command(["data", "where", "note_extract"]) == 0
    assert f"{target}: there" in capsys.readouterr().out
    assert run_command(["validate", "note_extract", "--data", "full"]) == 0
    assert "2 instances" in capsys.readouterr().out


def test_a_filled_table_may_grow(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "data" / "ent_referral" / "ent_referral.csv"
    assert run_command(["data", "template", "ent_referral", "--output", str(path)]) == 0
    assert run_command(["data", "fetch", "ent_referral"]) == 0
    with path.open("a") as file:
        file.write("x3,Synthetic note.,no,,\n")
    assert run_command(["validate", "ent_referral", "--data", "full"]) == 0
    assert "3 instances" in capsys.readouterr().out


def test_nothing_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cdi_qa.csv").write_text("my notes")
    told = refusal(capsys, "data", "template", "cdi_qa")
    assert told == (
        "cdi_qa.csv exists already and is left as it is; name another file with --output"
    )
    assert (folder / "cdi_qa.csv").read_text() == "my notes"


def test_a_benchmark_without_columns_says_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = ward(folder, "how_to_get=('Sign the agreement.', 'Unpack it.')")
    told = refusal(capsys, "data", "template", "ward", "--plugin", plugin)
    assert told.endswith(
        f"to get them: put notes.csv into {folder / 'data' / 'ward'}; "
        "first step: Sign the agreement (`medhelm describe ward` has all)"
    )


def test_a_plugin_s_template_keeps_its_own_file_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = '{"note": "Fieber, \\"hoch\\"\\nseit heute: é", "bed_number": 7, "ward": "x"}\n'
    plugin = ward(folder, COLUMNS, samples)
    assert run_command(["data", "template", "ward", "--plugin", plugin]) == 0
    said = capsys.readouterr().out
    assert read(folder / "ward.csv") == [
        ["note", "bed_number"],
        ['Fieber, "hoch"\nseit heute: é', "7"],
    ]
    assert str(folder / "data" / "ward" / "notes.csv") in said
    assert "medhelm validate ward --data full --plugin ward.py" in said


def test_without_samples_there_is_the_header(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["data", "template", "ward", "--plugin", ward(folder, COLUMNS)]) == 0
    assert read(folder / "ward.csv") == [["note", "bed_number"]]
    assert "a header and 0 synthetic rows" in capsys.readouterr().out


# What other commands say ---------------------------------------------------------------------


def test_describe_shows_columns_steps_parts_and_rubric(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["describe", "clear"]) == 0
    text = capsys.readouterr().out
    assert "  columns:\n    id: unique key of the row\n" in text
    assert "  how to get:\n    1. " in text and "\n    4. " in text
    assert "  parts: alcohol_dependence, attention_deficit" in text
    assert "rubric" not in text
    plugin = ward(folder, COLUMNS + ", rubric='accuracy_completeness_clarity'")
    assert run_command(["describe", "ward", "--plugin", plugin]) == 0
    text = capsys.readouterr().out
    assert "  rubric: accuracy_completeness_clarity" in text
    assert "    bed_number: the bed" in text, "a column's name is shown as it must be written"
    assert run_command(["describe", "clear", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["parts"]) == 13 and list(found["columns"])[0] == "id"
    assert len(found["how_to_get"]) == 5 and found["rubric"] == ""


def own(**changes: object) -> Benchmark:
    def to_instance(row: Row) -> Instance:
        return Instance(context=row["note"])

    benchmark = Benchmark(
        name="own",
        subcategory="planning_treatments",
        dataset=FileDataset(files=(SourceFile(name="own.csv"),)),
        to_instance=to_instance,
        metrics=["exact_match"],
    )
    return replace(benchmark, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        (
            {"columns": {"note": "the note"}, "how_to_get": ("Export notes.",)},
            "; `medhelm data template own` writes a file to fill in",
        ),
        (
            {"how_to_get": ("Sign the agreement.", "Unpack it.")},
            "; first step: Sign the agreement (`medhelm describe own` has all)",
        ),
        ({}, ""),
    ],
)
def test_a_missing_file_names_the_first_step(
    changes: dict[str, object], end: str, folder: Path
) -> None:
    with pytest.raises(DataError) as caught:
        open_dataset(own(**changes), "full", root=folder / "data")
    place = folder / "data" / "own"
    assert str(caught.value) == (
        f"own: {place / 'own.csv'} is missing; put own.csv into {place}{end}"
    )


def test_a_run_and_the_other_actions_name_the_template(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = "`medhelm data template cdi_qa` writes a file to fill in"
    told = refusal(capsys, "run", "model=baseline/random", "benchmark=cdi_qa", code=3)
    assert told.endswith(template)
    assert run_command(["data", "where", "cdi_qa"]) == 0
    assert template in capsys.readouterr().out
    assert run_command(["data", "verify", "cdi_qa"]) == 3
    assert template in capsys.readouterr().out


def test_fetching_all_leaves_out_what_a_user_must_bring(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def fetch(benchmark: Benchmark, root: Path, report: object) -> list[object]:
        asked.append(benchmark.name)
        return []

    monkeypatch.setattr("medhelm.cli.data.fetch", fetch)
    assert run_command(["data", "fetch", "--all"]) == 0
    assert "headqa" in asked and "clear" not in asked
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "a user must bring the files" in line and "clear" in line and "headqa" not in line
    assert "`medhelm data where` says how" in line
    assert run_command(["data", "fetch", "clear"]) == 0
    assert asked[-1] == "clear", "one that is named is tried, and the reason is said"
