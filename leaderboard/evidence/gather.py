"""Results folder -> all that a committee is shown of one model, as tables and records.

Nothing is computed here. Tables that the leaderboard shows are made as it makes them; others of runs
without what may not be published of them. Texts are those that the leaderboard may show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from medhelm.errors import PluginError, RecordError, UsageError
from medhelm.plugins.profiles import Profile
from medhelm.plugins.registry import Registry
from medhelm.proof.manifest import shipped_samples
from medhelm.schema.run import RunRecord
from medhelm.schema.score import Scoring
from medhelm.store.kept_fidelity import Agreement, read_kept
from medhelm.tables.format.column_kinds import count, measured, text
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
from medhelm_leaderboard.evidence.answers import ShownAnswer, failed_answers, worst_answers
from medhelm_leaderboard.pages import Problem
from medhelm_leaderboard.plugin_pages import fault_of, runs_data, usable

_OF_MANY = ("overall", "pairs", "ranks", "mde")
"""Tables that compare models."""
_SUBGROUPS = ("gaps", "slices")
_SECTIONS = {
    "benchmarks": "results",
    "exposure": "exposure",
    "jury": "scoring",
    "controls": "scoring",
    **dict.fromkeys(_SUBGROUPS, "subgroups"),
    "cost": "cost",
}
"""Section of each table; all others are results, too."""
_STRIPPED, _WHOLE = ("exposure", "gaps"), ("robustness",)
"""Tables that are on no site: of runs without what may not be published, and of names, scores and counts alone."""

_FAILURES = (
    *("benchmark", "planned", "scored", "not_scored", "cut", "ended_at_budget"),
    *("refused_in_words", "read_by_model", "coverage", "worst_case"),
)
"""Columns of the table benchmarks that say what became of the answers."""

_FIDELITY = (
    text("benchmark", "name of the benchmark", "benchmark"),
    text("judge", "the judge, or a second group of experts", "judge"),
    text("reference", "the experts that it is compared with", "against"),
    count("decisions", "decisions that both made", "decisions"),
    count("cases", "cases that they are of", "cases"),
    *measured("mf1", "macro F1", "share", "macro F1", prefix="mf1", is_main=True),
    count("invalid", "decisions without a valid verdict", "invalid"),
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a report is to be on."""

    wanted: Wanted
    scoring: Scoring = "fixed"
    settings: Settings = Settings()
    profile: Profile | None = None
    by: Sequence[str] = ()
    """Metadata keys of further slices."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known of one model, as far as it may be handed on."""

    model: str
    asked: Asked
    runs: tuple[GradedRun, ...]
    """One a benchmark."""
    forms: tuple[GradedRun, ...]
    """Those that asked the same questions in other forms."""
    tables: Mapping[str, tuple[Table, ...]]
    """By section."""
    verdict: Table | None
    """Of the gate; None: no profile was named."""
    failed: tuple[ShownAnswer, ...]
    worst: tuple[ShownAnswer, ...]
    problems: tuple[Problem, ...] = field(default=())
    """What could not be shown, and why."""

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """The records of the runs."""
        return tuple(run.record for run in self.runs)

    @property
    def closed(self) -> tuple[str, ...]:
        """The benchmarks whose text is not shown."""
        cards = (record.column_card for record in self.records)
        return tuple(card.name for card in cards if not publish.has_text(card))

    def table(self, name: str) -> Table | None:
        """Return a table by name."""
        return next((t for own in self.tables.values() for t in own if t.name == name), None)


