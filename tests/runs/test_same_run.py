"""One run however its settings are spelt: nothing is asked, and nothing is billed, a second time.

`tests/stored_runs` holds finished runs of the quiz as medhelm 0.1.0 wrote them when it still
hashed every setting letter by letter.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm import ModelSpec, estimate, evaluate
from medhelm.errors import UsageError
from medhelm.models.access import resolve_access
from medhelm.models.identity import identity
from medhelm.models.provider import DECIDING
from medhelm.models.providers import built_in
from medhelm.schema.data import Rubric
from medhelm.schema.episode import Sampling
from medhelm.schema.run import JurySpec, JuryTerms, RunSpec
from medhelm.store.records import (
    find_gradings,
    find_runs,
    judge_hash,
    read_plan,
    request_hash,
    stored_judge,
)
from tests.quiz import PLUGIN, write_quiz
from tests.server import FaultServer, serve_in_thread
from tests.stored_versions import use_stored_versions

pytestmark = pytest.mark.slow

STORED = Path(__file__).parents[1] / "stored_runs"
PORT = "18431"
"""Of the server that the stored runs asked; nothing listens there now."""

SAME = [
    ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/"),
    ("http://localhost:8000/v1", "http://LocalHost:8000/v1"),
    ("http://localhost:8000/v1", "HTTP://localhost:8000//v1//"),
    ("http://localhost/v1", "http://localhost:80/v1"),
    ("https://gpu.example/v1", "https://GPU.example:443/v1/chat/completions"),
    ("https://gpu.example/v1?deployment=A", "https://GPU.example/v1/?deployment=A#top"),
    ("http://[::1]:8000/v1", " http://[::1]:8000/v1/ "),
    (None, "https://API.openai.com/v1/"),
]
OTHER = [
    ("http://localhost:8000/v1", "http://localhost:8001/v1"),
    ("http://localhost:8000/v1", "https://localhost:8000/v1"),
    ("http://localhost:8000/v1", "http://localhost:8000/v2"),
    ("http://localhost:8000/v1", "http://localhost:8000/V1"),
    ("http://localhost:8000/v1", "http://127.0.0.1:8000/v1"),
    ("http://localhost/v1?deployment=A", "http://localhost/v1?deployment=B"),
    (None, "http://localhost/v1"),
]


@pytest.fixture(autouse=True)
def stored_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with stored gradings under the version of the metric that they were made with."""
    use_stored_versions(monkeypatch)


def served(base_url: str | None, **more: Any) -> ModelSpec:
    given = {"name": "openai/test", "model": "test", "base_url": base_url} | more
    return ModelSpec(**given)


