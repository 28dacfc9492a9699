"""A sweep as a whole, in this process: what fails stays apart, and nothing waits for ever."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import Any

import pytest

import medhelm
from medhelm.errors import BudgetReached, MedhelmError, ModelError, RecordError, UsageError
from medhelm.models import ModelPool
from medhelm.schema.model import ModelSpec
from medhelm.store import records, runlog
from tests.quiz import PLUGIN, arguments, record_of, write_quiz
from tests.quiz import medhelm as run_here
from tests.server import Faults, FaultServer, Reply, letter, serve_in_thread

pytestmark = pytest.mark.slow


def evaluate(folder: Path, models: Any, server: FaultServer | None = None, **more: Any) -> Any:
    settings = {"data_dir": folder / "data", "results_dir": folder / "results"} | more
    return medhelm.evaluate(models, "quiz", plugins=[str(PLUGIN)], **settings)


def spec(server: FaultServer, name: str = "m", **more: Any) -> ModelSpec:
    return ModelSpec(name=f"openai/{name}", model=name, base_url=server.base_url, **more)


def logged_ids(folder: Path) -> list[str]:
    (run,) = records.find_runs(folder / "results")
    return [e.instance.id for e in runlog.read_episodes(run, records.read_plan(run))]


@pytest.mark.parametrize("places", [1, 2, 4])
def test_a_failing_model_gives_back_its_places_at_a_shared_endpoint(
    tmp_path: Path, places: int
) -> None:
    """Two models share one endpoint's places; one of them is unknown there (404)."""
    write_quiz(tmp_path, 30)
    with serve_in_thread() as server:

        def answer(prompt: str) -> str | Reply:
            if server.bodies[-1]["model"] == "bad":
                return Reply(status=404, body={"error": {"code": "model_not_found"}})
            return letter(prompt)

        server.answer = answer
        models = ("bad", "good", "bad2")
        base = [f"model.base_url={server.base_url}", f"model.max_concurrency={places}"]
        given = arguments(tmp_path, server.base_url)
        argv = [a for a in given if not a.startswith(("model=", "model.base_url"))]
        sweep = [f"model={','.join(f'openai/{m}' for m in models[:2])}", *base]
        done = run_here("run", "-m", *sweep, *argv[1:], code=6)
    assert "quiz x openai/bad: " in done.stderr
    gradings = [records.read_record(g) for g in records.find_gradings(tmp_path / "results")]
    states = {g.spec.model.name: (g.state, g.results[0].counted) for g in gradings}
    assert states["openai/good"] == ("complete", 30)


def test_a_cap_is_reached_and_not_waited_for_when_every_request_is_throttled_once(
    tmp_path: Path,
) -> None:
    write_quiz(tmp_path, 200)
    with serve_in_thread(faults=Faults(kinds=("429",), first=1)) as server:
        argv = arguments(
            *(tmp_path, server.base_url),
            budget_tokens=900,  # ten are set aside at once, and eight have a slot
            model__max_output_tokens=30,
            model__max_concurrency=8,
        )
        run_here(*argv, code=7)
    assert 0 < record_of(tmp_path).results[0].counted < 200


def test_a_disk_error_while_grading_is_named_and_keeps_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quiz(tmp_path, 20)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("medhelm.grading.scoring.make_private", full)
        with pytest.raises(RecordError, match="disk is full.*medhelm score"):
            evaluate(tmp_path, "baseline/oracle")
    assert len(logged_ids(tmp_path)) == 20
    table = evaluate(tmp_path, "baseline/oracle").table("benchmarks")
    assert table["score"].tolist() == [1.0]


def test_a_disk_that_cannot_hold_the_waiting_texts_is_named_and_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quiz(tmp_path, 400)
    monkeypatch.setattr("medhelm.runs.selection._IN_MEMORY", 1_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, before[1]))
        with pytest.raises(RecordError, match="cannot write .*quiz.*: "):
            evaluate(tmp_path, "baseline/oracle")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert logged_ids(tmp_path) == []
    assert len(evaluate(tmp_path, "baseline/oracle").table("benchmarks")) == 1


