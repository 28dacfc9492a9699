"""The table of the cast: how true those who played patient and surroundings are to their packets.

By rule alone, from the scores of `role_conduct`, so that sites show it of data that are closed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from medhelm import Column, Settings, Study, Table, TableRequest, TableSpec, pooled_share
from medhelm.plugin import aggregation, intervals, notes
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import study as studies
from medhelm_benchmarks.encounters.grading.cast_fidelity import (
    ANY,
    CAST,
    CONDUCT,
    FIDELITY,
    KINDS,
    ROLES,
    Role,
)

LEAST = 0.95
"""An encounter with a smaller share of clean lines is marked."""


def marked(least: float) -> Column:
    """Return the column of encounters with fewer clean lines than `least`."""
    said = f"of the other cases those with less than {least:g} clean lines"
    return Column(name="marked", type="integer", description=said, heading="marked")


FORM = kinds.form(__file__, "encounter_cast", marked=[marked(LEAST)])
SAID = (*FORM.texts.values(),)
_SAID = (
    f"Of the clinician itself, loops and speech for another role alone. Its case is marked where less than "
    f"{LEAST:g} of the lines of patient and surroundings are without a fault by rule.",
    *SAID,
    "`medhelm qc simulation --judge MODEL` has a model read the lines, too.",
)


def fidelity(asked: TableRequest) -> Table:
    """Return rows of each benchmark of encounters: by who played a role, by script, and by clinician."""
    study = asked.study
    found = [b for b in study.panels if CONDUCT in study.metrics(b)]
    tallies = [tally for benchmark in found for tally in _tallies(study, benchmark)]
    rows = [*role_rows(tallies, study.settings)]
    rows += [row for benchmark in found for row in _clinicians(study, benchmark)]
    none = f"No benchmark here is graded on {CONDUCT}; `medhelm score` grades stored encounters."
    return notes.study_table(
        study,
        FORM,
        rows,
        _SAID if rows else [none],
        under=("benchmark",) if len(found) > 1 else (),
    )


CAST_TABLE = TableSpec(name=FORM.name, help=FORM.help, columns=FORM.columns, make=fidelity)


def _cells(study: Study, benchmark: str) -> Iterator[tuple[str, studies.Cell]]:
    """Yield (clinician, cell) of the runs in which anybody answered, by name."""
    for model, cell in sorted(study.cells[benchmark].items(), key=lambda one: one[0]):
        own = cell.scores.get(CONDUCT)
        if own and len(own.ids) and any(own.columns[f"{r}/lines"].any() for r in CAST):
            yield model, cell


@dataclass(frozen=True)
class Tally:
    """Counts of the roles in one encounter (`sums_of`), by rule (level `role`) or by a judge."""

    level: str
    benchmark: str
    players: Mapping[Role, str]
    case: str | int
    cluster: str | int
    sums: Mapping[str, float]


def _tallies(study: Study, benchmark: str) -> Iterator[Tally]:
    for model, cell in _cells(study, benchmark):
        cast, own = cell.record.spec.cast, cell.scores[CONDUCT]
        players = {role: cast[role].name if role in cast else model for role in ROLES}
        for case, cluster, sums in zip(own.ids, own.clusters, own.sums.tolist(), strict=True):
            named = dict(zip(own.pooling.names, sums, strict=True))
            yield Tally("role", benchmark, players, int(case), int(cluster), named)


def role_rows(tallies: Iterable[Tally], settings: Settings) -> Iterator[dict[str, object]]:
    """Yield the faults of each role by who played it, and how much of its script a patient said."""
    groups: dict[tuple[str, str, Role, str], list[Tally]] = defaultdict(list)
    for tally in tallies:
        for role, model in tally.players.items():
            if tally.sums[f"{role}/lines"]:
                groups[tally.level, tally.benchmark, role, model].append(tally)
    for (level, benchmark, role, model), own in sorted(groups.items()):
        row = {"benchmark": benchmark, "level": level, "role": role, "model": model}
        total = {name: sum(tally.sums[name] for tally in own) for name in own[0].sums}
        for kind in (*KINDS[role], ANY):
            part, lines = f"{role}/{kind}", total[f"{role}/{kind}/lines"]
            if lines or level == "role":
                found = total[part] if lines or total[part] else None
                found_row = {"fault": kind, "lines": lines or None, "found": found}
                yield row | found_row | share_row("share", part, f"{part}/lines", own, settings)
        if role == "patient" and (words := total.get("script/words")):
            shares = {name: total[f"script/{name}"] / words for name in ("shown", "asked")}
            unasked = share_row("unasked", "script/unasked", "script/words", own, settings)
            yield row | {"level": "script", "words": words, **shares, **unasked}


def share_row(
    name: str, part: str, whole: str, tallies: Sequence[Tally], settings: Settings
) -> dict[str, object]:
    """Return part / whole as the column `name`, with the ends of its interval over whole clusters.

    Where few clusters have the fault, or few have lines without it, a bootstrap is too short: Gaffke's.
    """
    own = [tally for tally in tallies if tally.sums[whole]]
    found: dict[str, object] = {"cases": len({tally.case for tally in own})}
    if not own:
        return found
    keys, codes = np.unique([tally.cluster for tally in own], return_inverse=True)
    pairs = np.array([(tally.sums[part], tally.sums[whole]) for tally in own])
    sums = intervals.cluster_sums(pairs, codes, len(keys))
    found[name] = float(pairs[:, 0].sum() / pairs[:, 1].sum())
    if len(keys) < 2:
        return found
    seed, ends = intervals.seed_of(settings.bootstrap_seed, name, part), None
    if min((sums > 0)[:, 0].sum(), (sums[:, 0] < sums[:, 1]).sum()) >= intervals.NEAR_BORDER:
        drawn = intervals.bootstrap(sums, settings.draws, seed)
        shares, sizes = drawn[:, 0] / drawn[:, 1], np.bincount(codes)
        ends = intervals.clustered_percentile(shares, settings.confidence, sizes)
    if ends is None or ends.low is None:
        pooling = aggregation.Pooling(pooled_share(name, "part", "whole"), ("part", "whole"))
        ends = intervals.bounded(sums, pooling, (0.0, 1.0), settings.confidence, seed)
    return found | ends.ends(name)


def _clinicians(study: Study, benchmark: str) -> Iterator[dict[str, object]]:
    metric = study.panels[benchmark].metric.name
    for model, cell in _cells(study, benchmark):
        own, cast = cell.scores[FIDELITY], cell.record.spec.cast
        values, clean = (
            dict(zip(s.ids.tolist(), s.values.tolist(), strict=True))
            for s in (cell.scores[metric], own)
        )
        row = scores_row(values, clean, LEAST) | {"benchmark": benchmark, "model": model}
        row |= {"cast": " + ".join(cast[role].name for role in CAST)}
        if clean:
            row["clean"] = float(own.columns["clean"].sum() / own.columns["lines"].sum())
        yield row | {"ranked": model in study.ranked}


def scores_row(
    values: Mapping[Any, float], clean: Mapping[Any, float], least: float
) -> dict[str, object]:
    """Return a clinician's mean with and without the cases of which less than a share is clean."""
    marked = {key for key, share in clean.items() if share < least}
    rest = [value for key, value in values.items() if key not in marked]
    row: dict[str, object] = {"level": "clinician", "cases": len(values)}
    row |= {"unchecked": len(values.keys() - clean.keys())}
    if clean:
        row["marked"] = len(marked & values.keys())
    if values:
        row["mean"] = mean = sum(values.values()) / len(values)
        if clean and rest:
            row["mean_unmarked"] = without = sum(rest) / len(rest)
            row["difference"] = without - mean
    return row
