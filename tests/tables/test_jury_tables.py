"""The jury in tables: agreement, scores without a judge, self-judging, stand-ins, mixing, cost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from medhelm.config import BenchmarkChoice, Job
from medhelm.errors import UsageError
from medhelm.grading.jury.grader import judge_messages
from medhelm.models.tokens import estimate_tokens
from medhelm.plugins.registry import load_registry
from medhelm.runs.estimates import RunEstimate, sum_up
from medhelm.runs.estimation import estimate_runs, without_keys
from medhelm.runs.planning import plan_runs
from medhelm.schema.data import Criterion, Rubric
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import JUDGE, JurySpec, JuryTerms, MetricRef, Party, UsageTotals
from medhelm.stats import agreement
from medhelm.stats.intervals import jackknife
from medhelm.store.records import cluster_key, instance_key, read_record
from medhelm.tables.format import formats
from medhelm.tables.format.table import Table
from medhelm.tables.loading import load_results
from tests.build_runs import EXACT, Item, write_run
from tests.shell import Shell
from tests.tables.shown import FEW, notes, put_columns, shown

RUBRIC = Rubric(
    name="plain", version="1", task="Rate.", criteria=(Criterion(name="accuracy", text="?"),)
)
ESSAY = Path(__file__).parents[1] / "plugins" / "essay.py"
STAND_IN = "Rated by the offline jury"


def judge(name: str, **more: Any) -> ModelSpec:
    return ModelSpec(name=name, **({"model": name.split("/")[-1]} | more))


A, B, C = judge("j/a"), judge("j/b"), judge("j/c")
Given = Mapping[str, Sequence[float | None]]


def write_judged(
    results: Path,
    model: str | ModelSpec,
    given: Given,
    *,
    benchmark: str = "ward",
    judges: Sequence[ModelSpec] = (A, B, C),
    usage: Mapping[str, UsageTotals] | None = None,
    empty: int = 0,
    cluster: int = 1,
    terms: Mapping[str, Any] | None = None,
    quorum: int = 2,
    **more: Any,
) -> Path:
    """Write a run that judges have rated: values by judge, None where one abstained.

    The last `empty` instances had no answer: they count the floor, and no judge was shown them.
    """
    names = list(given)
    rows = []
    for i, own in enumerate(zip(*given.values(), strict=True)):
        heard = [v for v in own if v is not None]
        whole = fmean(heard) if len(heard) >= quorum else None
        for name, value in zip(["", *names], [whole, *own], strict=True):
            metric = f"jury[{name}]" if name else "jury"
            outcome = "unscored" if value is None else "scored"
            rows.append(row(i, metric, value, outcome, cluster))
    count = len(next(iter(given.values())))
    for i in range(count, count + empty):
        rows += [row(i, f"jury[{n}]" if n else "jury", 1.0, "empty", cluster) for n in ["", *names]]
    refs = [likert("jury"), *(likert(f"jury[{n}]") for n in names)]
    folder = write_run(results, benchmark, model, rows, metrics=refs, **more)
    record = read_record(folder)
    jury = JurySpec(name="three" if judges else "offline", judges=tuple(judges), quorum=quorum)
    rated = JuryTerms(**({"jury": jury, "rubric": RUBRIC, "version": "1"} | dict(terms or {})))
    kept = {"role": JUDGE, "served_models": {}, "is_grader": True, "ends": {"scored": 1}}
    given_usage = usage or {}
    totals = tuple(
        Party(model=j, usage=given_usage[j.name], **kept)  # type: ignore[arg-type]
        for j in judges
        if j.name in given_usage
    )
    grading = msgspec.structs.replace(record.grading, jury=rated)
    record = msgspec.structs.replace(record, grading=grading, parties=(record.own, *totals))
    (folder / "summary.json").write_bytes(msgspec.json.encode(record))
    return folder


def row(i: int, metric: str, value: float | None, outcome: str, cluster: int) -> Item:
    group = None if cluster == 1 else f"note-{i // cluster}"
    return Item(id=f"i{i:03d}", value=value, outcome=outcome, metric=metric, cluster=group)


def likert(name: str) -> MetricRef:
    return msgspec.structs.replace(EXACT, name=name, minimum=1.0, maximum=5.0, floor=1.0)


def table(results: Path) -> Table:
    return shown(results, "jury")


def rows_of(t: Table, level: str, **wanted: Any) -> list[Mapping[str, Any]]:
    wanted = {"level": level} | wanted
    return [r for r in t.rows if all(r[k] == v for k, v in wanted.items())]


def one(t: Table, level: str, **wanted: Any) -> Mapping[str, Any]:
    (found,) = rows_of(t, level, **wanted)
    return found


def noise(seed: int, n: int, k: int = 3) -> dict[str, list[float | None]]:
    """Ratings of k judges that share the quality of an answer and err on their own."""
    rng = random.Random(seed)
    truth = [rng.uniform(1.5, 4.5) for _ in range(n)]
    return {
        f"j/{'abcdef'[j]}": [float(min(5, max(1, round(t + rng.gauss(0, 0.8))))) for t in truth]
        for j in range(k)
    }


# Scores and ranks without a judge -------------------------------------------------------------


def test_scores_and_ranks_without_each_judge_by_hand(tmp_path: Path) -> None:
    write_judged(tmp_path, "m/x", {"j/a": [5, 5], "j/b": [2, 2], "j/c": [2, 4]})
    write_judged(tmp_path, "m/y", {"j/a": [1, 1], "j/b": [3, 3], "j/c": [3, 5]})
    t = table(tmp_path)
    x, y = one(t, "model", model="m/x"), one(t, "model", model="m/y")
    assert (x["score"], y["score"]) == (pytest.approx(20 / 6), pytest.approx(16 / 6))
    assert (x["rank"], x["rank_best"], x["rank_worst"]) == (1, 1, 2)
    assert (y["rank"], y["rank_best"], y["rank_worst"]) == (2, 1, 2)
    without = {(r["model"], r["judge"]): (r["score"], r["rank"]) for r in rows_of(t, "left out")}
    assert without == {
        ("m/x", "j/a"): (2.5, 2),
        ("m/x", "j/b"): (4.0, 1),
        ("m/x", "j/c"): (3.5, 1),
        ("m/y", "j/a"): (3.5, 1),
        ("m/y", "j/b"): (2.5, 2),
        ("m/y", "j/c"): (2.0, 2),
    }
    assert (x["score_least"], x["score_most"]) == (2.5, 4.0)
    assert one(t, "judge", judge="j/a")["rank_shift"] == 1
    assert one(t, "judge", judge="j/b")["rank_shift"] == 0
    assert one(t, "judge", judge="j/c")["score"] == 3.5  # mean of 2, 4, 3, 5


def test_the_score_of_the_whole_jury_is_that_of_the_other_tables(tmp_path: Path) -> None:
    for m in (1, 2):
        write_judged(tmp_path, f"m/{m}", noise(m, 40), cluster=4)
    results = load_results(tmp_path)
    rated = {r["model"]: r for r in rows_of(results.typed("jury", FEW), "model")}
    for r in results.typed("benchmarks", FEW).rows:
        own = rated[r["model"]]
        assert [own[c] for c in ("score", "low", "high", "n")] == [
            r[c] for c in ("score", "low", "high", "n")
        ]


def test_an_abstention_leaves_the_others_and_costs_all_models_the_same_instances(
    tmp_path: Path,
) -> None:
    # on i1 only a and b rated x; without a, b alone is left there
    write_judged(tmp_path, "m/x", {"j/a": [4, 4], "j/b": [2, 1], "j/c": [3, None]})
    write_judged(tmp_path, "m/y", {"j/a": [5, 5], "j/b": [5, 5], "j/c": [5, 5]})
    t = table(tmp_path)
    left = one(t, "left out", model="m/x", judge="j/a")
    assert (left["score"], left["n"]) == (pytest.approx((2.5 + 1) / 2), 2)
    # without a and b nobody is left on i1: with one more abstention i1 goes for both models
    write_judged(tmp_path, "m/x", {"j/a": [4, 4], "j/b": [2, None], "j/c": [3, None]}, quorum=1)
    write_judged(tmp_path, "m/y", {"j/a": [5, 1], "j/b": [5, 1], "j/c": [5, 1]}, quorum=1)
    t = load_results(tmp_path, latest=True).typed("jury", FEW)
    x, y = (one(t, "left out", model=m, judge="j/a") for m in ("m/x", "m/y"))
    assert (x["n"], x["score"]) == (1, 2.5)
    assert (y["n"], y["score"]) == (1, 5.0)
    assert one(t, "model", model="m/x")["n"] == 2


def write_repeated(results: Path, model: str, given: Given, quorum: int = 2) -> None:
    """Write a run of two answers to each instance, those of one side by side in `given`."""
    folder = write_judged(results, model, given, quorum=quorum, repeats=2)
    count = len(next(iter(given.values())))
    table = pq.read_table(folder / "scores.parquet")
    places = [int(name[1:]) for name in table["instance_id"].to_pylist()]
    names = [f"i{place // 2:03d}" for place in places]
    put_columns(
        folder,
        instance_id=names,
        instance_key=[instance_key(name) for name in names],
        cluster_key=[cluster_key(name, None) for name in names],
        repeat=[place % 2 for place in places],
    )
    record = msgspec.structs.replace(read_record(folder), instances=count // 2)
    (folder / "summary.json").write_bytes(msgspec.json.encode(record))


def test_repeats_are_averaged_after_the_judges_with_and_without_one(tmp_path: Path) -> None:
    # i0: a is silent on the second answer; i1: all rate both
    write_repeated(
        tmp_path, "m/x", {"j/a": [5, None, 4, 4], "j/b": [1, 1, 2, 2], "j/c": [3, 3, 3, 3]}
    )
    t = table(tmp_path)
    assert one(t, "model")["score"] == pytest.approx((fmean([3, 2]) + 3) / 2)
    found = {r["judge"]: r["score"] for r in rows_of(t, "left out")}
    # without c the second answer to i0 is b's alone: (3 + 1) / 2, not (5 + 1) / 2
    assert found["j/c"] == pytest.approx((fmean([3, 1]) + 3) / 2)
    assert found["j/a"] == pytest.approx((2 + 2.5) / 2)
    assert found["j/b"] == pytest.approx((fmean([4, 3]) + 3.5) / 2)
    assert {r["n"] for r in rows_of(t, "left out")} == {2}


def test_agreement_is_of_single_answers_not_of_means_over_repeats(tmp_path: Path) -> None:
    given = noise(3, 40)
    write_repeated(tmp_path, "m/x", given)
    ratings = np.array(list(zip(*given.values(), strict=True)))
    found = one(table(tmp_path), "agreement")
    assert (found["n"], found["n_complete"]) == (40, 40)
    assert found["alpha"] == pytest.approx(agreement.krippendorff_alpha(ratings, "interval"))
    assert found["icc_single"] == pytest.approx(agreement.icc2(ratings)[0])
    averaged = ratings.reshape(20, 2, 3).mean(axis=1)
    assert agreement.krippendorff_alpha(averaged, "interval") != pytest.approx(found["alpha"])


def test_answers_below_the_quorum_are_in_no_score_without_a_judge(tmp_path: Path) -> None:
    # one of four answers has one verdict only, so that the model covers 75 % and is not ranked
    write_judged(
        tmp_path, "m/x", {"j/a": [4, 4, 4, 1], "j/b": [2, 2, 2, None], "j/c": [3, 3, 3, None]}
    )
    t = table(tmp_path)
    assert (one(t, "model")["n"], one(t, "model")["score"]) == (3, 3.0)
    found = {r["judge"]: (r["n"], r["score"]) for r in rows_of(t, "left out")}
    assert found == {"j/a": (3, 2.5), "j/b": (3, 3.5), "j/c": (3, 3.0)}


def test_parts_weigh_the_same_without_a_judge_too(tmp_path: Path) -> None:
    folder = write_judged(tmp_path, "m/x", {"j/a": [5, 5, 5], "j/b": [1, 1, 4], "j/c": [3, 3, 3]})
    spoil(folder)
    t = table(tmp_path)
    # parts: i0, i1 in the first, i2 in the second; without a: means 2, 2 and 3.5
    assert one(t, "left out", judge="j/a")["score"] == pytest.approx((2 + 3.5) / 2)
    assert one(t, "model")["score"] == pytest.approx((3 + 4) / 2)


def spoil(folder: Path) -> None:
    """Make a run one of two parts: instances i0 and i1 in the first, i2 in the second."""
    record = read_record(folder)
    metrics = tuple(
        msgspec.structs.replace(m, aggregation="mean_of_parts") for m in record.grading.metrics
    )
    grading = msgspec.structs.replace(record.grading, metrics=metrics, parts=("p", "q"))
    record = msgspec.structs.replace(record, grading=grading)
    (folder / "summary.json").write_bytes(msgspec.json.encode(record))
    scores = pq.read_table(folder / "scores.parquet")
    sums = [
        [("sum/p", 0.0 if i == "i002" else v), ("count/p", float(i != "i002"))]
        + [("sum/q", v if i == "i002" else 0.0), ("count/q", float(i == "i002"))]
        for i, v in zip(scores["instance_id"].to_pylist(), scores["value"].to_pylist(), strict=True)
    ]
    put_columns(folder, sums=sums)


def test_one_judge_alone_has_no_agreement_and_cannot_be_left_out(tmp_path: Path) -> None:
    for m in "xy":
        write_judged(tmp_path, f"m/{m}", {"j/a": [4, 2]}, judges=(A,), quorum=1)
    t = table(tmp_path)
    assert one(t, "agreement")["alpha"] is None and one(t, "agreement")["n"] == 0
    assert [r["score"] for r in rows_of(t, "left out")] == [None, None]
    assert one(t, "model", model="m/x")["rank"] == 1


# Agreement ----------------------------------------------------------------------------------


def test_agreement_is_that_of_the_pure_functions_over_the_answers_of_all_models(
    tmp_path: Path,
) -> None:
    given = [noise(m, 30) for m in (1, 2)]
    given[0]["j/c"][3] = None
    for m, own in enumerate(given):
        write_judged(tmp_path, f"m/{m}", own)
    ratings = np.array(
        [[np.nan if v is None else v for v in r] for own in given for r in zip(*own.values())]  # noqa: B905
    )
    single, mean = agreement.icc2(ratings)
    found = one(table(tmp_path), "agreement")
    assert (found["judges"], found["judges_heard"]) == (3, 3)
    assert (found["n"], found["n_complete"]) == (60, 59)
    assert found["alpha"] == pytest.approx(agreement.krippendorff_alpha(ratings, "interval"))
    assert found["icc_single"] == pytest.approx(single)
    assert found["icc_mean"] == pytest.approx(mean)
    pairs = [p[:, ~np.isnan(p).any(0)] for p in map(np.array, itertools.combinations(ratings.T, 2))]
    r = np.mean([np.corrcoef(p)[0, 1] for p in pairs])
    assert found["correlation"] == pytest.approx(r)
    assert found["effective_votes"] == pytest.approx(3 / (1 + 2 * r))
    assert found["alpha_low"] < found["alpha"] < found["alpha_high"]
    assert found["icc_mean_low"] < found["icc_mean"] < found["icc_mean_high"]


def test_judges_that_say_the_same_are_one_vote_and_agree(tmp_path: Path) -> None:
    same = [1.0, 3.0, 5.0, 2.0]
    write_judged(tmp_path, "m/x", {"j/a": same, "j/b": same, "j/c": same})
    found = one(table(tmp_path), "agreement")
    for name in ("alpha", "icc_single", "icc_mean", "effective_votes"):
        assert found[name] == pytest.approx(1), name
    assert found["alpha_low"] is None  # at its end there is no interval


def test_answers_that_nobody_was_shown_make_no_agreement(tmp_path: Path) -> None:
    given = noise(1, 20)
    write_judged(tmp_path / "some", "m/x", given, empty=10)
    write_judged(tmp_path / "none", "m/x", given)
    some, none = (one(table(tmp_path / f), "agreement") for f in ("some", "none"))
    assert some == none and (some["shown"], some["coverage"]) == (20, 1.0)
    rated = one(table(tmp_path / "some"), "model")
    assert rated["n"] == 30 and rated["score"] < one(table(tmp_path / "none"), "model")["score"]


def test_coverage_of_each_judge_is_over_all_answers_it_was_shown(tmp_path: Path) -> None:
    write_judged(
        tmp_path,
        "m/x",
        {"j/a": [4, 4, 4, 2], "j/b": [2, 3, None, None], "j/c": [None] * 4},
        empty=1,
    )
    t = table(tmp_path)
    found = {r["judge"]: (r["rated"], r["shown"], r["coverage"]) for r in rows_of(t, "judge")}
    assert found == {"j/a": (4, 4, 1.0), "j/b": (2, 4, 0.5), "j/c": (0, 4, 0.0)}
    own = one(t, "agreement")
    assert (own["rated"], own["shown"], own["judges"], own["judges_heard"]) == (2, 4, 3, 2)
    assert "compared answers: ward: j/c." in notes(t)


@pytest.mark.slow
def test_neither_judges_nor_models_make_an_interval_shorter(tmp_path: Path) -> None:
    given = noise(1, 60, k=2)
    for name, judges in (("two", (A, B)), ("four", (A, B, C, judge("j/d")))):
        values = [given["j/a"], given["j/b"]] * (len(judges) // 2)
        own = dict(zip([j.name for j in judges], values, strict=True))
        write_judged(tmp_path / name, "m/x", own, judges=judges)
    two, four = (one(table(tmp_path / n), "model") for n in ("two", "four"))
    assert (two["low"], two["high"]) == (four["low"], four["high"])
    # the same answers of ten models tell no more of how judges agree than those of one
    for m in range(10):
        write_judged(tmp_path / "models", f"m/{m}", given, judges=(A, B))
    alone, ten = (one(table(tmp_path / n), "agreement") for n in ("two", "models"))
    assert ten["n"] == 10 * alone["n"]
    assert width(ten, "icc_single") == pytest.approx(width(alone, "icc_single"), rel=0.1)
    assert width(ten, "alpha") == pytest.approx(width(alone, "alpha"), rel=0.1)


def width(row: Mapping[str, Any], name: str) -> float:
    return float(row[f"{name}_high"] - row[f"{name}_low"])


def test_clusters_are_left_out_whole(tmp_path: Path) -> None:
    given = noise(1, 15)
    copied = {j: [v for v in values for _ in range(4)] for j, values in given.items()}
    write_judged(tmp_path / "plain", "m/x", given)
    write_judged(tmp_path / "notes", "m/x", copied, cluster=4)
    plain, notes = (one(table(tmp_path / n), "agreement") for n in ("plain", "notes"))
    assert width(notes, "icc_single") == pytest.approx(width(plain, "icc_single"), rel=0.15)


def test_the_jackknife_by_hand() -> None:
    values = np.array([0.1, 0.2, 0.6])
    (found,) = jackknife(lambda rows: [values[rows].mean()], np.arange(3), 0.95)
    z = np.arctanh([0.4, 0.35, 0.15])  # means without the first, the second, the third
    half = 4.302653 * np.sqrt(2 / 3 * np.sum((z - z.mean()) ** 2))
    assert found.low == pytest.approx(np.tanh(np.arctanh(0.3) - half))
    assert found.high == pytest.approx(np.tanh(np.arctanh(0.3) + half))
    (none,) = jackknife(lambda rows: [values[rows].mean()], np.array([0, 0, 1]), 0.95)
    assert (none.low, none.method) == (None, "none (fewer than 3 clusters)")


# A judge that judges itself -------------------------------------------------------------------


def test_a_model_that_judges_itself_is_flagged_and_scored_by_the_others(tmp_path: Path) -> None:
    given: Given = {"j/a": [5, 5], "j/b": [2, 3], "j/c": [3, 4]}
    write_judged(tmp_path, A, given)
    write_judged(tmp_path, msgspec.structs.replace(B, name="renamed"), given)
    write_judged(tmp_path, msgspec.structs.replace(C, base_url="http://localhost:1/v1"), given)
    write_judged(tmp_path, "m/other", given)
    results = load_results(tmp_path)
    t = results.typed("jury", FEW)
    found = {r["model"]: (r["own"], r["score_without_own"]) for r in rows_of(t, "model")}
    assert found == {
        "j/a": ("j/a", 3.0),
        "renamed": ("j/b", 4.25),
        "j/c": ("j/c", 3.75),  # by name, wherever it is served
        "m/other": (None, None),
    }
    assert one(t, "judge", judge="j/b")["own"] == "renamed"
    assert {r["judge"] for r in rows_of(t, "left out", is_own=True, model="renamed")} == {"j/b"}
    assert "family too: j/a, j/c, renamed." in " ".join(t.notes)
    flags = {r["model"]: r["flags"] for r in results.typed("benchmarks", FEW).rows}
    assert flags["renamed"] == "self" and flags["m/other"] == ""
    assert "S self: " in " ".join(results.typed("overall", FEW).notes)


HOST = "https://host.example/v1"
SCRIPTED = {"provider": "scripted"}
SOL = {"name": "openai/gpt-6.1-sol", "model": "gpt-6.1-sol"}


@pytest.mark.parametrize(
    ("asked", "rated", "flag"),
    [
        (SOL, SOL | {"name": "house/sol", "base_url": HOST, "model": "vendor/GPT-6.1-sol"}, "self"),
        (SOL, SOL | {"name": "house/sol", "base_url": HOST, "model": "gpt-6.1-terra"}, "family"),
        (SOL, {"name": "openai/o3-mini-2025-01-31"}, "family"),
        (SOL, {"name": "house/ward", "model": "ward-7b", "family": "GPT"}, "family"),
        (SOL, {"name": "house/gpt", "model": "gpt-neo", "family": "neo"}, ""),
        # a name only
        (SOL, SOL | {"name": "h/s", "base_url": "http://[::1]/v1", "endpoint_class": "local"}, "family"),
        # distilled
        ({"name": "x", "model": "Qwen/Qwen3-8B"}, {"name": "y", "model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"}, "family"),
        ({"name": "x", "model": "google/medgemma-4b-it"}, {"name": "google/gemini-3.8-flash"}, "family"),
        ({"name": "x", "model": "grok-4"}, {"name": "y", "model": "xai/grok-5-fast"}, "family"),
        ({"name": "x", "model": "grok-4"}, {"name": "y", "model": "claude-opus-5-5"}, ""),
        # without an address
        ({"name": "s/a", **SCRIPTED}, {"name": "s/c", **SCRIPTED}, ""),
    ],
)  # fmt: skip
def test_a_judge_is_known_whoever_serves_it(
    asked: dict[str, Any], rated: dict[str, Any], flag: str, tmp_path: Path
) -> None:
    judges = [ModelSpec(**asked), ModelSpec(**asked | {"name": "j/b", "model": "b"})]
    given: Given = {j.name: [3, 4] for j in judges}
    write_judged(tmp_path, ModelSpec(**rated), given, judges=judges)
    assert one(table(tmp_path), "model")["is_own"] is (flag != "")
    (row,) = shown(tmp_path, "benchmarks").rows
    assert row["flags"] == flag


def test_a_judge_that_adds_a_point_to_its_family_stands_out(tmp_path: Path) -> None:
    """Three models, each with a judge of its family; the first judge adds a point to its own."""
    judges = [judge(f"j/{n}", model=n) for n in ("gpt-6", "claude-5", "gemini-3")]
    for m, name in enumerate(("gpt-5", "claude-4", "gemini-2")):
        given: Given = {own.name: [3 + (m == j == 0), 2] for j, own in enumerate(judges)}
        write_judged(tmp_path, name, given, judges=judges)
    t = table(tmp_path)
    found = {
        r["model"]: (r["own"], r["score"], r["score_without_own"]) for r in rows_of(t, "model")
    }
    assert found["gpt-5"] == ("j/gpt-6", pytest.approx(2.5 + 1 / 6), 2.5)
    assert found["claude-4"] == ("j/claude-5", 2.5, 2.5)
    notes = " ".join(shown(tmp_path, "overall").notes)
    assert "F family: " in notes


# The stand-in ---------------------------------------------------------------------------------


@pytest.fixture
def offline(tmp_path: Path) -> Path:
    for m in "xy":
        given: Given = {f"offline/{j}": [3, 4, 5] for j in ("overlap", "rouge_l", "readability")}
        write_judged(tmp_path, f"m/{m}", given, judges=())
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "form"),
    [("overall", "terminal"), ("jury", "csv"), ("compare", "csv"), ("benchmarks", "csv")],
)
def test_the_offline_jury_is_called_a_stand_in(
    offline: Path, name: str, form: str, shell: Shell
) -> None:
    what = ["compare", "m/x", "m/y"] if name == "compare" else ["tables", "--table", name]
    out = shell(*what, "--results-dir", offline, "--format", form, "--draws", "50")
    said = " ".join((shell.err if form == "csv" else out).split())
    assert STAND_IN in said and "say nothing about quality: ward." in said


def test_rows_of_a_stand_in_say_so_themselves(offline: Path) -> None:
    results = load_results(offline)
    assert {r["is_stand_in"] for r in results.typed("jury", FEW).rows} == {True}
    assert {r["jury"] for r in results.typed("benchmarks", FEW).rows} == {"offline"}


def test_no_stand_in_where_models_judge(tmp_path: Path) -> None:
    write_judged(tmp_path, "m/x", noise(1, 5))
    results = load_results(tmp_path)
    for name in ("overall", "benchmarks", "jury"):
        assert STAND_IN not in " ".join(results.typed(name, FEW).notes)
    assert {r["jury"] for r in results.typed("benchmarks", FEW).rows} == {"three"}


# What cannot stand in one column --------------------------------------------------------------

GIVEN: Given = {"j/a": [3, 4], "j/b": [3, 5], "j/c": [2, 2]}


OTHER: dict[str, dict[str, Any]] = {
    "judges: j/a, j/b, j/c and j/a, j/b;": {"judges": (A, B)},
    "judges: j/a, j/b, j/c and the offline graders;": {"judges": ()},
    "rubric: plain": {"terms": {"rubric": msgspec.structs.replace(RUBRIC, version="2")}},
    "prompt: 1 and 2;": {"terms": {"version": "2"}},
    "quorum of the jury: 2 and 3;": {"quorum": 3},
    "settings of judge j/c": {"judges": (A, B, msgspec.structs.replace(C, model="c-2"))},
}


@pytest.mark.parametrize("says", OTHER)
def test_runs_of_different_juries_are_refused(tmp_path: Path, says: str) -> None:
    write_judged(tmp_path, "m/x", GIVEN)
    write_judged(tmp_path, "m/y", GIVEN, **OTHER[says])
    with pytest.raises(UsageError) as e:
        load_results(tmp_path)
    assert says in str(e.value) and "jury=NAME" in str(e.value) and "\n" not in str(e.value)
    assert "m/x (runs/ward/m__x/" in str(e.value)
    load_results(tmp_path, models=["m/y"])


def test_another_price_of_a_judge_is_no_other_jury(tmp_path: Path) -> None:
    write_judged(tmp_path, "m/x", GIVEN)
    dearer = msgspec.structs.replace(A, price=Price(input=9, output=9, date="2026-01-01"))
    write_judged(tmp_path, "m/y", GIVEN, judges=(dearer, B, C))
    assert len(rows_of(table(tmp_path), "model")) == 2


# What text formats show -----------------------------------------------------------------------


def test_without_a_jury_the_table_says_so(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "m/x", [Item(id="i", value=1.0)])
    t = table(tmp_path)
    assert t.rows == () and "rated by a jury" in notes(t)


# Cost -----------------------------------------------------------------------------------------


def used(**more: int) -> UsageTotals:
    return UsageTotals(
        **({"requests": 4, "input_tokens": 1_000_000, "output_tokens": 100_000} | more)
    )


def test_the_judges_stand_beside_the_answers_in_the_cost(tmp_path: Path) -> None:
    price = Price(input=2.0, output=10.0, cached=1.0, date="2026-01-01")
    judges = [msgspec.structs.replace(j, price=price) for j in (A, B, C)]
    usage = {
        "j/a": used(cached_tokens=500_000, output_limit_tokens=400_000),
        "j/b": used(output_limit_tokens=400_000, reasoning_tokens=7),
        "j/c": UsageTotals(),  # nothing was sent to it
    }
    model = ModelSpec(name="m/x", price=Price(input=1.0, output=1.0, date="2026-01-01"))
    write_judged(tmp_path, model, GIVEN, judges=judges, usage=usage)
    own = used(output_limit_tokens=1_000_000)
    write_run(tmp_path, "closed", model, [Item(id="i", value=1.0)], usage=own)
    results = load_results(tmp_path)
    (found,) = results.typed("cost", FEW).rows
    assert (found["cost_usd"], found["cost_upper_usd"]) == (pytest.approx(1.1), pytest.approx(2.0))
    assert found["jury_cost_usd"] == pytest.approx(0.5 * 2 + 0.5 * 1 + 1 + 2 + 1)
    assert found["jury_cost_upper_usd"] == pytest.approx(2 * (2 + 4))
    assert found["total_cost_usd"] == pytest.approx(1.1 + 5.5)
    assert found["total_cost_upper_usd"] == pytest.approx(2 + 12)
    assert (found["jury_requests"], found["jury_input_tokens"]) == (8, 2_000_000)
    assert found["jury_reasoning_tokens"] == 7
    (overall,) = results.typed("overall", FEW).rows
    assert overall["total_cost_usd"] == found["total_cost_usd"]
    text = formats.to_terminal([results.typed("cost", FEW)], 150)
    assert "jury USD" in text and "6.60" in text and "14.00" in text


def test_a_judge_of_unknown_price_makes_the_cost_missing_never_zero(tmp_path: Path) -> None:
    price = Price(input=2.0, output=10.0, date="2026-01-01")
    judges = (msgspec.structs.replace(A, price=price), B, C)
    model = ModelSpec(name="m/x", price=price)
    write_judged(tmp_path, model, GIVEN, judges=judges, usage={"j/a": used(), "j/b": used()})
    t = shown(tmp_path, "cost")
    (found,) = t.rows
    assert found["cost_usd"] == 0.0  # nothing was sent to the model in this made-up run
    assert found["jury_cost_usd"] is None and found["total_cost_usd"] is None
    assert found["total_cost_upper_usd"] is None and found["jury_input_tokens"] == 2_000_000
    assert "unknown price: j/b." in notes(t)
    assert "jury USD" in formats.to_terminal([t], 160)


def test_baselines_send_nothing_beside_priced_judges(tmp_path: Path) -> None:
    price = Price(input=2.0, output=10.0, date="2026-01-01")
    judges = [msgspec.structs.replace(j, price=price) for j in (A, B, C)]
    for model in ("baseline/lead", ModelSpec(name="m/x", price=price)):
        write_judged(tmp_path, model, GIVEN, judges=judges, usage={"j/a": used()})
    t = shown(tmp_path, "cost")
    lead, _, every = t.rows
    assert (lead["cost_usd"], lead["total_cost_usd"]) == (None, pytest.approx(3.0))
    assert (every["level"], every["total_cost_usd"]) == ("all", pytest.approx(6.0))


def test_without_judges_the_cost_table_has_no_column_of_them(tmp_path: Path) -> None:
    model = ModelSpec(name="m/x", price=Price(input=2.0, output=10.0, date="2026-01-01"))
    write_run(tmp_path, "x", model, [Item(id="i", value=1.0)], usage=used())
    t = shown(tmp_path, "cost")
    assert t.rows[0]["jury_requests"] is None and t.rows[0]["jury_cost_usd"] is None
    assert t.rows[0]["total_cost_usd"] == t.rows[0]["cost_usd"] == pytest.approx(3.0)
    assert all("jury" not in c.heading and "total" not in c.heading for c in t.grids()[0].shown())


def test_unknown_usage_of_a_judge_is_flagged(tmp_path: Path) -> None:
    write_judged(tmp_path, "m/x", GIVEN, usage={"j/a": used(unknown=1)})
    (found,) = shown(tmp_path).rows
    assert found["flags"] == "usage"


# Estimates ------------------------------------------------------------------------------------

PRICE = Price(input=2.0, output=10.0, date="2026-01-01")


def estimate(results: Path, *judges: ModelSpec | str, **more: Any) -> RunEstimate:
    registry = load_registry([str(ESSAY)])
    job = Job(
        model=ModelSpec(name="m/x", model="x", endpoint_class="local", price=PRICE),
        benchmarks=(BenchmarkChoice(name="essay"),),
        data="sample",
        results_dir=str(results),
        jury=JurySpec(name="three", judges=judges, quorum=1, **more) if judges else None,
        controls=0,
    )
    runs = plan_runs([job], registry, without_keys({}, [job], registry)).runs
    (found,) = estimate_runs(runs, results)
    return found


def local(name: str, **more: Any) -> ModelSpec:
    return judge(name, endpoint_class="local", **({"price": PRICE} | more))


def test_every_answer_is_judged_once_by_each_judge_and_repaired_as_often_as_is_said(
    tmp_path: Path,
) -> None:
    limits: dict[str, Any] = {"max_output_tokens": 100, "reasons": False}
    found = estimate(tmp_path, local("j/a"), local("j/b"), repairs=2, **limits)
    assert found.jury == "three" and found.to_ask == 12
    a, b = found.judges
    assert (a.judge, a.calls, a.calls_limit) == ("j/a", 12, 36)
    assert a.output_tokens_limit == 36 * 100
    # {"accuracy": 0, "completeness": 0, "clarity": 0}
    assert 12 * 15 < a.output_tokens_expected < 12 * 30
    assert a.input_tokens_limit - a.input_tokens_expected > 12 * 256
    assert a.usd_limit == pytest.approx((a.input_tokens_limit * 2 + 3600 * 10) / 1e6)
    assert a.usd_expected == pytest.approx(
        (a.input_tokens_expected * 2 + a.output_tokens_expected * 10) / 1e6
    )
    totals = sum_up([found])
    assert (totals.judge_calls, totals.judge_calls_limit) == (24, 72)
    assert totals.jury_usd_limit == pytest.approx(2 * (a.usd_limit or 0))
    assert totals.total_usd_limit == pytest.approx((found.usd_limit or 0) + 2 * (a.usd_limit or 0))
    once = estimate(tmp_path, local("j/a"), repairs=0, **limits).judges[0]
    assert once.calls_limit == once.calls == 12 and once.output_tokens_limit == 1200
    # the prompt of the judge with an answer at the model's own output limit, 256 tokens
    assert once.input_tokens_limit - once.input_tokens_expected < 12 * 256


def test_a_judge_that_thinks_has_its_own_budget(tmp_path: Path) -> None:
    (found,) = estimate(tmp_path, local("j/t", reasoning=True), repairs=0).judges
    assert found.output_tokens_limit == 12 * 8192
    # 1,000 for the thought, 40 for each of three reasons, 15 to 30 for the rest of the object
    assert 12 * 1135 < found.output_tokens_expected < 12 * 1150


def test_a_judge_of_unknown_price_is_named_and_makes_the_total_missing(tmp_path: Path) -> None:
    totals = sum_up([estimate(tmp_path, local("j/a"), local("j/b", price=None))])
    assert totals.unpriced == ("j/b",)
    assert totals.usd_limit is not None
    assert totals.jury_usd_limit is None and totals.total_usd_expected is None


def test_the_offline_jury_asks_nothing(tmp_path: Path) -> None:
    found = estimate(tmp_path)
    assert (found.jury, found.judges) == ("offline", ())
    totals = sum_up([found])
    assert (totals.judge_calls, totals.jury_usd_limit) == (0, 0.0)
    assert totals.total_usd_limit == totals.usd_limit


def test_what_is_judged_already_is_not_counted(tmp_path: Path) -> None:
    import medhelm

    good = '{"accuracy": 5, "completeness": 4, "clarity": 3}'
    first, second = (
        local(f"s/{n}", provider="scripted", extra_body={"default": good}) for n in "ab"
    )
    model = ModelSpec(
        name="m/s",
        provider="scripted",
        endpoint_class="local",
        extra_body={"default": "Rest, fluids, and a visit if the fever stays."},
    )
    jury = JurySpec(name="one", judges=(first,), quorum=1)
    asked: dict[str, Any] = {"plugins": ESSAY, "results_dir": tmp_path, "controls": 0}
    medhelm.evaluate(model, "essay", data="sample", jury=jury, **asked)
    registry = load_registry([str(ESSAY)])
    job = Job(
        model=model,
        benchmarks=(BenchmarkChoice(name="essay"),),
        data="sample",
        results_dir=str(tmp_path),
        jury=JurySpec(name="two", judges=(first, second), quorum=1, repairs=2),
        controls=0,
    )
    (run,) = plan_runs([job], registry, without_keys({}, [job], registry)).runs
    (found,) = estimate_runs([run], tmp_path)
    old, new = found.judges
    assert found.to_ask == 0 and old.calls == 0 and new.calls == 12
    terms = run.grading.jury
    assert terms is not None
    text = model.extra_body["default"]
    prompts = [
        estimate_tokens(judge_messages(terms.rubric, i, text, terms.instruction))
        for i in run.dataset.instances()
    ]
    assert new.input_tokens_expected == sum(prompts)  # the stored texts, not a guess
    assert sum_up([found]).judge_calls == 12


@pytest.mark.slow
def test_estimate_says_how_many_judge_calls(here: Path, shell: Shell) -> None:
    asked = (
        "estimate model=openai/gpt-4o-2024-05-13 benchmark=mediqa_qa data=sample max_instances=2"
    )
    words = (*asked.split(), "controls=0")
    out = shell(*words, "jury=paper")
    for said in ("Judges: 6 calls", "max: 18 calls", "Answers and judges together:"):
        assert said in out
    for name in ("anthropic/claude-3-7-sonnet-20250219", "meta/llama-3.3-70b-instruct"):
        assert name in out
    document = shell.json(*words, "jury=paper")
    assert document["total"]["judge_calls"] == 6
    assert len(document["runs"][0]["judges"]) == 3
    assert "offline jury, a stand-in" in shell(*words)