def test_a_defect_in_one_run_is_named_without_text_and_the_others_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quiz(tmp_path, 5)

    def broken(*_: object) -> str:
        raise ZeroDivisionError("the patient's secret")

    open_model = ModelPool.open

    def opened(pool: ModelPool, spec: ModelSpec) -> Any:
        model = open_model(pool, spec)
        if spec.name == "baseline/lead":
            monkeypatch.setattr(model, "answer", broken)
        return model

    monkeypatch.setattr(ModelPool, "open", opened)
    with pytest.raises(MedhelmError, match="ZeroDivisionError at ") as e:
        evaluate(tmp_path, ["baseline/lead", "baseline/oracle"])
    assert "secret" not in str(e.value)
    graded = [records.read_record(g) for g in records.find_gradings(tmp_path / "results")]
    assert [g.spec.model.name for g in graded if g.state == "complete"] == ["baseline/oracle"]


def test_a_run_that_is_stopped_early_holds_the_first_of_the_seeded_order(tmp_path: Path) -> None:
    """So the part that was asked is a random sample of the data, not the head of the file."""
    write_quiz(tmp_path, 300)
    with (
        serve_in_thread() as server,
        pytest.raises(BudgetReached),
    ):
        evaluate(tmp_path, spec(server, max_concurrency=1), budget_tokens=3000, seed=3)
    ids = logged_ids(tmp_path)
    ordered = sorted((f"q{i}" for i in range(300)), key=lambda i: records.order_key(3, i))
    assert 10 < len(ids) < 300
    assert ids == ordered[: len(ids)]


def test_data_that_changed_without_a_version_is_asked_anew_and_never_mixed(tmp_path: Path) -> None:
    """A mapping that gives other instances: the old answers are set aside, not averaged in."""
    data = write_quiz(tmp_path, 10)
    plugin = tmp_path / "quiz.py"
    source = PLUGIN.read_text()
    for ids, expected in (('row["id"]', 10), ('"new-" + row["id"]', 10)):
        plugin.write_text(source.replace('row["id"]', ids))
        medhelm.evaluate(
            "baseline/oracle",
            "quiz",
            plugins=[str(plugin)],
            data_dir=data,
            results_dir=tmp_path / "results",
        )
        record = record_of(tmp_path)
        assert (record.instances, record.results[0].counted) == (expected, expected)
        assert record.state == "complete"
    assert all(i.startswith("new-") for i in logged_ids(tmp_path))
    (run,) = records.find_runs(tmp_path / "results")
    assert (run / "stale.jsonl").read_bytes().count(b"\n") == 10


def test_scores_and_summary_of_different_gradings_are_not_read_together(tmp_path: Path) -> None:
    write_quiz(tmp_path, 8)
    evaluate(tmp_path, "baseline/oracle")
    (grading,) = records.find_gradings(tmp_path / "results")
    old = (grading / "scores.parquet").read_bytes()
    (grading / "summary.json").unlink()
    evaluate(tmp_path, "baseline/oracle")
    (grading / "scores.parquet").write_bytes(old)
    with pytest.raises(UsageError, match="of its summary"):
        medhelm.load_results(tmp_path / "results")


def test_a_wrong_key_books_no_spending(tmp_path: Path) -> None:
    write_quiz(tmp_path, 5)
    with serve_in_thread(key="right") as server:
        with pytest.raises(ModelError):
            evaluate(tmp_path, spec(server), budget_tokens=100_000)
        (run,) = records.find_runs(tmp_path / "results")
    assert not (run / "responses.jsonl").read_bytes()


def test_instances_are_asked_once_where_their_texts_wait_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quiz(tmp_path, 95)
    monkeypatch.setattr("medhelm.runs.selection._IN_MEMORY", 1_000)
    for n in (7, 50, 95):
        evaluate(tmp_path, "baseline/random", max_instances=n)
        ids = logged_ids(tmp_path)
        assert len(ids) == len(set(ids)) == n
