"""Servers that a model's `serve` starts: when they are up, what ends them, and whose answers are found again."""

import asyncio
import json
import os
import shlex
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
import pytest

from medhelm import evaluate
from medhelm.cli import run_command
from medhelm.errors import ModelError
from medhelm.models import serving
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec
from medhelm.store.records import find_gradings, find_runs, read_plan, read_record
from tests.juries import ESSAY, rated
from tests.models.local_model import need_transformers, smollm2_folder
from tests.processes import start
from tests.quiz import PLUGIN, arguments, record_of, write_quiz
from tests.server import serve_in_thread

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parent.parent / "models" / "served_model.py"


class Started(NamedTuple):
    pid: int
    child: int
    model: str
    port: int
    beside: int
    """Servers that were up when this one was started."""
    gpus: str
    """Those that it sees; `-`: all."""


def serve(folder: Path, *more: str, model: str = "{model}") -> str:
    words = [sys.executable, SERVER, model, "--port", "{port}", "--note", folder / "note", *more]
    return shlex.join(map(str, words))


def started(folder: Path) -> list[Started]:
    lines = (folder / "note").read_text().splitlines() if (folder / "note").exists() else []
    rows = (line.split() for line in lines)
    return [Started(int(p), int(c), m, int(port), int(n), gpus) for p, c, m, port, n, gpus in rows]


