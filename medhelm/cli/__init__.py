"""The command line: finds the subcommand, shows errors as one line, sets exit codes.

Exit codes: 0 done; 1 a check failed; 2 a wrong name, option or plugin; 3 data; 4 a run
folder; 5 refused for privacy; 6 a model; 7 the budget is reached; 130 interrupted. `gate`: 0 PASS,
1 FAIL, 2 INCONCLUSIVE. A wrong name is 2 there as well, since neither is a verdict.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from medhelm import __version__
from medhelm.errors import MedhelmError, RecordError, UnknownName, UsageError
from medhelm.files.durable import FULL, OUT_OF_FILES, why
from medhelm.tables.console import drop_output

COMMANDS = {
    "run": "ask models and grade them; with no argument: the offline demo",
    "list": "benchmarks, models, metrics, suites, profiles, the taxonomy and its coverage",
    "describe": "all facts of one benchmark, metric, model or profile",
    "validate": "check benchmarks on their instances, without a model",
    "estimate": "tokens and USD of a run before it is started",
    "score": "grade stored responses again, without a model",
    "tables": "tables of finished runs",
    "compare": "two models, paired on the same instances",
    "gate": "whether models reach the thresholds of a profile; exit code 0, 1 or 2",
    "leaderboard": "build, serve and compare the static site",
    "agreement": "clinicians' ratings against the jury, or of actions against their cases",
    "gold-quality": "which golds of a benchmark a judge finds unreasonable",
    "generate": "write cases for action safety from a guideline, with a language model",
    "qc": "whether cases of actions are well formed",
    "data": "fetch, verify and locate the benchmarks' data",
    "schema": "the JSON Schema of files that users write",
    "new": "write a benchmark or metric to start from",
}

_LONG = 200
"""Letters of a path that are shown."""
_OTHERS = {"eval": "run", "evaluate": "run", "ls": "list", "show": "describe", "view": "tables"}
"""Commands of other tools, and what does their work here."""


def run_command(argv: Sequence[str]) -> int:
    """Return the exit code of one command; errors go to stderr as one line."""
    try:
        code = _dispatch([*argv])  # `list` is a module of this package
        sys.stdout.flush()  # else a full disk is met when Python ends, with a code of Python's own
        return code
    except MedhelmError as e:
        print(f"medhelm: {e}", file=sys.stderr)
        return e.exit_code
    except KeyboardInterrupt:
        print("medhelm: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        drop_output()
        return 0
    except OSError as e:
        if e.errno in OUT_OF_FILES:
            print(f"medhelm: {why(e)}", file=sys.stderr)
            return RecordError.exit_code
        if e.errno not in FULL and isinstance(e.filename, str):
            print(f"medhelm: cannot use {_short(e.filename)}: {why(e)}", file=sys.stderr)
            return RecordError.exit_code
        if e.errno not in FULL:
            raise
        drop_output()
        print(f"medhelm: cannot write the output: {why(e)}", file=sys.stderr)
        return RecordError.exit_code


def _short(name: str) -> str:
    return name if len(name) <= _LONG else f"{name[: _LONG // 2]}...{name[-_LONG // 2 :]}"


def _dispatch(argv: list[str]) -> int:
    if argv and argv[0] == "run":
        from medhelm.cli import run

        return run.run(argv[1:])
    if argv and argv[0] in ("-sc", "--shell-completion"):
        from medhelm.cli.completion import complete

        return complete(argv[1:], [*COMMANDS])
    if argv and not argv[0].startswith("-"):
        name = argv[0]
        if name in _OTHERS:
            raise UsageError(f"there is no command {name!r}: it is `medhelm {_OTHERS[name]}`")
        if name not in COMMANDS:
            raise UnknownName("command", name, COMMANDS, "`medhelm --help` shows all.")
        module = import_module(f"medhelm.cli.{name.replace('-', '_')}")
        parser = _Parser(prog=f"medhelm {name}", description=COMMANDS[name])
        module.add_arguments(parser)
        # intermixed: options may be between names; argparse cannot do it with subcommands
        parse = (
            parser.parse_args if name in ("data", "leaderboard") else parser.parse_intermixed_args
        )
        code: int = module.run(parse(argv[1:]))
        return code
    parser = _Parser(
        prog="medhelm",
        description="Evaluate language models on medical work.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n"
        + "\n".join(f"  {name:<12} {text}" for name, text in COMMANDS.items())
        + "\n\n`medhelm COMMAND --help` says more.",
        usage="medhelm COMMAND [ARGUMENT ...]",
    )
    parser.add_argument("--version", action="store_true", help="version, distribution and folder")
    if parser.parse_args(argv).version:
        return _print_version()
    parser.print_help()
    return 0


def _print_version() -> int:
    from medhelm.plugins.distribution import clash, version_text

    print(version_text(__version__))
    if problem := clash():
        print(f"medhelm: {problem}", file=sys.stderr)
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; see `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)
