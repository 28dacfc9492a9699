"""The Python entry points: the same files, names and refusals as the commands."""

from __future__ import annotations

import functools
import inspect
import json
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

import medhelm
from medhelm import Benchmark, MedhelmError, ModelSpec, Results
from medhelm.cli import run_command
from medhelm.errors import (
    DataError,
    ModelError,
    PluginError,
    PrivacyRefused,
    UnknownName,
    UsageError,
)
from medhelm.store import records
from tests.quiz import PLUGIN, arguments, environment, write_quiz
from tests.server import letter, serve_in_thread, serving
from tests.shell import Shell

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]

ROOT = Path(__file__).parent.parent


def server_model(url: str, name: str = "openai/test", **settings: Any) -> ModelSpec:
    return ModelSpec(name=name, model="test", base_url=url, **settings)


def asked(folder: Path, **settings: Any) -> dict[str, Any]:
    """The quiz that the commands' tests ask, as arguments of `evaluate`."""
    write_quiz(folder, 20)
    given = {"data_dir": folder / "data", "results_dir": folder / "results", "plugins": [PLUGIN]}
    return given | settings


# Results -------------------------------------------------------------------------------------


def test_the_example_of_ten_lines(here: Path) -> None:
    results = medhelm.evaluate(
        models=["baseline/lexical", "baseline/random"],
        benchmarks=["headqa", "medec"],
        data="sample",
        results_dir="my-results",
    )
    overall = results.table("overall")
    assert set(overall["model"]) == {"baseline/lexical", "baseline/random"}
    cells = results.table("benchmarks")
    assert len(cells) == 4
    assert (cells["low"] <= cells["score"]).all() and (cells["score"] <= cells["high"]).all()
    again = medhelm.load_results("my-results")
    assert isinstance(again, Results)
    assert again.table("overall").equals(overall)
    assert [p.name for p in here.iterdir()] == ["my-results"]


def test_the_command_and_the_call_write_the_same_folders(here: Path) -> None:
    argv = ["run", "model=baseline/lead,baseline/oracle", "benchmark=headqa,medec", "data=sample"]
    assert run_command([*argv, "results_dir=by-command", "max_instances=5", "seed=3"]) == 0
    medhelm.evaluate(
        ["baseline/lead", "baseline/oracle"],
        ("headqa", "medec"),
        data="sample",
        results_dir="by-call",
        max_instances=5,
        seed=3,
    )
    found = [
        {
            g.relative_to(folder): [
                (r.metric, r.value, r.outcomes) for r in records.read_record(g).results
            ]
            for g in records.find_gradings(folder)
        }
        for folder in (here / "by-command", here / "by-call")
    ]
    assert found[0] == found[1] and len(found[0]) == 4


def test_what_is_answered_is_not_asked_again_by_call_or_command(here: Path) -> None:
    given = asked(here)
    with serve_in_thread() as server:
        spec = server_model(server.base_url)
        first = medhelm.evaluate(spec, "quiz", **given)
        assert server.requests == 20
        second = medhelm.evaluate(spec, "quiz", **given)
        assert server.requests == 20
        assert run_command(arguments(here, server.base_url)) == 0
        assert server.requests == 20, "the command takes what the call has stored"
        medhelm.evaluate(spec, "quiz", repeats=2, **given)
        assert server.requests == 60, "other settings are another run"
    assert first.table("benchmarks").equals(second.table("benchmarks"))


def test_only_what_was_asked_for_is_in_the_results(here: Path) -> None:
    medhelm.evaluate("baseline/random", "medec", data="sample")
    results = medhelm.evaluate("baseline/lead", "headqa", data="sample")
    assert set(results.table("benchmarks")["model"]) == {"baseline/lead"}
    both = medhelm.load_results("medhelm-results")
    assert set(both.table("benchmarks")["model"]) == {"baseline/lead", "baseline/random"}


def test_patterns_iterators_and_plugins(here: Path) -> None:
    with pytest.warns(UserWarning, match="cannot play: agentclinic"):
        results = medhelm.evaluate("baseline/l*", "*", data="sample", max_instances=2)
    cells = results.table("benchmarks")
    assert set(cells["model"]) == {"baseline/lead", "baseline/lexical"}
    bundled = {p.stem for p in (ROOT / "benchmarks").glob("**/samples/*.jsonl")}
    assert set(cells["benchmark"]) == bundled - {
        "agentclinic",
        "medsp1000",
    }  # others' rules play them
    given = asked(here) | {"plugins": PLUGIN, "results_dir": "own"}
    results = medhelm.evaluate((m for m in ["baseline/oracle"]), iter(["quiz"]), **given)
    assert results.table("benchmarks")["score"].tolist() == [1.0]


