"""`medhelm agreement`: ratings against the jury, corrected scores, the blinded sheet."""

import csv
import itertools
import json
import math
import random
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

import medhelm
from medhelm.grading.jury.metric import default_jury
from medhelm.review.marks import Asked, Marks
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec, JuryTerms, MetricRef
from medhelm.stats.agreement import krippendorff_alpha
from medhelm.store.records import read_record
from medhelm.tables.clinicians import agreement
from tests.build_runs import EXACT, Item, items, write_run
from tests.cases import cases
from tests.shell import Shell

pytestmark = pytest.mark.slow

AXES = ("accuracy", "completeness", "clarity")
HEAD = ("rater", "benchmark", "model", "instance")
Rows = Sequence[Sequence[object]]
Answers = Callable[..., str]
LEAD = ("ward", "baseline/lead")
JSON = ("--table", "agreement", "--format", "json")

PLUGIN = '''
"""Ward questions."""
import dataclasses
from medhelm import Benchmark, FileDataset, Instance, Row, SourceFile, hookimpl


def to_instance(row: Row) -> Instance:
    return Instance(
        id=row["i"], context=row["c"], question=row["q"], references=(row["g"],), cluster=row["p"]
    )


WARD = Benchmark(
    name="ward",
    title="Ward questions",
    subcategory="planning_treatments",
    dataset=FileDataset(files=(SourceFile(name="x.jsonl"),)),
    to_instance=to_instance,
    metrics=["jury", "rouge_l"],
    rubric="accuracy_completeness_clarity",
    answer="text",
    prompt="plain",
    instruction="Answer the question.",
    cluster="patient",
)


@hookimpl
def medhelm_benchmarks():
    return [
        WARD,
        dataclasses.replace(
            WARD, name="notes", title="Notes", rubric="history_form",
            data_class="private", metrics=["jury"],
        ),
        dataclasses.replace(WARD, name="closed", metrics=["rouge_l"], rubric=""),
    ]
'''
WORDS = ["fever", "cough", "pain", "rash", "fall", "stroke", "sepsis", "asthma", "gout", "ulcer"]
MODELS = ("baseline/first_option", "baseline/lead", "baseline/lexical", "baseline/random")


def make_samples(folder: Path) -> None:
    """The note of the k-th row begins with some words of its gold, so that scores differ."""
    for name in ("ward", "notes", "closed"):
        lines = []
        for k, word in enumerate(WORDS):
            gold = f"Treat the {word} early with rest and fluids, look again soon, and explain why."
            shared = " ".join(gold.split()[: 2 + (3 * k) % 11])
            lines.append(
                {
                    "i": f"w{k}",
                    "p": f"patient-{k // 2}",
                    "c": f"={shared}. The patient sleeps badly. Nobody else is ill.",
                    "q": f"What is to be done about {word} of {k + 1} days?",
                    "g": gold,
                }
            )
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of four baselines and the oracle on three benchmarks."""
    folder = tmp_path_factory.mktemp("agreement")
    (folder / "samples").mkdir()
    make_samples(folder / "samples")
    plugin = folder / "ward.py"
    plugin.write_text(PLUGIN)
    medhelm.evaluate(
        [*MODELS, "baseline/oracle"],
        ["ward", "notes", "closed"],
        data="sample",
        results_dir=folder / "results",
        plugins=plugin,
    )
    return folder / "results"


@pytest.fixture
def answers(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> Answers:
    """Run the command on the results; returns what it prints, or the one line of its error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*argv: object, code: int = 0) -> str:
        folder = [] if "--results-dir" in argv else ["--results-dir", results]
        words = ("agreement", "answers", *argv, *folder)
        return shell.error(*words, code=code) if code else shell(*words)

    return call


def rate(rows: Rows, *, axes: Sequence[str] = AXES, head: Sequence[str] = HEAD) -> Path:
    """Write a row for each axis of each answer in the current folder and return the file."""
    path = Path("ratings.csv")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*head, "item", "value"])
        for row in rows:
            marks = zip(axes, row[len(head) :], strict=True)
            writer.writerows([*row[: len(head)], axis, mark] for axis, mark in marks)
    return path


def score(results: Path, benchmark: str, metric: str) -> dict[tuple[str, str], float]:
    """Return what the run folders say, by model and instance."""
    found = {}
    for path in (results / "runs" / benchmark).glob("*/*/gradings/*/scores.parquet"):
        model = path.parents[3].name.replace("__", "/")
        for row in pq.read_table(path).to_pylist():
            if row["metric"] == metric and row["value"] is not None:
                found[model, row["instance_id"]] = row["value"]
    return found


