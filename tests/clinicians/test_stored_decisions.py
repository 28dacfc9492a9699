"""Verdicts of stored runs against experts, and the blinded sheet of criteria: out, filled, in again."""

import csv
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn import metrics as sklearn_metrics

import medhelm
from medhelm.schema.run import JurySpec
from tests.server import FaultServer, serve_in_thread
from tests.shell import Shell

MODELS = ("baseline/lead", "baseline/random", "baseline/oracle")
WORDS = ("fever", "cough", "rash", "=gout")

PLUGIN = """
from medhelm import Benchmark, Criterion, FileDataset, Instance, Row, SourceFile, hookimpl


def to_instance(row: Row) -> Instance:
    return Instance(
        id=row["i"], context=row["c"], question=row["q"], references=(row["g"],),
        criteria=tuple(Criterion(name=f"c{n}", text=t) for n, t in enumerate(row["t"])),
    )


@hookimpl
def medhelm_benchmarks():
    return [
        Benchmark(
            name=name, subcategory="planning_treatments",
            dataset=FileDataset(files=(SourceFile(name=f"{name}.jsonl"),)), to_instance=to_instance,
            metrics=["rubric_accuracy"], answer="text", prompt="plain", data_class=kind,
            instruction="Answer.", redistributable=kind == "public",
        )
        for name, kind in (("ward", "public"), ("notes", "private"))
    ]
"""


def says(prompt: str) -> str:
    """Find a criterion met by the letters of it and of the answer; of "rash" the reply is broken."""
    criterion = re.findall(r"<criterion \w+>\n(.*?)\n</criterion", prompt, re.DOTALL)[-1]
    answer = re.findall(r"<answer \w+>\n(.*?)\n</answer", prompt, re.DOTALL)[-1]
    if "rash" in criterion:
        return "I think so."
    return json.dumps({"explanation": "x", "criteria_met": (len(answer) + len(criterion)) % 3 > 0})


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with serve_in_thread(says) as running:
        yield running


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, server: FaultServer) -> Path:
    """Runs of three baselines on two benchmarks, with a judge of criteria."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "samples").mkdir()
    for name in ("ward", "notes"):
        rows = [
            {
                "i": f"{name}{n}",
                "c": f"{name} {n}: the patient sleeps badly. " + "It is late. " * n,
                "q": f"What now, on day {n}?",
                "g": "Rest and fluids." + " Again." * n,
                "t": [f"{word} is named on day {n}" for word in WORDS],
            }
            for n in range(6)
        ]
        (folder / "samples" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    plugin = folder / "ward.py"
    plugin.write_text(PLUGIN)
    judge = server.model("j/one", endpoint_class="local")
    medhelm.evaluate(
        MODELS,
        ["ward", "notes"],
        data="sample",
        plugins=plugin,
        results_dir=folder / "results",
        jury=JurySpec(name="test", judges=(judge,), quorum=1, repairs=0),
    )
    return folder / "results"


@pytest.fixture(autouse=True)
def of_the_results(results: Path, here: Path, shell: Shell) -> None:
    shell.always = ("--results-dir", results)


def fill(sheet: Path, path: Path, rater: str, seed: int) -> dict[tuple[str, int], bool | None]:
    """Decide on every row by dice, on some not at all; return the decisions by item and number."""
    dice = random.Random(seed)
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    found: dict[tuple[str, int], bool | None] = {}
    for row in rows:
        met = None if dice.random() < 0.1 else dice.random() < 0.6
        found[row["unit"], int(row["item"][1:]) + 1] = met
        row |= {"rater": rater, "value": "" if met is None else "yes" if met else "no"}
    dice.shuffle(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    return found


def judged(results: Path, model: str, number: int) -> list[bool | None]:
    """Return what the judge said of an answer, worked out from the stored answer's length."""
    (log,) = (results / "runs" / "ward" / model.replace("/", "__")).glob("*/responses.jsonl")
    answers = {}
    for line in map(json.loads, log.read_text().splitlines()):
        answers[line["instance"]["id"]] = line["response"]["text"]
    length = len(answers[f"ward{number}"])
    texts = [f"{word} is named on day {number}" for word in WORDS]
    return [None if "rash" in t else (length + len(t)) % 3 > 0 for t in texts]


