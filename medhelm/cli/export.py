"""`medhelm export inspect|eee|hub|csv RUN... -o PATH`: finished runs in the files of other tools."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.cli.options import add_options, open_registry

if TYPE_CHECKING:
    from medhelm.interop.finished import Finished


@dataclass(frozen=True)
class Export:
    """One format: what it is, the function that writes it, what `-o` names, and options by its arguments."""

    help: str
    writer: str
    """Module of `medhelm.interop`, and function."""
    out: str
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options."""
        parser.description = f"{self.help} Texts leave of public, redistributable data alone."
        runs = "folder of a run, of a grading, or of results: all of its runs"
        parser.add_argument("runs", nargs="+", metavar="RUN", help=runs)
        parser.add_argument("-o", "--out", required=True, metavar="PATH", help=self.out)
        for name, option in self.options.items():
            parser.add_argument(f"--{name.replace('_', '-')}", **option)
        add_options(parser, "--scoring", "--plugin")

    def run(self, args: argparse.Namespace) -> int:
        """Write the files, print them and where texts stay, and return 0."""
        module, _, name = self.writer.partition(":")
        write = getattr(import_module(f"medhelm.interop.{module}"), name)
        for line in write(
            _runs(args), Path(args.out), **{n: getattr(args, n) for n in self.options}
        ):
            print(line)
        return 0


def _runs(args: argparse.Namespace) -> Iterator[Finished]:
    from medhelm.interop.finished import finished_runs

    for run in finished_runs(map(Path, args.runs), open_registry(args.plugin), args.scoring):
        if run.withheld:
            print(f"{run.name}: {run.withheld}: scores, outcomes and hashed ids only")
        yield run


INSPECT = Export(
    "Logs that Inspect's viewer and reader open.", "inspect_log:write", "folder of logs"
)
_RELATIONS = ("first_party", "third_party", "collaborative", "other")
EEE = Export(
    "Records of Every Eval Ever: an aggregate and an instance file of each run.",
    "every_eval_ever:write",
    "folder above its data/",
    {
        "organization": dict(default="not stated", metavar="NAME", help="who ran the evaluation"),
        "relationship": dict(default="other", choices=_RELATIONS, help="to the model's maker"),
    },
)
_SOURCE = {"source_url": dict(default="", metavar="URL", help="where the evidence lies")}
_FOLDERS = "folder with a folder of each model"
HUB = Export("Results for the Hugging Face hub.", "flat_results:write_hub", _FOLDERS, _SOURCE)
CSV = Export("One row of each answer and metric.", "flat_results:write_csv", "the CSV file")
