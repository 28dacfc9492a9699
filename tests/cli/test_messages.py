"""What a user of another tool, or with a typing mistake, is answered: one line that says what to type."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from medhelm.cli.other_tools import _NAMES, meant_key
from medhelm.config import Job
from medhelm.data.dataset import open_dataset
from medhelm.data.readers import read_csv, read_file
from medhelm.data.rubrics import load_rubric
from medhelm.errors import DataError, PluginError, closest
from medhelm.plugins.registry import load_registry
from medhelm.schema.type_errors import field_names
from tests.cases import cases
from tests.cli.own_configs import write_own
from tests.shell import Shell

pytestmark = pytest.mark.slow

MISTAKES = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text("utf-8"))


@pytest.fixture
def here(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with configs of the user's and a file, a key, and no data."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    write_own(here)
    (here / "file").touch()
    return here


@pytest.mark.parametrize("case", MISTAKES, ids=[case["typed"] for case in MISTAKES])
def test_a_mistake_is_one_line_that_says_what_to_type(
    case: dict[str, Any], here: Path, shell: Shell
) -> None:
    before = sorted(here.rglob("*"))
    line = shell.error(*shlex.split(case["typed"]), code=case.get("code", 2))
    assert [word for word in case["words"] if word not in line] == [], line
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("word", sorted(_NAMES))
def test_names_of_other_tools_lead_to_keys_that_are_there(word: str) -> None:
    key = meant_key(word)
    parent, _, last = key.rpartition(".")
    if parent == "model.extra_body":  # holds what a provider takes
        return
    top = [*field_names(Job, ""), "benchmark", "suite", "plugins", "examples", "form"]
    known = {"": top, "benchmark": ["split", "instruction"]}
    assert last in known.get(parent, field_names(Job, parent))


def test_the_whole_name_comes_first_among_those_that_look_alike() -> None:
    known = ["openai/gpt-6.1-sol", "openai/gpt-4o-2024-05-13", "openai/gpt-6-luna"]
    assert closest("gpt-4o", known, 1) == ["openai/gpt-4o-2024-05-13"]


@pytest.mark.parametrize(
    ("name", "text", "row"), cases(__file__, "a_delimiter_that_fits_all_rows_is_read")
)
def test_a_delimiter_that_fits_all_rows_is_read(
    tmp_path: Path, name: str, text: str, row: dict[str, str]
) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert list(read_file(tmp_path / name)) == [(1, row)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id;note;label\n1;a;b;yes\n", "own.csv, row 1: 4 cells by semicolon, the header has 3"),
        ("id,note;x\n1,a;b\n2,a,b\n", "own.csv, row 2: 3 cells, the header has 2"),
        ("id,note;x\n1,a;b\n2,c,d;e\n", "own.csv, row 2: 3 cells, the header has 2"),
        ("id,question|hint,answer\n1,a|b,c\n2,x,y|z,w\n", "row 2: 4 cells, the header has 3"),
        ("id;dose (mg,ml);x\n1;2,5;a\n", "both comma and semicolon part all rows"),
        ("id;note|x\n1;a|b\n", "own.csv: both semicolon and vertical bar part all rows"),
    ],
)
def test_a_table_that_no_one_delimiter_fits_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(DataError) as caught:
        list(read_csv(tmp_path / "own.csv"))
    assert said in str(caught.value)
    assert "note" not in str(caught.value)  # a header may be missing: what is there may be data


def test_declared_columns_of_another_delimiter_are_named_and_no_other_cell(tmp_path: Path) -> None:
    benchmark = load_registry().benchmark("adhd_behavior")
    (tmp_path / "adhd_behavior").mkdir()
    path = tmp_path / "adhd_behavior" / "adhd_behavior.csv"
    path.write_text("Jane Doe;text;label\n1;a, b, c;yes\n")
    with pytest.raises(DataError) as caught:
        list(open_dataset(benchmark, "full", root=tmp_path).instances())
    assert str(caught.value).endswith("; the file has text, label and 1 other")
    assert "Jane" not in str(caught.value)
    path.write_text("Jane Doe;1;yes\nJohn Doe;2;no\n")
    with pytest.raises(DataError) as caught:
        list(open_dataset(benchmark, "full", root=tmp_path).instances())
    assert "Jane" not in str(caught.value) and "them and 3 others" in str(caught.value)


def test_a_table_of_one_column_is_read(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("note\nfine; well\n")
    assert list(read_csv(tmp_path / "own.csv")) == [(1, {"note": "fine; well"})]


def test_a_jury_without_a_rubric_is_told_from_one_of_an_unknown_name() -> None:
    import dataclasses

    benchmark = dataclasses.replace(load_registry().benchmark("mtsamples"), rubric="")
    with pytest.raises(PluginError, match="rubric=NAME, one of"):
        load_rubric(benchmark)


def test_a_glob_over_data_that_may_not_be_sent_counts_it_and_names_the_suite(
    here: Path, shell: Shell
) -> None:
    line = shell.error("run", "model=openai/gpt-5", "benchmark=glob(*)", code=5)
    assert re.search(r"of \d+ benchmarks may not be sent \(\d+ gated, \d+ private\); suite=", line)
