"""Commands that a run prints are read as a shell reads them, and do what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.quiz import Done, arguments, medhelm, write_quiz
from tests.server import FaultServer
from tests.test_docs import refuse_shell_tricks


def type_in(line: str, folder: Path, code: int = 0) -> Done:
    """Run the line as a shell would that is given it as it was printed, in a folder."""
    refuse_shell_tricks(line)
    program, *argv = shlex.split(line)
    assert program == "medhelm"
    return medhelm(*argv, cwd=folder, code=code)


def printed(text: str, start: str) -> str:
    (line,) = re.findall(f"^{start}: (.*)$", text, re.MULTILINE)
    return str(line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "now", "options"),
    [
        ({}, {}, ""),
        ({"model.sampling.temperature": 0.5}, {}, "--latest"),
        ({"seed": 1, "model.max_output_tokens": 9}, {"scoring": "helm"}, "--scoring helm"),
    ],
)
def test_tables_again_shows_the_same_from_another_folder(
    before: dict[str, object],
    now: dict[str, object],
    options: str,
    tmp_path: Path,
    server: FaultServer,
) -> None:
    write_quiz(tmp_path, 4)
    work = tmp_path / "my work"
    work.mkdir()
    for settings in (before, now):
        argv = arguments(tmp_path, server.base_url, results_dir="results", **settings)
        done = medhelm(*argv, cwd=work)
    line = printed(done.stdout, "Tables again")
    assert line == f"medhelm tables --results-dir '{work}/results' {options}".rstrip()
    again = type_in(line, Path("/"))
    for text in (done.stdout, again.stdout):
        assert re.search(r"openai/test .*n?", text)
    (score,) = set(re.findall(r"openai/test +(\d\.\d{3} \[[^]]*\])", again.stdout))
    assert score in done.stdout


@pytest.mark.slow
def test_a_baseline_beside_a_model_with_settings_of_its_own_needs_no_option(
    tmp_path: Path, server: FaultServer
) -> None:
    """The fault: settings that a baseline ignores made a second run of it, and tables failed."""
    write_quiz(tmp_path, 4)
    for temperature in (0.0, 0.7):
        models = f"openai/t{int(temperature * 10)},baseline/lead"
        given = {"model": models, "model.sampling.temperature": temperature}
        done = medhelm(*arguments(tmp_path, server.base_url, **given), cwd=tmp_path)
    line = printed(done.stdout, "Tables again")
    assert line == f"medhelm tables --results-dir {tmp_path / 'results'}"
    again = type_in(line, Path("/"))
    assert all(name in again.stdout for name in ("openai/t0", "openai/t7", "baseline/lead"))


@pytest.mark.slow
def test_the_command_to_go_on_goes_on(tmp_path: Path, server: FaultServer) -> None:
    write_quiz(tmp_path, 6)
    argv = arguments(
        tmp_path, server.base_url, **{"budget_tokens": 350, "model.system_prompt": "'It is so.'"}
    )
    done = medhelm(*argv, cwd=tmp_path, code=7)
    asked = server.requests
    assert 0 < asked < 6
    again = type_in(printed(done.stderr, "To go on where it stopped"), tmp_path, code=7)
    assert server.requests > asked, again.stderr
    assert not server.duplicates


@pytest.mark.slow
def test_tables_again_shows_an_older_run_that_was_just_shown(
    tmp_path: Path, server: FaultServer
) -> None:
    """The fault: the printed command took the newest run, whose score is another one."""
    write_quiz(tmp_path, 6)
    given: list[dict[str, object]] = [{}, {"model.sampling.temperature": 0.5}, {}]
    scores = []
    for text, settings in zip(("A", "C", "unused"), given, strict=True):
        server.answer = lambda prompt, text=text: text
        done = medhelm(*arguments(tmp_path, server.base_url, **settings), cwd=tmp_path)
        again = type_in(printed(done.stdout, "Tables again"), Path("/"))
        shown = [re.findall(r"openai/test +(\d\.\d{3})", out.stdout) for out in (done, again)]
        assert shown[0] == shown[1] and len(shown[0]) == 1
        scores += shown[0]
    assert server.requests == 12
    assert scores[0] == scores[2] != scores[1]


@pytest.mark.slow
def test_a_run_that_is_not_there_is_refused(tmp_path: Path, server: FaultServer) -> None:
    write_quiz(tmp_path, 2)
    done = medhelm(*arguments(tmp_path, server.base_url), cwd=tmp_path)
    line = f"{printed(done.stdout, 'Tables again')} --run runs/quiz/nowhere/0"
    refused = type_in(line, Path("/"), code=2)
    assert refused.stderr.count("\n") == 1 and "--run runs/quiz/nowhere/0" in refused.stderr
