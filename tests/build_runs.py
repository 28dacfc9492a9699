"""Writes results folders without running anything: for tests of tables, and for `perf/tables.py`."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from medhelm.plugins.registry import load_registry
from medhelm.schema.aggregation import EACH, Aggregation
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Message, Response, Usage
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import (
    BenchmarkCard,
    GradingSpec,
    MetricRef,
    MetricResult,
    Party,
    RunRecord,
    RunSpec,
    UsageTotals,
)
from medhelm.store import records
from medhelm.store.loglines import encode_line
from medhelm.store.records import Plan, cluster_key, instance_key
from medhelm.tables.study.aggregations import Aggregations

SCHEMA = pa.schema(
    [
        pa.field("instance_id", pa.string()),
        pa.field("instance_key", pa.uint64()),
        pa.field("repeat", pa.int32()),
        pa.field("cluster", pa.string()),
        pa.field("cluster_key", pa.uint64()),
        pa.field("metric", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("outcome", pa.string()),
        pa.field("extracted", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("sums", pa.map_(pa.string(), pa.float64())),
        pa.field("metadata", pa.string()),
    ]
)

EXACT = MetricRef(
    name="exact_match",
    version="1",
    scoring="fixed",
    minimum=0.0,
    maximum=1.0,
    floor=0.0,
    higher_is_better=True,
    aggregation="mean",
)


@dataclass(kw_only=True)
class Item:
    """One row of scores.parquet."""

    id: str
    value: float | None
    outcome: str = "scored"
    repeat: int = 0
    cluster: str | None = None
    metric: str = ""
    stats: Sequence[float] | None = None
    """Its sums, in the order in which the aggregation names them; None: those of a mean."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    extracted: str = ""


def items(values: Sequence[float | None], **more: Any) -> list[Item]:
    """Return one item per value, named i000, i001, ...; None is an infrastructure error."""
    return [
        Item(id=f"i{i:03d}", value=v, outcome="error" if v is None else "scored", **more)
        for i, v in enumerate(values)
    ]


def write_run(
    results: Path,
    benchmark: str,
    model: str | ModelSpec,
    rows: Sequence[Item],
    *,
    metrics: Sequence[MetricRef] = (EXACT,),
    category: str = "clinical_decision_support",
    subcategory: str = "providing_clinical_knowledge_support",
    planned: int | None = None,
    usage: UsageTotals | None = None,
    provenance: Mapping[str, str] | None = None,
    served: Mapping[str, int] | None = None,
    card: Mapping[str, Any] | None = None,
    episodes: Iterable[Episode] = (),
    **spec: Any,
) -> Path:
    """Write one graded run and return its grading folder.

    `spec` overrides fields of RunSpec, `card` those of BenchmarkCard; `episodes` make the log.
    """
    if isinstance(model, str):
        provider = "baseline" if model.startswith("baseline/") else "openai"
        model = ModelSpec(name=model, provider=provider)
    fields: dict[str, Any] = {
        "benchmark": benchmark,
        "benchmark_version": "1",
        "data": "full",
        "split": "test",
        "dataset_sha256": hashlib.sha256(benchmark.encode()).hexdigest(),
        "prompt_name": "multiple_choice",
        "prompt_version": "1",
        "prompt_sha256": "p" * 64,
        "model": model,
        "max_output_tokens": 256,
        **spec,
    }
    run_spec = RunSpec(**fields)
    grading = GradingSpec(scoring=metrics[0].scoring, metrics=tuple(metrics))
    request_hash, grading_hash = _hash(run_spec), _hash(grading)
    name = model.name.replace("/", "__")
    folder = results / "runs" / benchmark / name / request_hash / "gradings" / grading_hash
    folder.mkdir(parents=True, exist_ok=True)
    _write_scores(folder, rows, metrics)
    count = len({r.id for r in rows}) if planned is None else planned
    own_card: dict[str, Any] = {
        "name": benchmark,
        "title": benchmark,
        "category": category,
        "subcategory": subcategory,
        "data_class": "public",
        "redistributable": True,
        "licence": "MIT",
        "curation": "existing",
        "citation": "",
        "cluster": "note" if any(r.cluster for r in rows) else "",
        **(card or {}),
    }
    record = RunRecord(
        spec=run_spec,
        request_hash=request_hash,
        grading=grading,
        grading_hash=grading_hash,
        card=BenchmarkCard(**own_card),
        state="complete" if len({r.id for r in rows}) >= count else "partial",
        instances=count,
        results=tuple(_result(m, rows, metrics[0].name) for m in metrics),
        parties=(
            Party(
                role="model",
                model=run_spec.model,
                usage=usage or UsageTotals(),
                served_models=dict(served or {"served-1": len(rows)}),
            ),
        ),
        provenance=dict(provenance or {}),
    )
    (folder / "summary.json").write_bytes(msgspec.json.encode(record))
    if lines := [encode_line(episode) for episode in episodes]:
        run = folder.parents[1]
        plan = Plan(spec=run_spec, request_hash=request_hash, instances=count)
        (run / "spec.json").write_bytes(msgspec.json.encode(plan))
        (run / "responses.jsonl").write_bytes(b"".join(lines))
    return folder


