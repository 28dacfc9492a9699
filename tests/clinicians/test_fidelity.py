"""`medhelm fidelity`: files in, matched by what they are about, figures against scikit-learn."""

import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats
from sklearn import metrics as sklearn_metrics

from medhelm.tables.clinicians.decision_files import read_graders
from medhelm.tables.clinicians.decisions import LOST_ROWS, Grader, align, plain, plain_name
from tests.cases import cases
from tests.shell import Shell

MODELS = ("org/Alpha-1", "Beta 2", "gamma", "delta")
CASES = [f"Patient {n}: 血压 {150 + n}/95, asks what to do." for n in range(12)]
CRITERIA = [f"Names step {n} (such as a drug)" for n in range(6)]
pytestmark = pytest.mark.usefixtures("here")
Labels = dict[tuple[str, int, int], bool]


def truth(seed: int) -> Labels:
    dice = random.Random(seed)
    return {
        (model, case, criterion): dice.random() < 0.35 + 0.12 * place
        for place, model in enumerate(MODELS)
        for case in range(len(CASES))
        for criterion in range(len(CRITERIA))
    }


def noisy(labels: Labels, seed: int, missed: float, added: float) -> Labels:
    dice = random.Random(seed)
    return {
        key: (dice.random() >= missed) if met else (dice.random() < added)
        for key, met in labels.items()
    }


TRUE = truth(1)
ONE, TWO = noisy(TRUE, 2, 0.1, 0.1), noisy(TRUE, 3, 0.1, 0.15)
STRICT = noisy(TRUE, 4, 0.35, 0.05)


def objects(
    labels: Labels, spelled: Callable[[str], str] = str, **fields: object
) -> list[dict[str, Any]]:
    return [
        {
            "model": model,
            "case": spelled(CASES[case]),
            **fields,
            "criteria": [
                {"criterion": spelled(text), "criteria_met": labels[model, case, n]}
                for n, text in enumerate(CRITERIA)
            ],
        }
        for model in MODELS
        for case in range(len(CASES))
    ]


def write(path: Path, rows: Sequence[object]) -> str:
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    return str(path)


def write_table(path: Path, labels: Labels, words: tuple[str, str] = ("met", "unmet")) -> str:
    """Write one decision a row, by two raters, in no order."""
    lines = [
        (model, CASES[case], CRITERIA[n], words[0] if met else words[1], f"r{case % 2}")
        for (model, case, n), met in labels.items()
    ]
    random.Random(0).shuffle(lines)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(("model", "case", "criterion", "met", "rater"))
        writer.writerows(lines)
    return str(path)


