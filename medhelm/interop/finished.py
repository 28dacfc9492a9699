"""Read finished runs as other tools may be handed them.

`leaderboard/publish` decides what may leave, as for a site: of closed data scores, outcomes and hashes of ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import msgspec

from medhelm.errors import UsageError
from medhelm.models.identity import is_rankable
from medhelm.plugins.registry import Registry
from medhelm.proof.manifest import read_manifest, shipped_samples
from medhelm.schema.data import DataClass, HubSource
from medhelm.schema.run import RunRecord, fields_of
from medhelm.schema.score import Scoring
from medhelm.store.records import find_gradings
from medhelm.tables.format.table import Settings
from medhelm.tables.instances import instances, main_metric
from medhelm.tables.known_tables import find_tables
from medhelm.tables.results import Results
from medhelm.tables.spending import cost_columns
from medhelm.tables.study.arrow import read_scores
from medhelm.tables.study.cells import Cell
from medhelm.tables.study.judge_errors import failure
from medhelm.tables.study.run_estimates import STAND_IN, estimates_of, is_stand_in, read_alone
from medhelm.tables.study.selection import GradedRun, newest_gradings, read_graded
from medhelm.tables.study.study import Estimate
from medhelm_leaderboard import own_words, publish
from medhelm_leaderboard.run_pages import facts_of

CONFIDENCE = 0.95
"""Of all intervals that leave."""


Answer = Mapping[str, Any]
"""`id`, `repeat`, `cluster`, `scores` and `outcomes` by metric. Where texts may be published also a row of
`tables.instances.instances` and its `tokens`; else `id` and `cluster` are keyed hashes."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished run as it may leave."""

    name: str
    """The benchmark's, of bundled samples with that."""
    record: RunRecord
    """Without address, path, private words; of closed data without any text."""
    folder: str
    estimates: Mapping[str, Estimate]
    """By metric, of those that have a value."""
    withheld: str
    """The reason for which no text may leave; empty: texts may."""
    unfit: str
    """The reason for which its main score is none for the hub."""
    facts: Mapping[str, Any]
    """All that other formats have no place for."""
    hub: HubSource | None
    answers: tuple[Answer, ...]
    ended: str
    """Time of the last answer: YYYY-MM-DDTHH:MM:SSZ."""


def finished_runs(
    folders: Iterable[Path], registry: Registry, scoring: Scoring
) -> Iterator[Finished]:
    """Yield the runs of folders of runs, gradings and results; of each run the newest grading.

    Raises UsageError for a folder without a graded run, RecordError where one cannot be read.
    """
    samples, written = shipped_samples(registry), set[Path]()
    for folder in folders:
        place, damaged = folder.absolute(), list[str]()
        above = (p for p in (place, *place.parents) if (p / "runs").is_dir())
        gradings = find_gradings(next(above, place))
        declared = [_as_declared(run, registry) for run in read_graded(gradings, damaged)]
        every = publish.strictest(declared, samples)
        named = [run for run in every if run.path.is_relative_to(place)]
        own = newest_gradings([r for r in named if r.record.grading.scoring == scoring])
        if not own:
            raise UsageError(
                f"{folder} holds no run graded with scoring={scoring}; name the folder of a run, of "
                f"a grading or of results{''.join(f' ({why})' for why in damaged[:1])}"
            )
        yield from (_finished(run, registry) for run in own if run.path not in written)
        written |= {run.path for run in own}


def _as_declared(run: GradedRun, registry: Registry) -> GradedRun:
    """Return a run under the class of data that its benchmark declares now, where that is stricter."""
    declared, card = registry.benchmarks.get(run.record.spec.benchmark), run.record.card
    classes = [card.data_class, declared.data_class if declared else card.data_class]
    card = msgspec.structs.replace(card, data_class=max(classes, key=get_args(DataClass).index))
    return replace(run, record=msgspec.structs.replace(run.record, card=card))


def _finished(run: GradedRun, registry: Registry) -> Finished:
    spec, (_, cell) = run.record.spec, read_alone(run, registry)
    scores = {publish.metric_name(name): own for name, own in cell.scores.items()}
    results = Results([Cell(publish.named(run), scores)], known=find_tables(registry.files))
    settings = Settings(confidence=CONFIDENCE)
    study = publish.runs(run.record.grading.scoring, results, settings, {}).study
    shown = study.cells[run.benchmark][run.model]
    estimates, dates = estimates_of(study, shown), run.record.provenance
    withheld = publish.why_closed(run.record)
    hub = hub_of(run.record, registry)
    return Finished(
        name=spec.column + ".bundled-samples" * (spec.data == "sample"),
        record=shown.record,
        folder=run.folder,
        estimates=estimates,
        withheld=withheld,
        unfit=_unfit(shown, estimates, hub),
        facts=_facts(run, shown, estimates),
        hub=hub,
        answers=tuple(_answers(run, registry, is_open=not withheld)),
        ended=dates.get("answered_until") or dates.get("graded_at") or "1970-01-01T00:00:00Z",
    )


