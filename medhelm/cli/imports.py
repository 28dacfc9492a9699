"""`medhelm import`: answers and scores from the files of other tools."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from medhelm.cli.options import data_folder, open_registry
from medhelm.errors import RecordError, UsageError
from medhelm.plugins.registry import Registry

if TYPE_CHECKING:
    from medhelm.interop.importing import Brought
    from medhelm.interop.recorded import Log

_SHOWN = 5


def run(args: argparse.Namespace) -> int:
    """Return 0, or 4 where a run could not be graded; raises UsageError where nothing came in."""
    paths, results = [Path(path) for path in args.paths], Path(args.results_dir)
    if missing := [path for path in paths if not path.exists()]:
        raise UsageError(f"there is no {missing[0]}")
    if args.kind == "medhelm_paper":
        from medhelm.tables.others.as_published import bring_scores

        print(bring_scores(paths, results))
        return 0
    if args.kind == "openai_batch":
        from medhelm.cli.batch_files import take_answers

        return take_answers(paths, results)
    from medhelm.cli.score import graded_line
    from medhelm.interop.importing import Importer
    from medhelm.runs.regrading import regrade

    registry, root = open_registry(args.plugin), data_folder(args)
    importer = Importer(registry, results, args.data, root, args.benchmark, args.model)
    specs = []
    for one in importer.bring(_logs(args.kind, paths, registry)):
        print(*_lines(one), sep="\n")
        specs += [one.spec] if one.spec else []
    if not specs:
        raise UsageError(
            f"no file of {args.kind} in {', '.join(args.paths)} answers a question of a benchmark, "
            "so nothing was written"
        )
    benchmarks, models = [s.benchmark for s in specs], [s.model.name for s in specs]
    code = 0
    for done in regrade(results, registry, benchmarks=benchmarks, models=models, root=root):
        if done.record is not None:
            print(graded_line(done.where, done.record))
        if done.problem:
            print(f"medhelm: {done.problem}", file=sys.stderr)
            code = RecordError.exit_code
    print("`medhelm compare --scorer theirs,ours` shows where the tool scored otherwise")
    return code


def _logs(kind: str, paths: Sequence[Path], registry: Registry) -> Iterator[Log]:
    """Yield the logs of files; raises UsageError for one that is not of its kind."""
    from medhelm.interop import helm_folder, inspect_log, lm_eval_files

    metrics = {name for name, _ in registry.metrics}
    for path in paths:
        try:
            if kind == "helm":
                yield from helm_folder.read_logs(path, metrics)
            else:
                yield from (inspect_log if kind == "inspect" else lm_eval_files).read_logs(path)
        except (msgspec.DecodeError, LookupError, TypeError, ValueError, AttributeError) as e:
            said = f"{type(e).__name__}: {e}" if isinstance(e, LookupError) else type(e).__name__
            raise UsageError(
                f"{path} is no file of {kind} that can be read here ({said})"
            ) from None


def _lines(one: Brought) -> Iterator[str]:
    """Yield how many answers came in, and which did not, by reason."""
    spec, found = one.spec, one.matches.found
    tasks = ", ".join(log.task for log in one.logs)
    if spec is None:
        yield f"{tasks} x {one.logs[0].model}: nothing matched"
    else:
        asked = len({own.instance.id for own in found})
        yield (
            f"{tasks} -> {spec.benchmark} x {spec.model.name}: {len(found):,} answers to {asked:,} of "
            f"{one.available:,} questions"
        )
    of_reason: dict[str, list[str]] = defaultdict(list)
    for key, reason in one.matches.unmatched.items():
        of_reason[reason].append(key)
    for reason, keys in of_reason.items():
        more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
        yield f"  not matched, {reason}: {len(keys):,} ({', '.join(keys[:_SHOWN])}{more})"
