"""`medhelm leaderboard`: build the static site, serve it on this machine, compare two builds."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.cli.options import open_registry
from medhelm.cli.tables import chosen_format, emit, settings
from medhelm.errors import UsageError

if TYPE_CHECKING:
    from medhelm.tables.format.table import Table
    from medhelm_leaderboard.collect import Wanted
    from medhelm_leaderboard.site import Built

DEFAULT_SITE = "site"
_MANY = 10


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one action."""
    return {"build": _build, "serve": _serve, "diff": _diff}[args.action](args)


def _build(args: argparse.Namespace) -> int:
    from medhelm_leaderboard.collect import Wanted
    from medhelm_leaderboard.site import SiteOptions, build_site

    registry = open_registry(args.plugin)
    options = {"title": args.title} if args.title else {}
    wanted = Wanted(
        results_dir=Path(args.results_dir),
        data=args.data,
        latest=args.latest,
        benchmarks=args.benchmark or (),
        models=args.model or (),
        access=args.access or (),
    )
    how = SiteOptions(
        settings=settings(args),
        logo=Path(args.logo) if args.logo else None,
        agreement=_agreement(args, wanted),
        command=_command(args),
        **options,
    )
    report(build_site(wanted, Path(args.out), registry, how))
    return 0


def _agreement(args: argparse.Namespace, wanted: Wanted) -> Table | None:
    from medhelm.tables.clinicians.agreement import agreement_table
    from medhelm.tables.clinicians.rated_answers import load_rated
    from medhelm.tables.clinicians.ratings import read_ratings
    from medhelm_leaderboard.collect import benchmarks_of

    if not args.ratings:
        if args.key:
            raise UsageError("--key belongs to --ratings")
        return None
    ratings = read_ratings([Path(p) for p in args.ratings], Path(args.key) if args.key else None)
    choice = replace(wanted, benchmarks=benchmarks_of(wanted)) if wanted.access else wanted
    return agreement_table(load_rated(ratings, choice), settings(args), with_judges=True)


def _command(args: argparse.Namespace) -> str:
    """Return the command that builds the site anew, without paths of this machine."""
    words = ["--results-dir", "RESULTS", "--out", "SITE"]
    for name in ("access", "benchmark", "model"):
        if chosen := getattr(args, name):
            words += [f"--{name}", *chosen]
    for name, shown in {
        "title": args.title,
        "logo": f"LOGO{Path(args.logo or '').suffix}",
        "ratings": "RATINGS.csv",
        "key": "KEY.json",
        "plugin": "PLUGIN.py",
        "data": args.data,
    }.items():
        words += [f"--{name}", shown] if getattr(args, name) else []
    words += ["--latest"] * args.latest
    words += ["--draws", str(args.draws), "--bootstrap-seed", str(args.bootstrap_seed)]
    words += ["--confidence", f"{args.confidence:g}"]
    return f"medhelm leaderboard build {shlex.join(words)}"


def report(built: Built) -> None:
    """Print what a build did and how to open the site."""
    from medhelm.tables.format.formats import clean

    for problem in built.problems[:_MANY]:
        said = clean(f"{problem.where}: {problem.what}")  # names may hold a terminal's commands
        print(f"medhelm: not on the site: {said}", file=sys.stderr)
    if (more := len(built.problems) - _MANY) > 0:
        print(f"medhelm: and {more} more, named on the site's page About", file=sys.stderr)
    done = f"{built.written} files written" if built.written else "nothing has changed"
    removed = f", {built.removed} removed" if built.removed else ""
    print(
        f"Site: {built.models} models x {built.benchmarks} benchmarks, {built.runs} runs; "
        f"{done}{removed}"
    )
    print(f"Open it: {built.index.resolve().as_uri()}")


def _serve(args: argparse.Namespace) -> int:
    from medhelm_leaderboard.serve import HOST, open_server

    with open_server(Path(args.site), args.port) as server, suppress(KeyboardInterrupt):
        print(
            f"Serving {args.site} on http://{HOST}:{server.server_port}/ until Ctrl-C", flush=True
        )
        server.serve_forever()
    return 0


def _diff(args: argparse.Namespace) -> int:
    from medhelm_leaderboard.diff import diff

    emit([diff(Path(args.old), Path(args.new))], chosen_format(args.format, args.out), args.out)
    return 0
