"""Episodes of parallel calls, of none, and of failures that are not the model's: what the log keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm import ModelSpec, evaluate
from medhelm.schema.episode import Episode
from medhelm.store import records, runlog
from tests.server import FaultServer, Reply, serve_in_thread

PLUGIN = Path(__file__).parent / "toys" / "toys.py"
EPISODES, ITEMS = 6, 5


def model(server: FaultServer, name: str, **more: Any) -> ModelSpec:
    return ModelSpec(name=f"lab/{name}", model=name, base_url=server.base_url, **more)


def toys(server: FaultServer, folder: Path, **more: Any) -> Any:
    """Run all episodes with the server in both roles; other words are settings of the protocol."""
    limit = more.pop("max_concurrency", None)
    helper = more.pop("helper", None) or model(
        server, "helper", max_concurrency=limit, max_attempts=1
    )
    under_test = more.pop("model", None) or model(server, "under-test", max_concurrency=limit)
    kept = {"budget_tokens", "repeats", "max_instances", "jury", "plugins"}
    given = {"plugins": str(PLUGIN)} | {name: more.pop(name) for name in kept & more.keys()}
    cast = {"helper": helper}
    return evaluate(
        under_test, "toys", data="sample", cast=cast, results_dir=folder, protocol=more, **given
    )


def log_of(folder: Path) -> Path:
    """Return the only log below a results folder."""
    (run,) = records.find_runs(folder)
    return run / "responses.jsonl"


def stored(folder: Path) -> dict[str, Episode]:
    """Return the episodes of the only run, by instance."""
    run = log_of(folder).parent
    return {e.instance_id: e for e in runlog.read_episodes(run, records.read_plan(run))}


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
    assert all(len(e.calls) == 1 + ITEMS for e in stored(tmp_path).values())


def test_a_baseline_needs_no_budget(tmp_path: Path) -> None:
    results = evaluate(
        "baseline/random", "headqa", data="sample", results_dir=tmp_path, budget_tokens=1
    )
    assert results.table("benchmarks")["n"].tolist() == [8]
