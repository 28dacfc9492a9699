"""The slices table: scores by the values of one metadata key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from medhelm.errors import UnknownName, UsageError
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table, Value
from medhelm.tables.notes import study_table
from medhelm.tables.study.cells import Metadata
from medhelm.tables.study.study import Panel, Study, estimate, restrict

SLICES = form(__file__, "slices")


def slices(study: Study, by: str | None, metadata: Metadata) -> Table:
    """Return one row per benchmark, value of the metadata key `by`, and model.

    Raises UsageError without a key and UnknownName for one that no instance has.
    """
    tags = {b: instance_tags(panel, metadata) for b, panel in study.panels.items()}
    keys = sorted({key for found in tags.values() for tag in found.values() for key in tag})
    if not by:
        raise UsageError(f"slices need --by KEY; keys of these runs: {', '.join(keys) or 'none'}")
    if by not in keys:
        raise UnknownName("metadata key", by, keys, f"keys of these runs: {', '.join(keys)}")
    having = [b for b, found in tags.items() if any(by in tag for tag in found.values())]
    rows = [row for b in having for row in _slice_rows(study, b, by, tags[b])]
    without = [b for b in tags if b not in having]
    said = [f"Without the key {by}: {', '.join(without)}."] if without else []
    more: dict[str, Value] = {"min_group": study.settings.min_group}
    title = f"Scores by {by}"
    return study_table(study, SLICES, rows, said, title=title, is_ranking=True, more=more)


def instance_tags(panel: Panel, metadata: Metadata) -> dict[int, Mapping[str, str]]:
    """Return the metadata of the compared instances, from the first run that has them all."""
    wanted = panel.ids.tolist()
    for model, cell in panel.cells.items():
        if np.isin(panel.ids, panel.scores(model).ids).all():
            found = metadata(cell)
            return {i: found.get(i, {}) for i in wanted}
    return {}


def _slice_rows(
    study: Study, benchmark: str, by: str, tags: Mapping[int, Mapping[str, str]]
) -> Iterator[Row]:
    panel = study.panels[benchmark]
    members: dict[str | None, list[int]] = defaultdict(list)
    for instance, tag in tags.items():
        members[tag.get(by)].append(instance)
    for value in sorted(members, key=lambda v: (v is None, v or "")):
        part = restrict(panel, np.array(sorted(members[value]), dtype=np.uint64))
        is_small = len(np.unique(part.clusters)) < (least := study.settings.min_group)
        found = estimate(part, study.settings, benchmark, by, value or "")
        for model in sorted(found, key=lambda m: (m not in study.ranked, m)):
            numbers = found[model].row("interval_method", "normalised", "n")
            if is_small:
                why = f"none (fewer than {least} clusters)"
                numbers = {"score": None, "n": numbers["n"], "interval_method": why}
            yield {
                "benchmark": benchmark,
                "metric": panel.metric.name,
                "key": by,
                "value": value,
                "model": model,
                "ranked": model in study.ranked,
                **numbers,
                "share": len(part.ids) / len(panel.ids),
            }
