"""Episodes of parallel calls, of none, and of failures that are not the model's: what the log keeps."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from medhelm import ModelSpec, Price, evaluate, load_results
from medhelm.errors import BudgetReached, Interrupted, ModelError
from medhelm.store import records
from tests.processes import asked, start
from tests.server import FaultServer, Reply, serve_in_thread
from tests.shell import Shell
from tests.stored import by_instance, log_of

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).parent / "toys" / "toys.py"
EPISODES, ITEMS = 6, 5


def model(server: FaultServer, name: str, **more: Any) -> ModelSpec:
    return server.model(f"lab/{name}", **more)


def toys(server: FaultServer, folder: Path, **more: Any) -> Any:
    """Run all episodes with the server in both roles; other words are settings of the protocol."""
    limit = more.pop("max_concurrency", None)
    helper = more.pop("helper", None) or model(
        server, "helper", max_concurrency=limit, max_attempts=1
    )
    under_test = more.pop("model", None) or model(server, "under-test", max_concurrency=limit)
    kept = {"budget_tokens", "budget_usd", "plugins"}
    given = {"plugins": str(PLUGIN)} | {name: more.pop(name) for name in kept & more.keys()}
    cast = {"helper": helper}
    return evaluate(
        under_test, "toys", data="sample", cast=cast, results_dir=folder, protocol=more, **given
    )


def arguments(server: FaultServer, folder: Path, plugin: Path = PLUGIN) -> list[str]:
    """Return the command that runs the same."""
    argv = ["run", "benchmark=toys", "data=sample", f"results_dir={folder}", f"plugins=[{plugin}]"]
    for place, name in (("model", "under-test"), ("cast.helper", "helper")):
        argv += [f"{place}=openai/{name}", f"{place}.base_url={server.base_url}"]
    return argv


def another_plugin(folder: Path, changes: Mapping[str, str]) -> Path:
    """Return the plugin with other words in some places."""
    text, path = PLUGIN.read_text(), folder / "changed" / "toys.py"
    (path.parent / "samples").mkdir(parents=True)
    sample = "samples/toys.jsonl"
    (path.parent / sample).write_text((PLUGIN.parent / sample).read_text())
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def failing(*words: str) -> Callable[[str], str | Reply]:
    """Return a rule by which prompts that hold all these words fail."""

    def answer(prompt: str) -> str | Reply:
        return Reply(status=500) if all(word in prompt for word in words) else "fine"

    return answer


def test_an_episode_that_another_role_failed_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    with serve_in_thread(failing("[helper]", "patient 2")) as server:
        first = toys(server, tmp_path)
        assert first.table("benchmarks")["n"].tolist() == [EPISODES - 1]
        asked = server.requests
        server.answer = failing("nothing")
        second = toys(server, tmp_path)
        assert server.requests - asked == ITEMS, "the failed calls, and nothing that was answered"
    assert second.table("benchmarks")["n"].tolist() == [EPISODES]


@pytest.mark.parametrize("played", ["helper", "model", "both"])
def test_a_rule_plays_any_role_and_takes_no_part_in_a_budget(played: str, tmp_path: Path) -> None:
    rule = ModelSpec(name="baseline/lead", provider="baseline", model="lead")
    roles = {role: rule for role in ("helper", "model") if played in (role, "both")}
    with serve_in_thread("fine") as server:
        # some 35 tokens of prompt and answer for each call to a model, and as many for a rule's
        asked = {"helper": EPISODES, "model": EPISODES * ITEMS, "both": 0}[played]
        results = toys(server, tmp_path, budget_tokens=asked * 60 or 1, **roles)
        assert server.requests == asked
    assert results.table("benchmarks")["n"].tolist() == [EPISODES]
    assert all(len(e.calls) == 1 + ITEMS for e in by_instance(tmp_path).values())


def test_a_key_refused_to_one_role_loses_nothing_that_another_role_was_asked(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def refuse_the_fourth(prompt: str) -> str | Reply:
        asked.append(prompt)
        return Reply(status=401) if len(asked) > 3 else "fine"

    with (
        serve_in_thread(refuse_the_fourth, latency_s=0.05) as own,
        serve_in_thread("fine", latency_s=0.5) as others,
    ):
        roles = {
            "model": model(own, "under-test", max_concurrency=3),
            "helper": model(others, "helper", max_concurrency=64),
        }
        with pytest.raises(ModelError, match="wants a key"):
            toys(own, tmp_path, **roles)
        paid = others.requests
        assert paid >= ITEMS, "they were in flight when the key was refused"
        held = Counter(k for line in kinds(log_of(tmp_path)).values() for k in line)
        assert held["call"] == paid + 3
        own.answer = failing("nothing")
        toys(own, tmp_path, **roles)
        assert others.requests == EPISODES * ITEMS, "none is sent again"


def test_a_second_interrupt_does_not_break_off_the_last_grading(tmp_path: Path) -> None:
    slow = {'items = episode.state["items"]': 'time.sleep(1.0); items = episode.state["items"]'}
    plugin = another_plugin(tmp_path, slow | {"import asyncio": "import asyncio, time"})
    with serve_in_thread("fine", latency_s=0.1) as server:
        argv = [*arguments(server, tmp_path, plugin), "model.max_concurrency=1"]
        process = start(*argv)
        process.send(signal.SIGINT, once=asked(server, 20))
        time.sleep(1.0)  # the grading of three episodes takes three seconds
        process.send(signal.SIGINT)
        said = "".join(process.communicate(timeout=60))
    assert process.returncode == Interrupted("").exit_code and "Traceback" not in said
    ended = sum(line[-1] == "response" for line in kinds(log_of(tmp_path)).values())
    assert 1 < ended < EPISODES
    (row,) = load_results(tmp_path, plugins=[str(plugin)]).typed("benchmarks").rows
    assert row["n"] == ended
    assert f"{ended}/{EPISODES}" in said, said


def test_a_protocol_of_one_call_may_keep_no_state(tmp_path: Path) -> None:
    plugin = another_plugin(
        tmp_path, {'settings={"way": "whole"': 'is_one_call=True, settings={"way": "silent"'}
    )
    with serve_in_thread("fine") as server:
        toys(server, tmp_path, plugins=str(plugin))
    assert {e.error for e in by_instance(tmp_path).values()} == {
        "a defect of the protocol: it has an ending or an end state and says is_one_call"
    }


def test_a_baseline_needs_no_budget(tmp_path: Path) -> None:
    results = evaluate(
        "baseline/random", "headqa", data="sample", results_dir=tmp_path, budget_tokens=1
    )
    assert results.table("benchmarks")["n"].tolist() == [8]


def kinds(log: Path) -> dict[str, list[str]]:
    """Return the kinds of the lines of each episode, in their order."""
    found: dict[str, list[str]] = {}
    for line in log.read_text().splitlines():
        held = json.loads(line)
        kind = next(kind for kind in ("instance", "call", "response") if kind in held)
        found.setdefault(held["episode"], []).append(kind)
    return found


def test_a_defect_beside_parallel_calls_loses_none_of_them(tmp_path: Path) -> None:
    with serve_in_thread("fine", latency_s=0.02) as server:
        toys(server, tmp_path, way="defect")
        assert server.requests == EPISODES * (1 + ITEMS)
        log = log_of(tmp_path)
        assert all(k == ["instance", *["call"] * 6, "response"] for k in kinds(log).values())
        before = log.read_bytes()
        toys(server, tmp_path, way="defect")
        assert server.requests == EPISODES * (1 + ITEMS), "all that was answered is in the log"
    assert log.read_bytes() == before and not log.with_name("quarantine.jsonl").exists()
    assert {e.finish for e in by_instance(tmp_path).values()} == {"error"}


def test_an_interrupt_loses_no_parallel_call_that_is_answered(tmp_path: Path) -> None:
    with serve_in_thread("fine", latency_s=0.4) as server:
        argv = [*arguments(server, tmp_path), "model.max_concurrency=4"]
        process = start(*argv)
        process.send(
            signal.SIGINT,
            once=lambda: server.in_flight == 4 and server.requests > EPISODES + 2,
        )
        assert process.wait(timeout=60) == Interrupted("").exit_code
        answered = server.answered.total()
        assert EPISODES + 2 < answered < EPISODES * (1 + ITEMS)
    held = [kind for episode in kinds(log_of(tmp_path)).values() for kind in episode]
    assert held.count("call") == answered


@pytest.mark.parametrize(("way", "asked"), [("silent", 0), ("unread", 1 + ITEMS)])
def test_an_episode_that_ends_as_before_is_written_once(
    way: str, asked: int, tmp_path: Path
) -> None:
    with serve_in_thread("fine") as server:
        table = toys(server, tmp_path, way=way).table("benchmarks")
        before = log_of(tmp_path).read_bytes()
        for _ in range(2):
            toys(server, tmp_path, way=way)
        assert server.requests == asked * EPISODES
    assert log_of(tmp_path).read_bytes() == before
    assert table["n"].tolist() == ([EPISODES] if way == "silent" else [0])
    episodes = by_instance(tmp_path).values()
    assert {e.ending for e in episodes} == {"silent" if way == "silent" else "failed"}
    assert all(e.state == ({"items": ["n/a"]} if way == "silent" else {}) for e in episodes)


@pytest.mark.parametrize("step", ["turn/0", "item/0", "item/4"])
def test_an_episode_without_one_of_its_calls_has_not_ended(step: str, tmp_path: Path) -> None:
    with serve_in_thread("fine") as server:
        toys(server, tmp_path)
        log, asked = log_of(tmp_path), server.requests
        lines = log.read_text().splitlines(keepends=True)
        place = next(n for n, line in enumerate(lines) if f'"step":"{step}"' in line)
        lines[place] = lines[place].replace('"text":"fine"', '"text":"damaged"')
        log.write_text("".join(lines))
        assert len(by_instance(tmp_path)) == EPISODES - 1, "before it is mended, too"
        toys(server, tmp_path)
        moved = log.with_name("quarantine.jsonl").read_text().count('"call":{')
        assert server.requests - asked == moved == 1
    episodes = by_instance(tmp_path)
    assert len(episodes) == EPISODES
    for episode in episodes.values():
        assert sorted(c.step for c in episode.calls) == [f"item/{n}" for n in range(5)] + ["turn/0"]
        assert {c.response.text for c in episode.calls} == {"fine"}
        assert {c.messages[-1].content for c in episode.calls if c.role == "helper"} == {
            f"[helper] What of patient {episode.instance_id[1:]}?"
        }


def test_calls_in_whose_place_another_is_sent_are_counted_named_and_paid(
    tmp_path: Path, shell: Shell
) -> None:
    changed = another_plugin(
        tmp_path, {"Say something.": "Say something else.", "ITEMS = 5": "ITEMS = 4"}
    )
    with serve_in_thread(failing("[helper]", "patient 2")) as server:
        toys(server, tmp_path / "r")
        asked, server.answer = server.requests, failing("nothing")
        argv = arguments(server, tmp_path / "r", changed)
        said = shell.error(*argv)
        assert "there as 'lab/helper'" in said
        shell(*argv, "model.rename=true")
        assert server.requests - asked == 1 + 4, "the model with other words, four of five items"
    said = " ".join(shell.err.split())
    assert "lab/helper is named openai/helper" in said
    assert "2 stored call(s)" in said and "turn/0 (1), helper item/4" in said
    episode = by_instance(tmp_path / "r")["t2"]
    assert [c.step for c in episode.stale] == ["turn/0", "item/4"]
    assert [c.step for c in episode.calls] == ["turn/0", *(f"item/{n}" for n in range(4))]
    (row,) = load_results(tmp_path / "r").typed("cost").rows
    assert (row["requests"], row["helper_requests"]) == (EPISODES + 1, EPISODES * ITEMS - 1)


def test_a_new_version_of_a_strategy_is_another_run(tmp_path: Path) -> None:
    changed = another_plugin(tmp_path, {'name="longer_of_2",': 'name="longer_of_2", version="2",'})
    with serve_in_thread("fine") as server:
        under_test = model(server, "under-test", strategy="longer_of_2")
        sent = []
        for plugin in (PLUGIN, PLUGIN, changed, changed):
            before = server.requests
            toys(server, tmp_path / "r", model=under_test, plugins=str(plugin))
            sent.append(server.requests - before)
    each = EPISODES * (2 + ITEMS)
    assert sent == [each, 0, each, 0]
    plans = [records.read_plan(run).spec.strategies for run in records.find_runs(tmp_path / "r")]
    assert {} in plans and {"model": "2"} in plans


def test_a_whole_number_for_a_fraction_is_the_same_run(tmp_path: Path) -> None:
    halves = another_plugin(tmp_path, {'"turns": 1': '"turns": 1, "share": 0.5'})
    with serve_in_thread("fine") as server:
        for share in (2, 2.0):
            toys(server, tmp_path / "r", plugins=str(halves), share=share)
        assert server.requests == EPISODES * (1 + ITEMS)


PRICE = Price(input=1e6, output=1e6, date="2026-01-01")
"""A dollar for a token."""


@pytest.mark.parametrize("cap", [{"budget_tokens": 500}, {"budget_usd": 500}])
def test_an_episode_begins_only_where_its_forecast_fits(cap: Any, tmp_path: Path) -> None:
    with serve_in_thread("fine", latency_s=0.01) as server:
        two = {
            "model": model(server, "under-test", price=PRICE, max_concurrency=2),
            "helper": model(server, "helper", price=PRICE, max_concurrency=2),
        }
        one = {key: 189 for key in cap}  # forecast: 20 and 20 tokens, and 5 times 20 and 10
        with pytest.raises(BudgetReached, match="190.* asked for"):
            toys(server, tmp_path, **two, **one)
        assert server.requests == 0
        with pytest.raises(BudgetReached):
            toys(server, tmp_path, **two, **cap)
        begun, asked = kinds(log_of(tmp_path)), server.requests
        assert 0 < len(begun) < EPISODES and asked == len(begun) * (1 + ITEMS)
        assert all(lines[-1] == "response" for lines in begun.values()), "none is unfinished"
        toys(server, tmp_path, **two)
        assert server.requests == EPISODES * (1 + ITEMS)
    assert len(by_instance(tmp_path)) == EPISODES
