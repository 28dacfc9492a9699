"""What a run would cost, before anything is sent."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm.config import BenchmarkChoice, Job, chosen_asking
from medhelm.grading.scoring import score_run
from medhelm.models.tokens import estimate_tokens
from medhelm.plugins.askings import load_askings
from medhelm.prompts.messages import render_prompt
from medhelm.runs.estimates import RunEstimate, sum_up
from medhelm.runs.estimation import estimate_runs, without_keys
from medhelm.runs.planning import plan_runs
from medhelm.runs.run import Run
from medhelm.schema.data import Benchmark, FileDataset, SourceFile
from medhelm.schema.episode import Episode, Finish, Response, Usage
from medhelm.schema.model import ModelSpec, Price
from medhelm.store.records import Plan, write_struct
from medhelm.store.runlog import RunFolder
from tests.runs.small import BASE, registry

PRICE = Price(input=2.0, output=10.0, date="2026-01-01")
MODEL = ModelSpec(name="openai/m", model="m", price=PRICE)
THINKER = msgspec.structs.replace(MODEL, name="openai/t", model="t", reasoning=True)


BENCH = replace(
    BASE,
    dataset=FileDataset(files=(SourceFile(name="test.jsonl"),)),
    max_output_tokens=50,
    reasoning_output_tokens=4000,
)
TEXTS = ["Short.", "A somewhat longer note about a cough.", "x" * 900, "Fever, 39.4 degrees."]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "bench").mkdir()
    rows = [{"id": f"i{n}", "text": text} for n, text in enumerate(TEXTS)]
    (tmp_path / "bench" / "test.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return tmp_path


def plan(root: Path, model: ModelSpec = MODEL, benchmark: Benchmark = BENCH, **more: Any) -> Run:
    job = Job(
        model=model,
        benchmarks=(BenchmarkChoice(name="bench"),),
        data_dir=str(root),
        results_dir=str(root / "results"),
        **more,
    )
    known = registry(benchmark)
    (run,) = plan_runs([job], known, without_keys({}, [job], known)).runs
    return run


def estimate(root: Path, run: Run) -> RunEstimate:
    (found,) = estimate_runs([run], root / "results")
    return found


def store(
    run: Run, answers: Mapping[str, int], finish: Finish = "stop", *, is_graded: bool = False
) -> None:
    """Log answers with so many output tokens, and grade them as a finished run does."""
    folder = RunFolder(run.path)
    folder.open()
    by_id = {i.id: i for i in run.dataset.instances()}
    for key, tokens in answers.items():
        response = Response(
            instance_id=key,
            text="gold",
            finish=finish,
            usage=Usage(input_tokens=10, output_tokens=tokens),
        )
        messages = render_prompt(run.benchmark, by_id[key])
        folder.append(Episode(instance=by_id[key], messages=messages, response=response))
    folder.close()
    plan = Plan(spec=run.spec, request_hash=run.request_hash, instances=len(by_id))
    write_struct(run.path / "spec.json", plan)
    if is_graded:
        score_run(run.path, plan, run.grading, run.metrics, run.card)


def test_input_is_counted_prompt_by_prompt_and_output_bound_by_the_budget(root: Path) -> None:
    run = plan(root)
    found = estimate(root, run)
    prompts = [render_prompt(BENCH, i) for i in run.dataset.instances()]
    tokens_in = sum(map(estimate_tokens, prompts))
    assert (found.to_ask, found.answered) == (4, 0)
    assert found.input_tokens == tokens_in
    assert found.output_tokens_limit == 4 * 50
    assert found.usd_limit == pytest.approx((tokens_in * 2.0 + 200 * 10.0) / 1e6)
    # 'gold' is one token: 3 x 1 + 5 for each of four answers
    assert (found.output_tokens_expected, found.basis) == (4 * 8, "rule")
    assert found.usd_expected == pytest.approx((tokens_in * 2.0 + 32 * 10.0) / 1e6)


def test_a_model_that_thinks_is_expected_to_and_never_above_its_budget(root: Path) -> None:
    found = estimate(root, plan(root, THINKER))
    assert found.output_tokens_limit == 4 * 4000
    assert found.output_tokens_expected == 4 * (1000 + 8)
    tight = replace(BENCH, reasoning_output_tokens=300)
    assert estimate(root, plan(root, THINKER, tight)).output_tokens_expected == 4 * 300


def test_reasons_that_are_asked_for_are_expected(root: Path) -> None:
    reasons = chosen_asking(load_askings()["chain_of_thought"])
    wordy = replace(BENCH, max_output_tokens=2048)
    asked = plan(root, benchmark=wordy, ask=reasons)
    assert estimate(root, asked).output_tokens_expected == 4 * (300 + 8)
    run = plan(root, benchmark=wordy)
    store(run, {f"i{n}": 4 for n in range(4)}, is_graded=True)  # of short answers
    assert estimate(root, asked).output_tokens_expected == 4 * (300 + 8)
    few = replace(BENCH, max_output_tokens=100)
    tight = plan(root, benchmark=few, ask=msgspec.structs.replace(reasons, max_output_tokens=100))
    assert estimate(root, tight).output_tokens_expected == 4 * 200


def test_repeats_multiply_and_max_instances_cuts(root: Path) -> None:
    once = estimate(root, plan(root))
    thrice = estimate(root, plan(root, repeats=3))
    assert thrice.to_ask == 12 and thrice.input_tokens == 3 * once.input_tokens
    two = estimate(root, plan(root, max_instances=2))
    assert two.to_ask == two.instances == 2 and two.input_tokens < once.input_tokens


def test_what_is_answered_is_not_asked_again_and_failures_are(root: Path) -> None:
    run = plan(root)
    store(run, {"i0": 5, "i2": 5})
    store(run, {"i3": 0}, "error")
    found = estimate(root, run)
    assert (found.answered, found.to_ask) == (2, 2)
    left = [i for i in run.dataset.instances() if i.id in ("i1", "i3")]
    assert found.input_tokens == sum(estimate_tokens(render_prompt(BENCH, i)) for i in left)
    store(run, {"i1": 5})
    store(run, {"i3": 5}, "oversize")  # answered by a server that had cut the prompt
    done = estimate(root, run)
    assert (done.to_ask, done.usd_limit, done.usd_expected) == (0, 0.0, 0.0)


def test_stored_responses_tell_the_expected_output(root: Path) -> None:
    store(plan(root), {"i0": 10, "i1": 30}, is_graded=True)
    same = estimate(root, plan(root, seed=1))  # another run of the same model
    assert same.output_tokens_expected == 4 * 20
    assert same.basis == "mean of 2 stored responses of this model"
    other = msgspec.structs.replace(MODEL, name="openai/other", model="other")
    assert estimate(root, plan(root, other)).basis.endswith("of other models of its kind")
    assert estimate(root, plan(root, THINKER)).basis == "rule"


def test_no_expectation_is_above_the_budget(root: Path) -> None:
    store(plan(root), {"i0": 500}, is_graded=True)
    found = estimate(root, plan(root, seed=1))
    assert found.output_tokens_expected == found.output_tokens_limit == 4 * 50


def test_an_unknown_price_is_missing_and_makes_the_total_missing(root: Path) -> None:
    free = plan(root, msgspec.structs.replace(MODEL, name="openai/free", model="f", price=None))
    priced = plan(root)
    estimates = estimate_runs([free, priced], root / "results")
    assert estimates[0].usd_limit is None and estimates[0].usd_expected is None
    total = sum_up(estimates)
    assert (total.usd_limit, total.unpriced) == (None, ("openai/free",))
    assert total.input_tokens == 2 * estimates[1].input_tokens
    store(free, dict.fromkeys(["i0", "i1", "i2", "i3"], 1))
    total = sum_up(estimate_runs([free, priced], root / "results"))
    assert total.unpriced == () and total.usd_limit == pytest.approx(estimates[1].usd_limit)


def test_baselines_cost_nothing(root: Path) -> None:
    model = ModelSpec(name="baseline/random", provider="baseline", endpoint_class="local")
    found = estimate(root, plan(root, model))
    assert (found.to_ask, found.input_tokens, found.usd_limit) == (4, 0, 0.0)
    assert sum_up([found]).usd_expected == 0.0


def test_no_key_is_needed_and_nothing_is_written(root: Path) -> None:
    before = sorted(root.rglob("*"))
    estimate(root, plan(root))
    assert sorted(root.rglob("*")) == before
    named = msgspec.structs.replace(MODEL, api_key_env="HOSPITAL_KEY")
    job = Job(model=named, benchmarks=())
    none = registry()
    assert without_keys({"HOSPITAL_KEY": "", "HOME": "/h"}, [job], none)["HOSPITAL_KEY"]
    assert without_keys({"HOME": "/h"}, [job], none)["HOME"] == "/h"


def test_an_estimate_works_beside_a_running_sweep(root: Path) -> None:
    run = plan(root)
    store(run, {"i0": 5})
    folder = RunFolder(run.path)
    folder.open()
    try:
        assert estimate(root, run).to_ask == 3
    finally:
        folder.close()
