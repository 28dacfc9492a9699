"""Find models that wrote or rated the instances that they are asked: scores may be too high."""

from __future__ import annotations

from medhelm.schema.data import MADE_BY
from medhelm.store.records import is_same_model
from medhelm.tables.study.cells import Cell, Metadata


def made_itself(cell: Cell, metadata: Metadata) -> tuple[int, str]:
    """Return how many of a run's instances its model wrote or rated, and the note on it."""
    spec, tags = cell.record.spec.model, metadata(cell)
    made = [tag[MADE_BY].split(", ") for tag in tags.values() if MADE_BY in tag]
    n = sum(any(is_same_model(spec, name) for name in names) for names in made)
    if not n:
        return 0, ""
    return n, (
        f"{spec.name} wrote or rated {n:,} of the {len(tags):,} cases of {cell.run.benchmark} "
        "itself: its scores on them may be too high."
    )