def hash_of_0_1_0(spec: RunSpec) -> str:
    """Return the name that medhelm 0.1.0 gave the folder of a run, from its `spec.json`."""
    values = msgspec.to_builtins(spec)
    settings = ("provider", "model", "base_url", "reasoning", "system_prompt", "sampling")
    settings += ("token_limit_field", "send_seed", "extra_body", "context_window")
    decides = {name: values[name] for name in ("benchmark", "benchmark_version", "data", "split")}
    decides |= {name: values[name] for name in ("dataset_sha256", "prompt_sha256")}
    decides |= {name: values[name] for name in ("max_output_tokens", "repeats", "seed")}
    decides["model"] = {name: values["model"][name] for name in settings}
    text = json.dumps(decides, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stored_spec(name: str) -> RunSpec:
    (run,) = find_runs(STORED / name)
    return read_plan(run).spec


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data of the stored runs."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    write_quiz(tmp_path, 4)
    return tmp_path


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serve_in_thread() as running:
        yield running


def where(here: Path) -> dict[str, Any]:
    return {"results_dir": here / "results", "data_dir": here / "data", "plugins": [PLUGIN]}


def ask(here: Path, *models: ModelSpec, **more: Any) -> Any:
    return evaluate(list(models), "quiz", **{**where(here), "max_instances": 2, **more})


def test_the_stored_runs_are_those_of_0_1_0() -> None:
    for folder in STORED.iterdir():
        (run,) = find_runs(folder)
        assert run.name == hash_of_0_1_0(read_plan(run).spec)
    assert len({hash_of_0_1_0(stored_spec(n)) for n in ("plain", "slash", "upper")}) == 3


@pytest.mark.parametrize(("one", "two"), SAME)
def test_spellings_of_one_address_are_one_run_and_are_asked_alike(
    one: str | None, two: str
) -> None:
    assert identity(served(one)) == identity(served(two))
    spec = stored_spec("plain")
    hashes = {request_hash(msgspec.structs.replace(spec, model=served(url))) for url in (one, two)}
    # and today's plain spelling keeps the name that it had
    assert hashes == {hash_of_0_1_0(msgspec.structs.replace(spec, model=served(one)))}
    keys = {"OPENAI_API_KEY": "k"}
    assert resolve_access(served(one), keys).url == resolve_access(served(two), keys).url


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_other_addresses_stay_other_runs(one: str | None, two: str) -> None:
    assert identity(served(one)) != identity(served(two))


@pytest.mark.parametrize("stored", ["plain", "slash"])
@pytest.mark.parametrize("given", ["http://127.0.0.1:{}/v1", "HTTP://127.0.0.1:{}//v1/"])
def test_a_finished_run_of_0_1_0_is_read_and_not_touched(
    stored: str, given: str, here: Path
) -> None:
    shutil.copytree(STORED / stored, here / "results")
    before = files_of(here / "results")
    results = ask(here, served(given.format(PORT)))
    (row,) = results.table("benchmarks").to_dict("records")
    assert (row["model"], row["n"]) == ("openai/test", 2)
    assert files_of(here / "results") == before


def test_a_run_of_an_upper_case_host_is_found_by_the_lower_case(here: Path) -> None:
    shutil.copytree(STORED / "upper", here / "results")
    before = files_of(here / "results")
    ask(here, served(f"http://localhost:{PORT}/v1/"))
    assert files_of(here / "results") == before


@pytest.mark.parametrize(
    ("old", "now"), [("{}/", "{}"), ("upper", "{}/"), ("{}", "upper"), ("{}/", "{}/")]
)
def test_an_unfinished_run_of_0_1_0_goes_on_in_its_folder(
    old: str, now: str, here: Path, server: FaultServer
) -> None:
    def spell(form: str) -> str:
        url = server.base_url.replace("127.0.0.1", "localhost")
        return url.replace("localhost", "LOCALHOST") if form == "upper" else form.format(url)

    ask(here, served(spell("{}")))
    assert server.requests == 2
    (new,) = find_runs(here / "results")
    plan = read_plan(new)
    spec = msgspec.structs.replace(plan.spec, model=served(spell(old)))
    name = hash_of_0_1_0(spec)
    then = new.rename(new.with_name(name)) if name != new.name else new
    shutil.rmtree(then / "gradings")
    first, _ = (then / "responses.jsonl").read_bytes().splitlines(keepends=True)
    (then / "responses.jsonl").write_bytes(first)
    stored = msgspec.structs.replace(plan, spec=spec, request_hash=name)
    (then / "spec.json").write_bytes(msgspec.json.encode(stored))
    ask(here, served(spell(now)))
    assert server.requests == 3, "one of two answers was there"
    assert find_runs(here / "results") == [then]
    assert (then / "responses.jsonl").read_bytes().startswith(first)
    assert read_plan(then) == stored, "the folder keeps its name and what it says of itself"
    ask(here, served(spell("{}")))
    assert server.requests == 3


@pytest.mark.parametrize("more", [{}, {"max_instances": 4}])
def test_another_name_takes_nothing_over_until_the_user_says_so(
    more: dict[str, Any], here: Path, server: FaultServer
) -> None:
    first, second = (served(server.base_url, name=name) for name in ("ward/first", "ward/second"))
    for scoring in ("helm", "fixed"):
        ask(here, first, scoring=scoring)
    before = files_of(here / "results")
    with pytest.raises(UsageError) as refused:
        ask(here, second, **more)
    for word in ("'ward/second'", "'ward/first'", "model.rename=true", "model.model (now 'test')"):
        assert word in str(refused.value)
    assert server.requests == 2 and files_of(here / "results") == before
    with pytest.warns(UserWarning, match="would be refused: quiz x ward/second: .* 'ward/first'"):
        estimate([second], "quiz", **where(here))
    results = ask(here, second, rename=True, **more)
    assert server.requests == more.get("max_instances", 2)
    assert list(results.table("benchmarks")["model"]) == ["ward/second"]
    (run,) = find_runs(here / "results")
    assert run.parent.name == "ward__second" and len(find_gradings(here / "results")) == 2
    stored = [run.parent.parent / p for p in files_of(run.parent.parent) if p.endswith(".json")]
    assert not [p for p in stored if "first" in f"{p}{p.read_text()}"]
    with pytest.raises(UsageError, match="'ward/first' is stored there as 'ward/second'"):
        ask(here, first)
    ask(here, second, **more)
    assert server.requests == more.get("max_instances", 2)


def test_a_damaged_plan_keeps_the_name_of_its_folder(here: Path, server: FaultServer) -> None:
    ask(here, served(server.base_url, name="first"))
    (run,) = find_runs(here / "results")
    (run / "spec.json").write_text("{")
    with pytest.raises(UsageError, match="'second' is stored there as 'first'"):
        ask(here, served(server.base_url, name="second"))
    (row,) = ask(here, served(server.base_url, name="second"), rename=True).typed("benchmarks").rows
    assert (row["model"], server.requests) == ("second", 2)


def test_a_judge_under_another_name_takes_no_verdicts_over_in_silence(here: Path) -> None:
    essay = PLUGIN.with_name("essay.py")
    verdict = json.dumps({n: 4 for n in ("accuracy", "completeness", "clarity")})

    def judged(name: str, **more: Any) -> Any:
        judges = (served(server.base_url, name=name, endpoint_class="local"),)
        jury = JurySpec(name="j", judges=judges, quorum=1, reasons=False)
        given = {"data": "sample", "results_dir": here / "results", "plugins": essay} | more
        return evaluate("baseline/lead", "essay", jury=jury, **given)

    with serve_in_thread(verdict) as server:
        judged("j/first")
        asked = server.requests
        with pytest.raises(UsageError, match="'j/second' is stored there as 'j/first'"):
            judged("j/second")
        judged("j/second", rename=True)
        rows = judged("j/second").typed("jury").rows
        assert {row["judge"] for row in rows if row["level"] == "judge"} == {"j/second"}
        assert server.requests == asked


def test_one_model_under_two_names_is_not_billed_twice(here: Path, server: FaultServer) -> None:
    with pytest.raises(UsageError, match="openai/test and renamed are one model under two names"):
        ask(here, served(server.base_url), served(server.base_url + "/", name="renamed"))
    assert server.requests == 0


def test_a_baseline_is_the_same_whatever_another_model_of_the_sweep_is_given(here: Path) -> None:
    shutil.copytree(STORED / "baseline", here / "results")
    stored = stored_spec("baseline")
    assert stored.model.base_url and stored.model.system_prompt and stored.max_output_tokens == 77
    before = files_of(here / "results")
    plain = {"provider": "baseline", "endpoint_class": "local", "weights": "none"}
    ask(here, served(None, name="baseline/lead", model="lead", **plain))
    assert files_of(here / "results") == before
    stray = msgspec.structs.replace(stored.model, sampling=Sampling(temperature=0.1))
    ask(here, msgspec.structs.replace(stray, base_url="http://localhost:1", reasoning=True))
    assert len(find_runs(here / "results")) == 1


def test_what_a_new_baseline_run_records_is_what_it_used(here: Path) -> None:
    stray = stored_spec("baseline").model
    ask(here, msgspec.structs.replace(stray, name="lead"))
    (run,) = find_runs(here / "results")
    plain = ModelSpec(name="lead", provider="baseline", model="lead", endpoint_class="local")
    found = read_plan(run).spec
    assert found.model == msgspec.structs.replace(plain, weights="none", max_concurrency=32)
    assert found.max_output_tokens == 256


OTHER_VALUE: dict[str, Any] = {
    "base_url": "http://localhost:1/v1",
    "reasoning": True,
    "system_prompt": "Be brief.",
    "sampling": Sampling(temperature=0.5),
    "token_limit_field": "max_completion_tokens",
    "send_seed": False,
    "extra_body": {"a": 1},
    "context_window": 4096,
}


@pytest.mark.parametrize("provider", built_in())
def test_each_provider_declares_what_it_uses(provider: str) -> None:
    spec = ModelSpec(name="m", provider=provider, model="m")
    moves = {
        name
        for name, value in OTHER_VALUE.items()
        if identity(msgspec.structs.replace(spec, **{name: value})) != identity(spec)
    }
    assert moves == set(built_in()[provider].uses)
    assert OTHER_VALUE.keys() == set(DECIDING) - {"provider", "model"}
    for name in ("name", "price", "timeout_s", "max_attempts", "api_key_env"):
        assert name not in DECIDING


def terms(judge: ModelSpec) -> JuryTerms:
    rubric = Rubric(name="r", version="1", task="Rate.", criteria=())
    return JuryTerms(jury=JurySpec(name="j", judges=(judge,)), rubric=rubric, version="1")


def test_verdicts_of_0_1_0_are_found_however_their_judge_is_spelt(tmp_path: Path) -> None:
    slash, plain = served("http://localhost:8000/v1/"), served("http://localhost:8000/v1")
    assert judge_hash(slash, terms(slash)) == judge_hash(plain, terms(plain))
    old = hashlib.sha256(
        msgspec.json.encode(
            {
                "model": {name: getattr(slash, name) for name in DECIDING},
                "rubric": terms(slash).rubric,
                "version": "1",
                "instruction": "",
                "repairs": 2,
                "reasons": True,
                "max_output_tokens": 1024,
            },
            order="sorted",
        )
    ).hexdigest()[:16]
    assert old != judge_hash(slash, terms(slash))
    run = tmp_path / "run"
    (run / "judges" / old).mkdir(parents=True)
    assert stored_judge(run, slash, terms(slash)).name == old
    assert stored_judge(run, plain, terms(plain)).name == judge_hash(plain, terms(plain))
    (record,) = find_gradings_of(STORED / "slash")
    graded = msgspec.structs.replace(
        record, grading=msgspec.structs.replace(record.grading, jury=terms(slash))
    )
    (run / "gradings" / "g").mkdir(parents=True)
    (run / "gradings" / "g" / "summary.json").write_bytes(msgspec.json.encode(graded))
    assert stored_judge(run, plain, terms(plain)).name == old
    other = replace_model(plain, "another")
    assert stored_judge(run, other, terms(other)).name == judge_hash(other, terms(other))


def find_gradings_of(results: Path) -> list[Any]:
    from medhelm.store.records import find_gradings, read_record

    return [read_record(path) for path in find_gradings(results)]


def replace_model(spec: ModelSpec, model: str) -> ModelSpec:
    return msgspec.structs.replace(spec, model=model)
