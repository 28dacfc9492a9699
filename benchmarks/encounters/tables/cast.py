"""The table of the cast: how true those who played patient and surroundings are to their packets.

By rule alone, from the scores of `simulation_fidelity`, so that sites show it of data that are closed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from medhelm import Column, Layout, Part, Table, TableRequest, TableSpec, make_table
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import notes
from medhelm.plugin import study as studies
from medhelm_benchmarks.encounters.grading.cast_fidelity import (
    BY_RULE,
    FIDELITY,
    HEADINGS,
    MEANING,
    ROLES,
    FaultKind,
)

LEAST = 0.95
"""An encounter with a smaller share of clean lines is marked."""


def cast_columns(faults: Iterable[FaultKind], least: float) -> tuple[Column, ...]:
    """Return the columns of who played a role, and of scores without encounters below `least`."""
    return (
        kinds.text("benchmark", "name of the benchmark"),
        kinds.text("level", "the kind of row: role (who was played by whom), clinician (scores without marked cases)"),
        kinds.text("role", "who is played", "role"),
        kinds.text("model", "by which model; of a clinician: its own name", "model"),
        kinds.text("cast", "of a clinician: who played patient and surroundings", "cast"),
        kinds.yes("ranked", "whether the clinician is ranked"),
        kinds.count("cases", "cases in which anybody answered; of a clinician: that have a score, too", "cases"),
        kinds.number("lines", "lines that the role said; a mean over repeats where there are several", "", "lines", digits=0),
        *(
            kinds.number(kind, f"lines per line of the role: {MEANING[kind]}", "share", HEADINGS[kind], digits=1, is_percent=True)
            for kind in faults
        ),
        kinds.number("clean", "lines without a fault", "share", "clean", digits=1, is_percent=True),
        kinds.count("marked", f"cases with less than {least:g} clean lines", "marked"),
        kinds.number("mean", "mean over cases with a score, those among them in which nobody answered", "metric", "mean", digits=3),
        kinds.number("mean_unmarked", "mean without the marked cases", "metric", "unmarked", digits=3),
        kinds.number("difference", "mean without them less mean", "metric", "diff.", digits=3),
    )  # fmt: skip


COLUMNS = cast_columns(BY_RULE, LEAST)
_SAID = (
    f"Of patient and surroundings, not of the clinician. A case is marked where less than {LEAST:g} of "
    "their lines are without a fault.",
    "By rule alone: lower bounds, without contradictions, hints and meta language. "
    "`medhelm qc simulation --judge MODEL` has a model read the lines, too.",
)
LAYOUT = Layout(main=("role", "model", "clean", "mean"))


def cast_parts(faults: Iterable[FaultKind], own: tuple[str, ...]) -> tuple[Part, ...]:
    """Return the grids of text formats, each under the columns `own`."""
    roles = ("role", "model", "cases", "lines", *faults, "clean")
    scores = ("model", "cast", "cases", "clean", "marked", "mean", "mean_unmarked", "difference")
    return (
        Part(level="role", title="Who played the roles", group=own, columns=roles),
        Part(level="clinician", title="Scores without marked cases", group=own, columns=scores),
    )


def fidelity(asked: TableRequest) -> Table:
    """Return rows of each benchmark of encounters: by who played a role, and by clinician."""
    study = asked.study
    found = [b for b in study.panels if FIDELITY in study.metrics(b)]
    rows = [
        row for b in found for rows in (_roles(study, b), _clinicians(study, b)) for row in rows
    ]
    return make_table(
        "encounter_cast",
        "Fidelity of the cast",
        COLUMNS,
        rows,
        [*notes.common(study), *(_SAID if rows else ["No benchmark here has encounters."])],
        notes.settings(study),
        parts=cast_parts(BY_RULE, ("benchmark",) if len(found) > 1 else ()),
        layout=LAYOUT,
    )


CAST = TableSpec(
    name="encounter_cast",
    help="fidelity of those who played patient and surroundings; scores without marked encounters",
    columns=COLUMNS,
    make=fidelity,
)


def _cells(
    study: studies.Study, benchmark: str
) -> Iterator[tuple[str, studies.Cell, studies.MetricScores]]:
    """Yield (clinician, cell, fidelity) of the runs in which anybody answered."""
    for model, cell in study.cells[benchmark].items():
        own = cell.scores.get(FIDELITY)
        if own is not None and len(own.ids):
            yield model, cell, own


def _roles(study: studies.Study, benchmark: str) -> Iterator[dict[str, object]]:
    sums: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for _, cell, own in _cells(study, benchmark):
        columns = own.pooling.by_name(own.sums)
        for role in ROLES:
            there = sums[role, cell.record.spec.cast[role].name]
            there["cases"] += np.count_nonzero(columns[f"{role}/lines"])
            for name in ("lines", "clean", *BY_RULE):
                there[name] += columns[f"{role}/{name}"].sum()
    for (part, model), found in sorted(sums.items()):
        row: dict[str, object] = {"benchmark": benchmark, "level": "role", "role": part}
        row |= {"model": model, "cases": int(found["cases"]), "lines": found["lines"]}
        if found["lines"]:
            row |= {name: found[name] / found["lines"] for name in ("clean", *BY_RULE)}
        yield row


def _clinicians(study: studies.Study, benchmark: str) -> Iterator[dict[str, object]]:
    metric = study.panels[benchmark].metric.name
    for model, cell, own in sorted(_cells(study, benchmark), key=lambda one: one[0]):
        scores = cell.scores[metric]
        marked = own.ids[own.values < LEAST]
        is_marked = np.isin(scores.ids, marked)
        columns = own.pooling.by_name(own.sums)
        cast = cell.record.spec.cast
        row: dict[str, object] = {
            "benchmark": benchmark,
            "level": "clinician",
            "model": model,
            "cast": " + ".join(cast[role].name for role in ROLES),
            "ranked": model in study.ranked,
            "cases": len(scores.ids),
            "clean": float(columns["clean"].sum() / columns["lines"].sum()),
            "marked": int(is_marked.sum()),
        }
        if len(scores.ids):
            row["mean"] = float(scores.values.mean())
        if not is_marked.all():
            row["mean_unmarked"] = float(scores.values[~is_marked].mean())
            row["difference"] = row["mean_unmarked"] - row["mean"]  # type: ignore[operator]
        yield row
