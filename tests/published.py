"""The authors' published figures, read where a copy lies beside the data or the checkout.

They carry no licence and are not in the repository; tests without a copy are skipped by name.
"""

from __future__ import annotations

import csv
import os
from functools import cache
from pathlib import Path

import pytest

_DATA = os.environ.get("MEDHELM_DATA_DIR")
_PLACES = [
    *([Path(_DATA).parent / "reference" / "published"] if _DATA else []),
    Path(__file__).parents[2] / "shared" / "reference" / "published",
]


@cache
def published(name: str) -> list[dict[str, str]]:
    """Return the rows of one of the published files, or skip the test."""
    for place in _PLACES:
        if (place / name).is_file():
            with (place / name).open(encoding="utf-8", newline="") as file:
                return list(csv.DictReader(file))
    pytest.skip(f"no {name} in {' or '.join(map(str, _PLACES))}")
