"""The exposure table: was a benchmark public before the training data of a model end?"""

from __future__ import annotations

from collections.abc import Iterator

from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm.tables.notes import study_table
from medhelm.tables.study.study import Study

EXPOSURE = form(__file__, "exposure")


def exposure(study: Study) -> Table:
    """Return one row per benchmark and model: when items and training data are from, the score."""
    return study_table(study, EXPOSURE, _rows(study))


def _rows(study: Study) -> Iterator[Row]:
    for benchmark, panel in study.panels.items():
        found = study.estimates(benchmark)
        for model in sorted(found, key=lambda m: (m not in study.ranked, m)):
            since = panel.card.public_since
            cutoff = panel.cells[model].record.spec.model.training_cutoff
            yield {
                "benchmark": benchmark,
                "model": model,
                "public_since": since or None,
                "training_cutoff": cutoff or None,
                "public_before_cutoff": was_public(since, cutoff),
                **found[model].row(),
            }


def was_public(since: str, cutoff: str) -> str:
    """Return yes, no, or why it cannot be said, from two dates of any precision."""
    if not since or not cutoff:
        return "not known"
    precision = min(len(since), len(cutoff))
    one, two = since[:precision], cutoff[:precision]
    if one == two:
        return "same day" if precision == 10 else "same month" if precision == 7 else "same year"
    return "yes" if one < two else "no"
