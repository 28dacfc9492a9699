"""One sweep on the terminal: plan, run with a display, then say what came of it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from medhelm.cli.worker import fellows, join_pool, telling
from medhelm.config import Job
from medhelm.errors import MedhelmError, ModelError, RecordError, UsageError
from medhelm.files.durable import make_private, why
from medhelm.grading.grade import MEAN_OF_PARTS
from medhelm.grading.scoring import software
from medhelm.models import ModelPool
from medhelm.models.costs import Ledger, capped_ledger
from medhelm.models.identity import reads_prompt
from medhelm.models.pacing.leases import Leases
from medhelm.models.pacing.pool import PoolAccess
from medhelm.plugins.registry import Registry
from medhelm.processes.workers import use_workers
from medhelm.runs.planning import plan_runs
from medhelm.runs.progress import Display
from medhelm.runs.run import Run
from medhelm.runs.runner import Ending, SweepEnd, run_sweep
from medhelm.schema.model import Order
from medhelm.schema.run import RunRecord, RunSpec
from medhelm.store.records import read_record

if TYPE_CHECKING:
    from medhelm.tables.results import Results

_LATE: tuple[str, ...] = (
    "pyarrow.parquet",
    "pyarrow.json",
    "medhelm.tables.format.formats",
    "medhelm.tables.results",
)
_LOAD_AFTER_S = 0.5
"""The first requests are on their way by then."""


def ask_jobs(jobs: Sequence[Job], registry: Registry) -> Asked:
    """Return how the runs of all jobs ended, asked together."""
    planned, first = plan_runs(jobs, registry, os.environ), jobs[0]
    pool = join_pool(first, planned.runs, os.environ)
    shards = (run.shard.count for run in planned.runs if run.shard is not None and pool is None)
    models = (model for run in planned.runs for model in run.models)
    parts = max(shards, default=1)
    ledger = capped_ledger(models, first.budget_usd, first.budget_tokens, pool, parts=parts)
    for note in planned.notes:
        print(note, file=sys.stderr)
    make_results(Path(first.results_dir))
    is_told = any(job.show_errors for job in jobs)
    with use_workers(fellows(first, pool.workers if pool else 1, os.environ)):
        return ask_runs(planned.runs, ledger, pool, first.order, first.servers, is_told=is_told)


def print_results(results: Results) -> None:
    """Print the tables of a sweep."""
    from medhelm.cli.tables import make_tables, on_screen
    from medhelm.tables.benchmarks import of_one_run
    from medhelm.tables.format.formats import print_tables

    tables, _ = make_tables(results, on_screen(results))
    if len(results.runs) == 1:
        tables[0] = of_one_run(tables[0])
    print_tables(tables)


def show_runs(
    endings: Sequence[Ending],
    results: Path,
    registry: Registry,
    show: Callable[[Results], None] = print_results,
) -> None:
    """Show the results of runs that have ended, and say where all of it lies."""
    from medhelm.tables.loading import load_gradings

    gradings = [ending.run.grading_path for ending in endings if ending.record is not None]
    if gradings:
        try:
            show(load_gradings(gradings, plugins=registry))
        except UsageError as e:  # a sweep over settings has several runs for one cell
            print(f"No common table: {e}\n\nEach run by itself:")
            for line in run_lines(gradings, results):
                print(f"  {line}")
            print(
                "For tables with intervals give each setting a folder of its own "
                "(results_dir=...).\n"
            )
    print(f"Runs: {results.resolve() / 'runs'}")
    print(f"Tables again: {tables_command(gradings, results)}")


def tables_command(gradings: Sequence[Path], results: Path) -> str:
    """Return the shortest `medhelm tables` that shows these gradings.

    A results folder may hold runs that cannot share a table with them (other settings, older data),
    and newer ones in place of which these are shown.
    """
    from medhelm.tables.clinicians.rated_answers import graded_runs
    from medhelm.tables.study.selection import RunChoice

    folder = results.resolve()
    start = ["medhelm", "tables", "--results-dir", str(folder)]
    specs = [(record.spec, record.grading.scoring) for record in map(read_record, gradings)]
    if not specs:
        return shlex.join(start)
    chosen: dict[str, Any] = {"data": specs[0][0].data, "scoring": specs[0][1]}
    start += ["--data", "sample"] * (chosen["data"] == "sample")
    start += ["--scoring", "helm"] * (chosen["scoring"] == "helm")
    try:
        runs, _ = graded_runs(folder)
    except MedhelmError:
        return shlex.join(start)
    wanted = {path.resolve() for path in gradings}
    has_one_a_cell = len({(spec.column, spec.model.name) for spec, _ in specs}) == len(specs)
    for further in _choices(specs):
        try:
            shown = RunChoice(**chosen, **further).of(runs).runs
            if has_one_a_cell and (others := wanted - {run.path for run in shown}):
                further["folders"] = sorted(str(path.relative_to(folder)) for path in others)
                RunChoice(**chosen, **further).of(runs)
        except MedhelmError:
            continue
        words = ["--latest"] * further.get("latest", False)
        for option in ("benchmarks", "models"):
            words += [f"--{option[:-1]}", *further[option]] if option in further else []
        words += ["--run", *further["folders"]] if "folders" in further else []
        return shlex.join([*start, *words])
    return shlex.join([*start, "--latest"])


def _choices(specs: Sequence[tuple[Any, str]]) -> Iterator[dict[str, Any]]:
    """Yield what `medhelm tables` may be given, least first."""
    newest: dict[str, Any] = {"latest": True}
    of_benchmarks = newest | {"benchmarks": sorted({spec.column for spec, _ in specs})}
    of_models = of_benchmarks | {"models": sorted({spec.model.name for spec, _ in specs})}
    yield from ({}, newest, of_benchmarks, of_models)


def trial_lines(endings: Sequence[Ending]) -> list[str]:
    """Return for each run of a part of the data what all of it would cost, as the part did."""
    from medhelm.tables.spending import cost_columns

    lines = []
    for ending in endings:
        record = ending.record
        if record is None or record.state == "partial" or record.instances >= ending.available:
            continue
        times = ending.available / record.instances
        tokens = sum(p.usage.input_tokens + p.usage.output_tokens for p in record.parties)
        if not tokens:
            continue
        usd = cost_columns([record])["total_cost_usd"]
        paid = (
            f"{usd * times:,.2f} USD" if isinstance(usd, float) else "a cost not known (no price)"
        )
        lines.append(
            f"{record.spec.column} x {record.spec.model.name}: {record.instances:,} of "
            f"{ending.available:,} instances; all would take about {tokens * times:,.0f} tokens, "
            f"{paid}, with judges and other roles"
        )
    return lines


def run_lines(gradings: Sequence[Path], results: Path) -> list[str]:
    """Return a line for each graded run: its score, what sets it apart, and its folder."""
    records = [read_record(path) for path in gradings]
    lines = []
    for path, record, apart in zip(
        gradings, records, settings_apart([r.spec for r in records]), strict=True
    ):
        main = record.results[0]
        score = "no score" if main.value is None else f"{main.value:.3f}"
        lines.append(
            f"{record.spec.column} x {record.spec.model.name}, {apart}{apart and ', '}"
            f"{main.metric} {score} ({_counted(record)}): {os.path.relpath(path.parents[1], results)}"
        )
    return lines


def settings_apart(specs: Sequence[RunSpec]) -> list[str]:
    """Return the settings of each run that are not those of all runs of its model on its benchmark."""
    cells: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    flats = [_flat(msgspec.to_builtins(spec)) for spec in specs]
    for spec, flat in zip(specs, flats, strict=True):
        cells[spec.column, spec.model.name].append(flat)
    found = []
    for spec, flat in zip(specs, flats, strict=True):
        rivals = cells[spec.column, spec.model.name]
        apart = [k for k in flat if len({str(rival.get(k)) for rival in rivals}) > 1]
        found.append(", ".join(f"{k}={flat[k]}" for k in apart if not k.endswith("sha256")))
    return found


def _counted(record: RunRecord) -> str:
    """Return what a score is over: its answers, and the parts of whose means it is the mean."""
    is_of_parts = record.grading.metrics[0].aggregation == MEAN_OF_PARTS
    parts = f", mean of {len(record.grading.parts)} parts" if is_of_parts else ""
    return f"n {record.results[0].counted}{parts}"


def _flat(values: dict[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{above}{key}.")
        else:
            flat[above + key] = value
    return flat


def refuse_swept(jobs: Sequence[Job]) -> None:
    """Refuse several values of what holds for a whole sweep."""
    once = ("results_dir", "shard", "workers", "engine", "order", "servers")
    for key in (*once, "budget_usd", "budget_tokens"):
        if any(getattr(job, key) != getattr(jobs[0], key) for job in jobs):
            raise UsageError(
                f"{key} holds for a whole sweep and cannot be swept; give it one value"
            )


@dataclass(frozen=True)
class Asked:
    """The end of a sweep on the terminal, and what it spent."""

    end: SweepEnd
    ledger: Ledger
    display: Display
    lost: tuple[tuple[int, str], ...] = ()
    """Of each worker that did not end well its exit code and the reason."""

    def raise_worst(self, command: str = "the same command") -> None:
        """Print on stderr what went wrong and which command goes on, then raise the first of the errors."""
        end = self.end
        for line, n in Counter(line for _, line in self.lost).items():
            print(f"medhelm: {line}{f' (so {n} workers)' if n > 1 else ''}", file=sys.stderr)
        errors_of = ((e, _error(e, is_stopped=end.stopped is not None)) for e in end.endings)
        failed = [(e.run, error) for e, error in errors_of if error is not None]
        alike: dict[str, list[tuple[str, str]]] = {}
        for run, error in failed:
            cell = f"{run.spec.benchmark} x {run.spec.model.name}"
            said = str(error).removeprefix(f"{run.spec.benchmark}: ")  # the cell names it already
            alike.setdefault(said.replace(str(run.path), "..."), []).append((cell, said))
        for runs in alike.values():
            cell, said = runs[0]
            more = f" and {len(runs) - 1} more run(s)" if len(runs) > 1 else ""
            print(f"medhelm: {cell}{more}: {said}", file=sys.stderr)
        errors = self.display.errors()
        missing = Counter(judge for e in end.endings for judge in e.missing)
        for judge, n in missing.items():
            more = f" (and so in {n - 1} more run(s))" if n > 1 else ""
            then = (
                "The same command asks it again"
                if judge.is_asked_again
                else "Its replies are kept and not asked for again: choose another judge, or mend it "
                "(its server, its template) and start `medhelm score --ask-again unparsed`"
            )
            print(f"medhelm: {judge.line}{more}. {then}", file=sys.stderr)
        for line in (*errors, *self.display.oversize()):
            print(f"medhelm: {line}", file=sys.stderr)
        partial = sum(e.record is not None and e.record.state == "partial" for e in end.endings)
        if end.stopped or partial or errors or any(e.error for e in end.endings):
            print(f"To go on where it stopped: {command}", file=sys.stderr)
        if end.stopped is not None:
            raise end.stopped
        if failed:
            rest = "" if len(failed) == len(end.endings) else "; the others are finished"
            whole = MedhelmError(
                f"{len(failed)} of {len(end.endings)} run(s) failed, see above{rest}"
            )
            whole.exit_code = failed[0][1].exit_code
            raise whole
        if self.lost:
            whole = MedhelmError("not all workers ended well, see above; the same command goes on")
            whole.exit_code = self.lost[0][0]
            raise whole


def ask_runs(
    runs: Sequence[Run],
    ledger: Ledger,
    shared: PoolAccess | None = None,
    order: Order | None = None,
    servers: str = "",
    *,
    is_told: bool = False,
) -> Asked:
    """Return how runs ended, shown while they are asked; `is_told`: with the words of all servers.

    `shared`: the pool of all workers of a command, where this is one of them. `order`, `servers`: see `Servers`.
    """
    pool = ModelPool(os.environ, None if shared is None else Leases(shared), order, servers)
    with Display(runs, pool.statuses) as display:
        end = asyncio.run(_sweep(run_sweep(runs, ledger, display, pool), telling(shared, display)))
    ledger.give_back()
    for speed in pool.speeds:
        print(speed, file=sys.stderr)
    for line in pool.server_messages(is_shown=is_told):
        print(f"medhelm: {line}", file=sys.stderr)
    return Asked(end, ledger, display)


def make_results(results: Path) -> None:
    """Make the folder that all runs need; raises one RecordError instead of one for each run."""
    try:
        make_private(results / "runs")
        is_writable = os.access(results / "runs", os.W_OK | os.X_OK)
    except OSError as e:
        raise RecordError(
            f"cannot write results_dir={results}: {why(e)}; name another folder"
        ) from None
    if not is_writable:
        raise RecordError(f"cannot write results_dir={results}: permission denied; name another")


async def _sweep(
    sweep: Coroutine[Any, Any, SweepEnd], telling: AbstractAsyncContextManager[None]
) -> SweepEnd:
    """Return how a sweep ended; what its tables need is loaded while it waits for answers."""
    loading = asyncio.create_task(_load_late())
    try:
        async with telling:
            return await sweep
    finally:
        loading.cancel()


async def _load_late() -> None:
    await asyncio.sleep(_LOAD_AFTER_S)
    for module in _LATE:
        await asyncio.to_thread(import_module, module)
    await asyncio.to_thread(software)  # for the records


def _error(ending: Ending, *, is_stopped: bool) -> MedhelmError | None:
    """Return what stopped a run, or that none of its answers has a value."""
    if ending.error is not None or ending.record is None:
        return ending.error
    if not ending.record.results:  # a run of one's own has no metric
        return None
    result = ending.record.results[0]
    if result.counted or not result.outcomes or is_stopped:
        return None
    if set(result.outcomes) == {"oversize"}:
        return ModelError("no request was answered, none fits the model's window")
    if set(result.outcomes) <= {"error", "oversize"}:
        return ModelError("no request was answered")
    of_rules = {"empty", "unparsed", "refused"}  # a rule that says nothing readable is meant to
    if set(result.outcomes) <= of_rules and not reads_prompt(ending.run.spec.model):
        return None
    said = ", ".join(f"{n:,} {outcome}" for outcome, n in sorted(result.outcomes.items()))
    return ModelError(f"no answer has a value ({said})")
