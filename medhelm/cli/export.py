"""`medhelm export inspect|eee|hub|csv RUN... -o PATH`: finished runs in the files of other tools."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from medhelm.cli.options import open_registry

if TYPE_CHECKING:
    from medhelm.interop.finished import Finished


class Export(NamedTuple):
    """One format: the function that writes it, and the options that are its arguments."""

    writer: str
    """Module of `medhelm.interop`, and function."""
    options: tuple[str, ...] = ()

    def run(self, args: argparse.Namespace) -> int:
        """Write the files, print them and where texts stay, and return 0."""
        module, _, name = self.writer.partition(":")
        write = getattr(import_module(f"medhelm.interop.{module}"), name)
        own = {option: getattr(args, option) for option in self.options}
        for line in write(_runs(args), Path(args.out), **own):
            print(line)
        return 0


def _runs(args: argparse.Namespace) -> Iterator[Finished]:
    from medhelm.interop.finished import finished_runs

    for run in finished_runs(map(Path, args.runs), open_registry(args.plugin), args.scoring):
        if run.withheld:
            print(f"{run.name}: {run.withheld}: scores, outcomes and hashed ids only")
        yield run


INSPECT = Export("inspect_log:write")
EEE = Export("every_eval_ever:write", ("organization", "relationship"))
HUB = Export("flat_results:write_hub", ("source_url",))
CSV = Export("flat_results:write_csv")
