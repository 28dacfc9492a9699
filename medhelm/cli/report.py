"""`medhelm report MODEL -o DIR`: the evidence on one model as a folder and a page; `--verify DIR` checks one."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from medhelm.cli.options import open_registry
from medhelm.cli.tables import settings
from medhelm.errors import UsageError
from medhelm.plugins.profiles import read_profile

_DECIDING = (
    "benchmark",
    "by",
    "profile",
    "data",
    "scoring",
    "draws",
    "bootstrap_seed",
    "confidence",
)
"""Options with a value that decide what a report holds."""


def run(args: argparse.Namespace) -> int:
    """Write a report, or check one: 1 where something has changed."""
    from medhelm_leaderboard.collect import Wanted
    from medhelm_leaderboard.evidence.bundle import MANIFEST, sha256_of, verify, write_report
    from medhelm_leaderboard.evidence.gather import gather

    if bool(args.verify) == bool(args.model and args.out) or args.verify and args.out:
        raise UsageError("medhelm report MODEL -o DIR writes a report, --verify DIR checks one")
    folder, results, changes = Path(args.verify or args.out), Path(args.results_dir), list[str]()
    if args.verify:
        changes, others = verify(folder, results)
        fine = ["Every file is as it was written."] * (not changes)
        print(*changes, *others, *fine, sep="\n")
    else:
        names: dict[str, Any] = {"benchmarks": args.benchmark or (), "models": [args.model]}
        wanted = Wanted(results_dir=results, data=args.data, latest=args.latest, **names)
        profile = read_profile(args.profile) if args.profile else None
        registry, chosen = open_registry(args.plugin), settings(args)
        found = gather(wanted, registry, chosen, scoring=args.scoring, profile=profile, by=args.by)
        write_report(found, folder, _command(args))
        for problem in found.problems:
            print(f"medhelm: not in the report: {problem.where}: {problem.what}", file=sys.stderr)
        print(f"Report on {found.model}: {len(found.runs)} benchmarks")
        print(f"Open it: {(folder / 'index.html').resolve().as_uri()}")
    print(f"sha256 of its {MANIFEST}: {sha256_of(folder / MANIFEST)}")
    return int(bool(changes))


def _command(args: argparse.Namespace) -> str:
    """Return the command that writes the report anew, without paths of this machine."""
    words = [args.model, "--results-dir", "RESULTS", "-o", "DIR"]
    for name in _DECIDING:
        if (value := getattr(args, name)) not in (None, []):
            values = value if isinstance(value, list) else [Path(str(value)).name]
            words += [f"--{name.replace('_', '-')}", *values]
    words += ["--plugin", "PLUGIN.py"] * bool(args.plugin) + ["--latest"] * args.latest
    return f"medhelm report {shlex.join(words)}"