def table(text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(text)["rows"]
    return rows


def of_lead(marks: Mapping[str, Mapping[str, int] | Sequence[int]]) -> list[list[object]]:
    """Return the rows of raters who gave these marks to answers of one model, by name or from w0 on."""
    rows: list[list[object]] = []
    for rater, given in marks.items():
        named = given if isinstance(given, Mapping) else {f"w{i}": m for i, m in enumerate(given)}
        rows += [[rater, *LEAD, name, mark, mark, mark] for name, mark in named.items()]
    return rows


def of_m(marks: Sequence[int], name: str = "i00") -> list[list[object]]:
    """Return the rows of one rater of the answers of model m to benchmark b."""
    return [["A", "b", "m", f"{name}{i}", m, m, m] for i, m in enumerate(marks)]


def row_of(text: str, measure: str, level: str = "benchmark") -> dict[str, Any]:
    (row,) = [x for x in table(text) if (x["level"], x["measure"]) == (level, measure)]
    return row


def ratings_of(results: Path, raters: str = "ABC") -> list[list[object]]:
    """Return ratings (2 to 5) that follow the jury with noise; each rater skips some answers."""
    rng = random.Random(4)
    rows: list[list[object]] = []
    for (model, name), value in sorted(score(results, "ward", "jury").items()):
        for rater in raters:
            if rng.random() < 0.8:
                marks = [min(5, max(2, round(value + rng.gauss(0, 1)))) for _ in AXES]
                rows.append([rater, "ward", model, name, *marks])
    return rows


# The table of agreement ---------------------------------------------------------------------------


def test_icc_against_the_jury_is_2r_over_1_plus_r_by_hand(results: Path, answers: Answers) -> None:
    jury, rouge = (score(results, "ward", m) for m in ("jury", "rouge_l"))
    names = [f"w{i}" for i in range(6)]
    given = {n: (1 + i % 5, 2 + i % 3, 3) for i, n in enumerate(names)}
    other = {n: (5 - i % 4, 1 + i % 2, 2) for i, n in enumerate(names[2:])}
    model = "baseline/lead"
    rows = [["A", "ward", model, n, *given[n]] for n in names]
    rows += [["B", "ward", model, n, *other[n]] for n in other]
    text = answers(rate(rows), *JSON)

    def z(values: list[float]) -> dict[str, float]:
        return dict(enumerate((np.asarray(values) - np.mean(values)) / np.std(values, ddof=1)))  # type: ignore[arg-type]

    a = dict(zip(names, z([sum(given[n]) / 3 for n in names]).values(), strict=True))
    b = dict(zip(other, z([sum(other[n]) / 3 for n in other]).values(), strict=True))
    mean = [np.mean([a[n], b[n]]) if n in b else a[n] for n in names]
    for metric, values in (("jury", jury), ("rouge_l", rouge)):
        r = np.corrcoef(np.asarray(mean, dtype=np.float64), [values[model, n] for n in names])[0, 1]
        for level in ("combined", "benchmark"):
            row = row_of(text, metric, level)
            assert math.isclose(row["correlation"], r, abs_tol=1e-9)
            assert math.isclose(row["icc"], 2 * r / (1 + r), abs_tol=1e-9)
            assert row["icc_method"] == "F" or row["icc_method"].endswith("says nothing)")
            assert row["icc_low"] is None or row["icc_low"] < row["icc"] < row["icc_high"]
            assert (row["n"], row["raters"], row["clusters"]) == (6, 2, 3)
    own = row_of(text, "jury")
    raw = [
        (sum(given[n]) / 3 + sum(other[n]) / 3) / 2 if n in other else sum(given[n]) / 3
        for n in names
    ]
    gaps = [jury[model, n] - raw[i] for i, n in enumerate(names)]
    assert math.isclose(own["mae"], np.mean(np.abs(gaps)))
    assert math.isclose(own["bias"], np.mean(gaps))


def test_z_scores_after_are_of_the_plain_mean_as_in_the_paper(
    results: Path, answers: Answers
) -> None:
    jury = score(results, "ward", "jury")
    names = [f"w{i}" for i in range(6)]
    a = dict(zip(names, (1, 2, 3, 4, 5, 1), strict=True))
    b = dict(zip(names[2:], (5, 5, 1, 4), strict=True))  # strict where A is not, and the reverse
    path = rate(of_lead({"A": a, "B": b}))
    after = answers(path, *JSON, "--set", "z_scores=after")
    before = answers(path, *JSON)

    # by the paper's formula: (MS of cases - MS of error) / MS of cases of two z-scored raters
    plain = [np.mean([a[n], b[n]]) if n in b else a[n] for n in names]
    raters = np.asarray([plain, [jury["baseline/lead", n] for n in names]], dtype=np.float64)
    z = (raters - raters.mean(1, keepdims=True)) / raters.std(1, ddof=1, keepdims=True)
    cases = 2 * np.var(z.mean(0), ddof=1)
    error = np.sum((z - z.mean(0)) ** 2) / 5
    assert row_of(after, "jury")["icc"] == pytest.approx((cases - error) / cases)
    assert row_of(after, "jury")["icc"] != pytest.approx(row_of(before, "jury")["icc"], abs=0.01)
    assert json.loads(after)["settings"]["z_scores"] == "after"
    assert "plain mean of" in " ".join(json.loads(after)["notes"])


def test_two_answers_in_common_count_only_as_in_the_paper(results: Path, answers: Answers) -> None:
    marks = {
        "A": {"w0": 1, "w1": 3, "w2": 2, "w3": 5},
        "B": {"w0": 2, "w1": 3, "w4": 1, "w5": 4},  # as A on two: 1
        "C": {"w2": 4, "w3": 2, "w4": 3, "w5": 5},  # against A on two: undefined; as B: 1
    }
    path = rate(of_lead(marks))
    text = answers(path, *JSON, "--set", "z_scores=after")
    row = row_of(text, "clinicians")
    assert (row["icc"], row["pairs"], row["pairs_of_two"], row["pairs_undefined"]) == (1, 2, 2, 1)
    assert "two answers in common" in " ".join(json.loads(text)["notes"])
    plain = row_of(answers(path, *JSON), "clinicians")
    assert plain["boot_method"] == "none (no pair with 5 in common)"
    assert "at least 3, not" in answers(path, "--set", "min_common=2", code=2)


def test_an_interval_that_says_nothing_is_none_with_the_reason(
    results: Path, answers: Answers
) -> None:
    path = rate(of_lead({"A": {"w0": 2, "w1": 3, "w2": 5, "w3": 1}}))
    row = row_of(answers(path, *JSON), "jury")
    assert (row["icc_low"], row["icc_high"]) == (None, None)
    assert row["icc"] is not None and row["icc_method"].startswith("none (-")
    out = " ".join(answers(path, "--table", "agreement").split())
    assert "0 to above 0.9:" in out and "combined x jury" in out


def test_a_rater_who_is_stricter_changes_no_icc(results: Path, answers: Answers) -> None:
    plain = ratings_of(results)
    strict = [[*row[:4], *(int(str(v)) - (row[0] == "B") for v in row[4:])] for row in plain]
    one, other = (table(answers(rate(x), *JSON)) for x in (plain, strict))
    for a, b in zip(one, other, strict=True):
        assert math.isclose(a["icc"], b["icc"], abs_tol=1e-9)
        assert math.isclose(a["boot_low"], b["boot_low"], abs_tol=1e-9)
    assert one[0]["mae"] != other[0]["mae"]


def test_clinicians_are_compared_in_pairs_with_enough_in_common(
    results: Path, answers: Answers
) -> None:
    marks = {"A": [1, 2, 3, 4, 5, 1, 2, 3, 4], "B": [2, 1, 4, 3, 5, 2, 1], "C": [5, 4, 3, 3]}
    path = rate(of_lead(marks))
    row, less, none = (
        row_of(answers(path, *JSON, "--set", f"min_common={least}"), "clinicians")
        for least in (5, 4, 8)
    )
    r = np.corrcoef(marks["A"][:7], marks["B"])[0, 1]
    assert (row["pairs"], row["n"], row["raters"]) == (1, 7, 2)
    assert math.isclose(row["icc"], 2 * r / (1 + r))
    assert math.isclose(row["mae"], np.mean(np.abs(np.subtract(marks["A"][:7], marks["B"]))))
    assert row["icc_low"] is None
    rs = [
        np.corrcoef(marks[a][: len(marks[b])], marks[b])[0, 1]
        for a, b in (("A", "B"), ("A", "C"), ("B", "C"))
    ]
    assert less["pairs"] == 3
    assert math.isclose(less["icc"], np.mean([2 * r / (1 + r) for r in rs]))
    assert none["icc"] is None
    assert none["boot_method"] == "none (no pair with 8 in common)"


def test_the_output_names_the_stand_in_and_fits_a_terminal(results: Path, answers: Answers) -> None:
    out = answers(rate(ratings_of(results)), "--show", "judges")
    assert out.count("jury offline (a stand-in)") == 2
    assert "jury is a stand-in" in out
    for word in ("combined", "ward", "jury[offline/overlap]", "rouge_l", "clinicians", "kappa"):
        assert word in out
    assert max(len(line) for line in out.splitlines()) <= 80
    rows = table(answers("ratings.csv", *JSON))
    assert {r["measure"]: r["is_stand_in"] for r in rows} == {
        "jury": True,
        "rouge_l": False,
        "clinicians": False,
    }


def test_formats(results: Path, answers: Answers) -> None:
    path = rate(ratings_of(results))
    lines = answers(path, "--table", "agreement", "--format", "csv").splitlines()
    assert lines[0] == ",".join(c.name for c in agreement.AGREEMENT.columns)
    assert len(lines) == 1 + 2 * 3
    documents = json.loads(answers(path, "--format", "json", "--set", "threshold=4"))
    assert [d["table"] for d in documents] == ["agreement", "corrected"]
    assert documents[0]["settings"]["judges"] == "offline graders"
    assert documents[0]["settings"]["min_common"] == 5
    assert "names one table" not in answers(path, "--table", "corrected", "--format", "csv")
    assert "--table" in answers(path, "--format", "csv", code=2)


def test_seed_and_order_of_rows_decide_nothing_but_the_draws(
    results: Path, answers: Answers
) -> None:
    rows = ratings_of(results)
    first = answers(rate(rows), *JSON)
    assert answers(rate(rows[::-1]), *JSON) == first
    drawn = table(answers("ratings.csv", *JSON, "--set", "seed=1"))
    for a, b in zip(table(first), drawn, strict=True):
        assert a["icc"] == b["icc"]
        assert a["boot_low"] != b["boot_low"]


def test_benchmarks_with_criteria_of_their_own_stand_in_one_file(
    results: Path, answers: Answers
) -> None:
    forms = {"ward": AXES, "notes": ("accuracy", "structure", "clarity")}
    with Path("ratings.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*HEAD, "item", "value", "remark"])
        for benchmark, items_ in forms.items():
            for i, r, item in itertools.product(range(8), "AB", items_):
                mark = 3 if item in ("accuracy", "clarity") else 1 + (i + ord(r)) % 4
                writer.writerow([r, benchmark, "baseline/lead", f"w{i}", item, mark, "x"])
    found = table(answers("ratings.csv", *JSON))
    names = list(dict.fromkeys(r["benchmark"] for r in found))
    assert names == ["combined", "notes", "ward"]
    assert [r["n"] for r in found if r["measure"] == "jury"] == [16, 8, 8]
    # notes has no ROUGE-L: the combined row of it is of ward alone
    assert [r["n"] for r in found if r["measure"] == "rouge_l"] == [8, 8]


def test_options_choose_benchmarks_and_models(results: Path, answers: Answers) -> None:
    path = rate(ratings_of(results))
    found = table(answers(path, "--table", "corrected", "--format", "json", "--model", *MODELS[:2]))
    assert [r["model"] for r in found] == list(MODELS[:2])
    assert "no rating is of" in answers(path, "--benchmark", "notes", code=2)


# Corrected scores ---------------------------------------------------------------------------------


def test_corrected_scores_by_hand(results: Path, answers: Answers) -> None:
    jury = score(results, "ward", "jury")
    model = "baseline/lead"
    rows = [["A", "ward", model, f"w{i}", m, m, m] for i, m in enumerate((3, 4, 2, 5))]
    rows.append(["B", "ward", model, "w0", 5, 5, 5])
    (row,) = table(answers(rate(rows), "--table", "corrected", "--format", "json"))
    human = [4, 4, 2, 5]
    mean = sum(jury[model, f"w{i}"] for i in range(10)) / 10
    gap = sum(human[i] - jury[model, f"w{i}"] for i in range(4)) / 4
    assert (row["decisions"], row["labelled"], row["labelled_cases"]) == (10, 4, 2)
    assert math.isclose(row["mean"], mean)
    assert math.isclose(row["labelled_mean"], 3.75)
    assert math.isclose(row["powered"], mean + gap)
    assert 1 <= row["powered_low"] <= row["powered"] <= row["powered_high"] <= 5
    assert row["powered_method"] == "prediction-powered"
    (one,) = table(answers(rate(rows[:2]), "--table", "corrected", "--format", "json"))
    assert one["powered_low"] is None
    assert one["powered_method"] == "none (one labelled cluster)"


def test_shares_by_hand(results: Path, answers: Answers) -> None:
    jury = score(results, "ward", "jury")
    cut = sorted(v for (m, _), v in jury.items() if m == "baseline/lead")[5]
    called = {i: jury["baseline/lead", f"w{i}"] >= cut for i in range(10)}
    # clinicians agree with the jury but on the first answer that it calls good
    wrong = min(i for i, yes in called.items() if yes)
    good = {i: yes and i != wrong for i, yes in called.items()}
    rows = [
        ["A", "ward", "baseline/lead", f"w{i}", *([5] * 3 if g else [1] * 3)]
        for i, g in good.items()
    ]
    shares = ("--table", "corrected", "--set", f"threshold={cut}", "--format", "json")
    (row,) = table(answers(rate(rows), *shares))
    p = sum(called.values()) / 10
    specificity = 1 - 1 / sum(not g for g in good.values())
    assert math.isclose(row["mean"], p)
    assert row["sensitivity"] == 1
    assert math.isclose(row["specificity"], specificity)
    assert math.isclose(row["corrected"], sum(good.values()) / 10)
    assert row["corrected_low"] <= row["corrected"] <= row["corrected_high"]
    upside = [[*r[:4], *(6 - int(str(v)) for v in r[4:])] for r in rows]
    (row,) = table(answers(rate(upside), *shares))
    assert row["corrected"] is None
    assert row["corrected_method"].startswith("none (sensitivity + specificity")


# What is missing ----------------------------------------------------------------------------------


def test_raters_without_spread_are_counted_and_their_ratings_kept(
    results: Path, answers: Answers
) -> None:
    jury = score(results, "ward", "jury")
    model = "baseline/lead"
    marks = {"B": {f"w{i}": 3 for i in range(4, 9)}, "C": {"w9": 5}}
    text = answers(rate(of_lead({"A": [1 + i % 5 for i in range(6)], **marks})), *JSON)
    assert "no z-score: 2 of" in text
    own = row_of(text, "jury")
    assert (own["n"], own["answers"], own["n_scale"]) == (6, 10, 10)
    human = [1, 2, 3, 4, 4, 2, 3, 3, 3, 5]  # of w4 and w5 the mean of A and B
    gaps = [jury[model, f"w{i}"] - h for i, h in enumerate(human)]
    assert math.isclose(own["mae"], np.mean(np.abs(gaps)))
    out = " ".join(answers("ratings.csv").split())
    assert " 6/10 " in out
    assert "without a z-score" in out and "10 of combined, 10" in out
    assert "x clinicians" in out and "No ICC" in out and "5 in common" in out


def test_mae_needs_no_spread(answers: Answers, results: Path) -> None:
    jury = score(results, "ward", "jury")
    own = row_of(answers(rate(of_lead({"A": [3] * 5})), *JSON), "jury")
    assert own["icc"] is None
    assert own["boot_method"] == "none (fewer than 3 answers with a z-score)"
    gaps = [jury["baseline/lead", f"w{i}"] - 3 for i in range(5)]
    assert math.isclose(own["mae"], np.mean(np.abs(gaps)))
    assert math.isclose(own["bias"], np.mean(gaps))


def test_a_benchmark_that_no_jury_could_score_changes_no_other_row(
    tmp_path: Path, answers: Answers
) -> None:
    own = tmp_path / "own"
    jury_run(own, judged({"x/one": [1, 2, 4, 5, 3, 2], "x/two": [2, 1, 5, 4, 3, 3]}), judges=True)
    call = ("--results-dir", own, *JSON)
    rows = of_m((2, 1, 4, 5, 3, 1), "i")
    before = row_of(answers(rate(rows), *call), "jury")
    jury_run(
        own, judged({"x/one": [None] * 3, "x/two": [None] * 3}), benchmark="silent", judges=True
    )
    rows += [["A", "silent", "m", f"i{i}", i + 1, i + 1, i + 1] for i in range(3)]
    found = table(answers(rate(rows), *call))
    (after,) = [r for r in found if (r["benchmark"], r["measure"]) == ("b", "jury")]
    assert after["effective_votes"] == before["effective_votes"] is not None
    assert [r["measure"] for r in found if r["benchmark"] == "silent"] == ["clinicians"]


def test_a_silent_judge_is_no_vote(tmp_path: Path, answers: Answers) -> None:
    given: dict[str, list[float | None]] = {
        "x/one": [1, 2, 4, 5, 3, 2],
        "x/two": [2, 1, 5, 4, 3, 3],
        "x/silent": [None] * 6,
    }
    jury_run(tmp_path / "own", judged(given), judges=True)
    human = [2, 1, 4, 5, 3, 1]
    path = rate(of_m(human, "i"))
    found = table(answers(path, "--results-dir", tmp_path / "own", *JSON))
    errors = [np.subtract(given[j], human) for j in ("x/one", "x/two")]  # type: ignore[arg-type]
    r = np.corrcoef(*errors)[0, 1]
    assert found[0]["judges"] == 2
    assert math.isclose(found[0]["effective_votes"], 2 / (1 + r))


def judged(given: dict[str, list[float | None]]) -> list[Item]:
    """Return rows of the jury and its judges; None: a judge without a verdict."""
    rows = []
    for i, own in enumerate(zip(*given.values(), strict=True)):
        heard = [v for v in own if v is not None]
        whole = sum(heard) / len(heard) if heard else None
        for name, value in zip(["", *given], [whole, *own], strict=True):
            outcome = "unscored" if value is None else "scored"
            metric = f"jury[{name}]" if name else "jury"
            rows.append(Item(id=f"i{i}", value=value, outcome=outcome, metric=metric))
    return rows


def test_pairs_that_contradict_each_other_exactly_are_counted(answers: Answers) -> None:
    marks = {"A": [1, 2, 3, 4, 5], "B": [5, 4, 3, 2, 1], "C": [1, 3, 2, 4, 5]}
    text = answers(rate(of_lead(marks)), *JSON)
    own = row_of(text, "clinicians")
    assert (own["pairs"], own["pairs_undefined"]) == (2, 1)
    assert "exact contradiction: 1 of" in text and "1 of ward" in text
    # each of them left out leaves two
    alphas = [
        krippendorff_alpha(np.asarray([marks[a], marks[b]], dtype=float).T, "ordinal")
        for a, b in ("AB", "AC", "BC")
    ]
    ends = [own["alpha_without_least"], own["alpha_without_most"]]
    assert ends == pytest.approx([min(alphas), max(alphas)])
    assert f"With one of them left out: {ends[0]:.2f} to {ends[1]:.2f}." in text
    two = row_of(answers(rate(of_lead({k: marks[k] for k in "AC"})), *JSON), "clinicians")
    assert two["alpha_without_least"] is None


def test_a_jury_that_contradicts_exactly_has_no_icc(tmp_path: Path, answers: Answers) -> None:
    jury_run(tmp_path / "own", items([1.1, 2.2, 4.4, 3.3], metric="jury"))
    rows = of_m((4, 3, 1, 2))
    text = answers(rate(rows), "--results-dir", tmp_path / "own", *JSON)
    row = table(text)[0]
    assert (row["icc"], row["boot_method"]) == (None, "none (exact contradiction)")
    assert math.isclose(row["correlation"], -1)


def test_scales_that_differ_are_not_combined(tmp_path: Path, answers: Answers) -> None:
    own = tmp_path / "own"
    values = [1.0, 2.0, 4.0, 5.0, 3.0]
    jury_run(own, items(values, metric="jury"))
    jury_run(own, items([v * 2 for v in values], metric="jury"), benchmark="ten", top=10)
    rows = of_m((2, 1, 4, 5, 3))
    rows += [["A", "ten", "m", f"i00{i}", m, m, m] for i, m in enumerate((2, 1, 8, 9, 3))]
    text = answers(rate(rows), "--results-dir", own, *JSON)
    assert "Not combined" in text and "different scales" in text
    assert {r["benchmark"] for r in table(text)} == {"b", "ten"}


def test_no_spread_gives_a_corrected_score_without_an_interval(
    tmp_path: Path, answers: Answers
) -> None:
    rows = items([5.0] * 6, metric="jury")
    rows.append(Item(id="x", value=1.0, outcome="empty", metric="jury"))
    jury_run(tmp_path / "own", rows)
    given = [["A", "b", "m", f"i00{i}", 4, 4, 4] for i in range(4)]
    call = (rate(given), "--results-dir", tmp_path / "own", "--format", "json")
    (row,) = table(answers(*call, "--table", "corrected"))
    assert (row["powered"], row["powered_low"], row["powered_high"]) == (4.0, None, None)
    assert row["powered_method"] == "prediction-powered, no interval (no spread)"
    assert (row["decisions"], row["asked"], row["labelled"]) == (6, 7, 4)


# Mistakes -----------------------------------------------------------------------------------------


def test_a_mistake_is_one_line(answers: Answers) -> None:
    for rows, expected, *code in cases(__file__, "ratings_that_are_none"):
        assert expected in answers(rate(rows), code=code[0] if code else 3)


def test_two_files_of_one_name_are_two_files(answers: Answers) -> None:
    for folder, mark in (("one", 2), ("two", 5)):
        Path(folder).mkdir()
        rate([["A", *LEAD, "w1", mark, mark, mark]]).rename(f"{folder}/ratings.csv")
    line = answers("one/ratings.csv", "two/ratings.csv", code=3)
    assert "rated ward" in line
    assert "this rater rated" in answers("one/ratings.csv", "one/ratings.csv", code=3)


def test_a_missing_column_is_named(answers: Answers) -> None:
    for column in (*HEAD[1:], "item", "value"):
        head = [name for name in (*HEAD, "item", "value") if name != column]
        Path("ratings.csv").write_text(",".join(head) + "\n" + ",".join("x" * len(head)))
        assert f"no column '{column}'" in answers("ratings.csv", code=3)


def test_semicolons_and_tabs_are_read_as_commas_are(results: Path, answers: Answers) -> None:
    named = answers(rate(ratings_of(results)), "--format", "json")
    with Path("ratings.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    for separator in ";\t":
        with Path("other.csv").open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, delimiter=separator).writerows(rows)
        assert answers("other.csv", "--format", "json") == named
        written = Path("other.csv").read_text(encoding="utf-8-sig")
        Path("other.csv").write_text(f"sep={separator}\n{written}", encoding="utf-8-sig")
        assert answers("other.csv", "--format", "json") == named


def test_files_that_are_no_ratings(answers: Answers, tmp_path: Path) -> None:
    assert "cannot read nowhere.csv" in answers("nowhere.csv", code=3)
    Path("latin.csv").write_bytes("rater,benchmark\nJos\xe9,ward\n".encode("latin-1"))
    assert "UTF-8" in answers("latin.csv", code=3)
    empty = rate([["A", *LEAD, "w1", 3, 3, 3]])
    absent = tmp_path / "none"
    told = answers(empty, "--results-dir", absent, code=2)
    assert f"below {absent}" in " ".join(told.split())
    absent.mkdir()
    assert "does not exist" not in answers(empty, "--results-dir", absent, code=2)


def test_options_that_do_not_fit(answers: Answers) -> None:
    for options, expected in cases(__file__, "options_that_do_not_fit"):
        assert expected in answers(*options.split(), code=2)


def test_options_that_would_change_nothing(results: Path, answers: Answers) -> None:
    path = rate(ratings_of(results))
    assert "unknown metric 'rouge_7'" in answers(path, "--show", "rouge_7", code=2)
    for threshold in ("1", "5.5"):
        line = answers(path, "--set", f"threshold={threshold}", code=2)
        assert f"threshold={threshold} parts no answers" in line


def test_no_rated_answer_with_a_score(tmp_path: Path, answers: Answers) -> None:
    jury_run(
        tmp_path / "own",
        items([3.0] * 4, metric="jury")
        + [Item(id="x", value=None, outcome="unscored", metric="jury")],
    )
    path = rate([["A", "b", "m", "x", 3, 3, 3]])
    line = answers(path, "--results-dir", tmp_path / "own", code=2)
    assert "score of the jury" in line
    more = rate([["A", "b", "m", n, i, i, i] for i, n in enumerate(("x", "i000", "i001"), 1)])
    out = answers(more, "--results-dir", tmp_path / "own")
    assert "1 of 3 rated" in out


def jury_run(
    results: Path,
    rows: list[Item],
    *,
    more: Sequence[MetricRef] = (),
    benchmark: str = "b",
    top: int = 5,
    judges: bool = False,
    **spec: Any,
) -> None:
    """Write one run that a jury has rated; `judges`: its rows say who gave what."""
    likert = msgspec.structs.replace(EXACT, name="jury", minimum=1.0, maximum=top, floor=1.0)
    names = dict.fromkeys(r.metric for r in rows if r.metric != "jury") if judges else {}
    own = [msgspec.structs.replace(likert, name=n) for n in names]
    folder = write_run(results, benchmark, "m", rows, metrics=[likert, *own, *more], **spec)
    record = read_record(folder)
    asked = tuple(ModelSpec(name=n) for n in ("x/one", "x/two"))
    rubric = msgspec.structs.replace(default_jury().rubric, maximum=top)
    terms = JuryTerms(jury=JurySpec(name="ours", judges=asked), rubric=rubric, version="1")
    grading = msgspec.structs.replace(record.grading, jury=terms)
    record = msgspec.structs.replace(record, grading=grading)
    (folder / "summary.json").write_bytes(msgspec.json.encode(record))


def test_a_jury_of_models_is_no_stand_in(tmp_path: Path, answers: Answers) -> None:
    jury_run(tmp_path / "own", items([1.0, 2.0, 4.0, 5.0, 3.0], metric="jury"))
    path = rate(of_m((2, 1, 4, 5, 3)))
    out = answers(path, "--results-dir", tmp_path / "own")
    assert "jury ours" in out
    assert "stand-in" not in out


def test_bertscore_is_shown_whatever_its_model_and_others_where_named(
    tmp_path: Path, answers: Answers
) -> None:
    metrics = [
        msgspec.structs.replace(EXACT, name=name, higher_is_better=name != "errors")
        for name in ("bertscore:some/model", "errors")
    ]
    rows = [
        Item(id=f"i{i}", value=value, metric=name)
        for i in range(5)
        for name, value in (
            ("jury", 1.0 + i),
            ("bertscore:some/model", i / 10),
            ("errors", 1 - i / 10),
        )
    ]
    jury_run(tmp_path / "own", rows, more=metrics)
    path = rate(of_m((2, 1, 4, 5, 3), "i"))
    call = (path, "--results-dir", tmp_path / "own", *JSON)
    found = table(answers(*call, "--show", "errors"))
    # fewer errors are better: turned round, it says what BERTScore says
    iccs = {r["measure"]: r["icc"] for r in found if r["level"] == "combined"}
    assert [*iccs] == ["jury", "bertscore:some/model", "errors", "clinicians"]
    assert math.isclose(iccs["errors"], iccs["bertscore:some/model"])
    assert "errors" not in {r["measure"] for r in table(answers(*call))}


def test_runs_with_repeats_need_the_column(tmp_path: Path, answers: Answers) -> None:
    rows = [
        Item(id=f"i{i}", value=float(1 + (i + r) % 5), repeat=r, metric="jury")
        for i in range(4)
        for r in range(2)
    ]
    jury_run(tmp_path / "own", rows, repeats=2)
    own = ("--results-dir", tmp_path / "own")
    line = answers(rate([["A", "b", "m", "i1", 3, 3, 3]]), *own, code=3)
    assert "2 answers" in line and "repeat (0 to 1)" in line
    head = [*HEAD, "repeat"]
    given = [
        ["A", "b", "m", f"i{i}", r, *[1 + (2 * i + r) % 5] * 3] for i in range(4) for r in (0, 1)
    ]
    found = table(answers(rate(given, head=head), *own, *JSON))
    assert found[0]["n"] == 8
    assert found[0]["clusters"] == 4
    given[0][4] = "second"
    assert "be a whole number" in answers(rate(given, head=head), *own, code=3)
    given[0][4] = 2
    assert "instance 'i0' (repeat 2)" in answers(rate(given, head=head), *own, code=3)


# The sheet ----------------------------------------------------------------------------------------


def read_sheet(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_a_sheet_is_blinded_private_and_stratified(results: Path, answers: Answers) -> None:
    out = answers("--template", "out/sheet.csv", "--benchmark", "ward", "--sample", 12)
    assert "36 rows" in out and "12 units" in out and "ward 12" in out
    assert "from 1 to 5" in out
    answers("--template", "out/for.json", "--benchmark", "ward", "--sample", 12)
    sheet, key, for_browser = (Path("out", n) for n in ("sheet.csv", "sheet.key.json", "for.json"))
    assert {stat.S_IMODE(p.stat().st_mode) for p in (sheet, key, for_browser)} == {0o600}
    units = json.dumps(json.loads(for_browser.read_text())["units"])
    for text in (sheet.read_text(), units):
        assert "baseline" not in text
        assert not any(f"w{i}" in text for i in range(10))
    rows = read_sheet(sheet)
    assert [*rows[0]] == ["unit", "item", "text", "rater", "value", "shown"]
    shown = [row["shown"] for row in rows if row["shown"]]
    assert len(shown) == 12 and all("\n\nContext\n=Treat the" in text for text in shown)
    assert all(text.endswith("Values\na whole number from 1 to 5") for text in shown)
    items_ = json.loads(key.read_text())["items"]
    assert list(dict.fromkeys(row["unit"] for row in rows)) == [*items_]
    jury = score(results, "ward", "jury")
    del_oracle = {k: v for k, v in jury.items() if k[0] != "baseline/oracle"}
    assert not any(i["model"] == "baseline/oracle" for i in items_.values())
    values = sorted(del_oracle.values())
    drawn = sorted(jury[i["model"], i["instance"]] for i in items_.values())
    assert drawn[3] <= values[len(values) // 3]
    assert values[len(values) // 3 - 1] <= drawn[4]
    assert drawn[7] <= values[2 * len(values) // 3]
    assert values[2 * len(values) // 3 - 1] <= drawn[8]


def test_a_filled_sheet_is_read_with_its_key(results: Path, answers: Answers) -> None:
    answers("--template", "sheet.csv", "--benchmark", "ward", "--sample", 20)
    rows = read_sheet(Path("sheet.csv"))
    key = Path("sheet.key.json")
    items_ = json.loads(key.read_text())["items"]
    plain: list[list[object]] = []
    for rater in ("one", "two"):
        with Path(f"{rater}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]])
            writer.writeheader()
            for place, row in enumerate(rows):
                is_blank = rater == "two" and place // 3 % 3 == 0
                mark = "" if is_blank else 1 + (place * 7 + len(rater)) % 5
                writer.writerow(row | {"value": mark})
                item = items_[row["unit"]]
                answer = [item["benchmark"], item["model"], item["instance"]]
                plain.append([rater, *answer, row["item"], mark])
    with Path("named.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*HEAD, "item", "value"], *plain])
    named = answers("named.csv", "--format", "json")
    assert "rating: 21 of 120" in named
    assert answers("one.csv", "two.csv", "--format", "json") == named
    Path("elsewhere").mkdir()
    key.rename("elsewhere/k.key.json")
    assert "knows the unit" in answers("one.csv", code=3)
    assert answers("one.csv", "two.csv", "elsewhere/k.key.json", "--format", "json") == named
    Path("broken.key.json").write_text("{}")
    assert "broken.key.json is not" in answers("one.csv", "broken.key.json", code=3)
    assert "cannot read the key" in answers("one.csv", "none.key.json", code=3)
    answers("--template", "other.csv", "--benchmark", "ward", "--sample", 20, "--set", "seed=3")
    assert "key of another sheet" in answers("one.csv", "other.key.json", code=3)
    text = Path("elsewhere/k.key.json").read_text()
    for run in {i["run"] for i in items_.values()}:
        text = text.replace(run, "0" * 16)
    Path("elsewhere/k.key.json").write_text(text)
    assert "from another run" in answers("one.csv", "elsewhere/k.key.json", code=3)


def test_marks_made_in_a_browser_are_read_as_any_ratings(results: Path, answers: Answers) -> None:
    out = answers("--template", "r.json", "--benchmark", "ward", "--sample", 20)
    assert "medhelm review serve r.json" in out
    marks, plain = Marks(Path("r.json")), []
    items_ = json.loads(Path("r.key.json").read_text())["items"]
    for rater, (place, unit) in itertools.product(("one", "two"), enumerate(marks.review.units)):
        given = [str(1 + (7 * place + n * len(rater) + (rater == "two")) % 5) for n in range(3)]
        if rater == "two" and place == 4:
            given[1] = ""  # cannot say: of this rater the answer counts nowhere
        else:
            item = items_[unit.name]
            plain.append([rater, item["benchmark"], item["model"], item["instance"], *given])
        for item, value in zip(unit.items, given, strict=True):
            marks.add(rater, Asked(unit=unit.name, item=item.name, value=value))
    marks.close()
    then = marks.review.then
    assert then == ("agreement", "answers", "--results-dir", str(results))
    got = answers("r.ratings.csv", *JSON)
    assert table(got) == table(answers(rate(plain), *JSON))
    assert "not rated: 1 ratings" in got


def test_damaged_runs_are_named(tmp_path: Path, shell: Shell) -> None:
    own = tmp_path / "own"
    jury_run(own, items([1.0, 2.0, 4.0], metric="jury"), benchmark="broken")
    (record,) = own.glob("runs/*/*/*/gradings/*/summary.json")
    record.write_text("{")
    call = f"agreement answers --results-dir {own} --template {tmp_path / 's.csv'}"
    shell(*call.split(), code=4)
    assert "summary.json" in shell.err


def test_the_seed_decides_the_sheet(answers: Answers) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        answers(*f"--template {name}.csv --benchmark ward --set seed={seed} --sample 9".split())
    a, b, c = (Path(f"{name}.csv").read_text() for name in "abc")
    assert a == b
    assert a != c
    assert "is there already" in answers("--template", "a.csv", "--benchmark", "ward", code=2)
    key = answers(
        "--template", "a.xlsx", "--benchmark", "ward", code=2
    )  # it would have a.csv's key
    assert "a.key.json" in key and "a-2.xlsx" in key


def test_a_benchmark_with_criteria_of_its_own_is_not_on_the_sheet(
    tmp_path: Path, shell: Shell
) -> None:
    names = ("mediqa_qa", "medsafetybench")
    options = {"data": "sample", "jury": "offline", "results_dir": tmp_path}
    medhelm.evaluate("baseline/lead", names, **options)  # type: ignore[arg-type]
    words = ("agreement", "answers", "--results-dir", tmp_path, "--data", "sample")
    words = (*words, "--template", tmp_path / "s.csv")
    of_its_own = "`medhelm agreement criteria medsafetybench`"
    assert of_its_own in shell.error(*words, "--benchmark", "medsafetybench")
    out = shell(*words)
    assert "left out, medsafetybench" in out and of_its_own in out
    key = json.loads((tmp_path / "s.key.json").read_text())["items"]
    assert {item["benchmark"] for item in key.values()} == {"mediqa_qa"}


def test_text_of_private_data_needs_the_flag(results: Path, answers: Answers) -> None:
    line = answers("--template", "s.csv", code=5)
    assert "'notes' is private" in line
    assert "--text-of private" in line
    also = answers("--template", "s.csv", "--text-of", "gated", code=5)
    assert "--text-of gated private" in also, "the words that help, and are not replaced one by one"
    assert not Path("s.csv").exists()
    answers("--template", "s.csv", "--text-of", "private", "--sample", 6)
    rows = read_sheet(Path("s.csv"))
    titles = [row["shown"].splitlines()[1] for row in rows if row["shown"]]
    assert titles.count("Notes") == titles.count("Ward questions") == 6
    assert {row["item"] for row in rows} == {*AXES, "structure"}


def test_a_named_model_is_on_the_sheet_even_if_it_reads_the_gold(answers: Answers) -> None:
    answers("--template", "s.csv", "--benchmark", "ward", "--model", "baseline/oracle")
    items_ = json.loads(Path("s.key.json").read_text())["items"]
    assert {i["model"] for i in items_.values()} == {"baseline/oracle"}
    assert len(items_) == 10


def test_a_sheet_needs_answers_of_a_jury(tmp_path: Path, answers: Answers) -> None:
    write_run(tmp_path / "own", "quiz", "m", items([1.0, 0.0]))
    line = answers("--template", "s.csv", "--results-dir", tmp_path / "own", code=2)
    assert "has jury scores" in line
    assert "closed x" in answers("--template", "s.csv", "--benchmark", "closed", code=2)
    assert "'wart'" in answers("--template", "s.csv", "--benchmark", "wart", code=2)