def test_a_sheet_goes_out_and_comes_in(shell: Shell, results: Path, tmp_path: Path) -> None:
    asked = "agreement criteria ward --template sheet.csv --sample 10 --set seed=4"
    out = shell(*asked.split())
    assert "40 rows" in out and "10 units" in out
    assert f"{results} RATER.csv" in out
    sheet = tmp_path / "sheet.csv"
    kept = tmp_path / "sheet.key.json"
    assert {path.stat().st_mode & 0o777 for path in (sheet, kept)} == {0o600}
    text = sheet.read_text(encoding="utf-8-sig")
    assert "baseline" not in text and "ward0" not in text and "j/one" not in text
    key = json.loads((tmp_path / "sheet.key.json").read_text())["items"]
    assert len(key) == 10 and {item["model"] for item in key.values()} == {*MODELS[:2]}
    filled = {name: fill(sheet, tmp_path / f"{name}.csv", name, n) for n, name in enumerate("ab")}
    (tmp_path / "a.key.json").write_text((tmp_path / "sheet.key.json").read_text())
    words = ("--table", "fidelity", "--set", "draws=50")
    rows = shell.json("agreement", "criteria", "ward", "a.csv", "b.csv", *words)["rows"]
    found = {(r["reference"], r["grader"]): r for r in rows if r["level"] == "overall"}
    assert {*found} == {("a", "b"), ("a", "j/one"), ("b", "j/one")}
    labels, replies = [], []
    for (item, number), met in filled["a"].items():
        if met is not None:
            of = key[item]
            labels.append(met)
            replies.append(judged(results, of["model"], int(of["instance"][4:]))[number - 1])
    row = found["a", "j/one"]
    assert row["decisions"] == len(labels)
    assert row["invalid"] == replies.count(None) > 0 and row["absent"] == 0
    unmet = [reply is True for reply in replies]
    assert row["mf1"] == pytest.approx(sklearn_metrics.f1_score(labels, unmet, average="macro"))
    both = [(m, filled["b"][k]) for k, m in filled["a"].items() if None not in (m, filled["b"][k])]
    assert found["a", "b"]["kappa"] == pytest.approx(
        sklearn_metrics.cohen_kappa_score(*zip(*both, strict=True))
    )
    # the same by groups, against the judge of the runs
    groups = ("fidelity", "--stored", "ward", "--experts", "a=a.csv")
    again = shell.json(*groups, *words)["rows"]
    assert again[0] | {"reference": "a"} == row | {"mf1_method": again[0]["mf1_method"]}
    shown = shell.json(*groups, "--table", "low_agreement")
    assert all(r["case"].startswith("ward") and r["text"] is None for r in shown["rows"])


def test_a_larger_sheet_holds_the_smaller_one(shell: Shell, tmp_path: Path) -> None:
    found = []
    for count in ("4", "8"):
        shell("agreement", "criteria", "ward", "--template", f"{count}.csv", "--sample", count)
        key: dict[str, Any] = json.loads((tmp_path / f"{count}.key.json").read_text())["items"]
        found.append({(item["model"], item["instance"]) for item in key.values()})
    assert found[0] < found[1]
    assert sorted(model for model, _ in found[0]) == sorted([*MODELS[:2], *MODELS[:2]])


def test_text_of_closed_data_stays_closed(shell: Shell, tmp_path: Path) -> None:
    error = shell.error("agreement", "criteria", "notes", "--template", "s.csv", code=5)
    assert "is private" in error and not (tmp_path / "s.csv").exists()
    shell("agreement", "criteria", "notes", "--template", "s.csv", "--text-of", "private")
    fill(tmp_path / "s.csv", tmp_path / "f.csv", "a", 1)
    words = ("fidelity", "--stored", "notes", "--experts", "a=f.csv", "--table", "low_agreement")
    assert "sleeps" not in shell(*words) and "is named" not in shell(*words)
    assert "is private" in shell.error(*words, "--show-text", code=5)
    shell(*words, "--show-text", "--text-of", "private")


def test_verdicts_go_out_in_the_exchange_format(
    shell: Shell, results: Path, tmp_path: Path
) -> None:
    shell("fidelity", "--stored", "ward", "--export", "judged", "--model", *MODELS[:1])
    (rows,) = (json.loads(path.read_text()) for path in (tmp_path / "judged").iterdir())
    assert {row["case_id"] for row in rows} == {f"ward{n}" for n in range(6)}
    for row in rows:
        met = [decision["criteria_met"] for decision in row["criteria_results"]]
        assert met == judged(results, MODELS[0], int(row["case_id"][4:]))


def test_experts_with_ids_of_their_own_are_read_by_the_file_of_cases(
    shell: Shell, results: Path, tmp_path: Path
) -> None:
    rows, cases = [], []
    for n in range(6):
        texts = [f"{word} is named on day {n}" for word in WORDS]
        named = [{"criterion_id": f"r0{i}", "criterion": t} for i, t in enumerate(texts, 1)]
        asked = {"case_id": f"ward{n}", "criteria": named, "user_request": f"What now, on day {n}?"}
        asked["clinical_context"] = f"ward {n}: the patient sleeps badly. " + "It is late. " * n
        cases.append(asked)
        met = judged(results, MODELS[0], n)
        said = [{"criterion_id": f"r0{i}", "criteria_met": bool(m)} for i, m in enumerate(met, 1)]
        rows.append({"model": MODELS[0], "case_id": f"ward{n}", "criteria": said})
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)))
    call = ("fidelity", "--stored", "ward", "--experts", "a=a.jsonl", "--model", MODELS[0])
    error = shell.error(*call, code=3)
    assert "'r01'" in error and "c0 to c3" in error
    assert "--cases FILE" in error
    row, _ = shell.json(*call, "--cases", "cases.jsonl", "--table", "fidelity")["rows"]
    assert (row["decisions"], row["answers"], row["invalid"]) == (24, 6, 6)
    assert (row["mf1"], row["positive_reference"]) == (1.0, 0.75)


MISTAKES = {
    "fidelity --stored wart --experts a=a.csv": "did you mean",
    "fidelity --experts a=a.csv --judge b=b.csv --latest": "belong to --stored",
    "agreement criteria wart --template s.csv": "did you mean",
    "agreement criteria ward --template s.csv --table fidelity": "--table does not go with",
}


def test_mistakes_are_one_line(shell: Shell) -> None:
    for words, line in MISTAKES.items():
        assert line in shell.error(*words.split())
