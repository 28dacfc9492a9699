"""`medhelm runs`: nothing that is at work, or that was not meant, is taken away."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from medhelm.files.durable import lock_file
from tests.shell import Shell
from tests.stored_folders.kinds import WHOLE


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(WHOLE / "baselines", "medhelm-results")
    (found,) = Path("medhelm-results").glob("runs/quiz/baseline__random/*")
    return found


def answer(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: word)


def test_remove_asks_and_takes_the_empty_folders_with_it(
    run: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    answer(monkeypatch, "")
    shell("runs", "remove", run, code=1)
    assert run.is_dir()
    answer(monkeypatch, "y")
    (grading,) = run.glob("gradings/*")  # as the tables name it
    shell("runs", "remove", grading.relative_to("medhelm-results"))
    assert not run.parent.exists() and run.parents[1].is_dir()
    assert sorted(p.name for p in Path("medhelm-results").iterdir()) == ["runs"]
    assert shell.all.count("Removed: ") == 1


@pytest.mark.parametrize("place", ["lock", "judges/0123/lock"])
@pytest.mark.parametrize("action", ["remove --yes", "archive --remove"])
def test_a_run_that_is_at_work_is_left_alone(
    place: str, action: str, run: Path, shell: Shell
) -> None:
    (run / place).parent.mkdir(parents=True, exist_ok=True)
    word, option = action.split()
    with lock_file(run / place):
        shell("runs", word, run, option, code=4)
    assert "in use by process" in shell.err
    assert (run / "spec.json").is_file() and not list(Path().glob("*.zip"))


def test_an_archive_holds_the_run_and_is_never_written_over(run: Path, shell: Shell) -> None:
    lock_file(run / "lock").close()  # as a run leaves it
    shell("runs", "archive", run, "--out", "kept.zip")
    with zipfile.ZipFile("kept.zip") as packed:
        names = packed.namelist()
        assert packed.read(names[0]) == (Path("medhelm-results") / names[0]).read_bytes()
    files = {p.relative_to("medhelm-results").as_posix() for p in run.rglob("*") if p.is_file()}
    assert {*names} == {f for f in files if not f.endswith("/lock")}
    assert Path("kept.zip").stat().st_mode & 0o077 == 0
    archive = ("runs", "archive", run, "--remove", "--out")
    assert "there already" in shell.error(*archive, "kept.zip") and run.is_dir()
    shell(*archive, "no/kept.zip", code=4)
    assert run.is_dir()


def test_what_leads_out_of_the_folder_is_not_archived(
    run: Path, tmp_path: Path, shell: Shell
) -> None:
    (tmp_path / "outside").write_text("mine")
    (run / "notes.txt").symlink_to(tmp_path / "outside")
    shell("runs", "archive", run, "--remove", code=4)
    assert run.is_dir()
    moved = run.parent / "elsewhere"
    run.rename(moved)
    run.symlink_to(moved)
    shell("runs", "remove", run.name, "--yes", code=2)
    assert moved.is_dir()
    shell("runs", "remove", tmp_path, "--yes", code=2)
    assert (tmp_path / "outside").is_file()


@pytest.mark.slow
def test_the_list_says_what_sets_runs_of_one_cell_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in (0, 7):
        argv = ["model=baseline/random", "benchmark=headqa", "data=sample", f"seed={seed}"]
        shell("run", *argv)
    assert "medhelm runs list headqa" in shell.error("tables")
    said = shell("runs", "list", "headqa")
    assert "seed=0" in said and "seed=7" in said and said.count("complete") == 2
    assert "no run of medec" in shell.error("runs", "list", "medec")


def test_a_damaged_run_is_listed_and_removed(run: Path, shell: Shell) -> None:
    (run / "spec.json").unlink()
    (line,) = [text for text in shell("runs", "list").splitlines() if run.name in text]
    assert "damaged" in line
    shell("runs", "remove", run.name, "--yes")
    assert not run.exists()


def test_an_archive_never_lies_in_the_run_that_goes(
    run: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    results = str(run.parents[3].resolve())
    command = ["runs", "archive", run.name, "--remove", "--results-dir", results]
    shell(*command, "--out", run / "gradings" / "keep.zip", code=2)
    monkeypatch.chdir(run)
    assert "in the run itself" in shell.error(*command) and Path("spec.json").is_file()
    assert not list(Path().rglob("*.zip"))


def test_the_hash_of_another_archive_is_not_written_over(run: Path, shell: Shell) -> None:
    Path("kept.zip.sha256").write_text("of an archive that lies elsewhere")
    shell("runs", "archive", run.name, "--out", "kept.zip", "--remove", code=2)
    assert run.is_dir() and Path("kept.zip.sha256").read_text().startswith("of")


def test_a_removal_takes_what_a_killed_one_left_and_nothing_else(
    run: Path, tmp_path: Path, shell: Shell
) -> None:
    results = run.parents[3]
    (tmp_path / "outside").mkdir()
    (results / ".removed").mkdir()  # not of ours
    (results / ".removed" / "mine").touch()
    (results / ".removed-link").symlink_to(tmp_path / "outside")
    shutil.copytree(run, results / ".removed-left" / run.name)
    shell("runs", "remove", run.name, "--yes")
    assert not run.exists()
    assert sorted(p.name for p in results.glob(".*")) == [".removed", ".removed-link"]
    assert (results / ".removed" / "mine").is_file() and not list((tmp_path / "outside").iterdir())


def test_a_run_behind_a_link_is_not_removed(run: Path, tmp_path: Path, shell: Shell) -> None:
    results = run.parents[3]
    (results / "runs" / "quiz").rename(tmp_path / "other")
    (results / "runs" / "quiz").symlink_to(tmp_path / "other")
    shell("runs", "remove", run, "--yes", code=2)
    assert run.is_dir()


def test_the_end_of_the_input_is_no_yes(
    run: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    def end(_: str) -> str:
        raise EOFError

    answer(monkeypatch, "")
    monkeypatch.setattr("builtins.input", end)
    shell("runs", "remove", run, code=1)
    assert run.is_dir()
