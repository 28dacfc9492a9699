"""`medhelm rubric manifest FILE...`: counts of slices and the SHA-256 of files of cases."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

from medhelm import DataError
from medhelm.plugin import file_sha256, readers


def run(args: argparse.Namespace) -> int:
    """Print the manifest as JSON and return the exit code."""
    from medhelm_benchmarks.clinconsensus.cases import JOIN, to_instance

    files: dict[str, Any] = {}
    slices: dict[str, Counter[str]] = {
        axis: Counter()
        for axis in ("difficulty", "register", "group", "language", "themes", "specialties")
    }
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
