"""Separate suites: what ranks models over benchmarks is made of each suite for itself.

A macro-average or a win rate over benchmarks of two suites is of neither: the paper's benchmarks
and those of another year are never in one mean. Which suites are apart, their files say
(`is_averaged_apart`); benchmarks of none of them are a group of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from medhelm.config import OTHERS, averaged_apart
from medhelm.tables.format.table import Column, Table
from medhelm.tables.study.study import Study

_SUITE = Column(
    name="suite",
    type="string",
    description="suite over which alone the means and ranks of the row are taken",
    heading="suite",
)


def suites_apart(study: Study) -> Mapping[str, Study]:
    """Return the study of each suite that has runs, by its name; one study where there is one."""
    members = grouped(study.cells)
    if len(members) < 2:
        return {next(iter(members), OTHERS): study}
    return {name: study.on(own) for name, own in members.items()}


def grouped(benchmarks: Iterable[str]) -> Mapping[str, list[str]]:
    """Return the benchmarks of each suite apart, by its name; those of none come last."""
    home = averaged_apart()
    members: dict[str, list[str]] = {}
    for benchmark in benchmarks:
        members.setdefault(home.get(benchmark.partition(".")[0], OTHERS), []).append(benchmark)
    return {n: members[n] for n in sorted(members, key=lambda name: (name == OTHERS, name))}


def by_suite(study: Study, make: Callable[[Study], Table]) -> Table:
    """Return a table of every suite apart, one below the other; of a single suite as it is made."""
    apart = suites_apart(study)
    if len(apart) < 2:
        return make(study)
    tables = {name: make(part) for name, part in apart.items()}
    first = next(iter(tables.values()))
    shared = [n for n in first.notes if all(n in t.notes for t in tables.values())]
    suites: dict[str, list[str]] = {}
    for name, table in tables.items():
        for note in table.notes:
            suites.setdefault(note, []).append(name)
    own = [f"{', '.join(of)}: {note}" for note, of in suites.items() if note not in shared]
    titles = [f"{name}: {table.title}" for name, table in tables.items()]
    return replace(
        first,
        title=first.title if len({t.title for t in tables.values()}) == 1 else "; ".join(titles),
        columns=(_SUITE, *first.columns),
        rows=tuple({"suite": s, **row} for s, t in tables.items() for row in t.rows),
        notes=(
            *own,
            *shared,
            "Suites are reported separately: no mean, rank or win rate is over two of them.",
        ),
        group=("suite", *first.group),
    )
