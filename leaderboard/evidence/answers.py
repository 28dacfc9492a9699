"""The answers that a report shows: the worst scored ones, and the first of each other outcome."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from medhelm.errors import RecordError
from medhelm.plugins.registry import Registry
from medhelm.store.records import order_key
from medhelm.tables.instances import Key, Row, instances, main_metric, read_lines
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import publish
from medhelm_leaderboard.pages import Problem

WORST, EXAMPLES = 10, 3
"""Scored answers that are shown, and answers of each other outcome."""


class ShownAnswer(NamedTuple):
    """An answer whose text may be shown, with the run that it is of."""

    run: GradedRun
    row: Row


def chosen_answers(
    runs: Sequence[GradedRun], registry: Registry, problems: list[Problem]
) -> dict[str, list[ShownAnswer]]:
    """Return by outcome the answers to show; of `scored` those with the lowest scores that are not the best one."""
    found = defaultdict(list)
    for run in runs:
        metric = run.record.grading.metrics[0]
        best = metric.maximum if metric.higher_is_better else metric.minimum
        for key, line in read_lines(run, publish.metric_name).found.items():
            main = line.scores[0]
            short = 0.0 if main.value is None else abs(best - main.value)
            if main.outcome != "scored" or short:
                found[main.outcome].append((short / (metric.maximum - metric.minimum), key, run))
    return {
        outcome: [
            *_shown(_dealt(every, WORST if outcome == "scored" else EXAMPLES), registry, problems)
        ]
        for outcome, every in sorted(found.items())
    }


def _dealt(every: Iterable[tuple[float, Key, GradedRun]], most: int) -> list[tuple[Key, GradedRun]]:
    """Return the worst; of equal ones each run has its first before any has its second, in an order nobody chose."""
    places, placed = Counter[tuple[str, float]](), []
    for short, key, run in sorted(every, key=lambda e: (-e[0], order_key(0, e[1][0]), e[1][1])):
        placed.append((-short, places[run.folder, short], run.folder, key, run))
        places[run.folder, short] += 1
    return [(key, run) for *_, key, run in sorted(placed, key=lambda p: p[:3])[:most]]


def _shown(
    chosen: Sequence[tuple[Key, GradedRun]], registry: Registry, problems: list[Problem]
) -> Iterator[ShownAnswer]:
    """Yield these answers in this order; names a run whose log cannot be read."""
    rows: dict[tuple[str, Key], Row] = {}
    for run in {run.folder: run for _, run in chosen}.values():
        protocol = registry.protocols.get(run.record.spec.protocol)
        try:
            found, _, _ = instances(
                run,
                protocol.transcript if protocol else None,
                has_text=True,
                metric=main_metric(run.record, lambda: registry),
                ids=[instance for (instance, _), own in chosen if own is run],
                named=publish.metric_name,
            )
        except RecordError:
            problems.append(Problem(where=run.folder, what="its answers cannot be read"))
        else:
            rows |= {(run.folder, (row["instance_id"], row["repeat"])): row for row in found}
    for key, run in chosen:
        if row := rows.get((run.folder, key)):
            yield ShownAnswer(run, row)
