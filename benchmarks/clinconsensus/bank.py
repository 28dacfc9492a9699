"""The bank of consensus criteria, from which the criteria of a case are written."""

from __future__ import annotations

from importlib import resources
from typing import Any

import msgspec
import yaml


class BankCriterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One consensus criterion, in our words."""

    id: str
    text: str
    system: bool = False
    """True if it judges a system and cannot be decided from one answer."""


def bank() -> tuple[BankCriterion, ...]:
    """Return the consensus criteria in the paper's order."""
    text = (resources.files(__package__) / "bank.yaml").read_text("utf-8")
    values: Any = yaml.safe_load(text)
    return msgspec.convert(values["criteria"], tuple[BankCriterion, ...])
