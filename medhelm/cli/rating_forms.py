"""Forms of `medhelm agreement` that plugins bring, besides that of ratings of answers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from medhelm.errors import UsageError

RATINGS, SHEET = "ratings", "--template"
"""Names what an option goes with: files of ratings, or a sheet to rate on."""
MIN_COMMON = 5


@dataclass(frozen=True, kw_only=True)
class RatingForm:
    """Ratings of another kind; the module of a command `agreement --OPTION` has it as `FORM`."""

    option: str
    """Chooses this form, and is given a file."""
    about: str
    """The plural of what is rated."""
    help: str
    """Continues "with --OPTION, "."""
    add_options: Callable[[argparse.ArgumentParser], None]
    """Adds `option` and those that go with it alone."""
    options: Mapping[str, str]
    """The latter by destination, and what each goes with."""
    tables: tuple[str, ...]
    tables_of_runs: tuple[str, ...] = ()
    """Those of them that read runs; they take the options that choose runs."""
    print_tables: Callable[[argparse.Namespace], int]
    write_sheet: Callable[[argparse.Namespace], int]

    @property
    def is_of_runs(self) -> bool:
        """Return whether all its tables, and so its sheet, are made of runs."""
        return {*self.tables} == {*self.tables_of_runs}

    def is_chosen(self, args: argparse.Namespace) -> bool:
        """Return whether a line of arguments names its option."""
        return getattr(args, self.option.removeprefix("--").replace("-", "_")) is not None


def least_of(option: str, given: int | None, default: int, least: int) -> int:
    """Return what an option was given, or its default; raises UsageError below `least`."""
    value = default if given is None else given
    if value < least:
        raise UsageError(f"{option} must be at least {least}, not {value}")
    return value
