"""`medhelm data template`, and what the other commands say of data that a user must bring."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Benchmark, FileDataset, Instance, Row, SourceFile
from tests.made import benchmark
from tests.shell import Shell

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


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_a_template_holds_the_columns_and_two_samples(folder: Path, shell: Shell) -> None:
    said = shell("data", "template", "clear").splitlines()
    header, *rows = read(folder / "clear.csv")
    assert header == ["id", "condition", "text", "label", "patient"]
    samples = load_registry().benchmark("clear").samples
    assert samples is not None
    first = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()[:2]]
    assert rows == [[sample[name] for name in header] for sample in first]
    assert said[0] == "wrote clear.csv: a header and 2 synthetic rows"
    assert f"  put the file there: {folder / 'data' / 'clear' / 'clear.csv'}" in said
    assert said[-1] == "  medhelm validate clear --data full"
    assert (folder / "clear.csv").stat().st_mode & 0o077 == 0, "others must not read patients' data"


def test_the_template_in_its_place_is_data_that_validate_and_may_grow(
    folder: Path, shell: Shell
) -> None:
    path = folder / "own" / "ent_referral" / "ent_referral.csv"
    place = ("ent_referral", "--data-dir", "own")
    said = shell("data", "template", *place, "--output", str(path))
    assert "put the file there" not in said, "it is there"
    assert "validate ent_referral --data full" in said
    assert "2 instances" in shell("validate", *place, "--data", "full")
    shell("data", "fetch", *place)
    with path.open("a") as file:
        file.write("x3,Synthetic note.,no,,\n")
    assert "3 instances" in shell("validate", *place, "--data", "full")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_every_benchmark_with_columns_reads_its_own_template(
    folder: Path, suffix: str, shell: Shell
) -> None:
    registry = load_registry()
    names = [b.name for b in registry.benchmarks.values() if b.columns]
    assert len(names) == 14
    for name in names:
        found = registry.benchmark(name)
        assert isinstance(found.dataset, FileDataset)
        file = Path(found.dataset.files[0].name).with_suffix(suffix)
        assert file.name in " ".join(found.how_to_get)
        shell("data", "template", name, "--output", str(folder / "data" / name / file))
        dataset = open_dataset(found, "full", root=folder / "data")
        samples = open_dataset(found, "sample", root=folder / "data")
        assert [*dataset.instances()] == [*samples.instances()][:2], name


def test_nothing_is_overwritten(folder: Path, shell: Shell) -> None:
    (folder / "cdi_qa.csv").write_text("my notes")
    told = shell.error("data", "template", "cdi_qa", code=2)
    assert "cdi_qa.csv exists already" in told and "--output" in told
    assert (folder / "cdi_qa.csv").read_text() == "my notes"


def test_a_benchmark_without_columns_says_what_to_do(folder: Path, shell: Shell) -> None:
    plugin = ward(folder, "how_to_get=('Sign the agreement.', 'Unpack it.')")
    told = shell.error("data", "template", "ward", "--plugin", plugin, code=2)
    place = folder / "data" / "ward"
    for words in (f"put notes.csv into {place};", "Sign the agreement (`medhelm describe ward`"):
        assert words in told


def test_a_plugin_s_template_keeps_its_own_file_name(folder: Path, shell: Shell) -> None:
    argv = ("data", "template", "ward", "--plugin", ward(folder, COLUMNS), "--output")
    assert "0 synthetic rows" in shell(*argv, "bare.csv")
    assert read(folder / "bare.csv") == [["note", "bed_number"]]
    samples = '{"note": "Fieber, \\"hoch\\"\\nseit heute: é", "bed_number": 7, "ward": "x"}\n'
    ward(folder, COLUMNS, samples)
    said = shell(*argv[:-1])
    rows = [["note", "bed_number"], ['Fieber, "hoch"\nseit heute: é', "7"]]
    assert read(folder / "ward.csv") == rows
    assert str(folder / "data" / "ward" / "notes.csv") in said
    assert "--data full --plugin ward.py" in said


# What other commands say ---------------------------------------------------------------------


def test_describe_shows_columns_steps_parts_and_rubric(folder: Path, shell: Shell) -> None:
    text = shell("describe", "clear")
    assert "id: unique key of" in text
    assert "  how to get:\n    1. " in text and "\n    4. " in text
    assert "  parts: alcohol_dependence, attention_deficit" in text
    assert "rubric" not in text
    plugin = ward(folder, COLUMNS + ", rubric='accuracy_completeness_clarity'")
    text = shell("describe", "ward", "--plugin", plugin)
    assert "  rubric: accuracy_completeness_clarity" in text
    assert "    bed_number: the bed" in text, "a column's name is shown as it must be written"
    found = shell.json("describe", "clear")
    assert len(found["parts"]) == 13 and list(found["columns"])[0] == "id"
    assert len(found["how_to_get"]) == 5 and found["rubric"] == ""


def own(**changes: object) -> Benchmark:
    def to_instance(row: Row) -> Instance:
        return Instance(context=row["note"])

    dataset = FileDataset(files=(SourceFile(name="own.csv"),))
    return benchmark("own", dataset=dataset, to_instance=to_instance, **changes)


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


def test_fetching_all_leaves_out_what_a_user_must_bring(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def fetch(benchmark: Benchmark, root: Path, *, examples: bool, report: object) -> list[object]:
        asked.append(benchmark.name)
        return []

    monkeypatch.setattr("medhelm.cli.data.fetch", fetch)
    shell("data", "fetch", "--all")
    assert "headqa" in asked and "clear" not in asked
    (line,) = shell.err.strip().splitlines()
    assert "a user must bring" in line and "clear" in line and "headqa" not in line
    assert "`medhelm data where`" in line
    shell("data", "fetch", "clear")
    assert asked[-1] == "clear", "one that is named is tried, and the reason is said"