def test_the_split_is_that_of_the_full_data(here: Path) -> None:
    for split, n in ((None, 5), ("train", 3)):
        results = medhelm.evaluate(
            "baseline/oracle", "wards", split=split, plugins=wards(here), data_dir=here / "data"
        )
        assert results.table("benchmarks")["n"].tolist() == [n]


def wards(folder: Path) -> str:
    """Write a benchmark with two splits and its data; return its file."""
    text = """
        import json
        from medhelm import Benchmark, FileDataset, Instance, SourceFile, hookimpl

        def read(paths, split):
            rows = [json.loads(line) for line in paths[0].read_text().splitlines()]
            return [row for row in rows if row["split"] == split]

        def to_instance(row):
            return Instance(id=row["id"], context="Round.", choices=("yes", "no"), references=("A",))

        @hookimpl
        def medhelm_benchmarks():
            files = (SourceFile(name="rows.jsonl"),)
            return [Benchmark(
                name="wards", subcategory="planning_treatments", to_instance=to_instance,
                dataset=FileDataset(files=files, read=read, splits=("test", "train")),
                metrics=["exact_match"])]
    """
    (folder / "wards.py").write_text(textwrap.dedent(text))
    data = folder / "data" / "wards"
    data.mkdir(parents=True, exist_ok=True)
    rows = [f'{{"id": "{i}", "split": "{("test", "train")[i > 4]}"}}' for i in range(8)]
    (data / "rows.jsonl").write_text("\n".join(rows))
    return str(folder / "wards.py")


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_instances": 0}, "evaluate: max_instances: expected `int` >= 1"),
        ({"max_instances": "3"}, "max_instances: expected `int"),
        ({"budget_usd": float("nan")}, "budget_usd"),
        ({"budget_usd": float("inf")}, "inf"),
        ({"privacy": {"public": ["here"]}}, "'here', known: contracted, external, local"),
        ({"privacy": {"pubic": ["local"]}}, "privacy: invalid enum value 'pubic', known: gated, p"),
        ({"models": []}, "models is empty"),
        ({"models": "x/*"}, "'x/*' matches no model"),
        ({"models": 3}, "models takes one or several, not int"),
        ({"models": [3]}, "a model is a name, not int"),
        ({"benchmarks": ()}, "benchmarks is empty"),
        ({"benchmarks": "x*"}, "'x*' matches no benchmark"),
        ({"benchmarks": [None]}, "a benchmark is a name, not NoneType"),
        ({"models": ModelSpec(name="m", timeout_s="x")}, "model.timeout_s: expected `float`"),  # type: ignore[arg-type]
    ],
)
def test_values_are_checked_like_those_of_the_command(
    settings: dict[str, Any], message: str, here: Path
) -> None:
    given = {"models": "baseline/lead", "benchmarks": "headqa", "data": "sample"} | settings
    with pytest.raises(UsageError) as refused:
        medhelm.evaluate(**given)
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert not any(here.iterdir())


def test_a_wrong_name_of_a_choice_is_refused_before_anything_is_written(here: Path) -> None:
    medhelm.evaluate("baseline/lead", "headqa", data="sample")
    stored = sorted(here.rglob("*"))
    found, run = ("medhelm-results",), ("baseline/lead", "headqa")
    calls: list[tuple[Callable[..., object], tuple[str, ...], dict[str, object], str]] = [
        (medhelm.score, (), {"scoring": "published"}, "score: scoring: .*'published'.*fixed, helm"),
        (medhelm.score, (), {"scoring": None}, "score: scoring: .*`null`"),
        (medhelm.validate, run[1:], {"data": "ful"}, "validate: data: .*'ful'.*full, sample"),
        (medhelm.load_results, found, {"data": "ful"}, "load_results: data: .*'ful'.*full, sample"),
        (medhelm.load_results, found, {"scoring": "fix"}, "load_results: scoring: .*'fix'.*helm"),
        (medhelm.estimate, run, {"data": "ful"}, "estimate: data: .*'ful'.*full, sample"),
        (medhelm.estimate, run, {"variants": "x"}, "estimate: variants: .*'x'.*digits.*shuffled"),
        (medhelm.evaluate, run, {"protocol": "x"}, "evaluate: protocol: .*`object`.*`str`"),
    ]
    for call, given, settings, words in calls:
        with pytest.raises(UsageError, match=f"^{words}"):
            call(*given, **settings)
    assert sorted(here.rglob("*")) == stored
    overall = medhelm.load_results("medhelm-results").typed()
    assert not any("damaged" in note for note in overall.notes)


