"""Results of many kinds for the tests in a browser: a whole site, and that of the demo."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

import medhelm
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Finish, Message, Response, Usage
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import JurySpec, MetricRef, UsageTotals
from medhelm.schema.score import Outcome
from medhelm.store.records import find_gradings, read_record
from tests.build_runs import EXACT, Item, write_run
from tests.leaderboard.casting import CLOSED, scripted, write_data

PRICE = Price(input=2.0, output=8.0, date="2026-01-01")
SMALL = Price(input=0.1, output=0.4, date="2026-01-01")


def spoken(name: str, reply: str, price: Price = PRICE, **more: Any) -> ModelSpec:
    """Return a model that always says the same, served under its own name and priced."""
    return msgspec.structs.replace(scripted(name, reply, price=price, **more), model=name)


def juror(name: str, *scores: int) -> ModelSpec:
    """Return a judge that gives these scores in turn, by the number of the instance."""
    said = [
        json.dumps({"accuracy": s, "completeness": max(1, s - 1), "clarity": s}) for s in scores
    ]
    ids = [
        f"{mark}ID{b}{i}" for b in ("open", *CLOSED) for i in range(6) for mark in ("", "CANARY")
    ]
    script = {"replies": {i: said[int(i[-1]) % len(said)] for i in ids}}
    return spoken(name, said[0], SMALL, script=script)


ONE = spoken("lab/one", "Aspirin now.")
TWO = spoken("lab/two-small", "Rest.", SMALL, weights="open")
THREE = spoken("vendor/three", "GOLD give aspirin 1")
SELF = msgspec.structs.replace(juror("judge/own", 2, 2, 5), model="lab/one")
GUESS = ModelSpec(name="baseline/random", provider="baseline", model="random", weights="none")
ORACLE = ModelSpec(name="baseline/oracle", provider="baseline", model="oracle", weights="none")

HELM = msgspec.structs.replace(EXACT, scoring="helm")
LIKERT = msgspec.structs.replace(EXACT, name="rating", minimum=1.0, maximum=5.0, floor=1.0)
PARTS = ("letter", "leaflet")
IN_PARTS = msgspec.structs.replace(EXACT, aggregation="mean_of_parts")
SKILL = {ONE.name: 0.8, TWO.name: 0.55, THREE.name: 0.7, GUESS.name: 0.25, ORACLE.name: 1.0}
MODELS = (ONE, TWO, THREE, GUESS, ORACLE)

ENDS: tuple[tuple[Outcome, Finish, str], ...] = (
    ("scored", "stop", "Answer: {gold}"),
    ("unparsed", "stop", "I would rather see the patient first."),
    ("empty", "stop", ""),
    ("refused", "refusal", "I cannot help with that."),
    ("truncated", "length", "Thinking about the case, the first thing to"),
    ("oversize", "oversize", ""),
    ("error", "error", ""),
    ("unscored", "stop", "Two judges were silent."),
    ("uninformative", "stop", "Answer: {gold}"),
)
FLOORED = ("unparsed", "empty", "refused", "truncated")

BENCHMARKS: dict[str, dict[str, Any]] = {
    "triage": {
        "category": "Clinical Decision Support",
        "subcategory": "Supporting Diagnostic Decisions",
        "title": "Triage of chest pain",
        "description": "Which step comes first for a patient with chest pain.",
        "tasks": ("interpret_ecg", "generate_differential_diagnoses"),
        "source": "https://example.org/triage",
        "citation": "A. Author. A made-up set of cases. 2026.",
        "instruction": "Answer with one letter.",
    },
    "letters": {
        "category": "Patient Communication and Education",
        "subcategory": "Providing Patient Education Resources",
        "title": "Letters to patients",
        "description": "Letters and leaflets in plain words.",
    },
    "coding": {
        "category": "Administration and Workflow",
        "subcategory": "Organizing Workflow Processes",
        "title": "Coding of visits",
        "description": "The code of a visit, asked three times.",
    },
    "notes": {
        "category": "Clinical Note Generation",
        "subcategory": "Documenting Patient Visits",
        "title": "Notes of visits",
        "description": "Long notes, so that a run has several files.",
    },
    "mishaps": {
        "category": "Medical Research Assistance",
        "subcategory": "Conducting Literature Research",
        "title": "Everything that can happen",
        "description": "Every outcome, and a run that was stopped.",
    },
}
COUNTS = {"triage": 40, "letters": 24, "coding": 12, "notes": 160, "mishaps": 18}
REPEATS = {"coding": 3}
LONG = ("notes",)


def write_full(folder: Path) -> Path:
    """Write full results of many kinds below a folder; return the results folder."""
    results = folder / "results"
    medhelm.evaluate(
        [ONE, TWO, THREE],
        ["open", *CLOSED],
        data="full",
        data_dir=folder / "data",
        results_dir=results,
        plugins=write_data(folder),
        controls=0,  # on which judges of one mark fail
        jury=JurySpec(
            name="panel",
            judges=(juror("judge/strict", 1, 2, 4), juror("judge/mild", 3, 5, 5), SELF),
            quorum=1,
        ),
    )
    for model in MODELS[:3]:  # before the others, whose log then stands: a run has one
        write_one(results, "triage", model, metric=HELM)
    for name in BENCHMARKS:
        for model in MODELS:
            write_one(results, name, model)
    return results


def write_demo(folder: Path) -> Path:
    """Write what the demo makes, of fewer benchmarks: baselines on samples, the offline jury."""
    results = folder / "results"
    medhelm.evaluate(
        ["baseline/random", "baseline/lead", "baseline/lexical", "baseline/oracle"],
        ["pubmed_qa", "medec", "medication_qa", "patient_instruct", "mtsamples"],
        data="sample",
        results_dir=results,
        jury="offline",
    )
    return results


def write_ratings(results: Path, path: Path) -> Path:
    """Write ratings of the demo's free text by three clinicians who roughly agree."""
    lines = [("rater", "benchmark", "model", "instance", "item", "value")]
    draw = random.Random(0)
    for grading in find_gradings(results):
        record = read_record(grading)
        if record.grading.jury is None:
            continue
        scores = pq.read_table(grading / "scores.parquet", columns=["instance_id"])
        for instance in sorted(set(scores["instance_id"].to_pylist())):
            worth = draw.randint(2, 4)
            for rater in ("anna", "ben", "cleo"):
                answer = (rater, record.spec.benchmark, record.spec.model.name, instance)
                for item in ("accuracy", "completeness", "clarity"):
                    lines.append((*answer, item, str(worth + draw.randint(-1, 1))))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


