"""A judge that is gone: the run is complete where the quorum is met, and says who is missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from medhelm.schema.run import RunRecord
from medhelm.store import records
from medhelm.store.runlog import read_log
from tests.juries import house_jury, rated
from tests.jury.test_judging import ESSAY, PLUGIN
from tests.quiz import Done, medhelm
from tests.server import FaultServer, Reply, serve_in_thread

pytestmark = pytest.mark.slow

VERDICT = rated(4, "Sound.")
GONE = Reply(status=404, body={"error": {"message": "no such model", "code": "model_not_found"}})


@dataclass
class World:
    """A server of judges and one that knows none of its models."""

    folder: Path
    there: FaultServer
    gone: FaultServer

    def run(self, *judges: str, more: tuple[str, ...] = (), code: int = 0) -> Done:
        """Run the essay with a jury, whose judges `gone-*` are asked for where nobody knows them."""
        place = {name: self.gone.base_url for name in judges if name.startswith("gone")}
        house = house_jury(self.folder, self.there.base_url, *judges, place=place)
        where = (f"plugins=[{PLUGIN}]", f"results_dir={self.folder / 'results'}")
        return medhelm("run", *ESSAY, *more, *where, *house, code=code)

    def record(self) -> RunRecord:
        """Return the only record."""
        (grading,) = records.find_gradings(self.folder / "results")
        return records.read_record(grading)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        there = stack.enter_context(serve_in_thread(lambda _: VERDICT))
        gone = stack.enter_context(serve_in_thread(lambda _: GONE))
        yield World(tmp_path, there, gone)


def test_a_judge_that_answers_404_is_named_and_the_run_is_complete(world: World) -> None:
    done = world.run("a", "b", "gone")
    assert "j/gone" in done.stderr and "12 of 12" in done.stderr
    assert "http 404" in done.stderr and "is met without it" in done.stderr
    record = world.record()
    assert record.state == "complete" and record.provenance["not_judged"] == "12"
    assert record.results[0].value == 4.0 and record.results[0].outcomes == {"scored": 12}
    assert [j.ends for j in record.graders] == [{"scored": 12}] * 2 + [{"not asked": 12}]
    results = ("--results-dir", str(world.folder / "results"))
    table = medhelm("tables", "--table", "jury", *results).stdout
    assert "(12 not asked)" in " ".join(table.split())
    assert "judges" in _flags(world)
    world.gone.answer = lambda _: VERDICT  # the maker brings it back
    before = world.there.requests
    again = world.run("a", "b", "gone")
    assert "missing" not in again.stderr
    assert world.there.requests == before  # what was judged is not judged again
    assert [j.ends for j in world.record().graders] == [{"scored": 12}] * 3
    assert "judges" not in _flags(world)


@pytest.mark.parametrize("workers", [(), ("workers=local:2",)])
def test_a_judge_is_named_by_its_file_in_a_folder_of_configs(
    world: World, workers: tuple[str, ...]
) -> None:
    model = world.folder / "conf" / "model" / "ward" / "paper.yaml"
    jury = world.folder / "conf" / "jury" / "ours.yaml"
    for path in (model, jury):
        path.parent.mkdir(parents=True)
    model.write_text(f"base_url: {world.there.base_url}\nmodel: paper\nendpoint_class: local\n")
    jury.write_text("name: ours\njudges: [ward/paper]\nquorum: 1\n")
    argv = (*ESSAY, "jury=ours")
    where = (f"plugins=[{PLUGIN}]", f"results_dir={world.folder / 'results'}")
    config = ("--config-dir", str(world.folder / "conf"))
    estimate = medhelm("estimate", *argv, *where[:1], *config)
    assert "ward/paper" in estimate.stdout
    medhelm("run", *argv, *workers, *where, *config)
    assert [(j.model.name, j.ends) for j in world.record().graders] == [
        ("ward/paper", {"scored": 12})
    ]


@pytest.mark.parametrize("reply", ["I will not rate.", ""])
def test_a_judge_without_any_valid_verdict_is_named(world: World, reply: str) -> None:
    world.gone.answer = lambda _: reply
    for judges, is_met in ((("a", "b", "gone"), "met"), (("a", "gone"), "not met")):
        for _ in range(2):  # the second time nothing is asked
            # where the quorum is not met no answer has a value
            done = world.run(*judges, code=0 if is_met == "met" else 6)
            assert all(word in done.stderr for word in ("j/gone", "no valid verdict", "12 of 12"))
            assert ("not one JSON object" if reply else "reply is empty") in done.stderr
            log = Path(done.stderr.partition("its replies are in ")[2].partition(";")[0])
            assert "unreadable" in log.read_text()
            assert f"quorum is {is_met} without" in done.stderr
        assert "judges" in _flags(world).split()
        shutil.rmtree(world.folder / "results")


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (400, "", "requests failed, 12 http 400 (Bad Request)"),
        (400, "bad_thing", "requests failed, 12 http 400 bad_thing"),
        (410, "", "knows no model 'gone' or no chat completions (http 410)"),
    ],
)
def test_every_status_is_given_with_a_reason(
    world: World, status: int, code: str, reason: str
) -> None:
    body = {"error": {"message": "no", "code": code}}
    world.gone.answer = lambda _: Reply(status=status, body=body)
    done = world.run("a", "b", "gone")
    assert reason in done.stderr
    assert "is met without it" in done.stderr
    assert reason in world.run("a", "gone", code=6).stderr


def _flags(world: World) -> str:
    argv = ("tables", "--table", "benchmarks", "--format", "json")
    done = medhelm(*argv, "--results-dir", str(world.folder / "results"))
    document = json.loads(done.stdout)
    (row,) = [r for r in document["rows"] if r["metric"] == "jury"]
    return str(row["flags"])


def test_below_the_quorum_the_command_fails_and_the_run_is_not_complete(world: World) -> None:
    done = world.run("a", "gone-1", "gone-2", code=6)
    assert "knows no model" in done.stderr and "where it stopped" in done.stderr
    record = world.record()
    assert record.state == "partial" and record.results[0].outcomes == {"unscored": 12}
    assert "j/gone-1" in done.stderr and "j/gone-2" in done.stderr
    results = ("--results-dir", str(world.folder / "results"))
    table = " ".join(medhelm("tables", "--table", "jury", *results).stdout.split())
    assert "12 of 12" in table and "than the quorum" in table


def test_reasons_are_asked_for_and_stored_unless_a_setting_says_no(world: World) -> None:
    world.run("a", "b")
    (log, _) = sorted((world.folder / "results").glob("runs/*/*/*/judges/*/responses.jsonl"))
    stored = next(read_log(log.parent)).state
    assert stored == {"reasons": ["Sound."] * 3, "scores": [4, 4, 4]}
    rules = world.there.bodies[-1]["messages"][0]["content"]
    assert '"reason": "<why>"' in rules
    asked = world.there.requests
    world.run("a", "b", more=("jury.reasons=false",))
    assert world.there.requests == 2 * asked  # another prompt, so other verdicts
    assert "reason" not in world.there.bodies[-1]["messages"][0]["content"]
