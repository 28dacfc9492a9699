"""`medhelm export inspect|eee|hub|csv RUN... -o PATH`: finished runs in the files of other tools."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from medhelm.cli.options import add_options, open_registry
from medhelm.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Export:
    """One format: the module that writes it, and the options of its own."""

    help: str
    module: str
    out: str
    """Says what `-o` names."""
    takes_fit_alone: bool = False
    """True if runs are left out whose score says nothing about the model."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name of the argument of `write`."""

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
        """Write the files and return 0."""
        from medhelm.exports.finished import CONFIDENCE, finished_runs
        from medhelm.tables.format.table import Settings

        registry, withheld, n = open_registry(args.plugin), dict[str, str](), 0

        def seen() -> Any:
            nonlocal n
            settings = Settings(confidence=CONFIDENCE)
            for run in finished_runs(map(Path, args.runs), registry, args.scoring, settings):
                if self.takes_fit_alone and run.unfit:
                    print(f"Left out: {run.name} x {run.record.spec.model.name}: {run.unfit}.")
                    continue
                n += 1
                if run.withheld:
                    withheld[run.name] = run.withheld
                yield run

        own = {name: getattr(args, name) for name in self.options}
        written = import_module(self.module).write(seen(), Path(args.out), **own)
        if not n:
            raise UsageError("nothing is written, since every run is left out")
        for benchmark, why in withheld.items():
            print(f"{benchmark}: {why}: scores, outcomes and hashed ids only.")
        print(f"{n} run{'s' * (n != 1)}, {len(written)} file{'s' * (len(written) != 1)}:")
        print(*(f"  {path}" for path in written), sep="\n")
        return 0


INSPECT = Export(
    help="Logs that Inspect's viewer and reader open.",
    module="medhelm.exports.inspect_log",
    out="folder of the logs",
)
EEE = Export(
    help="Records of Every Eval Ever: an aggregate and an instance file of each run.",
    module="medhelm.exports.every_eval_ever",
    out="folder above its data/",
    options={
        "organization": dict(default="not stated", metavar="NAME", help="who ran the evaluation"),
        "relationship": dict(
            default="other",
            choices=("first_party", "third_party", "collaborative", "other"),
            help="of the evaluator to the model's maker (default: other)",
        ),
    },
)
HUB = Export(
    help="Results for the Hugging Face hub, and a table for a model card.",
    module="medhelm.exports.hub_results",
    out="folder with a folder of each model",
    takes_fit_alone=True,
    options={"source_url": dict(default="", metavar="URL", help="where the evidence lies")},
)
CSV = Export(
    help="One row of each answer and metric.",
    module="medhelm.exports.instance_csv",
    out="the CSV file",
)
