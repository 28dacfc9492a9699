"""The answers that a report shows: the worst scored ones, and the first of each other outcome."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from medhelm.errors import RecordError
from medhelm.plugins.registry import Registry
from medhelm.store.records import order_key
from medhelm.tables.instances import Key, Row, instances, main_metric, read_lines
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import publish
from medhelm_leaderboard.pages import Problem

WORST, EXAMPLES = 10, 3
"""Scored answers that are shown, and answers of each other outcome."""
_Found = tuple[float, Key, GradedRun]
"""An answer, and how far its score is from the best one, as a share of the metric's range."""


def chosen_answers(
    runs: Sequence[GradedRun], registry: Registry, problems: list[Problem]
) -> dict[str, list[Row]]:
    """Return by outcome the answers to show; of `scored` those with the lowest scores that are not the best one."""
    found: dict[str, list[_Found]] = defaultdict(list)
    for run in runs:
        metric = run.record.grading.metrics[0]
        best = metric.maximum if metric.higher_is_better else metric.minimum
        for key, line in read_lines(run, publish.metric_name).found.items():
            main = line.scores[0]
            short = 0.0 if main.value is None else abs(best - main.value)
            if main.outcome != "scored" or short:
                found[main.outcome].append((short / (metric.maximum - metric.minimum), key, run))
    chosen = {
        outcome: _dealt(every)[: WORST if outcome == "scored" else EXAMPLES]
        for outcome, every in sorted(found.items())
    }
    rows: dict[tuple[str, Key], Row] = {}
    for run in runs:
        ids = [key[0] for every in chosen.values() for _, key, own in every if own is run]
        protocol = registry.protocols.get(run.record.spec.protocol)
        transcript = protocol.transcript if protocol else None
        more: dict[str, Any] = {"ids": ids, "named": publish.metric_name}
        more["metric"] = main_metric(run.record, lambda: registry)
        try:
            own = instances(run, transcript, has_text=True, **more)[0] if ids else ()
            rows |= {(run.folder, (row["instance_id"], row["repeat"])): row for row in own}
        except RecordError:
            problems.append(Problem(where=run.folder, what="its answers cannot be read"))
    return {
        outcome: [rows[run.folder, key] for _, key, run in every if (run.folder, key) in rows]
        for outcome, every in chosen.items()
    }


def _dealt(every: Iterable[_Found]) -> list[_Found]:
    """Return the worst first; of equal ones each run has its first before any has its second, in an order nobody chose."""
    places, placed = Counter[tuple[float, str]](), []
    for own in sorted(every, key=lambda e: (order_key(0, e[1][0]), e[1][1])):
        place = (-own[0], own[2].folder)
        placed.append((place[0], places[place], place[1], own))
        places[place] += 1
    return [own for *_, own in sorted(placed, key=lambda p: p[:3])]
