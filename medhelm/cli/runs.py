"""`medhelm runs`: what is stored in a results folder; a run is removed, or archived in one file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medhelm.cli.options import add_format, print_json, print_rows
from medhelm.config import DEFAULT_RESULTS
from medhelm.errors import RecordError, UsageError, below
from medhelm.store.archives import archive_run, find_run, held, remove_run, run_folders
from medhelm.store.records import read_plan, stored_records
from medhelm.tables.format.formats import clean

_RUN = "folder of a run, as the tables name it, or the first digits of its hash"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    shown = actions.add_parser("list", help="every stored run, with its state, score and size")
    for option in ("benchmark", "model"):
        shown.add_argument(f"--{option}", metavar="NAME", help=f"only runs of this {option}")
    add_format(shown)
    removed = actions.add_parser("remove", help="remove runs; asks first")
    removed.add_argument("runs", nargs="+", metavar="RUN", help=_RUN)
    removed.add_argument("--yes", action="store_true", help="do not ask")
    archive = actions.add_parser("archive", help="write a run to a zip with its SHA-256 beside it")
    archive.add_argument("runs", nargs=1, metavar="RUN", help=_RUN)
    archive.add_argument("--out", metavar="FILE.zip", help="(default: BENCHMARK-MODEL-HASH.zip)")
    archive.add_argument(
        "--remove", action="store_true", help="remove the run when the archive is read back"
    )
    for action in (shown, removed, archive):
        action.add_argument(
            "--results-dir",
            default=DEFAULT_RESULTS,
            metavar="DIR",
            help="folder of results (default: %(default)s)",
        )


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one action; raises RunLocked for a run that is at work."""
    results = Path(args.results_dir)
    if args.action == "list":
        return _list(args, results)
    folders = list(dict.fromkeys(find_run(results, name) for name in args.runs))
    return (_remove if args.action == "remove" else _archive)(args, results, folders)


def _list(args: argparse.Namespace, results: Path) -> int:
    facts = [_facts(results, run) for run in run_folders(results)]
    if not facts:
        raise UsageError(f"no run {below(results)}; --results-dir DIR names another folder")
    wanted = {name: getattr(args, name) for name in ("benchmark", "model") if getattr(args, name)}
    facts = [f for f in facts if all(f[name] == value for name, value in wanted.items())]
    if args.format == "json":
        print_json("runs", {"runs": facts})
        return 0
    columns = {
        "run": [clean(f["run"]) for f in facts],
        "state": [f["state"] for f in facts],
        "score": ["–" if f["score"] is None else f"{f['score']:.3f}" for f in facts],
        "graded": [f["graded_at"][:10] or "–" for f in facts],
        "MB": [f"{f['bytes'] / 1e6:.2f}" for f in facts],
    }
    print_rows(columns, numbers=("score", "MB"), keys=("run",), leaving=("graded", "MB", "score"))
    return 0


def _facts(results: Path, run: Path) -> dict[str, Any]:
    """Return what is known of a stored run; of a damaged one its folder and size."""
    facts: dict[str, Any] = {
        "run": run.relative_to(results).as_posix(),
        "benchmark": run.parents[1].name,
        "model": run.parent.name,
        "data": None,
        "state": "damaged",
        "instances": None,
        "metric": None,
        "score": None,
        "graded_at": "",
        "bytes": sum(p.stat().st_size for p in run.rglob("*") if p.is_file()),
    }
    try:
        plan = read_plan(run)
    except RecordError:
        return facts
    spec = plan.spec
    facts |= {"benchmark": spec.column, "model": spec.model.name, "data": spec.data}
    facts |= {"state": "not graded", "instances": plan.instances}
    for record in stored_records(run)[:1]:
        facts |= {"state": record.state, "graded_at": record.provenance.get("graded_at", "")}
        for result in record.results[:1]:
            facts |= {"metric": result.metric, "score": result.value}
    return facts


def _remove(args: argparse.Namespace, results: Path, folders: Sequence[Path]) -> int:
    named = ", ".join(clean(f.relative_to(results).as_posix()) for f in folders)
    if not args.yes:
        if not sys.stdin.isatty():
            raise UsageError("runs remove asks in a terminal; elsewhere add --yes")
        print(f"To be removed with all their answers: {named}")
        print("`medhelm runs archive RUN` keeps a run in one file.")
        if input("Remove? [y/N] ").strip().lower() not in ("y", "yes"):
            print("Nothing was removed.")
            return 1
    for folder in folders:
        with held(folder):
            remove_run(results, folder)
    print(f"Removed: {named}")
    return 0


def _archive(args: argparse.Namespace, results: Path, folders: Sequence[Path]) -> int:
    folder = folders[0]
    name = "-".join(folder.relative_to(results / "runs").parts)
    out = Path(args.out or f"{name}.zip")
    with held(folder):
        digest = archive_run(results, folder, out)
        if args.remove:
            remove_run(results, folder)
    print(f"Archived: {out}\nSHA-256: {digest}")
    print("It holds all texts of the run. Unpacked in a results folder, the run is there again.")
    if args.remove:
        print(f"Removed: {clean(folder.relative_to(results).as_posix())}")
    return 0