def alive(folder: Path) -> list[int]:
    found = []
    for pid in (pid for server in started(folder) for pid in (server.pid, server.child)):
        with suppress(psutil.NoSuchProcess):
            found += [pid] * (psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return found


def quiz(folder: Path, command: str, n: int, **more: Any) -> list[str]:
    given = arguments(folder, "", serve=command, max_instances=n, **more)
    return [a.replace("serve=", "model.serve=") for a in given if not a.startswith("model.base_")]


def run(folder: Path, command: str, n: int, **more: Any) -> int:
    return run_command(quiz(folder, command, n, **more))


def wait_until(condition: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def lines(run_folder: Path) -> int:
    return len((run_folder / "responses.jsonl").read_bytes().splitlines())


def test_answers_are_found_again_on_another_port(tmp_path: Path, capsys: Any) -> None:
    write_quiz(tmp_path, 6)
    assert run(tmp_path, serve(tmp_path, "--loading", "0.5"), 2) == 0
    (folder,) = find_runs(tmp_path / "results")
    (log,) = folder.glob("server-*.log")
    assert log.stat().st_mode & 0o077 == 0 and "serving test" in log.read_text()
    assert "loading weights, log" in capsys.readouterr().err
    respelt = serve(tmp_path, "--loading", "0.5").replace(" --loading", "   --loading")
    assert run(tmp_path, respelt, 2) == 0
    assert len(started(tmp_path)) == 1, "nothing was left to ask"
    assert run(tmp_path, respelt, 4, model__base_url="http://localhost:8000/v1") == 0
    assert find_runs(tmp_path / "results") == [folder] and lines(folder) == 4
    first, second = started(tmp_path)
    assert first.port != second.port and not alive(tmp_path)
    assert str(first.port) not in (folder / "spec.json").read_text()
    assert run(tmp_path, serve(tmp_path, "--loading", "0.4"), 2) == 0
    assert len(find_runs(tmp_path / "results")) == 2, "another command, perhaps other weights"


def test_a_server_that_does_not_start_stops_its_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    data = write_quiz(tmp_path, 2)
    monkeypatch.setenv("WARD_KEY", "s3cret")
    monkeypatch.setenv("HUB_TOKEN", "s3cret-too")
    monkeypatch.setenv("GATEWAY", "s3cret-of-header")
    given = {"model__api_key_env": "WARD_KEY", "+model__headers__X-Team": "$GATEWAY"}
    argv = quiz(tmp_path, serve(tmp_path, "--fault", "at start"), 2, **given)
    assert run_command([*argv, "repeats=1,2"]) == 6
    err = capsys.readouterr().err
    assert err.count("model 'openai/test': its server ended before it was ready") == 2
    assert "key is *** |" in err and "s3cret" not in err
    (log,) = (tmp_path / "results").rglob("server-*.log")
    assert log.read_text().count("CUDA") == 1, "it is not tried again for the second run"
    specs = [
        ModelSpec(name=f"s/{n}", model=n, serve=serve(tmp_path, *more))
        for n, more in (("bad", ["--fault", "at start"]), ("good", []))
    ]
    given: dict[str, Any] = {"plugins": [PLUGIN], "data_dir": data, "results_dir": tmp_path / "two"}
    with pytest.raises(ModelError, match="s/bad"):
        evaluate(specs, "quiz", **given)
    assert [read_record(g).spec.model.name for g in find_gradings(tmp_path / "two")] == ["s/good"]


@pytest.mark.parametrize("fault", ["never ready", "no health"])
def test_a_server_is_ready_by_its_own_word(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    write_quiz(tmp_path, 2)
    monkeypatch.setattr(serving, "READY_S", 5.0)  # long enough to begin on a busy machine
    code = run(tmp_path, serve(tmp_path, "--fault", fault), 2)
    said = "ready after 5 s" in capsys.readouterr().err
    assert (code, said) == ((6, True) if fault == "never ready" else (0, False))
    assert not alive(tmp_path)


def test_a_server_that_dies_is_named_and_its_log_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    write_quiz(tmp_path, 8)
    monkeypatch.setenv("FAULT", "dies")
    given = {"model__max_concurrency": 1, "model__endpoint_class": "local"}
    began = time.monotonic()
    assert run(tmp_path, serve(tmp_path), 8, **given) == 6
    err = capsys.readouterr().err
    (folder,) = find_runs(tmp_path / "results")
    assert "its server ended" in err and f"{folder}/server-" in err
    assert "PROMPT" not in err and time.monotonic() - began < 20 and not alive(tmp_path)
    assert "PROMPT" in next(folder.glob("server-*.log")).read_text()
    monkeypatch.delenv("FAULT")
    assert run(tmp_path, serve(tmp_path), 8, **given) == 0 and lines(folder) == 8


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, "deaf"])
def test_no_server_outlives_its_command(ending: Any, tmp_path: Path) -> None:
    write_quiz(tmp_path, 50)
    fault = ["--fault", "deaf"] if ending == "deaf" else []
    argv = quiz(tmp_path, serve(tmp_path, "--latency", "0.2", *fault), 50, model__max_concurrency=1)
    process = start(*argv)
    wait_until(
        lambda: (f := find_runs(tmp_path / "results")) and (f[0] / "responses.jsonl").exists()
    )
    wait_until(lambda: lines(find_runs(tmp_path / "results")[0]) > 1)
    assert len(alive(tmp_path)) == 2, "a server and its child"
    process.send(signal.SIGKILL if ending == "deaf" else ending)
    code = process.wait(30)
    if ending in (signal.SIGINT, signal.SIGTERM):
        assert code == 130 and not alive(tmp_path), "ended before the command does"
    wait_until(lambda: not alive(tmp_path))
    (folder,) = find_runs(tmp_path / "results")
    before = lines(folder)
    assert run_command(quiz(tmp_path, serve(tmp_path, "--latency", "0.2", *fault), before)) == 0


@pytest.mark.parametrize("is_starting", [True, False])
def test_ctrl_c_is_not_kept_waiting_by_a_start(is_starting: bool, tmp_path: Path) -> None:
    write_quiz(tmp_path, 4)
    given = serve(tmp_path, "--loading", "600" if is_starting else "0", "--latency", "3")
    process = start(*quiz(tmp_path, given, 4, model__max_concurrency=1))
    wait_until(lambda: started(tmp_path))
    time.sleep(1.5)
    process.send(signal.SIGINT)
    err = process.communicate(timeout=30)[1]
    assert process.returncode == 130 and "Traceback" not in err and not alive(tmp_path)
    assert "of 4 answered" in err


def test_replicas_share_the_work_and_one_that_is_killed_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quiz(tmp_path, 60)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5,6,7,8")
    driver = tmp_path / "bin" / "nvidia-smi"
    driver.parent.mkdir()
    driver.write_text(
        '#!/bin/sh\ncase "$*" in *id=7,8) echo H100;; *) echo A100;; esac\necho A100\n'
    )
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{driver.parent}:{os.environ['PATH']}")
    given = {"model__replicas": 3, "model__gpus": 2, "model__max_concurrency": 2}
    argv = quiz(tmp_path, serve(tmp_path, "--latency", "0.1"), 60, **given)
    process = start(*argv)
    wait_until(lambda: find_runs(tmp_path / "results"))
    (folder,) = find_runs(tmp_path / "results")
    wait_until(lambda: (folder / "responses.jsonl").exists() and lines(folder) > 10)
    os.kill(started(tmp_path)[0].pid, signal.SIGKILL)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 0, err
    assert sorted(s.gpus for s in started(tmp_path)) == ["2,3", "5,6", "7,8"]
    assert not alive(tmp_path) and len([*folder.glob("server-*.log")]) == 3
    record = record_of(tmp_path)
    assert (record.state, record.provenance["asked_again"], lines(folder)) == ("complete", "0", 60)
    served_at = record.own.served_at
    assert {*served_at} == {f"http://127.0.0.1:{s.port}/v1 test" for s in started(tmp_path)}
    assert sum(served_at.values()) == 60
    served_by = record.provenance["server.openai/test"]
    assert served_by == "version 0.9.1, 2 x A100; version 0.9.1, 1 x H100, 1 x A100"
    # their number decides no answer
    assert run(tmp_path, serve(tmp_path, "--latency", "0.1"), 60) == 0
    assert len(started(tmp_path)) == 3


def test_gpus_that_are_not_there_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    write_quiz(tmp_path, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    assert run(tmp_path, serve(tmp_path), 2, model__replicas=2, model__gpus=2) == 6
    said = "2 server(s) with 2 GPU(s) each need 4, and 3 of 3 are free"
    assert said in capsys.readouterr().err and not started(tmp_path)
    assert (
        run_command([*quiz(tmp_path, serve(tmp_path), 2), "model.serve=", "model.replicas=2"]) == 2
    )


def test_models_of_a_sweep_take_turns(tmp_path: Path) -> None:
    data = write_quiz(tmp_path, 3)
    given: dict[str, Any] = {"plugins": [PLUGIN], "data_dir": data, "results_dir": tmp_path / "r"}
    served = serve(tmp_path)
    with serve_in_thread() as server:
        models = [ModelSpec(name=f"s/{n}", model=n, serve=served) for n in ("a", "b")]
        models.append(ModelSpec(name="s/c", model="c", base_url=server.base_url))
        same = ModelSpec(name="s/hot", model="a", serve=served, system_prompt="Be brief.")
        evaluate([*models, same], "quiz", budget_tokens=100_000, **given)
    assert sorted(s.model for s in started(tmp_path)) == ["a", "b"], "one server for one command"
    assert not any(s.beside for s in started(tmp_path)) and not alive(tmp_path)
    assert {read_record(g).state for g in find_gradings(tmp_path / "r")} == {"complete"}


def test_a_turn_is_of_servers_that_are_known_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def begun(gpus: int, order: Any = None) -> tuple[str, str]:
        """Return who may begin of two models, one also with a patient, and two judges; then once one has ended."""
        servers = serving.Servers(order)
        specs = {
            n: ModelSpec(name=n, model=n, serve="s {model} {port}", gpus=gpus) for n in "abpjk"
        }
        works = {
            names: servers.work([specs[n] for n in names], is_judging=names in "jk")
            for names in ("a", "j", "ap", "b", "k")
        }
        servers.expect([*works.values()])
        turns = {names: asyncio.create_task(servers.turn(work)) for names, work in works.items()}
        await asyncio.sleep(0)
        first = " ".join(names for names, turn in turns.items() if turn.done())
        for names in ("a", "ap"):
            await servers.leave(works[names])
        await asyncio.sleep(0)
        then = " ".join(names for names, turn in turns.items() if turn.done())
        for turn in turns.values():
            turn.cancel()
        return first, then

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    one_after_another = ("a ap", "a ap b")
    for gpus, order in ((0, None), (0, "roles"), (2, "roles")):
        assert asyncio.run(begun(gpus, order)) == one_after_another
    for gpus, order in ((0, "runs"), (1, None)):  # four GPUs: a model, its patient and both judges
        assert asyncio.run(begun(gpus, order)) == ("a j ap k", "a j ap b k")
    assert asyncio.run(begun(1, "roles")) == ("a ap b", "a ap b"), (
        "both models fit beside each other"
    )


@pytest.mark.parametrize(
    ("words", "gpus", "started_as"),
    [
        ([], "", [("a", 0), ("b", 0), ("judge", 0)]),
        ([], "0,1", [("a", 0), ("judge", 1), ("b", 1)]),
        (["order=roles"], "0,1,2", [("a", 0), ("b", 1), ("judge", 0)]),
        (["order=runs"], "", [("a", 0), ("judge", 1), ("b", 1)]),
        (["order=runs"], "0", []),
        (["shard=0/2", "order=roles"], "", [("a", 0), ("b", 0), ("judge", 0)]),
    ],
)
def test_each_server_of_a_sweep_is_started_once(
    words: list[str],
    gpus: str,
    started_as: list[tuple[str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus or "0")
    common = {"endpoint_class": "local", "gpus": int(bool(gpus))}
    judge = {"name": "j/judge", "model": "judge", "serve": serve(tmp_path, "--answer", rated())}
    jury = {"name": "house", "judges": [judge | common], "quorum": 1, "reasons": False}
    files: dict[str, Any] = {"jury/house": jury}
    for n in ("a", "b"):
        files[f"model/s/{n}"] = {"name": f"s/{n}", "model": n, "serve": serve(tmp_path)} | common
    for name, file in files.items():
        path = tmp_path / f"conf/{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(file))
    argv = ["run", "-m", "model=s/a,s/b", "benchmark=essay", "data=sample", "jury=house", *words]
    argv += ["seed=0,1,2,3,4", f"plugins=[{ESSAY}]"]
    argv += [f"results_dir={tmp_path / 'r'}", "--config-dir", str(tmp_path / "conf")]
    assert run_command(argv) == (0 if started_as else 2)
    if not started_as:
        assert "order=runs needs 2 GPUs" in capsys.readouterr().err
    # they begin to load together, and so in any order, where all are allowed to be up
    assert sorted(s.model for s in started(tmp_path)) == sorted(m for m, _ in started_as)
    assert sorted(s.beside for s in started(tmp_path)) == sorted(n for _, n in started_as)
    assert not alive(tmp_path)
    records = [read_record(g) for g in find_gradings(tmp_path / "r")]
    if "shard=0/2" not in words and started_as:
        assert len(records) == 10 and {r.state for r in records} == {"complete"}
        assert {r.provenance["not_judged"] for r in records} == {"0"}


def test_judges_are_served_after_the_model_and_together(tmp_path: Path) -> None:
    local: dict[str, Any] = {"endpoint_class": "local"}
    judged = serve(tmp_path, "--answer", rated())
    judges = tuple(ModelSpec(name=f"j/{n}", model=n, serve=judged, **local) for n in ("one", "two"))
    broken = ModelSpec(
        name="j/no", model="no", serve=serve(tmp_path, "--fault", "at start"), **local
    )
    jury = JurySpec(name="j", judges=(*judges, broken), quorum=2, reasons=False)
    spec = ModelSpec(name="s/model", model="model", serve=serve(tmp_path), **local)
    given: dict[str, Any] = {"data": "sample", "results_dir": tmp_path / "r", "jury": jury}
    given |= {"plugins": ESSAY, "budget_tokens": 1_000_000}
    with pytest.warns(UserWarning, match="j/no"):
        results = evaluate(spec, "essay", **given)
    assert [(s.model, s.beside) for s in started(tmp_path)] == [
        ("model", 0),
        ("one", 0),
        ("two", 1),
    ]
    assert results.table("benchmarks")["score"].notna().all() and not alive(tmp_path)
    evaluate(spec, "essay", **given | {"jury": msgspec.structs.replace(jury, judges=judges)})
    assert len(started(tmp_path)) == 3, "no server is started for verdicts that are there"


@pytest.mark.parametrize(
    ("serve", "more", "said"),
    [
        ("vllm serve {model}", {}, "serve needs {port}"),
        (sys.executable + " {modle} --port {port}", {}, "did you mean {model}?"),
        ("no-such-server {model} --port {port}", {}, "'no-such-server', which is not on this machine's PATH"),
        ("vllm 'serve {model} --port {port}", {}, "No closing quotation"),
        ("vllm serve {model} --port {port} --api-key s3cret", {}, "serve holds a key in '--api-key'"),
        ("HF_TOKEN=s3cret vllm serve {model} --port {port}", {}, "serve holds a key in 'HF_TOKEN'"),
        ("HF_TOKEN2=s3cret vllm serve {model} --port {port}", {}, "serve holds a key in 'HF_TOKEN2'"),
        ("curl {port} -H 'Authorization: Bearer s3cret'", {}, "serve holds a key in 'Authorization'"),
        ("curl {port} -H 'X-Team:Bearer s3cret'", {}, "serve holds a key in 'Bearer'"),
        ("curl {port} -H X-Team:s3cret:5 --api-key:s3cret", {}, "serve holds a key in '--api-key'"),
        ("curl {port} sk-verys3cret", {}, "serve holds a key in 'sk-...'"),
        ("curl {port} hf_veryVERYs3cretToken", {}, "serve holds a key in 'hf_...'"),
        ("vllm serve {model} --port {port}", {"model": "baseline/lexical"}, "'baseline' is not"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_serve_is_refused_before_anything_is_asked(
    serve: str, more: dict[str, str], said: str, tmp_path: Path, capsys: Any
) -> None:
    write_quiz(tmp_path, 2)
    assert run(tmp_path, serve, 2, **more) in (2, 6)
    err = capsys.readouterr().err
    assert said in err and "s3cret" not in err and err.count("\n") == 1
    assert not find_runs(tmp_path / "results")


def test_private_data_go_to_a_served_model_that_is_declared_local(
    tmp_path: Path, capsys: Any
) -> None:
    argv = ["model=openai/a", f"model.serve={serve(tmp_path)}", "benchmark=quiz", "data=sample"]
    assert run_command(["probe", argv[0], argv[1]]) == 0
    out = capsys.readouterr().out
    assert "200, stop" in out and "endpoint_class=local" in out and not alive(tmp_path)


@pytest.mark.extra
def test_transformers_serve_answers_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    need_transformers()
    for name in ("fastapi", "uvicorn"):
        pytest.importorskip(name, reason="needs a server: pip install '.[serve]'")
    folder = smollm2_folder(tmp_path_factory)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    own = tmp_path / "conf" / "model" / "ward"
    own.mkdir(parents=True)
    program = f"{sys.executable} -m transformers.cli.transformers"
    text = {"name": "ward/small", "model": str(folder), "endpoint_class": "local"}
    text["serve"] = f"{program} serve {{model}} --port {{port}} --device cpu"
    (own / "small.yaml").write_text(json.dumps(text))
    asked = ["run", "--config-dir", str(tmp_path / "conf"), "model=ward/small", "benchmark=headqa"]
    asked += ["data=sample", f"results_dir={tmp_path / 'results'}"]
    for n in (2, 3):
        assert run_command([*asked, f"max_instances={n}"]) == 0
    (grading,) = find_gradings(tmp_path / "results")
    record = read_record(grading)
    assert record.instances == 3 and record.own.usage.requests == 3
    assert record.results[0].outcomes.get("error", 0) == 0 and record.own.usage.output_tokens > 0
    assert read_plan(grading.parents[1]).spec.model.base_url is None
    children = psutil.Process(os.getpid()).children(recursive=True)
    assert not [c for c in children if "transformers" in " ".join(c.cmdline())]
