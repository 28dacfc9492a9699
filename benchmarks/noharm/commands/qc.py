"""The form of cases, and whether written or generated ones are well formed."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import msgspec

from medhelm import DataError, UsageError
from medhelm.plugin import model_calls, options, own_runs, tables
from medhelm_benchmarks.noharm.rules.cases import Case, scan_cases
from medhelm_benchmarks.noharm.rules.judging import BUDGET, JUDGE, JUDGING, menus, read_judged

_BUNDLED = Path(__file__).parent.parent / "samples" / "noharm.jsonl"
_PROVENANCE = "provenance.jsonl"
_TABLES = ("summary", "checks", "rates", "flags", "leaks", "measures", "origins")
_SHOWN = _TABLES[:-2]
_MOST_FAULTS = 20


print_schema = options.schema_command(Case)
"""`medhelm schema noharm`."""


def run(args: argparse.Namespace) -> int:
    """`medhelm qc noharm`: print what is found; return 0 whatever it is, with --strict 1 where anything is."""
    from medhelm_benchmarks.noharm.rules.quality import check_cases
    from medhelm_benchmarks.noharm.rules.wording import load_embedder
    from medhelm_benchmarks.noharm.tables.quality import flags, origins, quality_tables

    show = tables.printer(args)
    model_calls.check_estimate(args)
    for option, target in (("--out", args.out), ("--flags", args.flags)):
        if target and args.file and _is_same(Path(target), Path(args.file)):
            raise UsageError(f"{option} {target} is the file of cases itself; name another one")
    cases = _cases(args)
    embed = load_embedder(args.embeddings) if args.embeddings else None
    judge = _judge_run(args, cases) if args.judge else None
    asked = judged = None
    if judge is not None:
        if args.estimate:
            return model_calls.show_estimate([judge], args)
        asked = model_calls.ask([judge], args)
        judged = read_judged(args.judge, [*own_runs.stored_episodes(judge.path)])
    quality = check_cases(cases, embed, judged)
    found = list(flags(quality))
    if args.flags:
        lines = b"".join(msgspec.json.encode(flag) + b"\n" for flag in found)
        tables.write(Path(args.flags), lines)
    made = quality_tables(quality, args.embeddings, judged)
    shown = list(_SHOWN)
    if (path := _provenance(args)) is not None:
        made["origins"] = origins(path, cases)
        shown.insert(1, "origins")
    elif args.table == "origins":
        raise UsageError(
            f"--table origins needs the {_PROVENANCE} that `medhelm generate noharm` writes beside "
            "its cases; name the file of cases there"
        )
    show([made[name] for name in ([args.table] if args.table else shown)])
    if asked is not None:
        asked.raise_worst()
    return 1 if args.strict and found else 0


def _judge_run(args: argparse.Namespace, cases: tuple[Case, ...]) -> own_runs.Run:
    """Return the run that asks the judge about every menu and the control."""
    sha256 = hashlib.sha256(b"\n".join(map(msgspec.json.encode, cases))).hexdigest()
    (model,) = options.find_models([args.judge], ())
    return own_runs.own_run(
        "noharm_qc",
        menus(cases),
        JUDGING,
        {JUDGE: model},
        Path(args.results_dir) / "qc" / f"{sha256[:12]}-{model.name.replace('/', '__')}",
        data_class=args.data_class or ("private" if args.file else "public"),
        environ=model_calls.environ_of(args),
        decides=sha256,
        max_output_tokens=BUDGET,
        reasoning_output_tokens=4 * BUDGET,
    )


def _provenance(args: argparse.Namespace) -> Path | None:
    """Return the file beside the cases that says where their actions come from; None without one."""
    path = None if args.file in (None, "-") else Path(args.file).with_name(_PROVENANCE)
    return path if path is not None and path.is_file() else None


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _cases(args: argparse.Namespace) -> tuple[Case, ...]:
    """Return the cases that the arguments name. Every fault of the file goes to stderr."""
    if args.file == "-":
        path = Path("standard input")
        cases, faults = scan_cases(path, sys.stdin.buffer.read())
    else:
        path = Path(args.file or _BUNDLED)
        cases, faults = scan_cases(path)
    if len(faults) == 1:
        raise DataError(faults[0])
    for fault in faults[:_MOST_FAULTS]:
        print(f"medhelm: {fault}", file=sys.stderr)
    if faults:
        named = f"the first {_MOST_FAULTS}" if len(faults) > _MOST_FAULTS else "all"
        raise DataError(
            f"{path.name}: {len(faults)} faults, {named} above; `medhelm schema noharm` is the form"
        )
    return cases
