"""Results folder -> all that a committee is shown of one model, as tables, records and answers.

Nothing is computed here. Tables that the leaderboard shows are made as it makes them; others of runs
without what may not be published of them. Texts are those that the leaderboard may show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from medhelm.errors import PluginError, RecordError, UsageError
from medhelm.plugins.profiles import Profile
from medhelm.plugins.registry import Registry
from medhelm.proof.manifest import shipped_samples
from medhelm.schema.run import RunRecord
from medhelm.schema.score import Scoring
from medhelm.store.kept_fidelity import Agreement, read_kept
from medhelm.tables.clinicians.fidelity import FIDELITY
from medhelm.tables.format.column_kinds import text
from medhelm.tables.format.table import Settings, Table, make_table
from medhelm.tables.known_tables import find_tables, made_table, published_table
from medhelm.tables.published import PublishedRuns
from medhelm.tables.results import Results
from medhelm.tables.study.aggregations import Aggregations
from medhelm.tables.study.arrow import read_scores
from medhelm.tables.study.cells import COLUMNS, Cell, read_cell
from medhelm.tables.study.selection import GradedRun
from medhelm.tables.table_spec import TableRequest
from medhelm_leaderboard import publish
from medhelm_leaderboard.collect import Wanted, collect
from medhelm_leaderboard.evidence.answers import ShownAnswer, chosen_answers
from medhelm_leaderboard.pages import Problem
from medhelm_leaderboard.plugin_pages import fault_of, runs_data, usable

_OF_MANY = ("overall", "pairs", "ranks", "mde")
"""Tables that compare models."""
_STRIPPED, _WHOLE = ("exposure", "gaps"), ("robustness",)
"""Tables that are on no site: of runs without what may not be published, and of names, scores and counts alone."""
SECTIONS = {
    "exposure": "exposure",
    **dict.fromkeys(("jury", "controls", "fidelity"), "scoring"),
    **{"gaps": "subgroups", "gate": "gate", "cost": "cost", "outcomes": "failures"},
}
"""Section of each table; that of slices is `subgroups`, that of all others `results`."""
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
    answers: Mapping[str, Sequence[ShownAnswer]]
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
    kept, damaged = read_kept(wanted.results)
    problems = [*found.problems, *(Problem(where=n, what="cannot be read") for n in damaged)]
    forms = tuple(found.variants.get(scoring, ()))
    read = [partial(_cell, run, aggregations) for run in forms]
    loaded = Results(cells, known=find_tables(registry.files), variants=read)
    runs = publish.runs(scoring, loaded, settings, kept)
    made = [*_tables(loaded, runs, settings, by, problems)]
    made += _of_pages(runs, registry, [table.name for table in made], problems)
    if profile is not None:
        bare = replace(profile, name=Path(profile.name).name)  # no path of this machine
        made.append(loaded.gate(bare, models, settings, registry))
    shown = [cell.run for cell in cells if publish.has_text(cell.record.card)]
    return Evidence(
        model=models[0],
        runs=tuple(cell.run for cell in cells),
        forms=forms,
        tables={table.name: table for table in made if table.rows},
        answers=chosen_answers(shown, registry, problems),
        problems=problems,
    )


def _cell(run: GradedRun, aggregations: Aggregations) -> Cell:
    return read_cell(run, read_scores(run, COLUMNS), aggregations)


def _tables(
    loaded: Results,
    runs: PublishedRuns,
    settings: Settings,
    by: Sequence[str],
    problems: list[Problem],
) -> Iterator[Table]:
    """Yield the tables of these runs; names what fails."""
    of_site = loaded.request(settings)
    stripped = TableRequest(study=runs.study, metadata=runs.metadata)
    for name, spec in loaded.known.specs.items():
        if name in _OF_MANY or (spec.publish is None and name not in (*_STRIPPED, *_WHOLE)):
            continue
        try:
            if spec.publish is not None:
                table = published_table(spec, of_site, runs.closed)
            else:
                table = made_table(spec, stripped if name in _STRIPPED else of_site)
        except (PluginError, RecordError) as e:
            if name == "benchmarks":
                raise
            what = str(e) if isinstance(e, PluginError) else publish.NO_METADATA
            problems.append(Problem(where=f"the table {name}", what=what))
            continue
        yield from [table] if table is not None else []
        if table is not None and name == "benchmarks":
            yield replace(table.choose(_FAILURES), name="outcomes", title="Answers by outcome")
    for key in by:
        table = made_table(loaded.known.spec("slices"), replace(stripped, by=key))
        yield replace(table, name=f"slices_{key}")
    yield _fidelity(runs.fidelity)


def _of_pages(
    runs: PublishedRuns, registry: Registry, taken: list[str], problems: list[Problem]
) -> Iterator[Table]:
    """Yield the tables that pages of plugins make of these runs; names what fails."""
    pages, refused = usable(registry.pages.values())
    problems += refused
    for page in pages:
        try:
            data = runs_data(page, runs, taken)
        except (Exception, SystemExit) as e:  # the boundary to plugins
            problems.append(Problem(where=f"the page {page.title}", what=fault_of(page, e)))
        else:
            tables = tuple(data.tables) if data is not None else ()
            taken += [table.name for table in tables]
            yield from tables


def _fidelity(found: Mapping[str, Iterable[Agreement]]) -> Table:
    """Return how judges agree with experts, in the columns of `medhelm fidelity`."""
    kept = {*Agreement.__struct_fields__}
    own = [c for c in FIDELITY if c.name in kept and kept.issuperset(c.interval or ())]
    rows = [
        {"benchmark": benchmark, **{c.name: getattr(agreement, c.name) for c in own}}
        for benchmark, every in found.items()
        for agreement in every
    ]
    columns = [text("benchmark", "name of the benchmark", "benchmark"), *own]
    said = ["As `medhelm fidelity --keep` measured it."]
    return make_table("fidelity", "Judges against experts", columns, rows, said, {})
