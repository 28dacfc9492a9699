"""The decisions of one judge on the criteria of a case, and those of several together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from medhelm.errors import DataError
from medhelm.schema.data import Criterion


class Verdicts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decisions on a case's criteria, in their order: the end state of a grading."""

    met: tuple[bool | None, ...]
    """None: no valid decision."""
    invalid: dict[str, str] = {}
    """Gives the reason for a missing one, by the name of the criterion: unreadable, refused, truncated."""

    def to_state(self) -> dict[str, Any]:
        """Return the verdicts as JSON values."""
        return {"met": [*self.met], "invalid": dict(self.invalid)}


def read_verdicts(state: Mapping[str, Any], criteria: Sequence[Criterion], where: str) -> Verdicts:
    """Return stored verdicts; raises DataError where they are not of these criteria."""
    try:
        found = msgspec.convert(state, Verdicts)
    except msgspec.ValidationError as e:
        raise DataError(f"{where}: stored verdicts cannot be read: {e}") from None
    if len(found.met) != len(criteria):
        raise DataError(
            f"{where}: there are {len(found.met)} stored verdicts of {len(criteria)} criteria"
        )
    return found


def majority(votes: Sequence[Verdicts], quorum: int) -> tuple[bool | None, ...]:
    """Return what several judges decided on each criterion: met by more than half of those who did.

    None: fewer than `quorum` gave a valid decision. A tie is not met.
    """
    decided: list[bool | None] = []
    for given in zip(*(vote.met for vote in votes), strict=True):
        valid = [met for met in given if met is not None]
        decided.append(2 * sum(valid) > len(valid) if len(valid) >= quorum else None)
    return tuple(decided)
