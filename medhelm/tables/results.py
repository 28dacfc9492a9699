"""Results of a folder: read its graded runs, and make tables of them.

A folder that cannot be read is named in a note and left out. The others are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from medhelm.errors import UsageError
from medhelm.plugins.profiles import Profile, read_profile
from medhelm.plugins.registry import Registry, load_registry
from medhelm.schema.model import ModelSpec
from medhelm.stats.reductions import read_reduction
from medhelm.tables.charts import Chart, draw
from medhelm.tables.compare import compare
from medhelm.tables.format.formats import to_html, to_terminal
from medhelm.tables.format.table import MdeScale, RankBy, Settings, Table
from medhelm.tables.gate import Decision, Unread, gate, known_metrics, resolve
from medhelm.tables.known_tables import KnownTables, find_tables, made_table
from medhelm.tables.notes import NOT_GRADED
from medhelm.tables.study.aggregations import Aggregations
from medhelm.tables.study.cells import Cell, metadata_of, read_cell
from medhelm.tables.study.repeats import reduced_cells, refuse_reduction
from medhelm.tables.study.selection import GradedRun, of_names
from medhelm.tables.study.study import Study
from medhelm.tables.table_spec import TableRequest

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

_SCREEN = (80, 40)
"""Columns and lines of the text that results are shown as."""
_EMPTY = "Results: no graded run."


class Results:
    """The graded runs of one results folder, chosen and read: what all tables are made of."""

    def __init__(
        self,
        cells: Iterable[Cell],
        notes: Iterable[str] = (),
        ungraded: Mapping[tuple[str, str], ModelSpec] | None = None,
        damaged: Mapping[tuple[str, str], ModelSpec] | None = None,
        known: KnownTables | None = None,
        aggregations: Aggregations | None = None,
        variants: Sequence[Callable[[], Cell]] = (),
    ) -> None:
        self._cells = tuple(cells)
        self._variants = cache(lambda: [read() for read in variants])
        self.has_variants = bool(variants)
        """True if there are runs that asked the questions of these in other forms."""
        self.notes = tuple(notes)
        """Lines on the runs that were left out, with the reasons."""
        self._ungraded = dict(ungraded or {})
        """Benchmark and model of stored runs without a grading."""
        self._damaged = dict(damaged or {})
        """Those of graded runs whose scores cannot be read."""
        self.known = known or find_tables()
        """The tables that there are, those of plugins too."""
        self._aggregations = aggregations or Aggregations()
        self._studies: dict[Settings, Study] = {}

    def table(
        self,
        name: str = "overall",
        *,
        by: str | None = None,
        metrics: Literal["main", "all"] = "main",
        draws: int = 1000,
        bootstrap_seed: int = 0,
        confidence: float = 0.95,
        rank_by: RankBy = "half",
        mde: MdeScale = "range",
        pass_mark: float = 0.6,
        min_group: int = 20,
        reduce: str = "mean",
    ) -> pd.DataFrame:
        """Return a table as a DataFrame; see `typed` for names and options.

        `pass_mark`: the score from which a case is passed, in tables that say who passes.
        `min_group`: clusters below which a group has no number, in gaps and slices.
        `reduce`: what the repeats of an instance become, one of mean, majority, worst, any and
        pass@K (like `pass@3`).
        """
        settings = Settings(
            draws=draws,
            bootstrap_seed=bootstrap_seed,
            confidence=confidence,
            rank_by=rank_by,
            mde=mde,
            pass_mark=pass_mark,
            min_group=min_group,
            reduce=reduce,
        )
        return self.typed(name, settings, by=by, metrics=metrics).frame()

    def typed(
        self,
        name: str = "overall",
        settings: Settings | None = None,
        *,
        by: str | None = None,
        metrics: Literal["main", "all"] = "main",
    ) -> Table:
        """Return a table with its columns, notes and settings.

        `name`: one of `known` (`medhelm list tables` describes them), among them benchmarks
        (`metrics="all"` for secondary ones too) and slices or gaps (by the metadata key `by`). Raises
        UnknownName, UsageError; PluginError where the table of a plugin fails.
        """
        spec = self.known.spec(name)
        if "reduce" not in spec.options:
            _refuse_reduction(settings, f"the table {name}")
        return made_table(spec, self.request(settings, by=by, metrics=metrics))

    def request(
        self,
        settings: Settings | None = None,
        *,
        by: str | None = None,
        metrics: Literal["main", "all"] = "main",
    ) -> TableRequest:
        """Return what the function of a table is given."""
        return TableRequest(
            study=self.study(settings),
            metadata=metadata_of,
            variants=self._variants,
            by=by,
            metrics=metrics,
        )

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables that need no option, by name, each made when it is taken."""
        return _Tables(self)

    @property
    def runs(self) -> tuple[GradedRun, ...]:
        """The runs that tables are made of."""
        return tuple(cell.run for cell in self._cells)

    def instances(
        self,
        benchmark: str,
        model: str | None = None,
        *,
        text_of: Iterable[Literal["gated", "private"]] = (),
    ) -> pd.DataFrame:
        """Return the stored answers of one model, or of all: prompt, reply, what was read, scores, verdicts.

        Texts of data that are not public are missing, and an instance is named by its place among those
        of all models, unless `text_of` names their class. Raises UnknownName, and RecordError where files of a run cannot be read.
        """
        import pandas as pd

        from medhelm.tables.instances import (
            data_class,
            instances,
            main_metric,
            places_of,
            read_lines,
        )

        every = of_names(self.runs, [benchmark], None)
        has_text = (strictest := data_class(every)) == "public" or strictest in text_of
        protocols = load_registry().protocols if any(r.record.spec.protocol for r in every) else {}
        places = None if has_text else places_of(map(read_lines, every))
        rows: list[dict[str, Any]] = []
        for run in of_names(every, None, None if model is None else [model]):
            protocol = protocols.get(run.record.spec.protocol)
            transcript = protocol.transcript if protocol else None
            metric = main_metric(run.record, load_registry)
            rows += instances(run, transcript, has_text=has_text, metric=metric, places=places)[0]
        return pd.DataFrame(rows)

    def compare(
        self,
        a: str,
        b: str,
        *,
        draws: int = 1000,
        bootstrap_seed: int = 0,
        confidence: float = 0.95,
        reduce: str = "mean",
    ) -> pd.DataFrame:
        """Return two models, each a name or a pattern of one, on the same instances, paired, as
        `medhelm compare` does; raises UnknownName and UsageError."""
        settings = Settings(
            draws=draws, bootstrap_seed=bootstrap_seed, confidence=confidence, reduce=reduce
        )
        return self.comparison(a, b, settings).frame()

    def comparison(self, a: str, b: str, settings: Settings | None = None) -> Table:
        """Return `compare` with its columns, notes and settings."""
        return compare(self.study(settings), a, b)

    def plot(self, chart: Chart = "overall", settings: Settings | None = None) -> go.Figure:
        """Return a chart as a plotly figure; raises UsageError where there is nothing to draw."""
        return draw(chart, self.study(settings))

    def __repr__(self) -> str:
        if not self._cells:
            return "\n".join([_EMPTY, *self.notes])
        table = shown = self._first()
        head = [*wrap(self._summary(table), _SCREEN[0]), ""]
        fix = f"table({table.name!r}) has them."
        while True:
            text = to_terminal([shown], _SCREEN[0], fix=fix).rstrip().splitlines()
            kept, over = len(shown.rows), len(head) + len(text) - _SCREEN[1]
            if over <= 0 or kept <= 1:  # notes are never cut
                return "\n".join([*head, *text])
            rows = table.rows[: max(1, kept - max(1, over // 2))]
            note = f"Shown are the first {len(rows):,} of {len(table.rows):,} rows: {fix}"
            shown = replace(table, rows=rows, notes=(note, *table.notes))

    def _repr_html_(self) -> str:
        if not self._cells:
            return "".join(f"<p>{escape(line)}</p>" for line in (_EMPTY, *self.notes))
        table = self._first()
        return f"<p>{escape(self._summary(table))}</p>{to_html(table)}"

    def _first(self) -> Table:
        """Return the ranking; of one model or one benchmark, the scores."""
        study = self.study()
        is_ranked = len(study.models) > 1 and len(study.panels) > 1
        return self.typed("overall" if is_ranked else "benchmarks")

    def _summary(self, shown: Table) -> str:
        study = self.study()
        others = ", ".join(name for name in self.tables if name != shown.name)
        return (
            f"Results: models {len(study.models)}, benchmarks {len(study.panels)}. Here: "
            f"table({shown.name!r}). Others: {others}. Also compare(A, B), plot(), gate(PROFILE)."
        )

    def gate(
        self,
        profile: str | Path | Profile,
        models: Iterable[str] | None = None,
        settings: Settings | None = None,
        registry: Registry | None = None,
        decision: Decision = "interval",
    ) -> Table:
        """Return whether models reach the thresholds of a profile, a packaged name or a file.

        `models=None`: all that read no gold. `decision`: whether the verdict follows the whole
        interval of a score or, with `point`, the score alone. The worst verdict is `settings["verdict"]` of the
        table. Raises UnknownName, UsageError.
        """
        _refuse_reduction(settings, "a gate")
        own = profile if isinstance(profile, Profile) else read_profile(profile)
        known = known_metrics(own, registry or load_registry(), self._cells)
        unread: Unread = {
            **{key: (NOT_GRADED, spec) for key, spec in self._ungraded.items()},
            **{key: ("its scores cannot be read", spec) for key, spec in self._damaged.items()},
        }
        return gate(
            self._cells,
            own,
            resolve(own, known),
            settings or Settings(),
            models=None if models is None else list(models),
            run_notes=self.notes,
            unread=unread,
            decision=decision,
            metadata=metadata_of,
        )

    def study(self, settings: Settings | None = None) -> Study:
        """Return the panels and rankings under some settings, computed once for each."""
        settings = settings or Settings()
        if settings not in self._studies:
            study = Study(self._reduced(settings.reduce), settings, self.notes)
            _name_ungraded(study, self._ungraded)
            self._studies[settings] = study
        return self._studies[settings]

    def _reduced(self, name: str) -> Sequence[Cell]:
        """Return the cells with the repeats of each instance reduced so."""
        if name == "mean":
            return self._cells
        runs, reduction = [cell.run for cell in self._cells], read_reduction(name)
        refuse_reduction(runs, reduction)
        read = partial(read_cell, aggregations=self._aggregations, keeps_answers=True)
        return reduced_cells([*map(read, runs)], reduction)


class _Tables(Mapping[str, Table]):
    def __init__(self, results: Results) -> None:
        self._results = results

    def __getitem__(self, name: str) -> Table:
        if name not in list(self):
            raise KeyError(name)
        return self._results.typed(name)

    def __iter__(self) -> Iterator[str]:
        specs = self._results.known.specs.values()
        return iter([spec.name for spec in specs if spec.needs is None])

    def __len__(self) -> int:
        return len(list(iter(self)))


def _refuse_reduction(settings: Settings | None, what: str) -> None:
    if settings is not None and settings.reduce != "mean":
        raise UsageError(f"reduce={settings.reduce}: {what} takes the mean of repeats alone")


def _name_ungraded(study: Study, ungraded: Collection[tuple[str, str]]) -> None:
    """Say of stored runs without a grading that, not that there is no run."""
    panels = dict(study.panels)
    for benchmark, model in ungraded:
        panel = panels.get(benchmark)
        if panel is not None and model not in panel.cells:
            panels[benchmark] = replace(panel, unfit={**panel.unfit, model: NOT_GRADED})
    study.panels = panels