def hub_of(record: RunRecord, registry: Registry) -> HubSource | None:
    """Return the data of a run on the hub; None where it did not ask all of them, as they are there."""
    declared, spec = registry.benchmarks.get(record.spec.benchmark), record.spec
    if declared is None or spec.variant or spec.data == "sample":
        return None
    facts, files = read_manifest(declared, "full"), declared.dataset.needed(spec.split)
    is_other = facts and facts.split == spec.split and facts.dataset_sha256 != spec.dataset_sha256
    is_whole = record.instances == declared.expected_instances.get(spec.split)
    return files[0].hub if len(files) == 1 and is_whole and not is_other else None


def _unfit(shown: Cell, estimates: Mapping[str, Estimate], hub: HubSource | None) -> str:
    record, metric = shown.record, shown.record.grading.metrics[0].name
    reasons = {
        "bundled samples say nothing about models": record.spec.data == "sample",
        "it reads the gold, or is people's": not is_rankable(record.spec.model),
        f"rated by {STAND_IN}": is_stand_in(record, metric),
        "no score": metric not in estimates,
        "stopped before its end": record.state == "partial",
        "not all of its data, as they are on the hub": hub is None,
    }
    of_score = shown.shortfall(metric) or failure([record], metric)
    return next((why for why, holds in reasons.items() if holds), of_score)


def _facts(run: GradedRun, shown: Cell, estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    record, rows = shown.record, ("n", "clusters", "standard_error", "interval_method")
    return {
        **facts_of(publish.named(run)),
        "texts": publish.why_closed(run.record) or "published",
        "rated_by_stand_in": [name for name in estimates if is_stand_in(record, name)],
        "scores": {
            name: {**found.row(*rows), "coverage": shown.coverage(name)}
            for name, found in estimates.items()
        },
        "outcomes": {result.metric: result.outcomes for result in record.results},
        "controls": record.controls,
        "cost": cost_columns([record]),
        **fields_of(record.card, "licence", "citation"),
    }


def _answers(run: GradedRun, registry: Registry, *, is_open: bool) -> Iterator[Answer]:
    """Yield the answers of a run, of closed data in the order of their hashes."""
    record, clusters = run.record, dict[str, str | None]()
    for batch in read_scores(run, ("instance_id", "cluster")):
        clusters.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    key = b"" if is_open else publish.publishing_key(run.path.parents[5])
    hidden = {
        name: name if is_open else publish.hashed_id(key, record.card.name, name)
        for name in (*clusters, *filter(None, clusters.values()))
    }
    ids, protocol = sorted(clusters, key=hidden.__getitem__), record.spec.protocol
    rows, *_ = instances(
        publish.named(run),
        registry.protocols[protocol].transcript if protocol in registry.protocols else None,
        has_text=is_open,
        metric=main_metric(record, lambda: registry),
        places={instance: place for place, instance in enumerate(ids)},
        named=publish.metric_name,
    )
    if not is_open:  # an instance is '#' and its place
        rows = [row | {"instance_id": ids[int(row["instance_id"][1:])]} for row in rows]
    is_told = own_words.is_prompt_packaged(record.spec)
    for row in sorted(rows, key=lambda row: (hidden[row["instance_id"]], row["repeat"])):
        cluster = clusters[row["instance_id"]]
        own = {
            "id": hidden[row["instance_id"]],
            "cluster": cluster and hidden[cluster],
            "scores": {name: row[name] for name in row["outcomes"]},
            "repeat": row["repeat"],
            "outcomes": row["outcomes"],
        }
        if is_open:
            prompt = [said for said in row["prompt"] if is_told and said[0] != "system"]
            tokens = tokens_of(row["input_tokens"], row["output_tokens"])
            own = row | own | {"prompt": prompt, "tokens": tokens}
        yield own


def tokens_of(given: int | None, out: int | None) -> dict[str, int] | None:
    """Return tokens as other tools name them; None where they were not counted."""
    if given is None or out is None:
        return None
    return {"input_tokens": given, "output_tokens": out, "total_tokens": given + out}


def portable(name: str) -> str:
    """Return a name as part of a path on any system."""
    kept = "".join(c if c.isalnum() or c in "._+=-" else "-" for c in name.replace("/", "_"))
    return kept.strip(". ") or "unnamed"
