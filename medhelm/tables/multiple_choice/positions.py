"""The positions table: does a model favour an option for its place?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import ascii_uppercase

import numpy as np

from medhelm.data.variants import ORDER, RIGHT
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm.tables.multiple_choice.robustness import (
    NO_VARIANT,
    ORIGINAL,
    by_run,
    rate,
    share_of,
)
from medhelm.tables.notes import study_table
from medhelm.tables.study.cells import Cell
from medhelm.tables.table_spec import TableRequest

POSITIONS = form(__file__, "positions")


def positions(asked: TableRequest) -> Table:
    """Return one row per benchmark, model, form of the questions, and place of the option."""
    rows = [
        row
        for benchmark, model, original, forms in by_run(asked.study, asked.variants())
        for row in _rows(asked, benchmark, model, original, forms)
    ]
    return study_table(asked.study, POSITIONS, rows, [] if rows else [NO_VARIANT])


def _rows(
    asked: TableRequest, benchmark: str, model: str, original: Cell, forms: Mapping[str, Cell]
) -> Iterator[Row]:
    read = {v: asked.metadata(cell) for v, cell in forms.items()}
    marks = {v: {i: m for i, m in own.items() if ORDER in m} for v, own in read.items()}
    known = {i: mark for own in marks.values() for i, mark in own.items()}
    plain = {i: {ORDER: "".join(sorted(m[ORDER])), RIGHT: m[RIGHT]} for i, m in known.items()}
    for variant, cell in {ORIGINAL: original, **forms}.items():
        own = plain if variant == ORIGINAL else marks[variant]
        right = {i: m[ORDER].index(m[RIGHT]) for i, m in own.items() if len(m[RIGHT]) == 1}
        size = {i: len(own[i][ORDER]) for i in right}
        for place in range(max(size.values(), default=0)):
            names = (benchmark, variant, str(place))
            yield {
                "benchmark": benchmark,
                "model": model,
                "variant": variant,
                "position": place + 1,
                **_place(asked, cell, place, right, size, names),
            }


def _place(
    asked: TableRequest,
    cell: Cell,
    place: int,
    right: Mapping[int, int],
    size: Mapping[int, int],
    names: tuple[str, ...],
) -> Row:
    """Return the score where the right option is in a place, and how often the place is chosen."""
    scores = cell.scores[cell.record.grading.metrics[0].name]
    here = np.array([right.get(int(i)) == place for i in scores.ids], dtype=np.bool_)
    settings = asked.study.settings
    score, ends = rate(scores.values[here], scores.clusters[here], settings, *names)
    picks: dict[int, list[bool]] = {}
    for (instance, _), letter in asked.chosen(cell).items():
        if size.get(instance, 0) > place:
            picks.setdefault(instance, []).append(letter == ascii_uppercase[place])
    share, of = share_of(picks, cell, settings, *names, "chosen")
    return {
        "score": score,
        **ends.ends(),
        "n": int(here.sum()),
        "chosen": share,
        **of.ends("chosen"),
        "right": float(np.mean([right[i] == place for i in picks])) if picks else None,
        "answers": sum(map(len, picks.values())),
    }
