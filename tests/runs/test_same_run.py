"""One run however its settings are spelt: nothing is asked, and nothing is billed, a second time."""

from __future__ import annotations

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
from medhelm.schema.run import JurySpec, JuryTerms
from medhelm.store.records import (
    find_gradings,
    find_runs,
    judge_hash,
    read_plan,
    request_hash,
)
from tests.juries import judged, rated
from tests.quiz import PLUGIN, write_quiz
from tests.server import FaultServer, serve_in_thread
from tests.store.test_records import SPEC

pytestmark = pytest.mark.slow

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


def served(base_url: str | None, **more: Any) -> ModelSpec:
    given = {"name": "openai/test", "model": "test", "base_url": base_url} | more
    return ModelSpec(**given)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data of the stored runs."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    write_quiz(tmp_path, 4)
    return tmp_path


def where(here: Path) -> dict[str, Any]:
    return {"results_dir": here / "results", "data_dir": here / "data", "plugins": [PLUGIN]}


def ask(here: Path, *models: ModelSpec, **more: Any) -> Any:
    return evaluate(list(models), "quiz", **{**where(here), "max_instances": 2, **more})


@pytest.mark.parametrize(("one", "two"), SAME)
def test_spellings_of_one_address_are_one_run_and_are_asked_alike(
    one: str | None, two: str
) -> None:
    assert identity(served(one)) == identity(served(two))
    runs = (msgspec.structs.replace(SPEC, model=served(url)) for url in (one, two))
    assert len({*map(request_hash, runs)}) == 1
    keys = {"OPENAI_API_KEY": "k"}
    assert resolve_access(served(one), keys).url == resolve_access(served(two), keys).url


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_other_addresses_stay_other_runs(one: str | None, two: str) -> None:
    assert identity(served(one)) != identity(served(two))


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
    with pytest.warns(UserWarning, match="quiz x ward/second: .*'ward/first'"):
        estimate([second], "quiz", **where(here))
    results = ask(here, second, rename=True, **more)
    assert server.requests == more.get("max_instances", 2)
    assert list(results.table("benchmarks")["model"]) == ["ward/second"]
    (run,) = find_runs(here / "results")
    assert run.parent.name == "ward__second" and len(find_gradings(here / "results")) == 2
    stored = [run.parent.parent / p for p in files_of(run.parent.parent) if p.endswith(".json")]
    assert not [p for p in stored if "first" in f"{p}{p.read_text()}"]
    with pytest.raises(UsageError, match="'ward/first' .*'ward/second'"):
        ask(here, first)
    ask(here, second, **more)
    assert server.requests == more.get("max_instances", 2)


def test_a_damaged_plan_keeps_the_name_of_its_folder(here: Path, server: FaultServer) -> None:
    ask(here, served(server.base_url, name="first"))
    (run,) = find_runs(here / "results")
    (run / "spec.json").write_text("{")
    with pytest.raises(UsageError, match="'second' .*'first'"):
        ask(here, served(server.base_url, name="second"))
    (row,) = ask(here, served(server.base_url, name="second"), rename=True).typed("benchmarks").rows
    assert (row["model"], server.requests) == ("second", 2)


def test_a_judge_under_another_name_takes_no_verdicts_over_in_silence(here: Path) -> None:
    results = here / "results"
    with serve_in_thread(rated()) as server:
        first, second = (
            served(server.base_url, name=f"j/{name}", endpoint_class="local")
            for name in ("first", "second")
        )
        judged(results, first)
        asked = server.requests
        with pytest.raises(UsageError, match="'j/second' .*'j/first'"):
            judged(results, second)
        judged(results, second, rename=True)
        rows = judged(results, second).typed("jury").rows
        assert {row["judge"] for row in rows if row["level"] == "judge"} == {"j/second"}
        assert server.requests == asked


def test_one_model_under_two_names_is_not_billed_twice(here: Path, server: FaultServer) -> None:
    with pytest.raises(UsageError, match="openai/test and renamed"):
        ask(here, served(server.base_url), served(server.base_url + "/", name="renamed"))
    assert server.requests == 0


STRAY = ModelSpec(
    name="lead",
    provider="baseline",
    model="lead",
    endpoint_class="local",
    weights="none",
    base_url="http://localhost:8000/v1",
    system_prompt="Be brief.",
    max_output_tokens=77,
)
"""A baseline with settings of another model of its sweep."""


def test_a_baseline_is_the_same_whatever_another_model_of_the_sweep_is_given(here: Path) -> None:
    ask(here, STRAY)
    before = files_of(here / "results")
    ask(
        here,
        served(
            None,
            **{n: getattr(STRAY, n) for n in ("name", "model", "provider")},
            endpoint_class="local",
            weights="none",
        ),
    )
    stray = msgspec.structs.replace(STRAY, sampling=Sampling(temperature=0.1), reasoning=True)
    ask(here, msgspec.structs.replace(stray, base_url="http://localhost:1"))
    assert files_of(here / "results") == before


def test_what_a_baseline_run_records_is_what_it_used(here: Path) -> None:
    ask(here, STRAY)
    (run,) = find_runs(here / "results")
    plain = ModelSpec(name="lead", provider="baseline", model="lead", endpoint_class="local")
    found = read_plan(run).spec
    assert found.model == msgspec.structs.replace(plain, weights="none")
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


def test_a_judge_is_the_same_however_its_address_is_spelt() -> None:
    one, two = (served(f"http://localhost:8000/v1{end}") for end in ("/", ""))
    assert judge_hash(one, terms(one)) == judge_hash(two, terms(two))
