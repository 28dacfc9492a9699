"""`medhelm tables`: the tables of a results folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from medhelm.cli.options import name_broken, open_registry
from medhelm.errors import PluginError, UnknownName, UsageError
from medhelm.tables.format.console import drop_output
from medhelm.tables.format.formats import FORMATS
from medhelm.tables.format.formats import write as write

if TYPE_CHECKING:
    from medhelm.tables.format.table import Settings, Table
    from medhelm.tables.known_tables import KnownTables
    from medhelm.tables.results import Results
    from medhelm.tables.table_spec import TableSpec

_RANKING = "overall"
_SUFFIXES = {
    ".txt": "terminal",
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".tex": "latex",
    ".parquet": "parquet",
    ".xlsx": "excel",
}


def settings(args: argparse.Namespace, **more: Any) -> Settings:
    """Return the settings that the options name; raises UsageError."""
    from medhelm.tables.format.table import Settings

    return Settings(
        draws=args.draws, bootstrap_seed=args.bootstrap_seed, confidence=args.confidence, **more
    )


def load(
    args: argparse.Namespace,
    benchmarks: Any,
    models: Any,
    runs: Sequence[str] = (),
    known: KnownTables | None = None,
) -> Results:
    """Return the results that the options name; raises MedhelmError."""
    from medhelm.tables.loading import load_results

    return load_results(
        args.results_dir,
        data=args.data,
        scoring=args.scoring,
        latest=args.latest,
        benchmarks=benchmarks,
        models=models,
        runs=runs,
        plugins=open_registry(args.plugin) if args.plugin else (),
        tables=known,
    )


def chosen_format(form: str | None, out: str | None) -> str:
    """Return the format that --format names, else that of the suffix of --out; UsageError."""
    if form in ("parquet", "excel") and out is None:
        raise UsageError(f"--format {form} is binary: name a file with --out FILE")
    if form is not None or out is None:
        return form or "terminal"
    suffix = Path(out).suffix.lower()
    if suffix not in _SUFFIXES:
        raise UsageError(
            f"--out {out} does not tell the format: end it in {', '.join(_SUFFIXES)}, or add "
            f"--format with one of {', '.join(FORMATS)}"
        )
    return _SUFFIXES[suffix]


def printer(args: argparse.Namespace) -> Callable[[list[Table]], None]:
    """Return what prints tables, or writes them, as --format and --out say; raises UsageError."""
    return partial(emit, form=chosen_format(args.format, args.out), out=args.out)


def emit(tables: list[Table], form: str, out: str | None) -> None:
    """Print tables or write them to a file; notes of CSV go to the standard error."""
    from medhelm.tables.format import formats

    try:
        if out is not None:
            formats.write(Path(out), formats.render(tables, form))
        elif form == "terminal":
            formats.print_tables(tables)
        else:
            sys.stdout.write(formats.render(tables, form).decode())
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    if form == "csv":
        for note in tables[0].notes:
            print(f"note: {formats.clean(note)}", file=sys.stderr)


def run(args: argparse.Namespace) -> int:
    """Print the tables asked for and return the exit code."""
    from medhelm.tables.known_tables import find_tables

    if args.json_schema:
        from medhelm.tables.format.table import json_schema

        print(json.dumps(json_schema(), indent=1))
        return 0
    known = find_tables(args.plugin)
    name_broken(known.broken)
    names = [args.table] if args.table else [s.name for s in known.specs.values() if s.is_default]
    _check_options(args, known, [known.spec(name) for name in names])
    form = chosen_format(args.format, args.out)
    names_of = ("rank_by", "mde", "pass_mark", "min_group", "reduce")
    chosen = settings(args, **{name: getattr(args, name) for name in names_of})
    results = load(args, args.benchmark, args.model, args.run or (), known)
    is_screen = form == "terminal" and not args.table and not args.columns
    tables, code = make_tables(
        results, on_screen(results) if is_screen else names, chosen, args.by, args.metrics
    )
    if tables:
        emit(_with_columns(tables, args.columns), form, args.out)
    return code


def on_screen(results: Results) -> list[str]:
    """Return the names of the tables that a terminal shows where none is named: the ranking last."""
    names = [s.name for s in results.known.specs.values() if s.is_default]
    names += ["robustness"] * results.has_variants
    is_one = len(results.runs) == 1
    return sorted((n for n in names if n != _RANKING or not is_one), key=_RANKING.__eq__)


def make_tables(
    results: Results,
    names: Sequence[str],
    chosen: Settings | None = None,
    by: str | None = None,
    metrics: Literal["main", "all"] = "main",
) -> tuple[list[Table], int]:
    """Return the tables that can be made, and the exit code; those of plugins that fail are named."""
    tables, code = [], 0
    for name in names:
        try:
            tables.append(results.typed(name, chosen, by=by, metrics=metrics))
        except PluginError as e:  # the other tables are printed all the same
            print(f"medhelm: {e}", file=sys.stderr)
            code = e.exit_code
    return tables, code


def _with_columns(tables: list[Table], names: Sequence[str] | None) -> list[Table]:
    """Return the tables with the columns asked for; raises UnknownName for one that none has."""
    if not names:
        return tables
    known = list(dict.fromkeys(c.name for table in tables for c in table.columns))
    wanted = [name for text in names for name in text.split(",")]
    for name in wanted:
        if name not in (*known, "all"):
            hint = f"columns are: {', '.join(known)}"
            raise UnknownName("column", name, known, hint)
    return [table.choose(["all"] if "all" in wanted else wanted) for table in tables]


def _check_options(
    args: argparse.Namespace, known: KnownTables, chosen: Sequence[TableSpec]
) -> None:
    from medhelm.tables.format.table import Settings
    from medhelm.tables.table_spec import Option

    defaults = {"by": None, "metrics": "main", **vars(Settings())}
    for option in get_args(Option):
        is_given = getattr(args, option) != defaults[option]
        if is_given and not any(option in spec.options for spec in chosen):
            of = " or ".join(s.name for s in known.specs.values() if option in s.options)
            key = " KEY" if option == "by" else ""
            raise UsageError(f"--{option.replace('_', '-')}{key} belongs to --table {of}")
