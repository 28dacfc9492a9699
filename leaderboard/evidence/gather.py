"""Results folder -> all that a committee is shown of one model, as tables, records and answers.

Nothing is computed here. Tables that the leaderboard shows are made as it makes them; others of runs
without what may not be published of them. Texts are those that the leaderboard may show.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from medhelm.errors import RecordError, UnknownName, UsageError
from medhelm.plugins.profiles import Profile
from medhelm.plugins.registry import Registry
from medhelm.proof.manifest import shipped_samples
from medhelm.schema.run import RunRecord
from medhelm.schema.score import Scoring
from medhelm.store.kept_fidelity import Agreement, read_kept
from medhelm.store.records import order_key
from medhelm.tables.clinicians.fidelity import FIDELITY
from medhelm.tables.format.table import Column, Settings, Table, make_table
from medhelm.tables.instances import Key, Row, instances, main_metric, read_lines
from medhelm.tables.known_tables import find_tables, made_table
from medhelm.tables.published import PublishedRuns
from medhelm.tables.results import Results
from medhelm.tables.study.aggregations import Aggregations
from medhelm.tables.study.cells import read_cell
from medhelm.tables.study.selection import GradedRun
from medhelm.tables.table_spec import TableRequest, publish_rows
from medhelm_leaderboard import publish
from medhelm_leaderboard.collect import Wanted, collect
from medhelm_leaderboard.pages import Problem
from medhelm_leaderboard.plugin_pages import fault_of, runs_data, usable
from medhelm_leaderboard.scoring_pages import published_tables

_OF_MANY = ("overall", "pairs", "ranks", "mde")
"""Tables that compare models."""
_MORE = ("exposure", "gaps", "robustness")
"""Tables that are on no site. Gaps are those of runs without what may not be published."""
_FAILURES = (
    *("planned", "scored", "not_scored", "ended_at_budget", "refused_in_words"),
    *("read_by_model", "coverage", "worst_case"),
)
"""Columns of the table benchmarks that say what became of the answers."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known of one model, as far as it may be handed on."""

    model: str
    runs: tuple[GradedRun, ...]
    """One a benchmark."""
    forms: tuple[GradedRun, ...]
    """Those that asked the same questions in other forms."""
    tables: Mapping[str, Table]
    """Those with rows, by name."""
    answers: Mapping[str, Sequence[Row]]
    """By outcome."""
    problems: Sequence[Problem]
    """Things that are not shown, with the reasons."""

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """The records of the runs."""
        return tuple(run.record for run in self.runs)


def gather(
    wanted: Wanted,
    registry: Registry,
    settings: Settings,
    *,
    scoring: Scoring = "fixed",
    profile: Profile | None = None,
    by: Sequence[str] = (),
) -> Evidence:
    """Return the evidence on one model, with slices `by` keys; raises UsageError, UnknownName, RecordError."""
    aggregations = Aggregations(registry)
    found = collect(wanted, aggregations, shipped_samples(registry))
    cells = found.cells.get(scoring, ())
    models = sorted({cell.run.model for cell in cells})
    if len(models) != 1:
        named = f"{len(models)} models: {', '.join(models)}" if models else "no model"
        raise UsageError(f"a report is on one model; scoring={scoring} has runs of {named}")
    kept, damaged = read_kept(wanted.results_dir)
    problems = [*found.problems, *(Problem(where=n, what="cannot be read") for n in damaged)]
    forms = tuple(found.variants.get(scoring, ()))
    read = [partial(read_cell, run, aggregations) for run in forms]
    loaded = Results(cells, known=find_tables(registry.files), variants=read)
    runs = publish.runs(scoring, loaded, settings, kept)
    of_site = loaded.request(settings)
    stripped = TableRequest(study=runs.study, metadata=runs.metadata)
    specs = [
        (replace(s, publish=s.publish or publish_rows), stripped if name == "gaps" else of_site)
        for name, s in loaded.known.specs.items()
        if name not in _OF_MANY and (s.publish is not None or name in _MORE)
    ]
    tables = published_tables(specs, runs.closed, problems)
    outcomes = tables["benchmarks"].choose(_FAILURES)
    tables["outcomes"] = replace(outcomes, name="outcomes", title="Answers by outcome")
    for key in by:
        try:
            table = made_table(loaded.known.spec("slices"), replace(stripped, by=key))
            tables[f"slices_{key}"] = replace(table, name=f"slices_{key}")
        except UnknownName:
            made_table(loaded.known.spec("slices"), replace(of_site, by=key))  # a typo raises
            what = "its values may not be published; `medhelm tables --table slices` shows them"
            problems.append(Problem(where=f"slices by {key}", what=what))
    tables["fidelity"] = _fidelity(runs)
    for table in _of_pages(runs, registry, tables, problems):
        tables[table.name] = table
    if profile is not None:
        bare = replace(profile, name=Path(profile.name).name)  # no path of this machine
        tables["gate"] = loaded.gate(bare, models, settings, registry)
    shown = [cell.run for cell in cells if publish.has_text(cell.record.card)]
    return Evidence(
        model=models[0],
        runs=tuple(cell.run for cell in cells),
        forms=forms,
        tables={name: table for name, table in tables.items() if table.rows},
        answers=chosen_answers(shown, registry, problems),
        problems=problems,
    )


