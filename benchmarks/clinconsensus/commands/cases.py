"""Commands on files of cases: their form, the criteria that theirs are written from, counts and hashes."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from medhelm import DataError
from medhelm.plugin import file_sha256, options, readers
from medhelm_benchmarks.clinconsensus.cases import JOIN, Case, to_instance

_BANK = Path(__file__).parents[1] / "bank.yaml"
_AXES = ("difficulty", "register", "group", "language", "themes", "specialties")


print_schema = options.schema_command(Case)
"""`medhelm schema clinconsensus`."""


class BankCriterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One consensus criterion, in our words."""

    id: str
    text: str
    system: bool = False
    """True if it judges a system and cannot be decided from one answer."""


def bank() -> tuple[BankCriterion, ...]:
    """Return the consensus criteria in the paper's order."""
    form = dict[str, tuple[BankCriterion, ...]]
    return msgspec.yaml.decode(_BANK.read_bytes(), type=form)["criteria"]


def print_bank(args: argparse.Namespace) -> int:
    """`medhelm rubric bank`: the consensus criteria that case criteria are written from."""
    if args.format == "json":
        options.print_json("rubric_bank", {"criteria": msgspec.to_builtins(bank())})
        return 0
    for criterion in bank():
        print(f"{criterion.id}  {criterion.text}" + "  (of a system)" * criterion.system)
    return 0


def print_manifest(args: argparse.Namespace) -> int:
    """`medhelm rubric manifest FILE...`: counts of slices and the SHA-256 of files of cases."""
    files: dict[str, Any] = {}
    slices: dict[str, Counter[str]] = {axis: Counter() for axis in _AXES}
    total = 0
    for path in args.files:
        if not path.is_file():
            raise DataError(f"{path}: there is no such file")
        count = 0
        for number, row in readers.read_file(path):
            try:
                instance = to_instance(row)
            except DataError as e:
                raise DataError(f"{path.name}, row {number}: {e}") from None
            count += 1
            for axis, found in slices.items():
                found.update(instance.metadata[axis].split(JOIN))
        files[path.name] = {"sha256": file_sha256(path), "cases": count}
        total += count
    said = {
        "cases": total,
        "files": files,
        "slices": {a: dict(sorted(c.items())) for a, c in slices.items()},
    }
    print(json.dumps(said, indent=1, ensure_ascii=False))
    return 0
