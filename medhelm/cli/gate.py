"""`medhelm gate --profile NAME`: do models reach the thresholds of a profile?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from medhelm.cli.options import open_registry
from medhelm.cli.tables import chosen_format, emit, load, settings
from medhelm.errors import UsageError, below
from medhelm.plugins.profiles import profile_names, read_profile
from medhelm.store.records import find_gradings
from medhelm.tables.format.formats import write


def complete(words: Sequence[str]) -> list[str]:
    """Return what the last word of a line can become: the name of a profile."""
    if words[-2:-1] != ["--profile"]:
        return []
    return [name for name in profile_names() if name.startswith(words[-1])]


def run(args: argparse.Namespace) -> int:
    """Print the verdicts and return the exit code of the worst one."""
    from medhelm.tables.gate import EXIT_CODES, known_metrics, resolve

    form = chosen_format(args.format, args.out)
    chosen = settings(args)
    profile = read_profile(args.profile)
    registry = open_registry(args.plugin)
    graded = {path.parents[3].name for path in find_gradings(Path(args.results_dir))}
    # Other benchmarks are not read: what is wrong there, or on other data, is none of the gate's.
    wanted = [name for name in profile.benchmarks if name in graded]
    if not wanted:
        resolve(profile, known_metrics(profile, registry))
        raise UsageError(
            f"no graded run on {', '.join(profile.benchmarks)} {below(args.results_dir)}; "
            f"`medhelm run -m model=... benchmark={','.join(profile.benchmarks)}` makes them"
        )
    results = load(args, wanted, args.model)
    table = results.gate(profile, args.model, chosen, registry, args.decision)
    code = EXIT_CODES[str(table.settings["verdict"])]
    if args.junit:
        from medhelm.tables.format.junit import to_junit

        write(Path(args.junit), to_junit(table))
    emit([table], form, args.out)
    return code
