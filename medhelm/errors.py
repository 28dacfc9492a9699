"""Errors that a user can mend, each shown as one line on the terminal.

    MedhelmError            exit code 1
    ├── UsageError          2   a wrong option, value, key or combination
    │   └── UnknownName     2   a name that is not registered; says the nearest
    ├── PluginError         2   a plugin that cannot be used
    ├── DataError           3   a data file missing, damaged or of another form
    ├── RecordError         4   a run folder that cannot be read or written
    │   └── RunLocked       4   another process works on the run folder
    ├── PrivacyRefused      5   data that may not go to this endpoint
    ├── ModelError          6   a model that cannot be used (no key, no server)
    ├── BudgetReached       7   the cap on USD or tokens stopped the sweep
    └── Interrupted         130 the user stopped the sweep

Nothing else is raised on purpose; any other exception is a defect of medhelm or
of a plugin. Messages name the thing, the place and the fix, and never contain
a prompt, a response or a key.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class MedhelmError(Exception):
    """A mistake that the user can mend; `exit_code` is what the command returns."""

    exit_code = 1


class UsageError(MedhelmError):
    """A wrong option, value, key or combination of them."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that is not known. The message holds the nearest known ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        self.kind, self.name = kind, name
        nearest = closest(name, known)
        did = f"; did you mean {' or '.join(repr(n) for n in nearest)}?" if nearest else "."
        super().__init__(f"unknown {kind} {name!r}{did}" + (f" {hint}" if hint else ""))


class PluginError(MedhelmError):
    """A plugin that cannot be used. The message names the plugin and the fix."""

    exit_code = 2


class DataError(MedhelmError):
    """A data file that is missing, damaged or of another form than documented."""

    exit_code = 3


class RecordError(MedhelmError):
    """A run folder that cannot be read or written."""

    exit_code = 4


class OtherVersion(RecordError):
    """A whole file that another version of medhelm wrote: it is never written over."""


class RunLocked(RecordError):
    """Another process works on this run folder."""


class PrivacyRefused(MedhelmError):
    """The data class of a benchmark may not be sent to this class of endpoint."""

    exit_code = 5


class ModelError(MedhelmError):
    """A model that cannot be used: no key, no server, an unknown provider."""

    exit_code = 6


class BudgetReached(MedhelmError):
    """The cap on USD or tokens is reached; everything answered so far is kept."""

    exit_code = 7


class Interrupted(MedhelmError):
    """The user stopped the sweep; everything answered so far is kept."""

    exit_code = 130


def below(folder: str | Path) -> str:
    """Return where something was looked for in vain: below a folder, which may not be there."""
    return f"below {folder}{'' if Path(folder).is_dir() else ', which does not exist'}"


_NEAR = 0.6
"""The least likeness of a suggestion, as difflib's ratio."""
_NEARLY_AS_NEAR = 0.15
"""The most by which a suggestion may be less like the name than the best one."""


def closest(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Return up to `n` of `known` that look most like `name`, best first.

    A name without a slash is also compared with what follows the slash of a known one. One that does
    not contain the name is left out where it is little like it, or much less so than the best.
    """
    wanted = name.lower()
    by_lower = {k.lower(): k for k in known}
    if "/" not in name:
        tails = {k.rpartition("/")[2]: own for k, own in by_lower.items()}
        by_lower = tails | by_lower
    found = difflib.get_close_matches(wanted, list(by_lower), n=2 * n, cutoff=0.5)
    ratio = {like: difflib.SequenceMatcher(None, like, wanted).ratio() for like in found}
    least = max(_NEAR, max(ratio.values(), default=0.0) - _NEARLY_AS_NEAR)
    found = [like for like in found if wanted in like or ratio[like] >= least]
    found = sorted(found, key=lambda like: wanted not in like)
    found += [like for like in by_lower if like.startswith(f"{wanted}/")]
    return [*dict.fromkeys(by_lower[f] for f in found)][:n]


def one_line(error: BaseException) -> str:
    """Return what an error of others says, short; of what a task of another process raised what that says."""
    cause = getattr(error, "cause", None)
    return " ".join(str(cause if isinstance(cause, BaseException) else error).split())[:300]
