"""Read finished runs as other tools may be handed them.

`leaderboard/publish` decides what may leave, as it does for a site: of data that are closed scores, outcomes and
hashes of ids. Exporters see nothing else of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec

from medhelm.errors import UsageError
from medhelm.plugins.registry import Registry
from medhelm.proof.manifest import shipped_samples
from medhelm.schema.data import DataClass, HubSource
from medhelm.schema.run import RunRecord
from medhelm.schema.score import Scoring
from medhelm.store.records import find_gradings, read_record, stored_records
from medhelm.tables.format.table import Settings
from medhelm.tables.instances import instances, main_metric
from medhelm.tables.known_tables import find_tables
from medhelm.tables.results import Results
from medhelm.tables.run_estimates import STAND_IN, estimates_of, is_stand_in
from medhelm.tables.spending import cost_columns, spend_of
from medhelm.tables.study.aggregations import Aggregations
from medhelm.tables.study.arrow import read_scores
from medhelm.tables.study.cells import COLUMNS, Cell, read_cell
from medhelm.tables.study.judge_errors import failure
from medhelm.tables.study.selection import GradedRun, is_ranked, read_graded
from medhelm.tables.study.study import Estimate
from medhelm_leaderboard import own_words, publish

CONFIDENCE = 0.95
"""Of all intervals that leave."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer: its scores by metric, and its texts where these may be published."""

    id: str
    """Id of the instance; where texts are withheld a keyed hash of it, as of `cluster`."""
    repeat: int
    cluster: str | None
    scores: Mapping[str, float | None]
    outcomes: Mapping[str, str]
    texts: Mapping[str, Any] | None
    """A row of `tables.instances.instances`; None: withheld."""

    @property
    def prompt(self) -> tuple[tuple[str, str], ...]:
        """Return who says what in the prompt, without a system prompt, which is its owner's."""
        return tuple(said for said in (self.texts or {}).get("prompt") or () if said[0] != "system")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished run as it may leave."""

    record: RunRecord
    """Without address, path, private words; of closed data without any text."""
    folder: str
    """Of its grading, below the results folder."""
    estimates: Mapping[str, Estimate]
    """By metric, of those that have a value."""
    withheld: str
    """The reason for which no text may leave; empty: texts may."""
    unfit: str
    """The reason for which its main score says nothing about the model; empty: it says something."""
    facts: Mapping[str, Any]
    """The facts of medhelm that other formats have no place for."""
    hub: HubSource | None
    """The data on the hub; None where they are elsewhere, or the bundled samples."""
    answers: tuple[Answer, ...]

    @property
    def name(self) -> str:
        """Return the benchmark's name, of bundled samples with that."""
        spec = self.record.spec
        return f"{spec.column}{'.bundled-samples' if spec.data == 'sample' else ''}"

    @property
    def ended(self) -> str:
        """Return when the last answer came, or the grading was made: YYYY-MM-DDTHH:MM:SSZ."""
        dates = self.record.provenance
        return dates.get("answered_until") or dates.get("graded_at") or "1970-01-01T00:00:00Z"


def finished_runs(
    folders: Iterable[Path], registry: Registry, scoring: Scoring, settings: Settings
) -> Iterator[Finished]:
    """Yield the runs of folders of runs, gradings and results.

    Raises UsageError for a folder without a graded run, RecordError where one cannot be read.
    """
    chosen = list(dict.fromkeys(g for f in folders for g in _gradings(f.absolute(), scoring)))
    samples, damaged = shipped_samples(registry), list[str]()
    closing: dict[Path, GradedRun] = {}
    for results in dict.fromkeys(path.parents[5] for path in chosen):
        runs = read_graded(find_gradings(results), damaged)
        declared = [_as_declared(run, registry) for run in runs]
        closing |= {run.path: run for run in publish.strictest(declared, samples)}
    for path in chosen:
        if path not in closing:
            read_record(path)  # raises why
        yield _finished(closing[path], registry, settings)


def _gradings(folder: Path, scoring: Scoring) -> list[Path]:
    """Return the gradings of a folder: of each run the newest one by a scoring."""
    if (folder / "summary.json").is_file():
        return [folder]
    is_run = (folder / "gradings").is_dir()
    runs = [folder] if is_run else dict.fromkeys(g.parents[1] for g in find_gradings(folder))
    found = []
    for run in runs:
        own = (r.grading_hash for r in stored_records(run) if r.grading.scoring == scoring)
        found += [run / "gradings" / newest for newest in [next(own, None)] if newest]
    if not found:
        raise UsageError(
            f"{folder} holds no run graded with scoring={scoring}; name the folder of a run, of a "
            "grading or of results (`medhelm score` grades stored responses)"
        )
    return found


def _as_declared(run: GradedRun, registry: Registry) -> GradedRun:
    """Return a run under the class of data that its benchmark declares now, where that is stricter."""
    declared = registry.benchmarks.get(run.record.spec.benchmark)
    card, order = run.record.card, get_args(DataClass)
    if declared is None or order.index(declared.data_class) <= order.index(card.data_class):
        return run
    card = msgspec.structs.replace(card, data_class=declared.data_class)
    return replace(run, record=msgspec.structs.replace(run.record, card=card))