def write_one(results: Path, name: str, model: ModelSpec, *, metric: MetricRef = EXACT) -> None:
    """Write one run, with its log; of `letters` in parts, of `mishaps` stopped for one model."""
    metric = {"letters": IN_PARTS, "notes": LIKERT}.get(name, metric)
    given = list(answers(name, model, metric))
    is_stopped = name == "mishaps" and model is TWO
    given = given[:-4] if is_stopped else given
    count, repeats = COUNTS[name], REPEATS.get(name, 1)
    own = {k: v for k, v in BENCHMARKS[name].items() if k not in ("category", "subcategory")}
    grading = write_run(
        results,
        name,
        model,
        [item for item, _ in given],
        metrics=[metric],
        category=BENCHMARKS[name]["category"],
        subcategory=BENCHMARKS[name]["subcategory"],
        planned=count,
        card=own,
        usage=UsageTotals(
            requests=count * repeats,
            input_tokens=900 * count * repeats,
            output_tokens=60 * count * repeats,
            output_limit_tokens=256 * count * repeats,
        ),
        provenance={"git_commit": "0" * 40, "version.python": "3.11.2"},
        episodes=[episode for _, episode in given],
        repeats=repeats,
    )
    if name == "letters":
        record = read_record(grading)
        spec = msgspec.structs.replace(record.grading, parts=PARTS)
        raw = msgspec.json.encode(msgspec.structs.replace(record, grading=spec))
        (grading / "summary.json").write_bytes(raw)


def answers(name: str, model: ModelSpec, metric: MetricRef) -> Iterator[tuple[Item, Episode]]:
    """Yield the lines of a run and its log."""
    draw = random.Random(f"{name} {model.name} {metric.scoring}")
    for place in range(COUNTS[name]):
        instance = case(name, place)
        for repeat in range(REPEATS.get(name, 1)):
            outcome, finish, text = ENDS[place % len(ENDS)] if name == "mishaps" else ENDS[0]
            value = valued(draw, outcome, metric, SKILL[model.name])
            gold = instance.references[0] if value == metric.maximum else "none of these"
            item = Item(
                id=instance.id,
                value=value,
                outcome=outcome,
                repeat=repeat,
                cluster=instance.cluster,
                stats=in_parts(value, instance),
                metadata=instance.metadata,
            )
            said = text.format(gold=gold) + (" Because of the notes." * 160 if name in LONG else "")
            yield item, episode(instance, repeat, said if text else "", finish)


def valued(draw: random.Random, outcome: Outcome, metric: MetricRef, skill: float) -> float | None:
    """Return the value of an answer; None where the outcome is in no mean."""
    if outcome in FLOORED:
        return metric.floor
    if outcome != "scored":
        return None
    if metric is LIKERT:
        return float(min(5, 1 + round(4 * skill * draw.uniform(0.6, 1.2))))
    return float(draw.random() < skill)


def in_parts(value: float | None, instance: Instance) -> Sequence[float] | None:
    """Return the statistics of an instance of one part; None where there are no parts."""
    if "part" not in instance.metadata or value is None:
        return None
    own = (value, 1.0)
    return (*own, 0.0, 0.0) if instance.metadata["part"] == PARTS[0] else (0.0, 0.0, *own)


def case(name: str, place: int) -> Instance:
    """Return an instance."""
    story = f"Patient {place} of {name}: pain in the chest since the morning, no fever. "
    return Instance(
        id=f"{name}-{place:03d}",
        context=story * (60 if name in LONG else 2),
        question=f"What comes first for patient {place}?",
        choices=("an ECG", "a walk", "a meal", "a nap") if name == "triage" else (),
        references=("ABCD"[place % 4],) if name == "triage" else (f"An ECG, {place}", "ECG"),
        answer_key={"unit": "none"} if name == "coding" else {},
        cluster=f"ward{place // 4}" if name == "notes" else None,
        metadata={"part": PARTS[place % 2]} if name == "letters" else {"ward": f"w{place % 3}"},
    )


def episode(instance: Instance, repeat: int, text: str, finish: Finish) -> Episode:
    """Return a line of the log."""
    return Episode(
        instance=instance,
        messages=(
            Message("system", "SYSTEMCANARY be brief"),
            Message("user", f"{instance.context}\n\n{instance.question}"),
        ),
        response=Response(
            instance_id=instance.id,
            repeat=repeat,
            text=text,
            finish=finish,
            error="http 500" if finish == "error" else "",
            usage=Usage(input_tokens=900, output_tokens=60),
            latency_s=0.8,
        ),
    )
