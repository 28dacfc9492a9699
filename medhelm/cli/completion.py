"""Shell completion: `medhelm -sc install=bash` prints what to eval, `-sc query=bash` answers it.

Hydra completes config keys; names of groups are completed here, for it does not see those with a
slash.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import get_args

from medhelm.cli.compose import completions, compose, group_names, read_options
from medhelm.errors import MedhelmError, UsageError
from medhelm.plugins.commands import KnownCommands, command_module
from medhelm.plugins.registry import load_registry
from medhelm.schema.score import Scoring

_SHELLS = ("bash", "zsh", "fish")
_VALUES: Mapping[str, Sequence[str]] = {"data": ("full", "sample"), "scoring": get_args(Scoring)}


def print_completions(argv: Sequence[str], known: KnownCommands | None = None) -> int:
    """Return 0 after printing a shell's function, or the words that it can offer."""
    what, _, shell = argv[0].partition("=") if argv else ("", "", "")
    if what not in ("install", "uninstall", "query") or shell not in _SHELLS:
        raise UsageError(
            "--shell-completion takes install=SHELL or uninstall=SHELL, SHELL is "
            + ", ".join(_SHELLS)
        )
    if what != "query":
        compose(read_options(["--shell-completion", *argv]), load_registry())
        return 0
    line = os.environ.get("COMP_LINE", "")
    point = os.environ.get("COMP_POINT", "")
    line = line[: int(point)] if point.isdecimal() else line
    words = line.split()[1:] + ([""] if line.endswith(" ") else [])
    # what is typed so far may be wrong; a word on it would be in the prompt
    with suppress(MedhelmError):
        print("\n".join(_offers(words, known or KnownCommands({}))))
    return 0


def _offers(words: Sequence[str], known: KnownCommands) -> list[str]:
    """Return what the last word can become; nothing leaves it to the shell (files)."""
    if len(words) < 2:
        return [word for word in known.first_words() if word.startswith("".join(words))]
    command = known.commands.get((words[0],)) or known.commands.get(tuple(words[:2]))
    if len(words) == 2 and (words[0],) not in known.commands:
        return [c.words[1] for c in known.of(words[0]) if c.words[1].startswith(words[1])]
    offer = getattr(command_module(command), "complete", None) if command is not None else None
    return [] if offer is None else offer(words[len(command.words) if command else 0 :])


def complete(words: Sequence[str]) -> list[str]:
    """Return what the last word of a line of configuration can become."""
    key, equals, value = words[-1].partition("=")
    if equals and key in _VALUES:
        return [f"{key}={v}" for v in _VALUES[key] if v.startswith(value)]
    typed = read_options(words[:-1])
    registry = load_registry(typed.plugins)
    names = group_names(typed, registry)
    if equals and key in names:
        done, comma, begun = value.rpartition(",")
        return [f"{key}={done}{comma}{n}" for n in names[key] if n.startswith(begun)]
    offered = (
        word for word in completions(typed, words[-1], registry) if not word.startswith("hydra")
    )
    return sorted({"model=" if word == "model/" else word for word in offered})
