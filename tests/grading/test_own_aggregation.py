"""A third party's metric with an aggregation of its own: a ratio of two named sums."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import medhelm
from medhelm.errors import PluginError
from medhelm.plugins.registry import load_registry
from medhelm.schema.aggregation import Aggregation
from medhelm.stats.aggregation import Pooling
from medhelm.stats.intervals import bootstrap, cluster_sums
from medhelm.store.records import find_gradings
from tests.poolings import pooling
from tests.quiz import PLUGIN, at, write_quiz
from tests.shell import Shell

pytestmark = pytest.mark.slow

FOUND = """
from dataclasses import dataclass

from medhelm import Aggregation, Instance, Metric, Response, Score, hookimpl

FOUND = Aggregation(name="found", sums=("right", "due"), of=lambda s: s["right"] / s["due"])


@dataclass(frozen=True, kw_only=True)
class Found(Metric):
    name: str = "found"
    aggregation: Aggregation = FOUND

    def score(self, instance: Instance, response: Response) -> Score:
        place = int(instance.id[1:])
        due = 1 + place % 5
        right = due if response.text.strip() == instance.references[0] else place % 2
        return Score(value=right / due, sums={"due": due, "right": right})


@hookimpl
def medhelm_metrics() -> list[Metric]:
    return [Found()]
"""


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of the quiz, graded by the pooled ratio too, and its plugin."""
    folder = tmp_path_factory.mktemp("found")
    (folder / "found.py").write_text(FOUND)
    data = write_quiz(folder, 60)
    medhelm.evaluate(["baseline/random", "baseline/first_option"], "quiz", **at(folder))
    medhelm.score(
        folder / "results", metrics="found", data_dir=data, plugins=[PLUGIN, folder / "found.py"]
    )
    return folder


