"""`medhelm run` as a user meets it: names, settings, sweeps, own configs, keys, completion."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from medhelm.store import records
from tests.cli.own_configs import write_own
from tests.processes import asked, start
from tests.quiz import (
    PLUGIN,
    arguments,
    environment,
    medhelm,
    medhelm_apart,
    record_of,
    write_quiz,
)
from tests.server import FaultServer, Reply, serve_in_thread
from tests.shell import Shell

LEAD = ("run", "model=baseline/lead", "benchmark=headqa", "data=sample")
SECRET = "sk-live-0123456789abcdef"


def models_of(results: Path) -> Counter[str]:
    found = [records.read_record(g).spec for g in records.find_gradings(results)]
    return Counter(spec.model.name for spec in found)


# What is refused, in one line ----------------------------------------------------------------


@pytest.mark.slow
def test_a_name_beyond_ascii_can_be_given_as_the_error_says(here: Path, shell: Shell) -> None:
    line = shell.error("run", "benchmark=headqa", "data=sample", "model=openai/modèle")
    assert "name: openai/modèle\n" in shell(
        "run", *shlex.split(line.rpartition("write ")[2]), "--cfg", "job"
    )


@pytest.mark.parametrize(
    "argument",
    [
        f"model.api_key={SECRET}",
        f"+model.extra_body.api_key={SECRET}",
        f"++model.extra_body.auth.token={SECRET}",
        f"model.extra_body={{api_key: {SECRET}}}",
        f"+model.extra_body={{headers: {{Authorization: Bearer {SECRET}}}}}",
        f"model.api_key_env={SECRET}",
        f"model.api_key_env='{SECRET}'",
        "model.api_key_env=gsk_0123456789abcdefghijABCD",
        f"OPENAI_API_KEY={SECRET}",
        f"+model.extra_body.x-api-key={SECRET}",
        f"model.extra_body={{headers: {{x-api-key: {SECRET}}}}}",
        f"model.base_url=http://127.0.0.1/v1?api_key={SECRET}",
        f"model.base_url='http://127.0.0.1/v1?v=2&api-key={SECRET}'",
        f"+model.extra_body={{url: http://127.0.0.1?access_token={SECRET}}}",
        f"model.base_url=http://me:{SECRET}@127.0.0.1/v1",
    ],
)
def test_a_key_on_the_command_line_is_refused_and_not_repeated(
    argument: str, here: Path, shell: Shell
) -> None:
    line = shell.error(*LEAD, argument)
    assert "environment" in line
    assert not re.search("0123456789", line)


@pytest.mark.slow
def test_a_process_of_its_own_says_the_same(tmp_path: Path) -> None:
    done = medhelm_apart(*LEAD, "max_instance=3", cwd=tmp_path, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("medhelm: ") and done.stderr.count("\n") == 1
    assert not any(tmp_path.iterdir())


# What is shown -------------------------------------------------------------------------------


@pytest.mark.slow
def test_help_is_ours_and_quick(tmp_path: Path) -> None:
    before = os.times()
    done = medhelm_apart("run", "--help", cwd=tmp_path)
    seconds = os.times().children_user - before.children_user
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("usage: medhelm run")
    for word in ("examples:", "baseline/lexical", "openai/ANY-NAME", "pubmed_qa", "suite"):
        assert word in done.stdout
    for word in ("max_instances: null", "--cfg job", "--config-dir", "Exit codes", "budget_usd=20"):
        assert word in done.stdout
    assert "defaults:" not in done.stdout and "hydra:" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert seconds < 3, "it is asked for in under a second; a slow machine gets three"


def test_every_setting_of_the_help_exists(here: Path, shell: Shell) -> None:
    text = shell("run", "--help")
    settings = text.partition("settings (")[2].partition("\noptions:")[0]
    named = re.findall(r"^  (\w+):", settings, re.MULTILINE)
    from medhelm.config import Job

    groups = {"model", "benchmark", "suite", "jury", "ask"}
    shown = text.partition("settings (")[0]
    assert groups <= set(re.findall(r"^  (\w+)  +\w", shown, re.MULTILINE))
    beside = {"plugins", "examples", "form"}
    assert set(named) == {*Job.__struct_fields__, *beside} - {*groups, "benchmarks", "rename"}, (
        "it is model.rename"
    )


@pytest.mark.slow
def test_cfg_shows_the_configuration_and_runs_nothing(here: Path, shell: Shell) -> None:
    argv = ("model=openai/gpt-4o", "benchmark=headqa", "seed=7", "--cfg", "job")
    for given in (argv, ("-m", *argv), (*argv[3:], *argv[:3])):
        text = shell("run", *given)
        assert "  name: openai/gpt-4o\n" in text and "  name: headqa\n" in text
        assert "\nseed: 7\n" in text and "hydra:" not in text
    unseeded = [a for a in argv if a != "seed=7"]
    assert "one value" in shell.error("run", *unseeded, "seed=1,2")
    assert not any(here.iterdir())


# Sweeps --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_by_comma_and_glob_needs_no_m_and_writes_only_results(
    here: Path, shell: Shell
) -> None:
    given = ("benchmark=glob([medb*,mede*])", "data=sample", "results_dir=out/r")
    shell("run", "model=glob(baseline/l*)", *given)
    assert models_of(Path("out/r")) == {"baseline/lead": 2, "baseline/lexical": 2}
    shell("run", "-m", "model=baseline/lead,baseline/random", *given)
    assert models_of(Path("out/r"))["baseline/random"] == 2
    assert [p.name for p in here.iterdir()] == ["out"]
    assert [p.name for p in (here / "out" / "r").iterdir()] == ["runs"]


@pytest.mark.slow
def test_a_sweep_over_a_setting_keeps_its_runs_apart_and_shows_each(
    here: Path, shell: Shell
) -> None:
    said = shell(*LEAD, "seed=range(3)")
    assert "3 runs on headqa" in said
    shown = re.findall(r"headqa x baseline/lead, seed=(\d), exact_match 0.250 \(n 8\): (.+)", said)
    assert [seed for seed, _ in shown] == ["0", "1", "2"]
    for seed, folder in shown:
        assert str(records.read_plan(Path("medhelm-results") / folder).spec.seed) == seed
    seeds = {records.read_plan(r).spec.seed for r in records.find_runs(here / "medhelm-results")}
    assert seeds == {0, 1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "+"])
def test_experiments_and_suites(prefix: str, here: Path, shell: Shell) -> None:
    argv = ["run", "model=openai/x", "suite=medhelm_core", f"{prefix}experiment=repeatability"]
    text = shell(*argv, "--cfg", "job")
    assert "\nrepeats: 5\n" in text and "    temperature: 0.7\n" in text
    assert "name: medhelm_core" in text and "  - race_bias\n" in text


@pytest.mark.slow
def test_requests_that_fail_say_why_and_how_to_go_on(here: Path, shell: Shell) -> None:
    write_quiz(here, 6)

    def answer(prompt: str) -> str | Reply:
        return Reply(status=400) if is_broken or "patient 3?" in prompt else "A"

    is_broken = True
    with serve_in_thread(answer=answer) as server:
        argv = arguments(here, server.base_url, model="openai/a")
        shell(*argv, code=6)  # nothing was answered
        said = shell.err
        assert "openai/a: no request was" in said
        assert "6 request(s)" in said and "(6 http 400)" in said
        assert "stopped: medhelm run model=openai/a" in said
        is_broken = False
        shell(*argv)
        said = shell.err
        assert "1 request(s)" in said and "(1 http 400)" in said
        assert "no request was answered" not in said and "where it stopped" in said


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_requests_that_wait_for_their_next_try(tmp_path: Path) -> None:
    write_quiz(tmp_path, 6)
    throttled = Reply(status=429, headers={"Retry-After": "60"})
    with serve_in_thread(answer=lambda _: throttled) as server:
        argv = arguments(tmp_path, server.base_url)
        process = start(*argv)
        process.wait_until(asked(server, 6))
        time.sleep(0.2)
        stopped = time.monotonic()
        process.send(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and "where it stopped" in said
    assert time.monotonic() - stopped < 5


@pytest.mark.slow
def test_one_dead_server_does_not_stop_the_other_models(tmp_path: Path) -> None:
    write_quiz(tmp_path, 20)
    given = {"model": "openai/dead,baseline/lead", "model.max_attempts": 2}
    done = medhelm(*arguments(tmp_path, "http://127.0.0.1:9/v1", **given), code=6)
    assert "openai/dead:" in done.stderr and "server at 127.0.0.1:9" in done.stderr
    assert "1 of 2 run(s) failed" in done.stderr
    assert models_of(tmp_path / "results") == {"baseline/lead": 1}


@pytest.mark.slow
def test_what_stops_many_runs_alike_is_said_once(
    here: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("medhelm.runs.runner.write_struct", full)
    shell("run", "model=baseline/lead", "benchmark=headqa,medec", "data=sample", code=4)
    said = [line for line in shell.err.splitlines() if "disk is full" in line]
    assert len(said) == 1 and said[0].startswith(
        "medhelm: headqa x baseline/lead and 1 more run(s)"
    )


@pytest.mark.slow
def test_the_ranking_is_what_stays_on_the_screen(here: Path, shell: Shell) -> None:
    said = shell("run", "model=baseline/lead,baseline/random", *LEAD[2:])
    places = [said.index(title) for title in ("Scores by benchmark", "Models over 1", "Runs:")]
    assert places == sorted(places)
    again = shell("tables")
    assert said.startswith(again.rstrip()), "run and tables show the same in one order"


# Configs of the user's -----------------------------------------------------------------------


@pytest.fixture
def own(here: Path) -> Path:
    """A folder laid out like `conf/`."""
    return write_own(here)


OWN = ("run", "data=sample", "--config-dir", "own")


def specs(folder: Path) -> set[tuple[str, str, str]]:
    found = [records.read_plan(r).spec for r in records.find_runs(folder / "medhelm-results")]
    return {(s.model.name, s.benchmark, s.split) for s in found}


@pytest.mark.slow
def test_own_models_are_named_after_their_file_or_by_it(
    own: Path, here: Path, shell: Shell
) -> None:
    shell(*OWN, "model=mine,house/lead", "benchmark=headqa")
    assert {model for model, *_ in specs(here)} == {"mine", "house/first"}


@pytest.mark.slow
def test_own_benchmarks_suites_and_experiments(own: Path, here: Path, shell: Shell) -> None:
    shell(*OWN, "model=glob(house/*)", "suite=two")
    assert {m for m, *_ in specs(here)} == {"house/first", "house/random"}
    assert {b for _, b, _ in specs(here)} == {"headqa", "medec"}
    shutil.rmtree(here / "medhelm-results")
    shell("run", "--config-dir", "own", "experiment=mine")
    assert {(m, b) for m, b, _ in specs(here)} == {("house/random", "medec")}
    for name, split in (("pubmed_all", "all"), ("headqa", "test")):
        argv = [*OWN, "model=mine", f"benchmark={name}", "--cfg", "job"]
        assert yaml.safe_load(shell(*argv))["benchmark"]["split"] == split


@pytest.mark.slow
def test_hydras_search_path_is_the_same(own: Path, here: Path, shell: Shell) -> None:
    for place in (f"[{own}]", f"[file://{own}]"):
        argv = ("run", "data=sample", f"hydra.searchpath={place}", "model=glob(house/*)")
        shell(*argv, "benchmark=glob(headqa)")
    assert {m for m, *_ in specs(here)} == {"house/first", "house/random"}


def test_an_own_file_never_hides_behind_a_packaged_one(own: Path, shell: Shell) -> None:
    (own / "suite" / "medhelm_core.yaml").write_text("benchmarks: [headqa]\n")
    line = shell.error(*OWN, "model=mine", "suite=medhelm_core")
    assert "medhelm_core.yaml" in line and "rename it" in line


# Names with odd characters -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "llama3.1:8b",
        "accounts/fireworks/models/x@2025",
        "a b",
        "Qwen2.5_7B+chat%20",
    ],
)
def test_any_name_of_an_endpoint_is_a_model(name: str, tmp_path: Path) -> None:
    write_quiz(tmp_path, 3)
    with serve_in_thread() as server:
        medhelm(*arguments(tmp_path, server.base_url, model=f"openai/{name}"))
        assert {body["model"] for body in server.bodies} == {name}
    spec = record_of(tmp_path).spec.model
    assert (spec.name, spec.model) == (f"openai/{name}", name)
    for path in (tmp_path / "results").rglob("*"):
        assert re.fullmatch(r"[\w.@+%:-]+", path.name), path


# Shell completion ----------------------------------------------------------------------------


RUN = "medhelm run"
OWN_RUN = "medhelm run --config-dir own"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("medhelm ru", "rubric run runs"),
        (f"{RUN} benchmark=head", "benchmark=headqa"),
        (f"{RUN} model=a,baseline/l", "model=a,baseline/lead model=a,baseline/lexical"),
        (f"{RUN} -m suite=medhelm", "suite=medhelm suite=medhelm_core suite=medhelm_public"),
        ("medhelm estimate data=", "data=full data=sample"),
        (f"{RUN} max", "max_instances="),
        (f"{RUN} mod", "model= model."),
        (f"{RUN} model=baseline/lead model.sampling.t", "temperature= top_p="),
        (f"{RUN} plugins=[{PLUGIN}] benchmark=q", "benchmark=quiz"),
        (f"{OWN_RUN} model=house/", "model=house/lead model=house/random"),
        (f"{OWN_RUN} benchmark=pub", "benchmark=pubmed_all benchmark=pubmed_qa"),
        ("medhelm tables --re", ""),
        (f"{RUN} --nonsense benchmark=h", ""),
        (f"{RUN} plugins=[nope.py] benchmark=h", ""),
        ("medhelm ", "run list compare ..."),
        ("medhelm run ", "model= benchmark= suite= seed= results_dir= ..."),
    ],
)
def test_completion(
    line: str, offered: str, own: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    shell("-sc", "query=bash")
    assert shell.err == ""
    found = {word.removeprefix("model.sampling.") for word in shell.out.split()}
    wanted = set(offered.split())
    assert wanted - {"..."} <= found if "..." in wanted else found == wanted
    assert not any(word.startswith("hydra") for word in found)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_with_what_install_prints(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "medhelm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m medhelm "$@"\n')
    program.chmod(0o755)
    script = """