def _of_pages(
    runs: PublishedRuns, registry: Registry, taken: Mapping[str, Table], problems: list[Problem]
) -> Iterator[Table]:
    """Yield the tables that pages of plugins make of these runs; names what fails."""
    pages, refused = usable(registry.pages.values())
    problems += refused
    for page in pages:
        where = f"the page {page.title}"
        try:
            data = runs_data(page, runs, taken)
        except (Exception, SystemExit) as e:  # the boundary to plugins
            problems.append(Problem(where=where, what=fault_of(page, e)))
            continue
        if data is not None and data.left_out:
            problems.append(Problem(where=where, what=f"left out: {data.left_out}"))
        yield from data.tables if data is not None else ()


def _fidelity(runs: PublishedRuns) -> Table:
    """Return how judges agree with experts, in the columns of `medhelm fidelity`."""
    kept = {*Agreement.__struct_fields__}
    columns = [c for c in FIDELITY.columns if c.name in kept and kept.issuperset(c.interval or ())]
    rows = [
        {"benchmark": benchmark, **{c.name: getattr(a, c.name) for c in columns}}
        for benchmark, every in runs.fidelity.items()
        for a in every
    ]
    named = Column(
        name="benchmark", type="string", description="name of the benchmark", heading="benchmark"
    )
    said = ["As `medhelm fidelity --keep` measured it."]
    return make_table("fidelity", "Judges against experts", [named, *columns], rows, said, {})


WORST, EXAMPLES = 10, 3
"""Scored answers that are shown, and answers of each other outcome."""
_Found = tuple[float, Key, GradedRun]
"""An answer, and how far its score is from the best one, as a share of the metric's range."""


def chosen_answers(
    runs: Sequence[GradedRun], registry: Registry, problems: list[Problem]
) -> dict[str, list[Row]]:
    """Return by outcome the answers to show; of `scored` those with the lowest scores that are not the best one."""
    found: dict[str, list[_Found]] = defaultdict(list)
    for run in runs:
        metric = run.record.grading.metrics[0]
        best = metric.maximum if metric.higher_is_better else metric.minimum
        for key, line in read_lines(run, publish.metric_name).found.items():
            main = line.scores[0]
            short = 0.0 if main.value is None else abs(best - main.value)
            if main.outcome != "scored" or short:
                found[main.outcome].append((short / (metric.maximum - metric.minimum), key, run))
    chosen = {
        outcome: _dealt(every)[: WORST if outcome == "scored" else EXAMPLES]
        for outcome, every in sorted(found.items())
    }
    rows: dict[tuple[str, Key], Row] = {}
    for run in runs:
        ids = [key[0] for every in chosen.values() for _, key, own in every if own is run]
        protocol = registry.protocols.get(run.record.spec.protocol)
        transcript = protocol.transcript if protocol else None
        more: dict[str, Any] = {"ids": ids, "named": publish.metric_name}
        more["metric"] = main_metric(run.record, lambda: registry)
        try:
            own = instances(run, transcript, has_text=True, **more)[0] if ids else ()
            rows |= {(run.folder, (row["instance_id"], row["repeat"])): row for row in own}
        except RecordError:
            problems.append(Problem(where=run.folder, what="its answers cannot be read"))
    return {
        outcome: [rows[run.folder, key] for _, key, run in every if (run.folder, key) in rows]
        for outcome, every in chosen.items()
    }


def _dealt(every: Iterable[_Found]) -> list[_Found]:
    """Return the worst first; of equal ones each run has its first before any has its second, in an order nobody chose."""
    places, placed = Counter[tuple[float, str]](), []
    for own in sorted(every, key=lambda e: (order_key(0, e[1][0]), e[1][1])):
        place = (-own[0], own[2].folder)
        placed.append((place[0], places[place], place[1], own))
        places[place] += 1
    return [own for *_, own in sorted(placed, key=lambda p: p[:3])]
