"""The answers that a report shows: of each other outcome than `scored` the first ones, and the worst."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from medhelm.errors import RecordError
from medhelm.plugins.registry import Registry
from medhelm.schema.score import Outcome
from medhelm.store.records import order_key
from medhelm.tables.instances import Key, Row, instances, main_metric, read_lines
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import publish
from medhelm_leaderboard.pages import Problem

WORST = 10
EXAMPLES = 3
"""Answers of each outcome that are shown."""


class ShownAnswer(NamedTuple):
    """An answer whose text may be shown, with the run that it is of."""

    run: GradedRun
    row: Row


class _Found(NamedTuple):
    """One answer of a run: how good it is from 0 to 1, and what became of it."""

    run: GradedRun
    key: Key
    outcome: Outcome
    quality: float | None

    @property
    def order(self) -> tuple[int, int]:
        """A place that nobody chose."""
        return order_key(0, self.key[0]), self.key[1]


def failed_answers(
    runs: Sequence[GradedRun], registry: Registry, problems: list[Problem]
) -> Iterator[ShownAnswer]:
    """Yield up to `EXAMPLES` answers of each outcome but `scored`, dealt over the runs."""
    outcomes = defaultdict(list)
    for found in _found(runs):
        if found.outcome != "scored":
            outcomes[found.outcome].append(found)
    for _, every in sorted(outcomes.items()):
        yield from _shown(_dealt(every)[:EXAMPLES], registry, problems)


def worst_answers(
    runs: Sequence[GradedRun], registry: Registry, problems: list[Problem]
) -> Iterator[ShownAnswer]:
    """Yield the `WORST` scored answers with the lowest scores that are not the best one, the worst first."""
    found = [f for f in _found(runs) if f.outcome == "scored" and f.quality not in (None, 1.0)]
    yield from _shown(_dealt(found)[:WORST], registry, problems)


def _found(runs: Iterable[GradedRun]) -> Iterator[_Found]:
    for run in runs:
        metric = run.record.grading.metrics[0]
        width = metric.maximum - metric.minimum
        for key, line in read_lines(run, publish.metric_name).found.items():
            main = line.scores[0]
            quality = None if main.value is None else (main.value - metric.minimum) / width
            if quality is not None and not metric.higher_is_better:
                quality = 1 - quality
            yield _Found(run, key, main.outcome, quality)


def _dealt(found: Iterable[_Found]) -> list[_Found]:
    """Return answers from the worst on; of equal ones each run has its first before any has its second."""
    places, placed = defaultdict[object, int](int), []
    for own in sorted(found, key=lambda f: (f.quality or 0.0, f.order)):
        at = own.run.folder, own.quality
        placed.append((own.quality or 0.0, places[at], own.run.folder, own.order, own))
        places[at] += 1
    return [own for *_, own in sorted(placed, key=lambda p: p[:4])]


def _shown(
    chosen: Sequence[_Found], registry: Registry, problems: list[Problem]
) -> Iterator[ShownAnswer]:
    """Yield these answers in this order; names a run whose log cannot be read."""
    rows: dict[tuple[str, Key], Row] = {}
    for run in {f.run.folder: f.run for f in chosen}.values():
        keys = [f.key for f in chosen if f.run.folder == run.folder]
        protocol = registry.protocols.get(run.record.spec.protocol)
        try:
            found, _, _ = instances(
                run,
                protocol.transcript if protocol else None,
                has_text=True,
                metric=main_metric(run.record, lambda: registry),
                ids=[instance for instance, _ in keys],
                named=publish.metric_name,
            )
        except RecordError:
            what = "its answers cannot be read, and none is shown"
            problems.append(Problem(where=run.folder, what=what))
            continue
        rows |= {(run.folder, (row["instance_id"], row["repeat"])): row for row in found}
    for own in chosen:
        if row := rows.get((own.run.folder, own.key)):
            yield ShownAnswer(own.run, row)