def rows_of(shell: Shell, table: str, *words: str) -> list[dict[str, Any]]:
    content = shell.json("fidelity", *words, "--table", table, "--set", "draws=200")
    document = content["tables"][0] if "tables" in content else content
    rows: list[dict[str, Any]] = document["rows"]
    return rows


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A group as JSON lines, one as a table of raters in other spelling, a judge with bad replies."""
    strict = objects(STRICT)
    strict[0]["criteria"][0]["criteria_met"] = "true"  # a text is no boolean
    strict[0]["criteria"][1]["criteria_met"] = None
    strict[1]["criteria"][2]["criteria_met"] = 1
    del strict[2]["criteria"][3]
    random.Random(1).shuffle(strict)
    return [
        f"--experts=one={write(tmp_path / 'one.jsonl', objects(ONE))}",
        f"--experts=two={write_table(tmp_path / 'two.csv', TWO)}",
        f"--judge=strict={write(tmp_path / 'strict.jsonl', strict)}",
    ]


def answer_f1(a: Labels, b: Labels, model: str, case: int) -> float | None:
    """Return the macro F1 of one answer; None where an F1 is 0 / 0."""
    x, y = ([labels[model, case, n] for n in range(len(CRITERIA))] for labels in (a, b))
    if len({*x, *y}) < 2:
        return None
    return float(sklearn_metrics.f1_score(x, y, average="macro"))


INVALID = [("org/Alpha-1", *place) for place in ((0, 0), (0, 1), (1, 2), (2, 3))]


@pytest.mark.slow
def test_figures_are_those_of_scikit_learn(shell: Shell, files: list[str]) -> None:
    rows = rows_of(shell, "fidelity", *files)
    found = {(r["reference"], r["grader"], r["model"]): r for r in rows if r["level"] != "mean"}
    assert len(found) == 3 * (1 + len(MODELS))
    keys = list(TRUE)
    unmet = STRICT | dict.fromkeys(INVALID, False)
    for reference, grader, a, b in (
        ("one", "two", ONE, TWO),
        ("one", "strict", ONE, unmet),
        ("two", "strict", TWO, unmet),
    ):
        wrong = b | {key: not a[key] for key in INVALID} if grader == "strict" else b
        for model in (None, *MODELS):
            row = found[reference, grader, model]
            own = [key for key in keys if model in (None, key[0])]
            x, y = [a[k] for k in own], [b[k] for k in own]
            f1 = lambda y, x=x: sklearn_metrics.f1_score(x, y, average="macro")  # noqa: E731
            assert row["decisions"] == len(own)
            assert row["mf1"] == pytest.approx(f1(y))
            assert row["mf1_wrong"] == pytest.approx(f1([wrong[k] for k in own]))
            assert row["kappa"] == pytest.approx(sklearn_metrics.cohen_kappa_score(x, y))
            assert row["positive_reference"] == pytest.approx(np.mean(x))
            assert row["positive"] == pytest.approx(np.mean(y))
            values = [answer_f1(a, b, *answer) for answer in {key[:2] for key in own}]
            each = [value for value in values if value is not None]
            assert row["answers_defined"] == len(each)
            assert row["answers_defined"] + row["answers_undefined"] == row["answers"]
            assert row["mf1_of_answers"] == pytest.approx(np.mean(each))
            assert row["below_share"] == pytest.approx(np.mean([v < 0.6 for v in each]))
            expected = len(INVALID) if grader == "strict" and model in (None, "org/Alpha-1") else 0
            assert (row["invalid"], row["absent"]) == (expected, expected // 4)
            assert row["mf1_low"] < row["mf1"] < row["mf1_high"]
    assert found["one", "two", None]["raters"] == 2
    mean = next(r for r in rows if r["level"] == "mean")
    both = [found[g, "strict", None]["mf1"] for g in ("one", "two")]
    assert mean["mf1"] == pytest.approx(np.mean(both))


def test_orders_of_the_models(shell: Shell, files: list[str]) -> None:
    rows = {(r["a"], r["b"]): r for r in rows_of(shell, "graders", *files)}
    assert [*rows] == [("one", "two"), ("one", "strict"), ("two", "strict")]
    unmet = STRICT | dict.fromkeys(INVALID, False)
    rates = [
        [np.mean([met for key, met in labels.items() if key[0] == m]) for m in MODELS]
        for labels in (ONE, unmet)
    ]
    row = rows["one", "strict"]
    assert row["spearman"] == pytest.approx(scipy_stats.spearmanr(*rates).statistic)
    assert row["kendall"] == pytest.approx(scipy_stats.kendalltau(*rates).statistic)
    gaps = np.subtract(rates[1], rates[0])
    assert row["difference"] == pytest.approx(gaps.mean())
    assert row["absolute"] == pytest.approx(np.abs(gaps).mean())
    tops = [{*np.argsort(r)[-3:].tolist()} for r in rates]
    assert row["top_3"] == len(tops[0] & tops[1])
    assert row["top_5"] is None  # of four models
    assert row["higher"] == f"{(gaps > 0).sum()} of 4"


def experts(folder: Path, rows: Sequence[object]) -> Grader:
    """Return a group of experts read from a file of these rows."""
    return read_graders("experts", [Path(write(folder / "e.jsonl", rows))], {}, is_judge=False)[0]


def test_files_are_matched_by_what_they_are_about(tmp_path: Path) -> None:
    full = str.maketrans("0123456789:", "０１２３４５６７８９：")

    def other(text: str) -> str:
        wide = text.upper().translate(full).replace(" ", "\u3000 ")
        return f"  {wide}\u200b"

    renamed = [
        row | {"model": row["model"].replace("-", "_").upper()} for row in objects(ONE, other)
    ]
    random.Random(3).shuffle(renamed)
    for row in renamed:
        random.Random(4).shuffle(row["criteria"])
    a, b = (experts(tmp_path, rows) for rows in (objects(ONE), renamed))
    pair = align(a, b)
    assert len(pair.found) == len(ONE) and (pair.found == pair.expected).all()
    assert not any((*pair.lost_of_reference.values(), *pair.lost_of_grader.values()))


def test_what_has_no_partner_is_counted(tmp_path: Path) -> None:
    a = objects(ONE)
    a.append(a[0] | {"criteria": [d | {"criteria_met": None} for d in a[0]["criteria"]]})  # twice
    a[5]["criteria"][2] = {"criterion": "Another thing", "criteria_met": True}
    a[6]["criteria"][0] = a[6]["criteria"][0] | {"criteria_met": None}
    b = [row for row in objects(ONE) if row["model"] != "gamma"]
    b[3]["case"] = "An unknown case"
    b[4]["model"] = "epsilon"
    one, two = (experts(tmp_path, rows) for rows in (a, b))
    pair = align(one, two)
    assert pair.lost_of_reference == dict(
        other_model=12, other_case=2, surplus=1, criteria=1, undecided=1
    )
    assert pair.lost_of_grader == dict(
        other_model=1, other_case=1, surplus=0, criteria=1, undecided=0
    )
    assert len(pair.answers) == 48 - 12 - 2
    assert len(pair.found) == 34 * 6 - 2
    assert len(one.rows) == len(pair.answers) + sum(
        pair.lost_of_reference[why] for why in LOST_ROWS
    )
    # repeated answers are paired in their order: the second of the same case has no label at all
    twice = experts(tmp_path, [*b, b[0]])
    assert align(one, twice).lost_of_reference["undecided"] == 1 + 6


def test_a_number_keeps_its_spaces() -> None:
    assert plain("1 5 mg") != plain("15 mg")
    assert plain("血压 160 / 98，头晕 ") == plain("血压160/98,头晕")
    assert plain_name("GPT-5.2 (high)") == plain_name("gpt 5.2 high") != plain_name("gpt-52 high")


def test_judge_files_come_in_and_go_out(shell: Shell, tmp_path: Path) -> None:
    cases = [
        {"case_id": f"CC-{n:04d}", "clinical_context": "", "user_request": text,
         "rubrics": [{"criterion_id": f"c{k}", "criterion": c} for k, c in enumerate(CRITERIA)]}
        for n, text in enumerate(CASES)
    ]  # fmt: skip
    write(tmp_path / "cases.jsonl", cases)
    folder = tmp_path / "judged"
    folder.mkdir()
    for model in MODELS:
        rows = [
            {
                "case_id": f"CC-{n:04d}",
                "rubric_results": [{"criteria_met": STRICT[model, n, k]} for k in range(6)],
            }
            for n in range(len(CASES))
        ]
        random.Random(2).shuffle(rows)  # rows are found by their id
        (folder / f"{model.replace('/', ' ')}_judge.json").write_text(json.dumps(rows))
    one = f"--experts=one={write(tmp_path / 'one.jsonl', objects(ONE))}"
    words = (one, "--cases", "cases.jsonl", "--alias", "org Alpha-1=org/Alpha-1")
    row = rows_of(shell, "fidelity", *words, "--judge=strict=judged")[0]
    keys = list(TRUE)
    assert row["mf1"] == pytest.approx(
        sklearn_metrics.f1_score([ONE[k] for k in keys], [STRICT[k] for k in keys], average="macro")
    )
    assert row["invalid"] == 0
    out = shell("fidelity", "--judge=strict=judged", "--cases", "cases.jsonl", "--export", "again")
    assert len(out.splitlines()) == len(MODELS)
    assert rows_of(shell, "fidelity", *words, "--judge=strict=again")[0] == row
    written = json.loads((tmp_path / "again" / "gamma_judge.json").read_text())
    assert [own["case_id"] for own in written] == [case["case_id"] for case in cases]
    assert [d["criteria_met"] for d in written[3]["criteria_results"]] == [
        STRICT["gamma", 3, k] for k in range(6)
    ]


def test_what_a_judge_leaves_out_counts_as_unmet(shell: Shell, tmp_path: Path) -> None:
    """The published scorer divides by the verdicts that came; here the list of the case is frozen."""
    case = {"case_id": "a", "clinical_context": "x", "user_request": "y",
            "rubrics": [{"criterion_id": f"c{k}", "criterion": c} for k, c in enumerate(CRITERIA)]}  # fmt: skip
    write(tmp_path / "cases.jsonl", [case, case | {"case_id": "b", "user_request": "z"}])
    given = [{"criterion_id": f"c{k}", "criteria_met": True} for k in range(3)]
    twice = [*given, {"criterion_id": "c0", "criteria_met": False}]
    said = [{"case_id": c, "criteria_results": r} for c, r in (("a", given), ("b", twice))]
    (tmp_path / "m_judge.json").write_text(json.dumps(said))
    labels = [{"criterion_id": f"c{k}", "criteria_met": k < 4} for k in range(6)]
    experts = [{"model": "m", "case_id": c, "criteria": labels} for c in "ab"]
    paths = f"e={write(tmp_path / 'e.jsonl', experts)}"
    words = (f"--experts={paths}", "--judge=j=m_judge.json", "--cases=cases.jsonl")
    row = rows_of(shell, "fidelity", *words)[0]
    assert (row["decisions"], row["invalid"], row["absent"]) == (12, 7, 6)
    assert row["positive"] == pytest.approx(5 / 12)
    corrected = rows_of(shell, "corrected", *words)[0]
    assert (corrected["decisions"], corrected["mean"]) == (12, pytest.approx(5 / 12))
    write(tmp_path / "e.jsonl", experts[:1])  # of the other answer nobody has a label
    corrected = rows_of(shell, "corrected", *words)[0]
    assert (corrected["decisions"], corrected["mean"]) == (12, pytest.approx(5 / 12))
    assert corrected["labelled"] == 6


def test_what_a_file_without_cases_leaves_out_counts_too(shell: Shell, files: list[str]) -> None:
    rows = rows_of(shell, "corrected", *files)
    row = next(r for r in rows if r["model"] == "org/Alpha-1")
    own = [key for key in TRUE if key[0] == "org/Alpha-1"]
    met = [STRICT[key] and key not in INVALID for key in own]
    assert (row["decisions"], row["labelled"]) == (72, 72)
    assert row["mean"] == pytest.approx(np.mean(met))


def test_corrected_shares(shell: Shell, tmp_path: Path) -> None:
    """A third of the cases is labelled, of one model none."""
    labelled = [
        row for row in objects(TRUE) if CASES.index(row["case"]) < 4 and row["model"] != "delta"
    ]
    words = (
        f"--experts=one={write(tmp_path / 'one.jsonl', labelled)}",
        f"--judge=strict={write(tmp_path / 'strict.jsonl', objects(STRICT))}",
    )
    rows = {r["model"]: r for r in rows_of(shell, "corrected", *words)}
    for model in MODELS[:3]:
        row, keys = rows[model], [k for k in TRUE if k[0] == model]
        part = [k for k in keys if k[1] < 4]
        met, unmet = ([k for k in part if TRUE[k] is is_met] for is_met in (True, False))
        se, sp = np.mean([STRICT[k] for k in met]), np.mean([not STRICT[k] for k in unmet])
        share = np.mean([STRICT[k] for k in keys])
        assert (row["decisions"], row["labelled"], row["labelled_cases"]) == (72, 24, 4)
        assert (row["sensitivity"], row["specificity"]) == (pytest.approx(se), pytest.approx(sp))
        if row["corrected"] is not None:
            assert row["corrected"] == pytest.approx(
                min(1, max(0, (share + sp - 1) / (se + sp - 1)))
            )
        gap = np.mean([float(TRUE[k]) - float(STRICT[k]) for k in part])
        assert row["powered"] == pytest.approx(min(1, max(0, share + gap)))
        assert row["powered_low"] < row["powered"] < row["powered_high"]
        assert row["labels_of"] == "own"
    other = rows["delta"]
    part = [k for k in TRUE if k[1] < 4 and k[0] != "delta"]
    assert other["labels_of"] == "others" and other["labelled"] == 0
    assert other["sensitivity"] == pytest.approx(np.mean([STRICT[k] for k in part if TRUE[k]]))
    assert other["powered"] is None and other["powered_method"] == "none (no label of this model)"


def test_answers_of_low_agreement_show_no_text(shell: Shell, files: list[str]) -> None:
    words = (*files, "--table", "low_agreement")
    rows = shell.json("fidelity", *words)["rows"]
    assert list(dict.fromkeys((r["reference"], r["grader"]) for r in rows)) == [
        ("one", "two"), ("one", "strict"), ("two", "strict")
    ]  # fmt: skip
    values = [r["mf1"] for r in rows[:3]]
    assert values == sorted(values)
    each = {(m, c): answer_f1(ONE, TWO, m, c) for m in MODELS for c in range(12)}
    own = {key: value for key, value in each.items() if value is not None}
    assert values == pytest.approx(sorted(own.values())[:3])
    case = next(c for (m, c), v in own.items() if m == rows[0]["model"] and v == values[0])
    best = max((v, m) for (m, c), v in own.items() if c == case)
    assert rows[0]["best_mf1"] == pytest.approx(best[0])
    assert rows[0]["disputed"] == sum(
        ONE[rows[0]["model"], case, n] != TWO[rows[0]["model"], case, n] for n in range(6)
    )
    for form in ("json", "csv", "terminal"):
        shown = shell("fidelity", *words, "--format", form)
        assert "Patient" not in shown and "Names step" not in shown
    assert "Names step" in shell("fidelity", *words, "--show-text", "--format", "csv")


def test_the_terminal_shows_all_tables(shell: Shell, files: list[str]) -> None:
    shown = shell("fidelity", *files)
    for title in ("Fidelity of", "Mean over", "Models under", "Share of", "matched and lost"):
        assert title in shown


def test_mistakes_are_one_line(shell: Shell, tmp_path: Path) -> None:
    rows = objects(ONE)
    bad = [{"criteria_met": True}] * 5
    case = {"case_id": "a", "user_request": "y", "rubrics": [{"criterion_id": str(k), "criterion": c} for k, c in enumerate(CRITERIA)]}  # fmt: skip
    spelt = [rows[0], rows[1] | {"model": "ORG alpha_1"}]
    made = {
        "one": rows,
        "word": [rows[0] | {"criteria": [{"criterion": "c", "criteria_met": "yes"}]}],
        "place": [{"model": "m", "criteria": bad}],
        "short": [{"model": "m", "case_id": "a", "criteria": bad}],
        "bare": [{"model": "m", "case_id": "a", "criteria": bad}],
        "spelt": spelt,
        "cases": [case],
    }
    paths = {name: write(tmp_path / f"{name}.jsonl", own) for name, own in made.items()}
    for words, line, code in cases(__file__, "mistakes"):
        error = shell.error("fidelity", *words.format(**paths).split(), code=code)
        assert line in error
        assert "Patient" not in error and "Names step" not in error
