"""`medhelm rubric bank`: the consensus criteria that case criteria are written from."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from medhelm.plugin import options

_FILE = Path(__file__).parents[1] / "bank.yaml"


class BankCriterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One consensus criterion, in our words."""

    id: str
    text: str
    system: bool = False
    """True if it judges a system and cannot be decided from one answer."""


def bank() -> tuple[BankCriterion, ...]:
    """Return the consensus criteria in the paper's order."""
    form = dict[str, tuple[BankCriterion, ...]]
    return msgspec.yaml.decode(_FILE.read_bytes(), type=form)["criteria"]


def run(args: argparse.Namespace) -> int:
    """Print the bank and return the exit code."""
    if args.format == "json":
        options.print_json("rubric_bank", {"criteria": msgspec.to_builtins(bank())})
        return 0
    for criterion in bank():
        print(f"{criterion.id}  {criterion.text}" + "  (of a system)" * criterion.system)
    return 0
