"""Results of a folder: read its graded runs, and make tables of them.

A folder that cannot be read is named in a note and left out; the others are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from medhelm.errors import RecordError, UnknownName, UsageError
from medhelm.records import find_gradings, read_record
from medhelm.schema import RunRecord, Scoring
from medhelm.stats import AGGREGATIONS
from medhelm.tables import power, slices, spending, tabulate
from medhelm.tables.cells import COLUMNS, METADATA_COLUMNS, Cell, read_cell, read_metadata
from medhelm.tables.compare import compare
from medhelm.tables.selection import ChosenRuns, Data, GradedRun, choose_runs
from medhelm.tables.study import Study
from medhelm.tables.table import RankBy, Settings, Table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

TABLES = ("overall", "benchmarks", "categories", "mde", "cost", "slices")

_MANY = 5
_BATCH = 8192


class Results:
    """The graded runs of one results folder, chosen and read: what all tables are made of."""

    def __init__(self, cells: Iterable[Cell], notes: Iterable[str] = ()) -> None:
        self._cells = tuple(cells)
        self.notes = tuple(notes)
        """What was left out, and why."""
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
        rank_by: RankBy = "paper",
    ) -> pd.DataFrame:
        """Return a table as a DataFrame; see `typed` for names and options."""
        settings = Settings(
            draws=draws, bootstrap_seed=bootstrap_seed, confidence=confidence, rank_by=rank_by
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

        `name`: overall, benchmarks (`metrics="all"` for secondary ones too), categories, mde,
        cost, or slices (by the metadata key `by`). Raises UnknownName, UsageError.
        """
        study = self.study(settings)
        if name == "benchmarks":
            return tabulate.benchmarks(study, metrics)
        if name == "slices":
            return slices.slices(study, by, _metadata)
        makers = {
            "overall": tabulate.overall,
            "categories": tabulate.categories,
            "mde": power.mde,
            "cost": spending.cost,
        }
        if name not in makers:
            raise UnknownName("table", name, TABLES, f"tables are: {', '.join(TABLES)}")
        return makers[name](study)

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables that need no option, by name, each made when it is taken."""
        return _Tables(self)

    def compare(self, a: str, b: str, settings: Settings | None = None) -> Table:
        """Return the paired comparison of two models; raises UnknownName."""
        return compare(self.study(settings), a, b)

    def study(self, settings: Settings | None = None) -> Study:
        """Return the panels and rankings under some settings, computed once for each."""
        settings = settings or Settings()
        if settings not in self._studies:
            self._studies[settings] = Study(self._cells, settings, self.notes)
        return self._studies[settings]


class _Tables(Mapping[str, Table]):
    """The tables of results under the default settings."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def __getitem__(self, name: str) -> Table:
        if name not in list(self):
            raise KeyError(name)
        return self._results.typed(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in TABLES if name != "slices")

    def __len__(self) -> int:
        return len(TABLES) - 1


def load_results(
    results_dir: str | Path,
    *,
    data: Data | None = None,
    scoring: Scoring = "fixed",
    latest: bool = False,
    benchmarks: Iterable[str] | None = None,
    models: Iterable[str] | None = None,
) -> Results:
    """Return the results of a folder, ready for tables.

    `data`: sample or full; None takes full runs where there is any. `latest`: the newest of
    several runs of one model on one benchmark, which are an error otherwise. `benchmarks` and
    `models` name those to take; None is all. Raises UsageError where there is no run or where
    runs cannot stand in one column, UnknownName for a name without runs.
    """
    folder = Path(results_dir)
    runs, damaged = _records(find_gradings(folder))
    if not runs:
        seen = f" ({len(damaged)} damaged: {damaged[0]})" if damaged else ""
        raise UsageError(
            f"no graded run below {folder}{seen}; `medhelm run results_dir={folder}` makes some, "
            "`medhelm score` grades stored responses"
        )
    chosen = choose_runs(
        runs, data=data, scoring=scoring, latest=latest, benchmarks=benchmarks, models=models
    )
    return _read(chosen, damaged)


def load_gradings(folders: Iterable[Path], *, latest: bool = False) -> Results:
    """Return the results of these grading folders, which one command made; see `load_results`."""
    folders = list(folders)
    runs, damaged = _records(folders)
    if not runs:
        raise UsageError(f"no graded run could be read: {'; '.join(damaged) or 'none is named'}")
    scoring = runs[0].record.grading.scoring
    return _read(choose_runs(runs, scoring=scoring, latest=latest), damaged)


def _read(chosen: ChosenRuns, damaged: list[str]) -> Results:
    cells = []
    for run in chosen.runs:
        try:
            cells.append(read_cell(run, read_scores(run.path, COLUMNS)))
        except RecordError as e:
            damaged.append(str(e))
    if not cells:
        raise UsageError(f"no run could be read: {damaged[0]}")
    return Results(cells, [*chosen.notes, *_damage(damaged)])


def _records(gradings: Iterable[Path]) -> tuple[list[GradedRun], list[str]]:
    """Return the graded runs of grading folders, and what is wrong with the others."""
    runs, damaged = [], []
    for path in gradings:
        folder = path.relative_to(path.parents[5]).as_posix()
        try:
            record = read_record(path)
        except RecordError as e:
            damaged.append(str(e))
            continue
        if fault := _fault(record):
            damaged.append(f"{folder} {fault}")
        else:
            runs.append(GradedRun(path, folder, record))
    return runs, damaged


def _fault(record: RunRecord) -> str:
    """Return what makes a record useless for tables; empty if nothing does."""
    for metric in record.grading.metrics:
        if not metric.minimum < metric.maximum:
            return f"gives {metric.name} the empty range {metric.minimum:g} to {metric.maximum:g}"
        if metric.aggregation not in AGGREGATIONS:
            return f"aggregates {metric.name} by {metric.aggregation!r}, unknown to this medhelm"
    return "" if record.grading.metrics else "names no metric"


def _damage(damaged: list[str]) -> list[str]:
    more = f"; and {len(damaged) - _MANY} more" if len(damaged) > _MANY else ""
    return [f"Left out, damaged: {'; '.join(damaged[:_MANY])}{more}."] if damaged else []


def read_scores(grading: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of `scores.parquet` of a grading folder in batches; raises RecordError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = grading / "scores.parquet"
    pa.set_memory_pool(pa.system_memory_pool())  # arrow's own pool keeps what it is given back
    try:
        with pq.ParquetFile(path) as file:  # read_table would load pandas, half a second
            missing = [c for c in columns if c not in file.schema_arrow.names]
            if missing:
                raise RecordError(
                    f"{path} has no column {missing[0]!r}; `medhelm score` writes it again"
                )
            yield from file.iter_batches(_BATCH, columns=list(columns), use_threads=False)
    except FileNotFoundError:
        raise RecordError(f"{path} is missing; `medhelm score` writes it again") from None
    except (OSError, pa.ArrowException) as e:
        kind = type(e).__name__
        raise RecordError(
            f"{path} cannot be read ({kind}); `medhelm score` writes it again"
        ) from None


def _metadata(cell: Cell) -> dict[int, dict[str, str]]:
    scores = read_scores(cell.run.path, METADATA_COLUMNS)
    try:
        return read_metadata(scores)
    except ValueError as e:
        raise RecordError(f"{cell.run.folder}: scores.parquet: {e}") from None
