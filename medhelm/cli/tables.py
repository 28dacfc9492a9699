"""`medhelm tables`: the tables of a results folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from medhelm.cli.options import add_plugins, open_registry
from medhelm.config import DEFAULT_RESULTS
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--table",
        metavar="NAME",
        help="one table (default: overall and benchmarks); `medhelm list tables` shows all",
    )
    parser.add_argument("--by", metavar="KEY", help="metadata key of --table slices")
    parser.add_argument(
        "--metrics",
        choices=("main", "all"),
        default="main",
        help="metrics of --table benchmarks (default: main)",
    )
    parser.add_argument(
        "--columns",
        nargs="+",
        metavar="NAME",
        help="show these columns, or all (`medhelm list tables` describes them; data formats have "
        "all where none is named)",
    )
    parser.add_argument(
        "--rank-by",
        choices=("half", "literal", "macro"),
        default="half",
        help="rank by win rate (a tie counts half, or, literal, wins for both) or by macro-average",
    )
    parser.add_argument(
        "--mde",
        choices=("range", "paper"),
        default="range",
        help="scale of --table mde: each metric's range (default), or as the paper computed it",
    )
    add_reduce(parser)
    add_names(parser)
    parser.add_argument(
        "--run",
        nargs="+",
        action="extend",
        metavar="DIR",
        help="folder of a run, or of a grading, to take where a cell has several",
    )
    parser.add_argument(
        "--json-schema", action="store_true", help="print the JSON Schema of a table, no table"
    )
    add_plugins(parser)
    add_common(parser)


def add_reduce(parser: argparse.ArgumentParser) -> None:
    """Add the option that says what the repeats of a question become."""
    parser.add_argument(
        "--reduce",
        default="mean",
        metavar="NAME",
        help="what the repeats of a question become: mean (default), majority (the answer that most "
        "of them gave), worst, any (the best), pass@K (like pass@3)",
    )


def add_names(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose benchmarks and models."""
    for option in ("benchmark", "model"):
        chosen = f"only these {option}s; * stands for any text ('openai/*')"
        parser.add_argument(f"--{option}", nargs="+", action="extend", metavar="NAME", help=chosen)


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that read runs and print tables."""
    add_results(parser)
    add_output(parser)


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which gradings of which runs are read."""
    add_runs(parser)
    parser.add_argument(
        "--scoring", choices=("fixed", "helm"), default="fixed", help="which gradings"
    )


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the runs of a results folder."""
    parser.add_argument(
        "--results-dir",
        default=DEFAULT_RESULTS,
        metavar="DIR",
        help="folder of results (default: %(default)s)",
    )
    parser.add_argument(
        "--data",
        choices=("sample", "full"),
        help="runs on bundled samples or on full data (default: full where there is any)",
    )
    parser.add_argument(
        "--latest", action="store_true", help="take the newest of several runs of one cell"
    )


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how and where tables are printed."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="output format (default: by the suffix of --out, else terminal)",
    )
    parser.add_argument("--out", metavar="FILE", help="write there, not to the standard output")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how tables are printed and how their intervals are made."""
    add_file(parser)
    add_draws(parser)


def add_draws(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how intervals are made."""
    parser.add_argument("--bootstrap-seed", type=int, default=0, metavar="N", help="(default: 0)")
    parser.add_argument(
        "--draws", type=int, default=1000, metavar="N", help="bootstrap draws (default: 1000)"
    )
    parser.add_argument(
        "--confidence", type=float, default=0.95, metavar="P", help="of intervals (default: 0.95)"
    )


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


def emit(tables: list[Table], form: str, out: str | None) -> None:
    """Print tables or write them to a file; notes of CSV go to the standard error.

    A reader who has seen enough (`| head`) changes nothing of the command's exit code.
    """
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
    for broken in known.broken:
        print(f"medhelm: plugin {broken.plugin} is left out: {broken.reason}", file=sys.stderr)
    names = [args.table] if args.table else [s.name for s in known.specs.values() if s.is_default]
    _check_options(args, known, [known.spec(name) for name in names])
    form = chosen_format(args.format, args.out)
    chosen = settings(args, rank_by=args.rank_by, mde=args.mde, reduce=args.reduce)
    results = load(args, args.benchmark, args.model, args.run or (), known)
    is_screen = form == "terminal" and not args.table and not args.columns
    tables, code = make_tables(
        results, on_screen(results) if is_screen else names, chosen, args.by, args.metrics
    )
    if tables:
        emit(_with_columns(tables, args.columns), form, args.out)
    return code


def on_screen(results: Results) -> list[str]:
    """Return the names of the tables that a terminal shows where none is named: the ranking last.

    So it stays on the screen. Of a single run there is no ranking.
    """
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
    """Raise UsageError for an option that would change none of the tables."""
    for option, given, default in (
        ("by", args.by, None),
        ("metrics", args.metrics, "main"),
        ("mde", args.mde, "range"),
        ("reduce", args.reduce, "mean"),
    ):
        if given != default and not any(option in spec.options for spec in chosen):
            of = " or ".join(s.name for s in known.specs.values() if option in s.options)
            key = " KEY" if option == "by" else ""
            raise UsageError(f"--{option}{key} belongs to --table {of}")