def gather(asked: Asked, registry: Registry) -> Evidence:
    """Return the evidence on one model; raises UsageError, UnknownName, RecordError."""
    wanted = asked.wanted
    aggregations = Aggregations(registry)
    found = collect(wanted, aggregations, shipped_samples(registry))
    cells = found.cells.get(asked.scoring, ())
    models = sorted({cell.run.model for cell in cells})
    if len(models) != 1:
        named = f"{len(models)} models: {', '.join(models)}" if models else "no model"
        raise UsageError(f"a report is on one model; scoring={asked.scoring} has runs of {named}")
    kept, damaged = read_kept(wanted.results)
    problems = [*found.problems]
    problems += [Problem(where=name, what="left out: it cannot be read") for name in damaged]
    forms = tuple(found.variants.get(asked.scoring, ()))
    read = [partial(_cell, run, aggregations) for run in forms]
    loaded = Results(cells, known=find_tables(registry.files), variants=read)
    runs = publish.runs(asked.scoring, loaded, asked.settings, kept)
    tables: dict[str, list[Table]] = {}
    for section, table in _tables(loaded, runs, registry, asked, problems):
        if table.rows:
            tables.setdefault(section, []).append(of_one_model(table, models[0]))
    verdict = None
    if asked.profile is not None:
        verdict = loaded.gate(asked.profile, models, asked.settings, registry)
    shown = [cell.run for cell in cells if publish.has_text(cell.record.card)]
    return Evidence(
        model=models[0],
        asked=asked,
        runs=tuple(cell.run for cell in cells),
        forms=forms,
        tables={section: tuple(own) for section, own in tables.items()},
        verdict=verdict and of_one_model(verdict, models[0]),
        failed=tuple(failed_answers(shown, registry, problems)),
        worst=tuple(worst_answers(shown, registry, problems)),
        problems=tuple(problems),
    )


def _tables(
    loaded: Results,
    runs: PublishedRuns,
    registry: Registry,
    asked: Asked,
    problems: list[Problem],
) -> Iterator[tuple[str, Table]]:
    """Yield the tables of these runs with their sections; names what fails."""
    of_site = loaded.request(asked.settings)
    stripped = TableRequest(study=runs.study, metadata=runs.metadata)
    for name, spec in loaded.known.specs.items():
        if name in _OF_MANY or (spec.publish is None and name not in (*_STRIPPED, *_WHOLE)):
            continue
        try:
            if spec.publish is None:
                asked_so = stripped if name in _STRIPPED else of_site
                table: Table | None = made_table(spec, asked_so)
            else:
                table = published_table(spec, of_site, runs.closed)
        except (PluginError, RecordError) as e:
            what = str(e) if isinstance(e, PluginError) else f"left out: {publish.NO_METADATA}"
            problems.append(Problem(where=f"the table {name}", what=what))
            continue
        if table is None:
            continue
        yield _SECTIONS.get(name, "results"), table
        if name == "benchmarks":
            chosen = replace(table.choose(_FAILURES), name="outcomes", title="Answers by outcome")
            yield "failures", chosen
    for key in asked.by:
        sliced = made_table(loaded.known.spec("slices"), replace(stripped, by=key))
        yield "subgroups", replace(sliced, name=f"slices_{key}")
    yield "scoring", _fidelity(runs.fidelity)
    yield from (("results", table) for table in _of_pages(runs, registry, problems))


def _of_pages(runs: PublishedRuns, registry: Registry, problems: list[Problem]) -> Iterator[Table]:
    """Yield the tables that pages of plugins make of these runs."""
    pages, refused = usable(registry.pages.values())
    problems += refused
    for page in pages:
        try:
            data = runs_data(page, runs, ())
        except (Exception, SystemExit) as e:  # the boundary to plugins
            problems.append(Problem(where=f"the page {page.title}", what=fault_of(page, e)))
            continue
        if data is not None:
            yield from data.tables


def _cell(run: GradedRun, aggregations: Aggregations) -> Cell:
    return read_cell(run, read_scores(run, COLUMNS), aggregations)


def _fidelity(found: Mapping[str, Iterable[Agreement]]) -> Table:
    rows = [
        {
            "benchmark": benchmark,
            "judge": own.grader,
            **{name: getattr(own, name) for name in ("reference", "decisions", "cases", "invalid")},
            **{name: getattr(own, name) for name in ("mf1", "mf1_low", "mf1_high")},
        }
        for benchmark, every in found.items()
        for own in every
    ]
    said = ["As `medhelm fidelity --keep` measured it."]
    title = "Agreement of the judges with experts"
    return make_table("fidelity", title, _FIDELITY, rows, said, {})


def of_one_model(table: Table, model: str) -> Table:
    """Return a table without the column `model` where each row is of this one."""
    if any(row.get("model") != model for row in table.rows):
        return table
    parts = tuple(
        replace(
            part,
            group=tuple(name for name in part.group if name != "model"),
            columns=tuple(name for name in part.columns if name != "model"),
        )
        for part in table.parts
    )
    return replace(
        table,
        columns=tuple(c for c in table.columns if c.name != "model"),
        group=tuple(name for name in table.group if name != "model"),
        parts=parts,
    )