def test_unknown_names_and_missing_things_before_any_request(here: Path) -> None:
    given = asked(here)
    with serve_in_thread() as server:
        model = server_model(server.base_url)
        with pytest.raises(UnknownName, match="did you mean 'quiz'"):
            medhelm.evaluate(model, ["quiz", "quizz"], **given)
        with pytest.raises(UnknownName, match="did you mean 'baseline/lead'"):
            medhelm.evaluate([model, "baseline/led"], "quiz", **given)
        with pytest.raises(DataError, match="medhelm data fetch headqa"):
            medhelm.evaluate(model, ["quiz", "headqa"], **given)
        with pytest.raises(ModelError, match="HOUSE_KEY"):
            keyless = server_model(server.base_url, "openai/b", api_key_env="HOUSE_KEY")
            medhelm.evaluate([model, keyless], "quiz", **given)
        with pytest.raises(UnknownName, match="did you mean 'baseline'"):
            medhelm.evaluate([model, ModelSpec(name="x", provider="basline")], "quiz", **given)
        with pytest.raises(PluginError, match="nope.py"):
            medhelm.evaluate(model, "quiz", **given | {"plugins": ["nope.py"]})
        with pytest.raises(PrivacyRefused, match="quiz"):
            medhelm.evaluate(model, "quiz", privacy={"public": ("local",)}, **given)
        with pytest.raises(UsageError, match="price"):
            medhelm.evaluate(model, "quiz", budget_usd=1.0, **given)
        assert server.requests == 0
    assert not (here / "results").exists()


def test_a_run_that_fails_raises_after_the_others_are_done(here: Path) -> None:
    given = asked(here)
    with serve_in_thread() as server:
        dead = server_model("http://127.0.0.1:9/v1", "openai/dead", max_attempts=2)
        with pytest.raises(ModelError, match="127.0.0.1:9"):
            medhelm.evaluate([dead, server_model(server.base_url)], "quiz", **given)
        assert server.requests == 20
    kept = medhelm.load_results(here / "results").table("benchmarks")
    assert kept["model"].tolist() == ["openai/test"] and kept["n"].tolist() == [20]


def test_requests_beyond_the_window_are_a_warning_with_the_reason(here: Path) -> None:
    with serve_in_thread(letter) as server:
        model = server_model(server.base_url, context_window=100)
        with pytest.warns(UserWarning, match="openai/test: 3 request.*of 100"):
            medhelm.evaluate(model, "headqa", data="sample", max_instances=3)
        assert not server.requests


# Interrupts ----------------------------------------------------------------------------------

SCRIPT = """
import asyncio, sys
import medhelm
from medhelm import ModelSpec

url, data, results, plugin, where = sys.argv[1:]
model = ModelSpec(name="openai/test", model="test", base_url=url, max_concurrency=4)

def call():
    medhelm.evaluate(model, "quiz", data_dir=data, results_dir=results, plugins=[plugin])

async def cell():
    call()

try:
    asyncio.run(cell()) if where == "notebook" else call()
except KeyboardInterrupt:
    sys.exit(33)
"""


@pytest.mark.parametrize("where", ["script", "notebook"])
def test_ctrl_c_stops_asking_and_keeps_what_is_answered(where: str, here: Path) -> None:
    write_quiz(here, 200)
    with serve_in_thread(latency_s=0.2) as server:
        paths = (str(here / "data"), str(here / "results"), str(PLUGIN))
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, server.base_url, *paths, where],
            env=environment(),
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        while server.requests < 12 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 33, err
        stopped_at = server.requests
        assert stopped_at < 100
        (run,) = records.find_runs(here / "results")
        kept = (run / "responses.jsonl").read_bytes().count(b"\n")
        assert kept >= 8
        given: dict[str, Any]
        given = {"data_dir": paths[0], "results_dir": paths[1], "plugins": [PLUGIN]}
        server.latency_s = 0
        medhelm.evaluate(server_model(server.base_url), "quiz", **given)
        assert server.requests == stopped_at + 200 - kept


# The public names ----------------------------------------------------------------------------


def test_every_public_name_is_there_and_no_module_bears_a_functions_name() -> None:
    for name in medhelm.__all__:
        assert getattr(medhelm, name) is not None, name
    assert {"evaluate", "load_results", "Results", "hookimpl", "Benchmark"} <= set(medhelm.__all__)
    modules = {p.stem for p in (ROOT / "medhelm").iterdir()}
    assert not modules & set(medhelm.__all__)
    assert issubclass(UsageError, MedhelmError) and medhelm.Benchmark is Benchmark
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        _ = medhelm.evalute


