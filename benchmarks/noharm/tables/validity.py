"""Whose the ratings of labelled actions are: experts', or those of no one who can vouch for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from medhelm.plugin import instance_tags
from medhelm.plugin import study as studies

UNVALIDATED = (
    "Ratings of synthetic cases are not validated by clinicians: scores on them show how a model "
    "behaves under these rules, not that it is safe, and no clinical decision can rest on them."
)


@dataclass(frozen=True)
class Validity:
    """Whose the ratings of a benchmark's cases are."""

    benchmark: str
    cases: int
    experts: tuple[tuple[str, int], ...]
    """(who validated them and when, cases)."""

    def validated(self, *, is_named: bool = True) -> tuple[str, ...]:
        """Return a sentence for each group of experts; one without names for all of them."""
        if not is_named and self.experts:
            return (self._sentence(sum(n for _, n in self.experts)),)
        return tuple(self._sentence(n, f", {text}" if text else "") for text, n in self.experts)

    def _sentence(self, n: int, who: str = "") -> str:
        return f"{self.benchmark}: the ratings of {n} of {self.cases} cases are experts'{who}."

    @property
    def warning(self) -> str:
        """That nobody validated the ratings of some case; empty where each has experts."""
        is_whole = self.cases and sum(n for _, n in self.experts) == self.cases
        return "" if is_whole else UNVALIDATED


def read_validity(benchmark: str, panel: studies.Panel, metadata: studies.Metadata) -> Validity:
    """Return whose the ratings of the compared cases are; `metadata` reads that of a cell's cases."""
    tags: Collection[Mapping[str, str]] = instance_tags(panel, metadata).values()
    if not tags:  # the runs share no case: a row is of its own ones
        own = ((metadata(cell), panel.scores(m).ids) for m, cell in panel.cells.items())
        tags = {i: known.get(i, {}) for known, ids in own for i in ids.tolist()}.values()
    found = Counter(tag["validation"] for tag in tags if "validation" in tag)
    return Validity(benchmark, len(tags), tuple(found.items()))
