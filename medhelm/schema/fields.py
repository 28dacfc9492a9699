"""Fields of a record, chosen by name."""

from __future__ import annotations

from typing import Any


def fields_of(record: object, *names: str) -> dict[str, Any]:
    """Return these fields of a record, by name and in this order."""
    return {name: getattr(record, name) for name in names}