# The other commands ---------------------------------------------------------------------------


def test_estimate_says_what_the_command_says_and_needs_no_key(here: Path, shell: Shell) -> None:
    (mine,) = medhelm.estimate("openai/gpt-4o-2024-05-13", "headqa", data="sample")
    argv = ["estimate", "model=openai/gpt-4o-2024-05-13", "benchmark=headqa", "data=sample"]
    (theirs,) = json.loads(shell(*argv, "--format", "json"))["runs"]
    assert json.loads(msgspec.json.encode(mine)) == theirs
    assert mine.to_ask == 8 and mine.usd_limit is not None


def test_estimate_counts_what_privacy_would_refuse_and_says_so(shell: Shell) -> None:
    model, benchmark = "openai/gpt-4o-2024-05-13", "n2c2_ct"  # external, gated
    with pytest.warns(UserWarning, match="n2c2_ct.* is gated"):
        (mine,) = medhelm.estimate(model, benchmark, data="sample")
    assert mine.to_ask == 12
    argv = ["estimate", f"model={model}", f"benchmark={benchmark}", "data=sample"]
    assert "the first: benchmark 'n2c2_ct'" in (shell(*argv))
    with pytest.raises(PrivacyRefused):
        medhelm.evaluate(
            ModelSpec(name=model, model="m", base_url="http://127.0.0.1:9/v1"), benchmark
        )


def test_validate_from_python_is_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    (mine,) = medhelm.validate("pubmed_qa")
    run_command(["validate", "pubmed_qa", "--format", "json"])
    (theirs,) = json.loads(capsys.readouterr().out)["reports"]
    assert json.loads(msgspec.json.encode(mine)) == theirs
    assert [r.state for r in medhelm.validate("headqa", data="full")] == ["no data"]


def test_score_grades_again_and_names_what_it_cannot(here: Path) -> None:
    write_quiz(here, 20)
    given = asked(here)
    medhelm.evaluate("baseline/lexical", "quiz", **given)
    settings = {"results_dir": here / "results", "plugins": [PLUGIN]}
    frame = medhelm.score(scoring="helm", **settings).table("benchmarks")
    (benchmark,) = set(frame["benchmark"])
    assert benchmark == "quiz" and frame["planned"].tolist() == [20]
    with (
        pytest.warns(UserWarning, match="not installed"),
        pytest.raises(UsageError, match="could be graded"),
    ):
        medhelm.score(results_dir=here / "results")
    with pytest.raises(UnknownName, match="headqa"):
        medhelm.score(benchmarks="headqa", **settings)
    with pytest.raises(UsageError, match="no run"):
        medhelm.score(here / "empty")


def test_data_files_are_verified_from_python(here: Path) -> None:
    (file,) = medhelm.verify_data("medbullets", data_dir=here)
    assert (file.name, file.status) == ("medbullets_op5.csv", "missing")
    with pytest.raises(UnknownName, match="medbullets"):
        medhelm.fetch_data("medbulets")


def test_data_files_are_fetched_from_python(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (here / "test.jsonl").write_text('{"q": "a"}\n')
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(here))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        plugin = here / "remote.yaml"
        plugin.write_text(
            "name: remote\nsubcategory: planning_treatments\n"
            "dataset: {files: [{name: test.jsonl, "
            f"url: '{url}/test.jsonl'}}]}}\n"
            "instance: {question: q, reference: q}\nprompt: plain\nanswer: text\n"
            "metrics: [exact_match]\n"
        )
        (file,) = medhelm.fetch_data("remote", data_dir=here / "data", plugins=plugin)
    assert file.status == "unpinned" and file.path.read_text() == '{"q": "a"}\n'


# Results, lists and descriptions as values --------------------------------------------------------


def test_compare_is_the_command(here: Path, shell: Shell) -> None:
    models = ("baseline/lexical", "baseline/lead")
    results = medhelm.evaluate(models, ["headqa", "medec"], data="sample")
    frame = results.compare(*models, draws=200, bootstrap_seed=3, confidence=0.9)
    argv = ["--draws", "200", "--bootstrap-seed", "3", "--confidence", "0.9", "--format", "json"]
    theirs = json.loads(shell("compare", *models, "--results", "medhelm-results", *argv))
    assert list(frame.columns) == [column["name"] for column in theirs["columns"]]
    mine = frame.astype(object).where(frame.notna(), None).to_dict("records")
    assert mine == theirs["rows"] and frame.attrs["notes"] == theirs["notes"]
    with pytest.raises(UnknownName, match="baseline/lexical"):
        results.compare("baseline/lexica", "baseline/lead")