def _finished(run: GradedRun, registry: Registry, settings: Settings) -> Finished:
    aggregations = Aggregations(registry)
    cell = read_cell(run, read_scores(run, COLUMNS), aggregations)
    scores = {publish.metric_name(name): own for name, own in cell.scores.items()}
    known = find_tables(registry.files)
    results = Results([Cell(publish.named(run), scores)], known=known, aggregations=aggregations)
    scoring = run.record.grading.scoring
    study = publish.runs(scoring, results, settings, {}).study
    shown = study.cells[run.benchmark][run.model]
    estimates = estimates_of(study, shown)
    withheld = publish.why_closed(run.record)
    declared, spec = registry.benchmarks.get(run.record.spec.benchmark), run.record.spec
    files = declared.dataset.needed(spec.split) if declared and spec.data == "full" else ()
    return Finished(
        record=shown.record,
        folder=run.folder,
        estimates=estimates,
        withheld=withheld,
        unfit=_unfit(shown, estimates),
        facts=_facts(run, shown, estimates, withheld),
        hub=next((file.hub for file in files if file.hub), None),
        answers=tuple(_answers(run, registry, withheld)),
    )


def _unfit(shown: Cell, estimates: Mapping[str, Estimate]) -> str:
    record, metric = shown.record, shown.record.grading.metrics[0].name
    if record.spec.data == "sample":
        return "bundled samples say nothing about models"
    if not is_ranked(record.spec.model):
        return "it reads the gold, or is people's"
    if is_stand_in(record, metric):
        return f"rated by {STAND_IN}"
    if metric not in estimates:
        return "no score"
    if record.state == "partial":
        return "stopped before its end"
    return shown.shortfall(metric) or failure([record], metric)


def _facts(
    run: GradedRun, shown: Cell, estimates: Mapping[str, Estimate], withheld: str
) -> dict[str, Any]:
    """Return what decided a run, its scores with intervals, outcomes, judges and cost."""
    own, record = publish.named(run).record, shown.record
    grading, raters = record.grading, record.grading.raters
    return {
        "run": run.folder,
        "settings": dict(publish.settings(own)),
        "provenance": dict(publish.provenance(own)),
        "command": own_words.run_command(own),
        "access": record.card.data_class,
        "licence": record.card.licence,
        "citation": record.card.citation,
        "texts": withheld or "published",
        "state": record.state,
        "instances": record.instances,
        "left_out": record.left_out,
        "metrics": {m.name: {"version": m.version, "floor": m.floor} for m in grading.metrics},
        "scores": {
            name: {
                **found.row("n", "clusters", "standard_error", "interval_method"),
                "coverage": shown.coverage(name),
            }
            for name, found in estimates.items()
        },
        "outcomes": {r.metric: r.outcomes for r in record.results},
        "judges": [j.name for j in raters.judges] or STAND_IN if raters else None,
        "controls": record.controls,
        "parties": [
            {
                "role": party.role,
                "model": party.model.name,
                "is_grader": party.is_grader,
                "usage": party.usage,
                "price": party.model.price,
                "cost_usd": spend_of(party.model, party.usage).actual,
                "ends": party.ends,
            }
            for party in record.parties
        ],
        "cost": cost_columns([record]),
    }


def _answers(run: GradedRun, registry: Registry, withheld: str) -> Iterator[Answer]:
    """Yield the answers of a run, of closed data in the order of their hashes."""
    record = run.record
    named = {m.name: publish.metric_name(m.name) for m in record.grading.metrics}
    clusters: dict[str, str | None] = {}
    for batch in read_scores(run, ("instance_id", "cluster")):
        columns = (batch.column(name).to_pylist() for name in ("instance_id", "cluster"))
        clusters.update(zip(*columns, strict=True))
    hidden = {i: i for i in clusters}
    if withheld:
        secret = publish.publishing_key(run.path.parents[5])
        hash_of = partial(publish.hashed_id, secret, record.card.name)
        hidden = {i: hash_of(i) for i in clusters}
        clusters = {i: c if c is None else hash_of(c) for i, c in clusters.items()}
    ids = sorted(clusters, key=hidden.__getitem__)
    protocol = registry.protocols.get(record.spec.protocol)
    rows, *_ = instances(
        run,
        protocol.transcript if protocol else None,
        has_text=not withheld,
        metric=main_metric(record, lambda: registry),
        places={instance: place for place, instance in enumerate(ids)},
    )
    if not own_words.is_prompt_packaged(record.spec):
        rows = [row | {"prompt": ()} for row in rows]
    if withheld:  # an instance is '#' and its place among the hashes
        rows.sort(key=lambda row: (int(row["instance_id"][1:]), row["repeat"]))
    for row in rows:
        instance = ids[int(row["instance_id"][1:])] if withheld else row["instance_id"]
        yield Answer(
            id=hidden[instance],
            repeat=row["repeat"],
            cluster=clusters[instance],
            scores={public: row.get(name) for name, public in named.items()},
            outcomes={named[name]: outcome for name, outcome in row["outcomes"].items()},
            texts=None if withheld else row,
        )


def portable(name: str) -> str:
    """Return a name as part of a path on any system."""
    kept = "".join(c if c.isalnum() or c in "._+=-" else "-" for c in name.replace("/", "_"))
    return kept.strip(". ") or "unnamed"


def best_of(record: RunRecord, metric: str) -> float:
    """Return the best value of a metric."""
    own = next(m for m in record.grading.metrics if m.name == metric)
    return own.maximum if own.higher_is_better else own.minimum


def tokens_of(texts: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the tokens of an answer; None where the endpoint did not count them."""
    given, out = texts.get("input_tokens"), texts.get("output_tokens")
    if given is None or out is None:
        return None
    return {"input_tokens": given, "output_tokens": out, "total_tokens": given + out}
