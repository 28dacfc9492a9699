"""Runs of instances that no benchmark declares: asked, stored and resumed like any other."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

import pytest

from medhelm import Instance, ModelSpec
from medhelm.errors import BudgetReached, PrivacyRefused, UsageError
from medhelm.runs.estimation import estimate_runs
from medhelm.runs.own_runs import own_run, stored_episodes
from medhelm.store.records import read_record
from tests.plugins.own_run import PROTOCOL, ROLES, briefs_run, main
from tests.processes import Started, asked
from tests.quiz import Done, in_this_process
from tests.server import Faults, Reply, serve_in_thread

pytestmark = pytest.mark.slow

COMMAND = Path(__file__).parents[1] / "plugins" / "own_run.py"
N = 24


def argv(folder: Path, url: str, count: int, *options: str) -> list[str]:
    return [sys.executable, str(COMMAND), str(folder), url, str(count), *options]


def command(folder: Path, url: str, count: int, *options: str, code: int | None = 0) -> Done:
    with mock.patch("sys.argv", argv(folder, url, count, *options)[1:]):
        return in_this_process(main, code=code)


def made(folder: Path) -> list[str]:
    return sorted(e.instance_id for e in stored_episodes(folder) if e.ending == "made")


def test_a_killed_command_goes_on_and_asks_only_what_was_in_flight(tmp_path: Path) -> None:
    with serve_in_thread("fine", latency_s=0.03) as server:
        for _ in range(3):
            target = server.requests + 20
            process = Started(command, tmp_path, server.base_url, N)
            process.kill(once=asked(server, target))
        done = command(tmp_path, server.base_url, N)
        assert len(server.answered) == 3 * N
        in_flight = 3 * 4 * len(ROLES)
        assert sum(n - 1 for n in server.answered.values()) <= in_flight
        before = server.requests
        command(tmp_path, server.base_url, N)
        assert server.requests == before, "a finished run asked something"
        assert len(made(tmp_path)) == N
        assert len((tmp_path / "made.txt").read_text().split()) == N
        (record,) = map(read_record, (tmp_path / "gradings").iterdir())
        assert [p.role for p in record.parties] == [
            "model",
            *ROLES[1:],
        ], "one party for each role"
        assert {p.usage.requests for p in record.parties} == {N}
        for name in ROLES:
            assert f"test/{name}" in done.stderr, "the usage is printed by role"


def test_fewer_and_more_instances_share_a_folder(tmp_path: Path) -> None:
    with serve_in_thread("fine") as server:
        command(tmp_path, server.base_url, 6)
        command(tmp_path, server.base_url, 2)
        assert server.requests == 18
        assert len(made(tmp_path)) == 6, "what has ended stays"
        command(tmp_path, server.base_url, 8)
        assert server.requests == 24
        assert len(made(tmp_path)) == 8


def test_calls_of_unfinished_instances_outlive_a_command_for_fewer(tmp_path: Path) -> None:
    with serve_in_thread(lambda p: Reply(status=401) if "Rate" in p else "fine") as server:
        command(tmp_path, server.base_url, 6, code=6)
        server.answer = lambda _: "fine"
        done = command(tmp_path, server.base_url, 1)
        assert "5 requests" in done.stderr and "5 unfinished instances" in done.stderr
        assert made(tmp_path) == ["b0"]
        command(tmp_path, server.base_url, 6)
        assert {n for p, n in server.answered.items() if "Write" in p} == {1}


def test_a_role_that_thinks_has_the_budget_of_thinking(tmp_path: Path) -> None:
    players = {r: ModelSpec(name=r, model=r, base_url="http://a/v1", reasoning=True) for r in ROLES}
    run = own_run(
        "briefs",
        [Instance(id="a", context="a")],
        PROTOCOL,
        players,
        tmp_path,
        data_class="public",
        environ=None,
        reasoning_output_tokens=9_000,
    )
    (estimate,) = estimate_runs([run], tmp_path)
    assert [role.output_tokens_limit for role in estimate.cast] == [9_000, 9_000]


def test_a_budget_stops_before_it_is_passed_and_the_command_goes_on(tmp_path: Path) -> None:
    with serve_in_thread("fine") as server:
        done = command(
            tmp_path,
            server.base_url,
            N,
            "--budget-tokens",
            "1700",
            code=BudgetReached("").exit_code,
        )
        assert 0 < len(made(tmp_path)) < N
        assert "To go on" in done.stderr
        assert len((tmp_path / "made.txt").read_text().split()) == len(made(tmp_path))
        before = server.requests
        command(tmp_path, server.base_url, N)
        assert server.requests - before == 3 * N - before


def test_a_cap_in_usd_needs_prices(tmp_path: Path) -> None:
    with serve_in_thread() as server, pytest.raises(UsageError, match="price"):
        command(tmp_path, server.base_url, 2, "--budget-usd", "1")
    assert server.requests == 0


def test_failed_requests_are_asked_again(tmp_path: Path) -> None:
    with serve_in_thread("fine", faults=Faults(rate=0.2, hang_s=0.1)) as server:
        command(tmp_path, server.base_url, 10)
        server.faults = Faults()
        command(tmp_path, server.base_url, 10)
        assert len(made(tmp_path)) == 10


@pytest.mark.parametrize("role", ROLES)
def test_no_role_may_see_data_that_its_endpoint_may_not_have(tmp_path: Path, role: str) -> None:
    players = {name: ModelSpec(name=name, endpoint_class="local") for name in ROLES}
    players[role] = ModelSpec(name=role, endpoint_class="external")
    with pytest.raises(PrivacyRefused, match=f"{role}.*external"):
        own_run(
            "briefs",
            [Instance(id="a", context="a")],
            PROTOCOL,
            players,
            tmp_path,
            data_class="private",
            environ=None,
        )


def test_a_folder_of_other_data_or_models_is_refused(tmp_path: Path) -> None:
    with serve_in_thread("fine") as server:
        command(tmp_path, server.base_url, 1)
        with pytest.raises(UsageError, match="data"):
            briefs_run(tmp_path, server.base_url, 1, decides="another guideline")
        with pytest.raises(UsageError, match="seed"):
            briefs_run(tmp_path, server.base_url, 1, seed=1)
        with pytest.raises(UsageError, match="model"):
            briefs_run(tmp_path, "http://other.example/v1", 1, environ=None)


def test_an_estimate_counts_every_role_and_what_is_stored(tmp_path: Path) -> None:
    with serve_in_thread("fine") as server:
        run = briefs_run(tmp_path, server.base_url, 4, environ=None)
        (before,) = estimate_runs([run], tmp_path)
        assert (before.to_ask, [r.calls_expected for r in before.cast]) == (4, [4, 4])
        command(tmp_path, server.base_url, 1)
        (after,) = estimate_runs([run], tmp_path)
        assert (after.to_ask, [r.calls_expected for r in after.cast]) == (3, [3, 3])
        shown = command(tmp_path, server.base_url, 4, "--estimate")
        assert "writer" not in shown.stderr
        assert server.requests == 3