def counts(folder: Path, model: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return (right, due) of each instance by the plain score and the number in the id."""
    rows = []
    for grading in find_gradings(folder / "results"):
        if grading.parents[2].name != model.replace("/", "__"):
            continue
        for row in pq.read_table(grading / "scores.parquet").to_pylist():
            if row["metric"] != "exact_match":
                continue
            place = int(row["instance_id"][1:])
            due = 1 + place % 5
            rows.append((due if row["value"] == 1.0 else place % 2, due, place))
    return np.array(sorted(set(rows), key=lambda r: r[2]), dtype=float)[:, :2]


def test_value_and_interval_of_a_pooled_ratio(graded: Path) -> None:
    results = medhelm.load_results(
        graded / "results", latest=True, plugins=[str(PLUGIN), str(graded / "found.py")]
    )
    table = results.table("benchmarks", metrics="all", draws=4000)
    for model in ("baseline/random", "baseline/first_option"):
        own = counts(graded, model)
        assert len(own) == 60
        wanted = own[:, 0].sum() / own[:, 1].sum()
        assert wanted != pytest.approx(np.mean(own[:, 0] / own[:, 1]), abs=1e-3)
        (row,) = table[(table.model == model) & (table.metric == "found")].to_dict("records")
        assert row["score"] == pytest.approx(wanted, abs=1e-12)
        rng = np.random.default_rng(9)
        drawn = own[rng.integers(0, 60, size=(20_000, 60))].sum(1)
        t = scipy.stats.t.ppf(0.975, 59) * np.sqrt(60 / 59)
        tail = scipy.stats.norm.cdf(-t)
        ends = np.quantile(drawn[:, 0] / drawn[:, 1], [tail, 1 - tail])
        assert [row["low"], row["high"]] == pytest.approx(ends, abs=0.012)
        error = (drawn[:, 0] / drawn[:, 1]).std(ddof=1)
        assert row["standard_error"] == pytest.approx(error, rel=0.06)


def test_scores_hold_the_sums_by_name_and_means_hold_none(graded: Path) -> None:
    seen = set()
    for grading in find_gradings(graded / "results"):
        for row in pq.read_table(grading / "scores.parquet").to_pylist():
            seen.add((row["metric"], tuple(name for name, _ in row["sums"])))
            if row["metric"] == "found":
                assert dict(row["sums"])["due"] == 1 + int(row["instance_id"][1:]) % 5
    assert seen == {("exact_match", ()), ("found", ("due", "right"))}


def test_tables_without_the_metrics_file_name_it(graded: Path, shell: Shell) -> None:
    told = "aggregates found by 'found', unknown to this medhelm; name the file of its metric with"
    (note,) = medhelm.load_results(graded / "results", latest=True).notes
    assert note.startswith("Left out, ") and f"{told} --plugin FILE" in note
    argv = ["tables", "--results-dir", str(graded / "results"), "--latest", "--format", "json"]
    argv += ["--table", "benchmarks", "--metrics", "all"]
    shown = json.loads(shell(*argv, "--plugin", str(graded / "found.py")))
    assert "found" in {row["metric"] for row in shown["rows"]}


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ("= FOUND\n", '= "micro_f1"\n', "aggregation='micro_f1' is not an Aggregation; give the"),
        ("= FOUND\n", '= "mean"\n', "leave it out, the mean is the default"),
        ('name="found", sums', 'name="micro_f1", sums', "another aggregation is named 'micro_f1'"),
        ('name="found", sums', 'name="mean", sums', "another aggregation is named 'mean' too"),
        ('("right", "due")', '("right", "due/*")', "all of them ending in '/\\*' or none"),
        ('("right", "due")', '("due", "due")', "name each once"),
        ('("right", "due")', "()", "names the sums none"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_one_line(
    tmp_path: Path, was: str, becomes: str, told: str
) -> None:
    path = tmp_path / "found.py"
    path.write_text(FOUND.replace(was, becomes, 1))
    with pytest.raises(PluginError, match=told) as caught:
        load_registry([str(path)])
    assert "'found'" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (lambda s: s["rihgt"], "raised KeyError 'rihgt'; its sums are: right, due"),
        (lambda s: s["right"].sum(), r"returned the shape \(\) of sums \(3,\)"),
        (lambda s: 1 + None, "raised TypeError"),
    ],
)
def test_a_function_that_fails_is_one_line(of: object, told: str) -> None:
    own = Aggregation(name="found", sums=("right", "due"), of=of)  # type: ignore[arg-type]
    with pytest.raises(PluginError, match=f"aggregation 'found' {told}"):
        Pooling(own, ("right", "due"))(np.ones((3, 2)))


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ('s["rihgt"] / s["due"]', "raised KeyError 'rihgt'; its sums are: right, due"),
        ('float(s["right"] / s["due"])', "raised TypeError"),
        ('s["right"].sum() / s["due"].sum()', "returned the shape () of sums (2,)"),
    ],
)
def test_a_site_leaves_out_the_runs_of_a_metric_that_fails_and_names_its_plugin(
    graded: Path, tmp_path: Path, shell: Shell, of: str, said: str
) -> None:
    """The other benchmarks are on the site; where there is none, the command ends with 2."""
    (tmp_path / "found.py").write_text(FOUND.replace('s["right"] / s["due"]', of))
    shutil.copytree(graded / "results", tmp_path / "results")
    argv = ["leaderboard", "build", "--results-dir", str(tmp_path / "results"), "--latest"]
    argv += f"--out {tmp_path / 'site'} --draws 10 --plugin {tmp_path / 'found.py'}".split()
    told = f"metric 'found' of the plugin found.py: aggregation 'found' {said}"
    line = shell.error(*argv)
    assert told in line and "no graded run to" in line
    write_quiz(tmp_path, 20).joinpath("quiz").rename(tmp_path / "data" / "other")
    (tmp_path / "other.py").write_text(PLUGIN.read_text().replace('name="quiz"', 'name="other"'))
    medhelm.evaluate("baseline/random", "other", **at(tmp_path, plugins=tmp_path / "other.py"))
    out = shell(*argv)
    lines = [line for line in shell.err.splitlines() if "not on the site" in line]
    assert len(lines) == 2 and all(told in line for line in lines)
    assert "1 models x 1" in out


WIDTHS = {"mean": 2, "ratio": 2, "mean_of_parts": 6, "macro_f1": 6, "noharm_overall": 6}
NAMES = (*WIDTHS, "micro_precision", "micro_recall", "micro_f1")


@given(st.sampled_from(NAMES), st.integers(0, 2**32 - 1))
def test_a_draw_of_every_cluster_once_is_the_point_estimate(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = pooling(name, WIDTHS.get(name, 3))
    rows = rng.integers(0, 4, size=(12, len(own.names))).astype(float)
    sums = cluster_sums(rows, rng.integers(0, 5, size=12), 5)
    point = own(rows.sum(0))
    once = own(np.ones((3, 5)) @ sums)  # three draws, all weights one
    assert once.shape == (3,)
    np.testing.assert_array_equal(once, np.broadcast_to(point, 3))
    drawn = bootstrap(sums, 7, seed % 1000)
    np.testing.assert_array_equal(own(drawn), [own(draw) for draw in drawn])
    of_two = np.stack([drawn, drawn[::-1]], axis=1)  # draws of two models
    np.testing.assert_array_equal(own(of_two), np.stack([own(drawn), own(drawn[::-1])], axis=1))