eval "$(medhelm run --shell-completion install=bash)"
offer() {
    COMP_LINE="$1"; COMP_POINT=${#1}; words=($1); COMP_CWORD=$((${#words[@]} - 1))
    hydra_bash_completion; echo "${COMPREPLY[@]}"
}
complete -p medhelm
offer "medhelm run model=baseline/le"
offer "medhelm run benchmark=head"
offer "medhelm tab"
"""
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment({"PATH": f"{folder}:{os.environ['PATH']}"}),
        check=True,
    )
    rule, models, benchmarks, commands = done.stdout.splitlines()
    assert rule.endswith("-F hydra_bash_completion medhelm")
    assert models.split() == ["model=baseline/lead", "model=baseline/lexical"]
    assert benchmarks.split() == ["benchmark=headqa"]
    assert commands.split() == ["tables"]
    assert done.stderr == ""


# Requests that are too long ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("window", "lost", "code"), [(64, 3, 6), (600, 1, 0)])
def test_requests_that_do_not_fit_the_window_are_counted_with_the_reason(
    window: int, lost: int, code: int, tmp_path: Path, server: FaultServer
) -> None:
    data = write_quiz(tmp_path, 3) / "quiz" / "quiz.jsonl"
    data.write_text(data.read_text().replace("Case 1.", "Case 1. " + "word " * 900))
    done = medhelm(
        *arguments(tmp_path, server.base_url, **{"model.context_window": window}), code=code
    )
    assert server.requests == 3 - lost
    reason = rf"tokens of prompt and 256 of answer exceed the window of {window}"
    said = rf"medhelm: quiz x openai/test: {lost} request\(s\) do not fit"
    assert re.search(said, done.stderr), done.stderr
    assert code == 0 or re.search(reason, done.stderr), done.stderr
