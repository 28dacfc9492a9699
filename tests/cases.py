"""Long tables of cases, which lie as YAML beside the tests that read them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


def cases(module: str, name: str) -> Any:
    """Return a table of `test_x.yaml`, which lies beside `test_x.py`, rows as tuples."""
    table = _tables(Path(module).with_suffix(".yaml"))[name]
    if isinstance(table, dict):
        return table
    return [tuple(row) if isinstance(row, list) else row for row in table]


@cache
def _tables(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