def test_results_show_themselves_on_one_screen(here: Path) -> None:
    results = medhelm.evaluate("baseline/l*", ["headqa", "medec"], data="sample")
    lines = repr(results).splitlines()
    assert len(lines) <= 41 and max(map(len, lines)) <= 80
    assert "baseline/lexical" in repr(results) and "synthetic" in repr(results)
    html = results._repr_html_()
    best = results.table("overall").iloc[0]
    for text in (repr(results), html):
        assert f"{best['win_rate']:.2f} [{best['win_low']:.2f}, {best['win_high']:.2f}]" in text
    assert "<table" in html and "synthetic" in html
    one = medhelm.evaluate("baseline/lead", "headqa", data="sample")
    assert "exact_match" in repr(one) and "8/8" in repr(one)


def test_names_of_models_are_escaped_in_a_notebook(here: Path) -> None:
    with serve_in_thread(letter) as server:
        model = server_model(server.base_url, "openai/<script>alert(1)</script>")
        html = medhelm.evaluate(model, "headqa", data="sample")._repr_html_()
    assert "&lt;script&gt;" in html and "<script" not in html


@pytest.mark.parametrize("what", ["benchmarks", "models"])
def test_a_list_is_that_of_the_command(what: str, shell: Shell) -> None:
    listed: Any = {"benchmarks": medhelm.list_benchmarks, "models": medhelm.list_models}[what]()
    theirs = json.loads(shell("list", what, "--format", "json"))[what]
    mine = json.loads(msgspec.json.encode(list(listed)))
    assert [{key: entry[key] for key in theirs[0]} for entry in mine] == theirs
    assert listed.names == tuple(entry["name"] for entry in theirs)
    assert all(name in repr(listed) and name in listed._repr_html_() for name in listed.names)
    assert listed.frame()["name"].tolist() == list(listed.names)
    with pytest.raises(AttributeError):
        listed[0].name = "other"


def test_what_a_list_holds_is_what_evaluate_takes(here: Path) -> None:
    lexical = [model for model in medhelm.list_models() if model.name == "baseline/lexical"]
    (headqa,) = [b for b in medhelm.list_benchmarks() if b.name == "headqa" and b.has_samples]
    assert not headqa.has_full_data
    cells = medhelm.evaluate(lexical, headqa.name, data="sample").table("benchmarks")
    assert cells["model"].tolist() == ["baseline/lexical"]


@pytest.mark.parametrize("name", ["headqa", "exact_match", "baseline/lexical", "offline"])
def test_a_description_is_that_of_the_command(name: str, shell: Shell) -> None:
    found = medhelm.describe(name)
    assert shell("describe", name) == f"{found}\n"
    theirs = json.loads(shell("describe", name, "--format", "json"))
    assert theirs["kind"] == found.kind
    assert json.loads(msgspec.json.encode(dict(found.facts))).items() <= theirs.items()
    assert found._repr_html_().count("<tr>") > 1
    with pytest.raises(UnknownName, match=f"did you mean '{name}'"):
        medhelm.describe(name[:-1])


def test_all_types_that_signatures_name_are_exported() -> None:
    users = [getattr(medhelm, name) for name in medhelm.__all__]
    functions = [v for v in users if inspect.isfunction(v) and v.__module__ == "medhelm.api"]
    functions += [medhelm.load_results]
    for cls in (Results, medhelm.Description, medhelm.Listing):
        own = inspect.getmembers(cls, inspect.isfunction)
        functions += [f for name, f in own if not name.startswith("_")]
    assert len(functions) > 15
    outside = {"Any", "Callable", "Iterable", "Literal", "Mapping", "Path", "Sequence", "T", "Self"}
    for function in functions:
        for annotation in inspect.get_annotations(function).values():
            own = re.sub(r"(pd|go)\.\w+|\"\w+\"|'\w+'|typing\.", "", str(annotation))
            names = set(re.findall(r"\b[A-Z]\w+\b", own)) - outside - {"None", "False", "True"}
            assert names <= set(medhelm.__all__), f"{function.__qualname__}: {names}"


def test_nothing_is_shown_where_nobody_looks(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    medhelm.evaluate("baseline/lead", "headqa", data="sample", progress=True)
    assert capsys.readouterr() == ("", "")
