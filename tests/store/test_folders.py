"""Folders with links that lead out of them: named in one line, and nothing is read through them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from medhelm.data.readers import read_texts
from medhelm.data.sources import file_sha256
from medhelm.errors import DataError
from medhelm.files.folders import entries, inside
from medhelm_benchmarks.encounters.curation.sources import find_articles, read_article
from medhelm_benchmarks.encounters.data.layout import read_scenarios
from tests.benchmarks.encounters import teaching
from tests.benchmarks.encounters.test_cases_data import write_scenario
from tests.server import serve_in_thread
from tests.shell import Shell

SECRET = "the secret of another folder"
WARD = """name: ward
subcategory: clinical_knowledge_support
dataset: {files: [{name: ward.jsonl}]}
instance: {context: question, reference: gold}
answer: text
rubric: RUBRIC
metrics: [jury]
"""
RUBRIC = """name: ward
version: "1"
task: Rate it.
minimum: 1
maximum: 5
criteria: [{name: accuracy, text: right}]
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Return a folder beside the one that is read."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "secret.md").write_text(SECRET)
    (folder / "secret.txt").write_text(SECRET)
    return folder


def articles(folder: Path) -> list[str]:
    return [
        line for f in find_articles(folder) for d in read_article(f).documents for line in d.lines
    ]


def packets(folder: Path) -> list[str]:
    return [text for s in read_scenarios(folder) for text in s.texts.values()]


def write_packets(folder: Path) -> None:
    write_scenario(folder)


def write_texts(folder: Path) -> None:
    (folder / "a.txt").write_text("one")


@pytest.mark.parametrize(
    ("write", "read", "place", "of_a_folder"),
    [
        (teaching.write_articles, articles, "ear_md/more.md", False),
        (teaching.write_articles, articles, "ear_md/more", True),
        (teaching.write_articles, articles, "third", True),
        (write_packets, packets, "c1/scenario1/evaluator/more.md", False),
        (write_packets, packets, "c1/phase1_scenarios_meta.json", False),
        (write_packets, packets, "c1/scenario1/sp_actor/deep/more", True),
        (write_packets, packets, "c2", True),
        (write_texts, lambda f: list(read_texts(f)), "more.txt", False),
        (write_texts, file_sha256, "more.txt", False),
        (write_texts, file_sha256, "more", True),
    ],
)
def test_no_reader_of_a_folder_leaves_it(
    tmp_path: Path,
    elsewhere: Path,
    write: Callable[[Path], object],
    read: Callable[[Path], object],
    place: str,
    of_a_folder: bool,
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    write(given)
    before = read(given)
    link = given / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere if of_a_folder else elsewhere / "secret.md")
    with pytest.raises(DataError) as caught:
        read(given)
    said = str(caught.value)
    assert place in said and "symbolic link" in said and SECRET not in said and "\n" not in said
    link.unlink()
    (tmp_path / "as a link").symlink_to(given)
    assert read(tmp_path / "as a link") == before, "the folder itself may be given as a link"


def test_links_within_a_folder_are_followed_but_not_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "x.txt").write_text("one")
    (tmp_path / "a" / ".hidden").symlink_to("/etc/passwd")
    (tmp_path / "b").symlink_to("a")
    names = [p.relative_to(tmp_path).as_posix() for p in entries(tmp_path, is_deep=True)]
    assert names == ["a", "a/deep", "a/x.txt", "b", "b/deep", "b/x.txt"]
    (tmp_path / "a" / "deep" / "up").symlink_to("..")
    with pytest.raises(DataError, match="deep/up .*symbolic link"):
        entries(tmp_path, is_deep=True)
    for path in ("a/../../x", "../x"):
        with pytest.raises(DataError, match="leads out of"):
            inside(tmp_path / path, tmp_path)
    with pytest.raises(DataError, match="leads out of"):
        entries(tmp_path / "a" / ".." / "..", tmp_path)


def test_curate_sends_nothing_of_a_linked_file(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.chdir(tmp_path)
    teaching.write_articles(tmp_path / "packets")
    (tmp_path / "packets" / "lecture_1" / "more.md").symlink_to(elsewhere / "secret.md")
    with serve_in_thread(teaching.good) as server:
        (tmp_path / "curator.yaml").write_text(
            f"{{name: test/curator, model: curator-1, base_url: '{server.base_url}'}}"
        )
        args = ["curate", "packets", "--model", "curator.yaml", "--out", "out"]
        shell(*args, code=3)
        assert server.requests == 0 and not (tmp_path / "out").exists()
    (line,) = shell.err.splitlines()
    assert "packets/lecture_1/more.md leads out" in line


@pytest.mark.parametrize("part", ["rubrics/ward.yaml", "samples/ward.jsonl", "rubric: ../../own"])
def test_what_lies_beside_a_plugin_is_its_own(tmp_path: Path, part: str, shell: Shell) -> None:
    """A plugin's file may be a link itself, as some installers make them: its folder is then both."""
    given = tmp_path / "store" / "given"
    for folder in ("rubrics", "samples"):
        (given / folder).mkdir(parents=True)
    path = given / "ward.yaml"
    path.write_text(WARD.replace("RUBRIC", "ward"))
    (given / "rubrics" / "ward.yaml").write_text(RUBRIC)
    (given / "samples" / "ward.jsonl").write_text('{"question": "Which?", "gold": "this"}\n')
    (tmp_path / "farm").mkdir()
    for own in ("ward.yaml", "rubrics", "samples"):
        (tmp_path / "farm" / own).symlink_to(given / own)
    for plugin in (path, tmp_path / "farm" / "ward.yaml"):
        shell("describe", "ward", "--plugin", plugin)

    if ".." in part:
        shutil.copy(given / "rubrics" / "ward.yaml", tmp_path / "own.yaml")
        path.write_text(WARD.replace("RUBRIC", "../../../own"))
    else:
        shutil.move(given / part, tmp_path / "own")
        (given / part).symlink_to(tmp_path / "own")
    line = shell.error("describe", "ward", "--plugin", str(path))
    assert "leads out of" in line and str(tmp_path) in line
