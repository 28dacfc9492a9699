"""What can be refused is refused before the first request; which instances a run asks."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.config import BenchmarkChoice, Job
from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError, ModelError, PrivacyRefused
from medhelm.models.tokens import output_budget
from medhelm.runs.planning import plan_runs
from medhelm.runs.run import Run
from medhelm.runs.selection import select
from medhelm.schema.data import Benchmark
from medhelm.schema.episode import Sampling
from medhelm.schema.model import ModelSpec, Price
from medhelm.store.records import order_key
from tests.runs.small import BASE, registry

RANDOM = ModelSpec(name="baseline/random", provider="baseline", endpoint_class="local")
REMOTE = ModelSpec(name="openai/m", model="m", base_url="http://127.0.0.1:9/v1")


def put(root: Path, ids: Iterable[str], name: str = "test.jsonl", text: str = "A note.") -> None:
    (root / "bench").mkdir(exist_ok=True)
    rows = "".join(json.dumps({"id": i, "text": text}) + "\n" for i in ids)
    (root / "bench" / name).write_text(rows)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, [f"i{n}" for n in range(20)])
    put(tmp_path, ["d0"], "dev.jsonl")
    return tmp_path


def job(root: Path, model: ModelSpec = RANDOM, **changes: Any) -> Job:
    values: dict[str, Any] = {"benchmarks": (BenchmarkChoice(name="bench"),)} | changes
    return Job(model=model, data_dir=str(root), results_dir=str(root / "results"), **values)


def plan(*jobs: Job, benchmark: Benchmark = BASE, environ: Mapping[str, str] | None = None) -> Run:
    (run,) = plan_runs(jobs, registry(benchmark), environ or {}).runs
    return run


# Refusals --------------------------------------------------------------------------------------


def test_a_missing_key_is_named_before_anything_is_sent(root: Path) -> None:
    model = msgspec.structs.replace(REMOTE, base_url=None)
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        plan(job(root, model))
    own = msgspec.structs.replace(REMOTE, api_key_env="HOSPITAL_KEY")
    with pytest.raises(ModelError, match="HOSPITAL_KEY"):
        plan(job(root, own))
    assert plan(job(root, own), environ={"HOSPITAL_KEY": "k-1"}).spec.model == own
    assert not (root / "results").exists()


@pytest.mark.parametrize(
    ("data_class", "endpoint_class", "is_allowed"),
    [
        ("public", "external", True),
        ("gated", "external", False),
        ("gated", "contracted", True),
        ("private", "external", False),
        ("private", "contracted", False),
        ("private", "local", True),
    ],
)
def test_data_goes_only_where_it_may(
    data_class: Any, endpoint_class: Any, is_allowed: bool, root: Path
) -> None:
    benchmark = replace(BASE, data_class=data_class)
    model = msgspec.structs.replace(REMOTE, endpoint_class=endpoint_class)
    if is_allowed:
        plan(job(root, model), benchmark=benchmark)
        return
    with pytest.raises(PrivacyRefused) as caught:
        plan(job(root, model), benchmark=benchmark)
    assert all(word in str(caught.value) for word in ("bench", "openai/m", data_class))


def test_the_user_can_widen_where_data_may_go_and_only_that(root: Path) -> None:
    benchmark = replace(BASE, data_class="gated")
    wider = job(root, REMOTE, privacy={"gated": ("local", "contracted", "external")})
    assert plan(wider, benchmark=benchmark).spec.model == REMOTE
    private = replace(BASE, data_class="private")
    with pytest.raises(PrivacyRefused):
        plan(wider, benchmark=private)


def test_missing_data_names_file_and_fix(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        plan(job(tmp_path))
    assert str(tmp_path / "bench") in str(caught.value) and "test.jsonl" in str(caught.value)


# What a run is ---------------------------------------------------------------------------------


def test_a_run_that_two_jobs_ask_for_is_planned_once(root: Path) -> None:
    twice = (BenchmarkChoice(name="bench"), BenchmarkChoice(name="bench"))
    runs = plan_runs([job(root, benchmarks=twice), job(root)], registry(BASE), {}).runs
    assert len(runs) == 1
    other = plan_runs([job(root), job(root, seed=1)], registry(BASE), {}).runs
    assert len({run.path for run in other}) == 2


def test_growing_or_repricing_asks_nothing_again_and_another_prompt_does(root: Path) -> None:
    base = plan(job(root, REMOTE)).request_hash
    priced = msgspec.structs.replace(
        REMOTE, price=Price(input=1, output=2, date="2026-01-01"), timeout_s=5, max_concurrency=2
    )
    assert plan(job(root, priced)).request_hash == base
    assert plan(job(root, REMOTE, max_instances=3)).request_hash == base
    assert plan(job(root, REMOTE, scoring="helm")).request_hash == base
    for changed in (
        plan(job(root, REMOTE), benchmark=replace(BASE, instruction="Be brief.")),
        plan(job(root, REMOTE), benchmark=replace(BASE, version="2")),
        plan(job(root, REMOTE), benchmark=replace(BASE, max_output_tokens=9)),
        plan(job(root, msgspec.structs.replace(REMOTE, model="other"))),
        plan(job(root, msgspec.structs.replace(REMOTE, system_prompt="Be brief."))),
        plan(job(root, msgspec.structs.replace(REMOTE, sampling=Sampling(temperature=1.0)))),
        plan(job(root, REMOTE, repeats=2)),
        plan(job(root, REMOTE, seed=1)),
        plan(job(root, REMOTE, benchmarks=(BenchmarkChoice(name="bench", split="dev"),))),
    ):
        assert changed.request_hash != base


def test_changed_data_is_another_run(root: Path) -> None:
    before = plan(job(root)).request_hash
    put(root, ["i1", "i2"])
    assert plan(job(root)).request_hash != before


def test_a_model_that_thinks_gets_the_declared_budget_and_a_model_may_have_its_own() -> None:
    benchmark = replace(BASE, max_output_tokens=64, reasoning_output_tokens=4096)
    assert output_budget(benchmark, REMOTE) == 64
    assert output_budget(benchmark, msgspec.structs.replace(REMOTE, reasoning=True)) == 4096
    assert output_budget(benchmark, msgspec.structs.replace(REMOTE, max_output_tokens=9)) == 9


# Selection -------------------------------------------------------------------------------------


def selected(root: Path, wanted: int | None, seed: int = 0) -> set[str]:
    run = plan(job(root, max_instances=wanted, seed=seed))
    selection = select(run.dataset, run.spec)
    chosen = {
        i.id
        for i in run.dataset.instances()
        if selection.cut is None or order_key(seed, i.id) <= selection.cut
    }
    assert len(chosen) == selection.instances
    return chosen


@pytest.mark.slow
@given(small=st.integers(1, 19), more=st.integers(0, 5), seed=st.integers(0, 5), turn=st.randoms())
def test_a_selection_grows_from_the_smaller_one_whatever_the_order_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, small: int, more: int, seed: int, turn: Any
) -> None:
    root = tmp_path_factory.mktemp("data")
    ids = [f"i{n}" for n in range(20)]
    put(root, ids)
    put(root, ["d0"], "dev.jsonl")
    first = selected(root, small, seed)
    assert len(first) == small
    assert first <= selected(root, small + more, seed)
    turn.shuffle(ids)
    put(root, ids)
    assert selected(root, small, seed) == first


def test_a_selection_follows_the_seed_and_ends_at_the_data(root: Path) -> None:
    assert len({frozenset(selected(root, 5, seed)) for seed in range(5)}) > 1
    assert len(selected(root, None)) == len(selected(root, 20)) == len(selected(root, 99)) == 20


def test_repeated_ids_and_empty_data_are_refused(root: Path) -> None:
    put(root, ["a", "b", "a"])
    run = plan(job(root))
    with pytest.raises(DataError, match="bench: 1 .*'a'"):
        select(run.dataset, run.spec)
    put(root, [])
    with pytest.raises(DataError, match="bench: .*no instance"):
        select(open_dataset(BASE, "full", root=root), run.spec)
