"""What leaves a results folder by side doors: names of what was not chosen, paths, other classes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from medhelm.errors import RecordError
from medhelm.schema.run import MetricRef
from medhelm.store.records import find_gradings
from medhelm_leaderboard import publish
from tests.build_runs import EXACT, Item, items, write_run
from tests.leaderboard.casting import build, data_of, fresh
from tests.leaderboard.worlds import case, episode
from tests.quiz import PLUGIN, arguments, write_quiz
from tests.server import serve_in_thread
from tests.shell import Shell


def every_byte(site: Path) -> bytes:
    files = sorted(p for p in site.rglob("*") if p.is_file())
    return b"".join(str(p.relative_to(site)).encode() + p.read_bytes() for p in files)


@pytest.mark.slow
def test_what_is_damaged_is_named_only_where_it_was_chosen(tmp_path: Path) -> None:
    results = tmp_path / "results"
    seen = case("triage", 0)
    log = [episode(seen, 0, "A", "stop")]
    write_run(results, "fine", "a", [Item(id=seen.id, value=1.0)], episodes=log)
    private = {"data_class": "private", "redistributable": False}
    empty = msgspec.structs.replace(EXACT, maximum=0.0)
    write_run(results, "CANARYfaulty", "a", items([0.0]), metrics=[empty], card=private)
    for name in ("CANARYsummary", "CANARYspec"):
        (write_run(results, name, "a", items([1.0]), card=private) / "summary.json").write_text("{")
    spec = next((results / "runs" / "CANARYspec" / "a").iterdir())
    shutil.rmtree(spec / "gradings")
    (spec / "spec.json").write_text("{")
    built = build(results, tmp_path / "public", access=["public"])
    assert b"CANARY" not in every_byte(tmp_path / "public")
    assert {p.where for p in built.problems} == {"a run"}
    assert not build(results, tmp_path / "one", benchmarks=["fine"]).problems
    assert b"CANARY" not in every_byte(tmp_path / "one")
    named = {p.where.split("/")[1] for p in build(results, tmp_path / "all").problems}
    assert named == {"CANARYfaulty", "CANARYsummary", "CANARYspec"}


@pytest.mark.slow
def test_the_strictest_class_of_a_benchmark_counts(tmp_path: Path) -> None:
    """A benchmark that was stored as public by mistake, and of which one run was graded since."""
    results = tmp_path / "results"
    for model, card in (
        ("a", {}),
        ("b", {"data_class": "gated"}),
        ("c", {"redistributable": False}),
    ):
        name = "once_public" if model != "c" else "once_free"
        for own, which in (("z", {}), (model, card)):
            instance = msgspec.structs.replace(case("triage", 0), context="CANARY")
            write_run(
                results, name, own, [Item(id=instance.id, value=1.0)], card=which,
                episodes=[episode(instance, 0, "CANARY", "stop")],
            )  # fmt: skip
    build(results, tmp_path / "site")
    assert b"CANARY" not in every_byte(tmp_path / "site")
    lines = {b["name"]: b for b in data_of(tmp_path / "site", "site")["benchmarks"]}
    assert lines["once_public"]["access"] == "gated" and not lines["once_free"]["has_text"]
    build(results, tmp_path / "public", access=["public"])
    assert b"once_public" not in every_byte(tmp_path / "public")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("evaluate:/opt/CANARY/mine", "evaluate:mine"),
        ("evaluate:./CANARY/mine#key@0..100", "evaluate:mine#key@0..100"),
        ("evaluate:~/CANARY/mine.py", "evaluate:mine.py"),
        ("evaluate:C:\\CANARY\\mine", "evaluate:mine"),
        ("evaluate:rouge#rougeL", "evaluate:rouge#rougeL"),
        ("jury[lab/judge]", "jury[lab/judge]"),
    ],
)
def test_a_metric_whose_script_lies_here_is_named_without_its_path(name: str, shown: str) -> None:
    assert publish.metric_name(name) == shown


def test_no_path_of_a_metric_gets_out(tmp_path: Path) -> None:
    results = tmp_path / "results"
    local: MetricRef = msgspec.structs.replace(EXACT, name="evaluate:/opt/CANARY/mine#f1")
    for model, version in (("a", "1"), ("b", "1"), ("c", "2")):
        for benchmark in ("x", "mixed") if model != "c" else ("mixed",):
            rows = [
                Item(id=case("triage", i).id, value=v, metric=m)
                for i in range(3)
                for m, v in (("", 1.0), (local.name, 0.25 * i))
            ]
            metrics = [EXACT, msgspec.structs.replace(local, version=version)]
            episodes = [episode(case("triage", i), 0, "A", "stop") for i in range(3)]
            write_run(results, benchmark, model, rows, metrics=metrics, episodes=episodes)
    built = build(results, tmp_path / "site")
    assert "differ in metric evaluate:mine#f1" in built.problems[0].what
    assert b"CANARY" not in every_byte(tmp_path / "site")
    rows = json.loads((tmp_path / "site/tables/fixed/benchmarks.json").read_text())["rows"]
    found = {r["model"]: r["score"] for r in rows if r["metric"] == "evaluate:mine#f1"}
    assert found == {"a": 0.25, "b": 0.25}
    (scoring,) = data_of(tmp_path / "site", "site")["scorings"]
    page = data_of(tmp_path / "site", scoring["runs"][0][2])
    answer = data_of(tmp_path / "site", page["answers"][0][1])[2]
    assert [(s["metric"], s["value"]) for s in answer["scores"]][1] == ("evaluate:mine#f1", 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["/models/x", "file:/x", "gguf:/models/x", "http://10.0.0.7:8000/x", "..\\x", "~/x"]
)
def test_a_served_id_that_tells_of_the_machine_is_kept_back(name: str, tmp_path: Path) -> None:
    write_run(tmp_path / "results", "x", "a", items([1.0, 0.0]), served={name: 2})
    build(tmp_path / "results", tmp_path / "site")
    escaped = json.dumps(name)[1:-1].encode()
    assert escaped not in every_byte(tmp_path / "site").replace(b"\\\\", b"\\")
    assert publish.plain_name("lab/model-7b:latest") == "lab/model-7b:latest"


@pytest.mark.slow
def test_hashes_follow_a_new_secret_at_once(results: Path, site: Path, tmp_path: Path) -> None:
    own, site = fresh(results, tmp_path / "results"), fresh(site, tmp_path / "site")
    assert (own / "publishing.key").stat().st_mode & 0o777 == 0o600
    key = (own / "publishing.key").read_bytes().strip()
    assert key not in every_byte(site)
    old = ids_of(site, "private")
    assert len(old) == 6, "the same of each model's run"
    (own / "publishing.key").unlink()
    built = build(own, site)
    assert built.written and not old & ids_of(site, "private")
    (own / "publishing.key").write_text("")
    with pytest.raises(RecordError, match="is damaged; remove it"):
        build(own, site)


def ids_of(site: Path, benchmark: str) -> set[str]:
    (scoring,) = data_of(site, "site")["scorings"]
    return {i for b, _, key in scoring["runs"] if b == benchmark for i in data_of(site, key)["ids"]}


@pytest.mark.slow
def test_agreement_is_of_the_chosen_classes_and_names_no_folder(
    results: Path, tmp_path: Path, shell: Shell
) -> None:
    own = fresh(results, tmp_path / "PATHCANARY")
    ratings = tmp_path / "ratings.csv"
    lines = ["rater,benchmark,model,instance,item,value"]
    for benchmark, mark in (("open", ""), ("private", "CANARY")):
        for rater in ("RATERCANARY", "ben"):
            for i in range(6):
                score = 1 + (i + len(rater)) % 5
                answer = f"{rater},{benchmark},lab/one,{mark}ID{benchmark}{i}"
                given = {"accuracy": score, "completeness": 3, "clarity": 3}
                lines += [f"{answer},{item},{value}" for item, value in given.items()]
    ratings.write_text("\n".join(lines) + "\n")
    (grading,) = [g for g in find_gradings(own) if "/gated/lab__one/" in g.as_posix()]
    (grading / "summary.json").write_text("{")
    argv = ("leaderboard", "build", "--results-dir", own, "--ratings", ratings)
    for site, more in (("all", []), ("public", ["--access", "public"])):
        shell(*argv, "--draws", "50", "--out", tmp_path / site, *more)
        table = data_of(tmp_path / site, "agreement")
        at = [c["name"] for c in table["columns"]].index("benchmark")
        rated = {row[at] for row in table["rows"]} - {"combined"}
        assert rated == ({"open"} if more else {"open", "private"})
        assert "CANARY" not in json.dumps(table)


def test_a_name_that_commands_a_terminal_does_not_reach_it(tmp_path: Path, shell: Shell) -> None:
    results = tmp_path / "results"
    for seed in (0, 1):
        write_run(results, "x", "a\x1b[31m", items([1.0, 0.0]), seed=seed)
    write_run(results, "y", "a", items([1.0, 0.0]))
    argv = ("leaderboard", "build", "--results-dir", results, "--out", tmp_path / "s")
    shell(*argv, "--draws", "50")
    assert "2 runs on x" in shell.err and "\x1b" not in shell.err


def test_own_words_and_own_examples_stay_here(tmp_path: Path, shell: Shell) -> None:
    row = {"id": "e", "context": "EXAMPLECANARY.", "question": "Which?", "gold": "A", "ward": "er"}
    plugin, examples = tmp_path / "quiz.py", tmp_path / "mine.jsonl"
    open_data = 'name="quiz", redistributable=True,'
    plugin.write_text(PLUGIN.read_text().replace('name="quiz",', open_data))
    examples.write_text(json.dumps(row) + "\n")
    write_quiz(tmp_path, 2)
    with serve_in_thread(answer="A") as server:
        argv = arguments(tmp_path, server.base_url, plugins=f"[{plugin}]")
        own = "benchmark.instruction=WORDCANARY"
        shell(*argv, own)
        shell(*argv, "examples=1", f"ask.examples_from={examples}")
        assert "WORDCANARY" in str(server.bodies) and "EXAMPLECANARY" in str(server.bodies)
    build(tmp_path / "results", tmp_path / "site")
    said = every_byte(tmp_path / "site")
    assert b"Which drug for patient" in said
    assert b"WORDCANARY" not in said and b"EXAMPLECANARY" not in said
