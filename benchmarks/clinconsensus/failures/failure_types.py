"""The types of failure, which are data."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import msgspec
import yaml


class FailureType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reason for which a criterion is not met."""

    id: str
    title: str
    text: str


@cache
def failure_types() -> dict[str, FailureType]:
    """Return the seven types and the one for all else, by id."""
    text = (resources.files(__package__) / "types.yaml").read_text("utf-8")
    values: Any = yaml.safe_load(text)
    return {t.id: t for t in msgspec.convert(values["types"], tuple[FailureType, ...])}
