"""`medhelm report MODEL -o DIR`: the evidence on one model as a folder and a page; `--verify DIR` checks one."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from medhelm.cli.options import OF_DRAWS, OF_GRADINGS, add_options, open_registry
from medhelm.cli.tables import settings
from medhelm.errors import UsageError
from medhelm.plugins.profiles import read_profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help="as `medhelm tables` names it")
    parser.add_argument("-o", "--out", metavar="DIR", help="folder to write, new or of a report")
    parser.add_argument(
        "--verify", metavar="DIR", help="say what of a report and its runs has changed"
    )
    parser.add_argument(
        "--profile", metavar="NAME", help="of thresholds, as of `medhelm gate`: adds its verdicts"
    )
    parser.add_argument(
        "--by",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY",
        help="metadata keys to slice by",
    )
    add_options(parser, "--benchmark", "--plugin", *OF_GRADINGS, *OF_DRAWS)


def run(args: argparse.Namespace) -> int:
    """Write a report, or check one: 1 where something has changed."""
    if args.verify:
        return _verify(args)
    if not args.model or not args.out:
        raise UsageError("name a model and a folder: medhelm report MODEL -o DIR")
    from medhelm_leaderboard.collect import Wanted
    from medhelm_leaderboard.evidence.bundle import verify, write_report
    from medhelm_leaderboard.evidence.gather import Asked

    wanted = Wanted(
        results=Path(args.results_dir),
        data=args.data,
        latest=args.latest,
        benchmarks=args.benchmark or (),
        models=[args.model],
    )
    asked = Asked(
        wanted=wanted,
        scoring=args.scoring,
        settings=settings(args),
        profile=read_profile(args.profile) if args.profile else None,
        by=tuple(args.by),
    )
    out, registry = Path(args.out), open_registry(args.plugin)
    found = write_report(asked, registry, out, _command(args))
    digest, *_ = verify(out, wanted.results)
    for problem in found.problems:
        print(f"medhelm: not in the report: {problem.where}: {problem.what}", file=sys.stderr)
    verdict = f", gate {found.verdict.settings['verdict']}" if found.verdict else ""
    print(f"Report on {found.model}: {len(found.runs)} benchmarks{verdict}")
    print(f"Open it: {(out / 'index.html').resolve().as_uri()}")
    print(f"sha256 of its manifest: {digest}")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from medhelm_leaderboard.evidence.bundle import verify

    digest, changed, untold = verify(Path(args.verify), Path(args.results_dir))
    for line in (*changed, *untold):
        print(line)
    if not changed:
        print("Every file is as it was written.")
    print(f"sha256 of its manifest: {digest}")
    return 1 if changed else 0


def _command(args: argparse.Namespace) -> str:
    """Return the command that writes the report anew, without paths of this machine."""
    words = [args.model, "--results-dir", "RESULTS", "-o", "DIR"]
    for name in ("profile", "data"):
        if chosen := getattr(args, name):
            words += [f"--{name}", Path(chosen).name]
    for name in ("benchmark", "by"):
        if chosen := getattr(args, name):
            words += [f"--{name}", *chosen]
    words += ["--plugin", "PLUGIN.py"] * bool(args.plugin) + ["--latest"] * args.latest
    words += ["--scoring", args.scoring] * (args.scoring != "fixed")
    words += ["--draws", str(args.draws), "--bootstrap-seed", str(args.bootstrap_seed)]
    words += ["--confidence", f"{args.confidence:g}"]
    return f"medhelm report {shlex.join(words)}"
