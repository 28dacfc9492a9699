"""The command line: finds the subcommand, shows errors as one line, sets exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from medhelm import __version__
from medhelm.cli.env_file import HELP, OPTION, env_files
from medhelm.errors import MedhelmError, PluginError, RecordError
from medhelm.files.durable import FULL, OUT_OF_FILES, why
from medhelm.plugins.commands import (
    FILE,
    Command,
    KnownCommands,
    command_module,
    find_commands,
    name_broken,
    read_commands,
)
from medhelm.tables.format.console import drop_output

_LONG = 200
"""Letters of a path that are shown."""


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
            said = why(e)
        elif e.errno in FULL:
            drop_output()
            said = f"cannot write the output: {why(e)}"
        elif isinstance(e.filename, str):
            name = e.filename
            if len(name) > _LONG:
                name = f"{name[: _LONG // 2]}...{name[-_LONG // 2 :]}"
            said = f"cannot use {name}: {why(e)}"
        else:
            raise
        print(f"medhelm: {said}", file=sys.stderr)
        return RecordError.exit_code


def known_commands(argv: Sequence[str] = ()) -> KnownCommands:
    """Return the commands of medhelm and of all plugins, those that `--plugin FILE` names too."""
    files = [file for option, file in pairwise(argv) if option == "--plugin"]
    return find_commands(core_commands(), files)


def core_commands() -> list[Command]:
    """Return the commands that come with medhelm, whose modules lie here."""
    return read_commands(Path(__file__).with_name(FILE), __name__)


def _dispatch(argv: list[str]) -> int:
    if argv and argv[0] in ("-sc", "--shell-completion"):
        from medhelm.cli.completion import print_completions

        return print_completions(argv[1:], known_commands(argv))
    if argv and not argv[0].startswith("-"):
        core = KnownCommands({c.words: c for c in core_commands()})
        is_core = (argv[0],) in core.commands
        known = core if is_core else known_commands(argv)
        command, rest = known.chosen(argv)
        if command is not None:
            with _boundary(command), env_files(rest if command.asks else ()):
                return _run(command, rest)
        return _print_help(argv[0], rest)
    return _print_all(argv)


@contextmanager
def _boundary(command: Command) -> Iterator[None]:
    """Name the plugin of a command in what its code raises."""
    if not command.owner:
        yield
        return
    try:
        yield
    except (MedhelmError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # the boundary to plugins
        if isinstance(e, OSError) and e.errno is not None:  # of a file or a pipe: named like ours
            raise
        from medhelm.plugins.discovery import fault

        raise PluginError(
            f"command {command.name!r} of plugin {command.owner}: {fault(e)}"
        ) from None


def _run(command: Command, argv: list[str]) -> int:
    """Run a command; its module is imported here, and by nothing before."""
    if command.options is None:
        module = command_module(command)
        if not hasattr(module, "add_arguments"):  # `run` is an application of Hydra
            code: int = module.run(argv)
            return code
    parser = command_parser(command)
    if command.owner:
        with suppress(argparse.ArgumentError):  # it has the option of its own
            parser.add_argument(
                "--plugin", action="append", metavar="FILE", help="a further plugin"
            )
    # intermixed: options may be between names; argparse cannot do it with subcommands
    has_actions = any(a.nargs == argparse.PARSER for a in parser._actions)
    parsed = parser.parse_args(argv) if has_actions else parser.parse_intermixed_args(argv)
    module = command_module(command)
    run = getattr(module, "run", module)
    if getattr(parsed, "workers", None) is None:
        return int(run(parsed))
    from medhelm.cli.options import chosen_workers, use_workers

    with use_workers(chosen_workers(parsed)):
        return int(run(parsed))


def command_parser(command: Command) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    parser = _Parser(prog=f"medhelm {command.name}", description=command.about)
    if command.options is None:
        command_module(command).add_arguments(parser)
    else:
        from medhelm.cli.options import add_declared

        add_declared(parser, command.options)
    if command.asks:
        parser.add_argument(OPTION, action="append", metavar="FILE", help=HELP)
    return parser


def _print_help(word: str, argv: Sequence[str]) -> int:
    known = known_commands(argv)
    name_broken(known.broken)
    print(f"usage: medhelm {word} WORD [ARGUMENT ...]\n\ncommands:")
    print("\n".join(f"  {c.name:<20} {c.help}" for c in known.of(word)))
    print(f"\n`medhelm {word} WORD --help` says more.")
    return 0


def _print_all(argv: Sequence[str]) -> int:
    known = known_commands(argv)
    parser = _Parser(
        prog="medhelm",
        description="Evaluate language models on medical work.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n"
        + "\n".join(f"  {name:<12} {text}" for name, text in known.first_words().items())
        + "\n\n`medhelm COMMAND --help` says more.",
        usage="medhelm COMMAND [ARGUMENT ...]",
    )
    parser.add_argument("--version", action="store_true", help="version, distribution and folder")
    if "--version" not in argv:
        name_broken(known.broken)
    if parser.parse_args(argv).version:
        from medhelm.plugins.distribution import clash, version_text

        print(version_text(__version__))
        if problem := clash():
            print(f"medhelm: {problem}", file=sys.stderr)
        return 0
    parser.print_help()
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; see `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)
