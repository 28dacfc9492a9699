"""A third party's protocol of three roles: one file, no edit in the core."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medhelm import ModelSpec, Price, evaluate, load_results
from medhelm.errors import BudgetReached, PrivacyRefused, UsageError
from medhelm.store import records, runlog
from tests.leaderboard.casting import data_of
from tests.processes import asked, start
from tests.protocols.interview import PLUGIN, install, options, play
from tests.quiz import medhelm
from tests.server import Faults, FaultServer, Reply, serve_in_thread
from tests.shell import Shell
from tests.stored import by_instance, episodes_of, log_of

pytestmark = pytest.mark.slow

ROLES = ("answerer", "questioner", "referee")
TURNS = 4
"""`play` says stop in the fourth turn."""


def model(server: FaultServer, name: str, **more: Any) -> ModelSpec:
    return server.model(f"lab/{name}", **more)


def interview(server: FaultServer, folder: Path, **more: Any) -> Any:
    """Run all interviews with the server in every role."""
    limit = more.pop("max_concurrency", None)
    under_test = model(
        server, "under-test", max_concurrency=limit, strategy=more.pop("strategy", "")
    )
    cast = {role: model(server, role, max_concurrency=limit) for role in ROLES[1:]}
    return evaluate(
        under_test,
        "interview",
        data="sample",
        cast=more.pop("cast", cast),
        results_dir=folder,
        plugins=str(PLUGIN),
        **more,
    )


def test_an_episode_is_all_calls_in_order_and_scored_by_the_packages_metric(tmp_path: Path) -> None:
    with serve_in_thread(play) as server:
        for _ in range(2):  # the second time nothing is sent
            results = interview(server, tmp_path)
            assert server.requests == 8 * TURNS * 3
            assert results.table("benchmarks")["score"].tolist() == [1.0]
    episode = by_instance(tmp_path)["i0"]
    assert [(c.role, c.step) for c in episode.calls] == [
        (role, f"turn/{turn}")
        for turn in range(1, TURNS + 1)
        for role in ("questioner", "answerer", "referee")
    ]
    assert (episode.ending, episode.state["turns"]) == ("stopped", TURNS)
    assert episode.text.startswith("It is ") and episode.text.count("\n") == TURNS - 1
    last = [c for c in episode.calls if c.role == "answerer"][-1]
    assert [m.role for m in last.messages[:3]] == ["system", "user", "assistant"]
    assert len(last.messages) == 2 + 2 * (TURNS - 1)


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("strategy", ["", "best_of_3"])
def test_all_roles_at_one_endpoint_never_wait_for_each_other_for_ever(
    tmp_path: Path, limit: int, strategy: str
) -> None:
    with serve_in_thread(play) as server:
        results = interview(server, tmp_path, max_concurrency=limit, strategy=strategy)
        assert server.in_flight_max <= limit
    assert results.table("benchmarks")["score"].tolist() == [1.0]
    (name,) = results.table("benchmarks")["model"]
    assert name == ("lab/under-test+best_of_3" if strategy else "lab/under-test")
    calls = Counter(c.role for e in episodes_of(tmp_path) for c in e.calls)
    each = 8 * TURNS
    assert calls == {"questioner": each, "referee": each, "answerer": each * (3 if strategy else 1)}


@pytest.mark.parametrize(("strategy", "limit", "repeats"), [("", 100, 13), ("best_of_3", 20, 3)])
def test_as_many_interviews_are_at_one_endpoint_as_it_takes(
    tmp_path: Path, strategy: str, limit: int, repeats: int
) -> None:
    with serve_in_thread(play, latency_s=0.003 * limit) as server:
        more = {"max_concurrency": limit, "strategy": strategy, "repeats": repeats}
        results = interview(server, tmp_path, **more)
        calls = TURNS * (2 + (3 if strategy else 1))
        assert server.requests == 8 * repeats * calls
        assert server.in_flight_max == limit
    (row,) = results.typed("benchmarks").rows
    assert (row["n"], row["score"]) == (8, 1.0)
    assert Counter(len(e.calls) for e in episodes_of(tmp_path)) == {calls: 8 * repeats}


def test_the_installed_package_is_proven_tabulated_and_shown_turn_by_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path / "lib"))
    for name in ("", ".interview", ".tables", ".page"):  # imported anew, and forgotten afterwards
        monkeypatch.delitem(sys.modules, f"medhelm_interview{name}", raising=False)
    results = ["--results-dir", str(tmp_path / "results")]

    (proven,) = shell.json("validate", "interview", "--data", "sample")["reports"]
    assert proven["state"] == "passed"
    assert proven["facts"]["scores"] == {
        "oracle": {"facts_named": 1.0},
        "silent": {"facts_named": 0.0},
    }
    with serve_in_thread(play) as server:
        shell(*options(server, tmp_path, plugins=None))
        assert server.requests == 8 * TURNS * 3
    made = shell.json("tables", *results, "--table", "interviews")["rows"]
    named = [
        sum(fact in episode.text for fact in episode.instance.references)
        / len(episode.instance.references)
        for episode in by_instance(tmp_path / "results").values()
    ]
    row = {"benchmark": "interview", "model": "openai/under-test", "interviews": 8}
    assert made == [row | {"named": sum(named) / 8}]
    site = tmp_path / "site"
    shell("leaderboard", "build", *results, "--out", str(site))
    assert "left out" not in shell.err
    (page,) = [p for p in data_of(site, "site")["pages"] if p["name"] == "interviews"]
    assert (page["title"], page["benchmarks"]) == ("Interviews", ["interview"])
    assert data_of(site, "table-fixed-interviews")["rows"] == [[*made[0].values()]]
    (answers,) = [data_of(site, path.stem) for path in (site / "data").glob("answers-*.js")]
    spoken = [
        [[call.role, call.response.text] for call in episode.calls if call.role != "referee"]
        for episode in by_instance(tmp_path / "results").values()
    ]
    assert sorted(answer["turns"] for answer in answers) == sorted(spoken)
    ended = ["interviews", {"ending": "stopped", "turns": TURNS}]
    assert [answer["details"] for answer in answers] == [[ended]] * 8


def test_an_oracle_that_does_not_name_every_fact_is_a_failure_of_validate(
    tmp_path: Path, shell: Shell
) -> None:
    text = PLUGIN.read_text()
    assert text.count('"; ".join(instance.references)') == 1
    plugin = tmp_path / PLUGIN.name
    plugin.write_text(text.replace('"; ".join(instance.references)', "instance.references[0]"))
    shutil.copytree(PLUGIN.parent / "samples", tmp_path / "samples")
    argv = ("validate", "interview", "--data", "sample", "--plugin", plugin)
    (report,) = shell.json(*argv, code=1)["reports"]
    assert report["state"] == "failed"


@pytest.mark.parametrize("after", [20, 55])
def test_a_killed_run_goes_on_inside_its_episodes(tmp_path: Path, after: int) -> None:
    with serve_in_thread(play, latency_s=0.02) as server:
        process = start(*options(server, tmp_path, model__max_concurrency=4))
        process.kill(once=asked(server, after))
        log = log_of(tmp_path / "results").read_bytes()
        held = sum(b'"call":' in line for line in log.split(b"\n"))
        while server.in_flight:
            time.sleep(0.005)
        before = server.requests
        assert 0 < held < 8 * TURNS * 3
        medhelm(*options(server, tmp_path, model__max_concurrency=4))
        assert server.requests - before == 8 * TURNS * 3 - held
    found = by_instance(tmp_path / "results")
    assert {e.state["turns"] for e in found.values()} == {TURNS} and len(found) == 8


def test_a_budget_that_ends_in_the_middle_leaves_no_score_for_what_has_not_ended(
    tmp_path: Path,
) -> None:
    with serve_in_thread(play) as server:
        with pytest.raises(BudgetReached):
            interview(server, tmp_path, budget_tokens=2500, max_concurrency=2)
        some = server.requests
        assert 0 < some < 8 * TURNS * 3
        ended = by_instance(tmp_path)
        assert all(e.ending == "stopped" for e in ended.values()) and len(ended) < 8
        results = interview(server, tmp_path)
        assert server.requests == 8 * TURNS * 3
    assert results.table("benchmarks")["n"].tolist() == [8]


def test_faults_change_no_score(tmp_path: Path) -> None:
    with serve_in_thread(play) as server:
        interview(server, tmp_path / "without")
    faults = Faults(rate=0.1, kinds=("429_retry_after", "500", "drop", "invalid_json"))
    with serve_in_thread(play, faults) as server:
        interview(server, tmp_path / "with")
        assert server.faulted.total() > 0
    without, with_faults = (by_instance(tmp_path / name) for name in ("without", "with"))
    assert {k: (e.text, e.state) for k, e in without.items()} == {
        k: (e.text, e.state) for k, e in with_faults.items()
    }


def test_the_estimate_prices_each_role_before_anything_is_sent(
    tmp_path: Path, shell: Shell
) -> None:
    with serve_in_thread(play) as server:
        argv = options(server, tmp_path)
        price = "{input: 1, output: 10, date: '2026-01-01'}"
        argv += [f"model.price={price}", f"cast.referee.price={price}"]
        (run,) = shell.json("estimate", *argv[1:])["runs"]
        assert server.requests == 0
    roles = {role["role"]: role for role in run["cast"]}
    assert roles.keys() == {"questioner", "referee"}
    # 8 interviews, 3 to 6 turns: 4.5 expected, 6 at most, of 5 output tokens
    assert (roles["referee"]["calls_expected"], roles["referee"]["calls_limit"]) == (36, 48)
    assert roles["referee"]["output_tokens_limit"] == 48 * 5
    assert roles["referee"]["usd_limit"] == pytest.approx(
        (roles["referee"]["input_tokens_limit"] + 10 * 48 * 5) / 1e6
    )
    assert roles["questioner"]["usd_limit"] is None


def test_the_estimate_leaves_out_what_an_episode_that_has_begun_was_asked(
    tmp_path: Path, shell: Shell
) -> None:
    def no_referee_for_asthma(prompt: str) -> str | Reply:
        if prompt.startswith("[referee]") and "asthma" in prompt:
            return Reply(status=500)
        return play(prompt)

    with serve_in_thread(no_referee_for_asthma) as server:
        argv = options(server, tmp_path, cast__referee__max_attempts=1)
        shell(*argv)
        sent = server.requests
        (run,) = shell.json("estimate", *argv[1:])["runs"]
        assert server.requests == sent
    roles = {role["role"]: role for role in run["cast"]}
    # two interviews of 4.5 turns as expected and 6 at most; "asthma" is said in the third answer
    assert (run["answered"], run["to_ask"]) == (6, 2)
    assert (roles["questioner"]["calls_expected"], roles["questioner"]["calls_limit"]) == (3, 6)
    assert (roles["referee"]["calls_expected"], roles["referee"]["calls_limit"]) == (5, 8)
    assert roles["questioner"]["output_tokens_limit"] == 6 * 60


def test_the_cost_table_has_the_roles_that_occur(tmp_path: Path) -> None:
    price = Price(input=1.0, output=10.0, date="2026-01-01")
    with serve_in_thread(play) as server:
        cast = {role: model(server, role, price=price) for role in ROLES[1:]}
        results = interview(server, tmp_path, cast=cast)
    (row,) = results.typed("cost").rows
    used: Counter[str] = Counter()
    for episode in episodes_of(tmp_path):
        for call in episode.calls:
            used[f"{call.role}_in"] += call.response.usage.input_tokens or 0
            used[f"{call.role}_out"] += call.response.usage.output_tokens or 0
    assert row["questioner_input_tokens"] == used["questioner_in"] > 0
    assert row["referee_output_tokens"] == used["referee_out"] > 0
    assert row["referee_cost_usd"] == pytest.approx(
        (used["referee_in"] + 10 * used["referee_out"]) / 1e6
    )
    assert (row["input_tokens"], row["requests"]) == (used["answerer_in"], 8 * TURNS)
    assert row["total_cost_usd"] is None, "the price of the model under test is not known"


def test_runs_of_different_casts_are_not_put_side_by_side(tmp_path: Path) -> None:
    with serve_in_thread(play) as server:
        interview(server, tmp_path)
        cast = {"questioner": model(server, "another"), "referee": model(server, "referee")}
        where: dict[str, Any] = {"results_dir": tmp_path, "plugins": str(PLUGIN)}
        evaluate(model(server, "second"), "interview", data="sample", cast=cast, **where)
    with pytest.raises(UsageError, match="in the role questioner"):
        load_results(tmp_path).table("overall")


def test_a_role_may_not_be_sent_what_its_endpoint_may_not_have(tmp_path: Path) -> None:
    local = ModelSpec(
        name="lab/m", model="m", base_url="http://127.0.0.1:9/v1", endpoint_class="local"
    )
    outside = {
        "questioner": local,
        "referee": ModelSpec(name="far/r", model="r", base_url="http://127.0.0.1:9/v1"),
    }
    with pytest.raises(PrivacyRefused, match=r"'far/r' .*'referee' .*cast\.referee\."):
        evaluate(
            local,
            "interview",
            data="sample",
            cast=outside,
            results_dir=tmp_path,
            plugins=str(PLUGIN),
            privacy={"public": ("local",)},
        )


SLIPS = {
    "cast.questioner=openai/q": "'referee': add cast.referee=NAME",
    "cast.refere=openai/q": "'refere'; did you mean 'referee'?",
    "protocol.turn=3": "'turn'; did you mean 'turns'?",
    "model.strategy=best_of_4": "'best_of_4'; did you mean 'best_of_5' or 'best_of_3'? ",
}


def test_a_slip_is_one_line_with_the_nearest_name(tmp_path: Path, shell: Shell) -> None:
    argv = ["run", "model=openai/m", "model.base_url=http://127.0.0.1:9/v1", "benchmark=interview"]
    argv += ["data=sample", f"plugins=[{PLUGIN}]", f"results_dir={tmp_path}"]
    for argument, error in SLIPS.items():
        assert error in shell.error(*argv, argument)


def test_the_log_grows_with_the_turns_and_not_with_their_square(tmp_path: Path) -> None:
    def long(prompt: str) -> str:
        if prompt.startswith("[referee]"):
            return "go on"
        return f"{prompt.count('Question')} " + "word " * 400

    sizes = {}
    for turns in (3, 6, 12):
        with serve_in_thread(long) as server:
            interview(server, tmp_path / str(turns), max_instances=1, protocol={"turns": turns})
        (run,) = records.find_runs(tmp_path / str(turns))
        sizes[turns] = runlog.log_bytes(run)
    assert sizes[12] - sizes[6] < 2.4 * (sizes[6] - sizes[3])
