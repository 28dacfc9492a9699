"""Keys of a file are there for one command that names it, and never by themselves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from medhelm.cli import command_parser, known_commands
from medhelm.cli.env_file import env_files
from medhelm.errors import UsageError
from tests.server import serve_in_thread
from tests.shell import Shell

CANARY = "sk-canary-4711"
ASKING = {
    *("run", "probe", "estimate", "score", "gold-quality", "rubric failures", "curate"),
    "fidelity",
    *("qc simulation", "generate noharm", "qc noharm"),
}


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give the variables of the file back."""
    for name in ("A", "B", "C", "D", "E", "F", "WARD_KEY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def put(text: str) -> str:
    Path("ward.env").write_text(text, encoding="utf-8")
    return "ward.env"


def test_lines_are_read_as_shells_and_other_tools_write_them() -> None:
    text = "\ufeff# keys\n\nA=1\nexport B = two words # note\nC='it is # one'\nD=\"x y\" # n\nE=\nF=a#b\n"
    with env_files(["--env-file", put(text)]):
        found = {name: os.environ[name] for name in "ABCDEF"}
    assert found == {
        "A": "1", "B": "two words", "C": "it is # one", "D": "x y", "E": "", "F": "a#b"
    }  # fmt: skip


def test_the_environment_goes_first_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("A", "mine")
    with env_files([f"--env-file={put(f'A={CANARY}{chr(10)}B=2')}"]):
        assert (os.environ["A"], os.environ["B"]) == ("mine", "2")
    assert os.environ["A"] == "mine" and "B" not in os.environ
    said = capsys.readouterr().err
    assert "another A" in said and "canary" not in said and said.count("\n") == 1


@pytest.mark.parametrize("line", [CANARY, f"2A={CANARY}", f"A='{CANARY}", f'A="x" {CANARY}'])
def test_a_line_that_is_none_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(UsageError, match=r"ward\.env, line 2") as caught:
        env_files(["--env-file", put(f"B=1\n{line}\n")]).__enter__()
    assert "canary" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(shell: Shell) -> None:
    assert "gone.env" in shell.error("run", "--env-file", "gone.env", "model=baseline/lead")
    shell("probe", "model=openai/x", "--env-file", code=2)
    Path("ward.env").write_bytes(b"A=\xff")
    with pytest.raises(UsageError, match="UTF-8"):
        env_files(["--env-file", "ward.env"]).__enter__()


def test_all_commands_that_ask_take_it_and_no_others_do() -> None:
    known = known_commands().commands.values()
    assert {c.name for c in known if c.asks} == ASKING
    for command in (c for c in known if c.name != "run"):
        options = {o for action in command_parser(command)._actions for o in action.option_strings}
        assert ("--env-file" in options) == command.asks


@pytest.mark.slow
def test_a_run_finds_its_key_there_alone_and_writes_it_nowhere(shell: Shell) -> None:
    file = put(f"WARD_KEY={CANARY}\n")
    Path(".env").write_text(f"WARD_KEY={CANARY}\n")
    with serve_in_thread(key=CANARY) as server:
        line = ["model=openai/m", f"model.base_url={server.base_url}", "model.api_key_env=WARD_KEY"]
        run = ["run", *line, "benchmark=headqa", "data=sample"]
        shell(*run, code=6)  # .env is not read by itself
        assert "WARD_KEY, which is not" in shell.err
        shell(*run, "--env-file", file)
        assert "WARD_KEY" not in os.environ
        shell("probe", "--env-file", file, *line)
    assert "canary" not in shell.all
    stored = [p for p in Path("medhelm-results").rglob("*") if p.is_file()]
    assert stored and not any(b"canary" in p.read_bytes() for p in stored)