def _hash(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


def _result(metric: MetricRef, rows: Sequence[Item], main: str) -> MetricResult:
    own = [r for r in rows if (r.metric or main) == metric.name]
    values = [r.value for r in own if r.value is not None]
    return MetricResult(
        metric=metric.name,
        value=sum(values) / len(values) if values else None,
        counted=len(values),
        scored=sum(r.outcome == "scored" for r in own),
        outcomes=dict(Counter(r.outcome for r in own)),  # type: ignore[arg-type]
    )


@cache
def _aggregations() -> Aggregations:
    return Aggregations(load_registry())


def sum_names(aggregation: Aggregation, width: int) -> tuple[str, ...]:
    """Return the names of so many sums of an aggregation; labels are 1, 2, ..."""
    if not aggregation.is_by_label:
        return aggregation.sums[:width]
    heads = [name.removesuffix(EACH) for name in aggregation.sums]
    return tuple(f"{head}{n + 1}" for n in range(width // len(heads)) for head in heads)


def _sums(item: Item, metric: MetricRef) -> list[tuple[str, float]]:
    """Return the sums of a row by name."""
    if item.value is None or item.stats is None:
        return []
    known = _aggregations()
    if known.fault(metric):
        return []
    names = sum_names(known.of(metric), len(item.stats))
    return list(zip(names, map(float, item.stats), strict=True))


def _write_scores(folder: Path, rows: Sequence[Item], metrics: Sequence[MetricRef]) -> None:
    refs, main = {m.name: m for m in metrics}, metrics[0].name
    columns = {
        "instance_id": [r.id for r in rows],
        "instance_key": [instance_key(r.id) for r in rows],
        "repeat": [r.repeat for r in rows],
        "cluster": [r.cluster for r in rows],
        "cluster_key": [cluster_key(r.id, r.cluster) for r in rows],
        "metric": [r.metric or main for r in rows],
        "value": [r.value for r in rows],
        "outcome": [r.outcome for r in rows],
        "extracted": [r.extracted for r in rows],
        "reason": [""] * len(rows),
        "sums": [_sums(r, refs[r.metric or main]) for r in rows],
        "metadata": [msgspec.json.encode(r.metadata).decode() for r in rows],
    }
    pq.write_table(pa.table(columns, schema=SCHEMA), folder / "scores.parquet")


def write_suite(
    results: Path,
    models: int,
    benchmarks: int,
    instances: int,
    seed: int = 0,
    *,
    has_texts: bool = False,
) -> None:
    """Write `models` x `benchmarks` runs of `instances` each: rates, grades and clusters mixed.

    `has_texts`: with logs, of some 900 characters of case and 300 of answer each.
    """
    rng = random.Random(seed)
    likert = msgspec.structs.replace(EXACT, name="jury", minimum=1.0, maximum=5.0, floor=1.0)
    f1 = msgspec.structs.replace(EXACT, name="micro_f1", aggregation="micro_f1")
    for b in range(benchmarks):
        metric = (EXACT, likert, EXACT, f1)[b % 4]
        is_clustered = b % 4 == 2
        hard = [rng.random() for _ in range(instances)]
        for m in range(models):
            skill = 0.4 + 0.05 * m
            rows = [
                _draw(rng, metric, f"instance-{i:05d}", hard[i], skill, is_clustered, i)
                for i in range(instances)
            ]
            write_run(
                results,
                f"benchmark_{b:02d}",
                f"provider/model-{m}",
                rows,
                metrics=[metric],
                category=f"category_{b % 5}",
                subcategory=f"subcategory_{b % 22}",
                episodes=[_episode(row.id, m) for row in rows] if has_texts else (),
                usage=UsageTotals(
                    requests=instances,
                    input_tokens=500 * instances,
                    output_tokens=50 * instances,
                    output_limit_tokens=256 * instances,
                ),
            )


def _draw(
    rng: random.Random,
    metric: MetricRef,
    name: str,
    hard: float,
    skill: float,
    is_clustered: bool,
    place: int,
) -> Item:
    passed = rng.random() < skill * (0.5 + hard)
    stats = None
    value = float(passed)
    if metric.name == "jury":
        value = round(1 + 4 * rng.betavariate(1 + 4 * skill, 1 + hard), 2)
    elif metric.name == "micro_f1":
        tp, fp, fn = rng.randint(0, 4), rng.randint(0, 3), rng.randint(0, 3)
        stats = (tp, fp, fn)
        value = 2 * tp / max(1, 2 * tp + fp + fn)
    return Item(
        id=name,
        value=value,
        stats=stats,
        cluster=f"note-{place // 5}" if is_clustered else None,
        metadata={"difficulty": "hard" if hard > 0.5 else "easy"},
    )


def _episode(name: str, model: int) -> Episode:
    case = f"Case {name}. " + "A patient with chest pain since the morning, no fever. " * 16
    return Episode(
        instance=Instance(id=name, context=case, question="What next?", references=("ECG",)),
        messages=(Message("user", f"{case}\n\nWhat next?"),),
        response=Response(
            instance_id=name,
            text=f"Model {model}: an electrocardiogram, troponin and aspirin. " * 6,
            usage=Usage(input_tokens=240, output_tokens=75),
        ),
    )


def forget_hash(grading: Path) -> None:
    """Write a summary as it was before it held the hash of the scores, which a test has changed."""
    record = records.read_record(grading)
    known = {k: v for k, v in record.provenance.items() if k != records.SCORES_HASH}
    old = msgspec.structs.replace(record, provenance=known)
    (grading / "summary.json").write_bytes(msgspec.json.encode(old))
