"""Sheets on which people tick the items of stored encounters, and how far raters and evaluators agree."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from medhelm import Table, make_table
from medhelm.errors import DataError, UsageError, closest
from medhelm.stats.agreement import kappa_of_ratings
from medhelm.store.records import order_key, read_plan
from medhelm.store.runlog import read_episodes
from medhelm.tables.clinicians.rated_answers import graded_runs
from medhelm.tables.format.column_kinds import count, number, text
from medhelm.tables.format.spreadsheet import refuse_present, to_csv, write_whole
from medhelm.tables.study.selection import GradedRun
from medhelm_benchmarks.encounters.experts.by_hand import COLUMNS, plain, read_ticks, unit_of
from medhelm_benchmarks.encounters.experts.sheet import EncounterSheet, defined, page_of
from medhelm_benchmarks.encounters.experts.units import Unit
from medhelm_benchmarks.encounters.fidelity.stored import PROTOCOLS, ticks_of
from medhelm_benchmarks.encounters.grading.evaluator import (
    EVALUATIONS,
    RUBRIC,
    messages,
    parts_of,
    shown_turns,
)
from medhelm_benchmarks.encounters.packets import RubricItem, packets_of
from medhelm_benchmarks.encounters.record import CAPPED, COMPLETED, encounter_of

RULES = (
    (
        "met",
        "yes where the turns show, in so many words or deeds, that the clinician did it; else no",
    ),
    ("turns", "the numbers of the turns that show it; without one an item counts as not met"),
)


@dataclass(frozen=True)
class Judged:
    """An encounter whose items can be ticked, with the verdicts of its evaluators."""

    unit: Unit
    items: tuple[RubricItem, ...]
    by_jury: Mapping[str, Mapping[int, bool | None]]
    """Jury -> number of the item -> whether it is met; None: no valid verdict."""


def read_judged(folder: Path) -> tuple[list[Judged], int]:
    """Return the encounters of a results folder that can be ticked, and how many are not public.

    Raises UsageError where there is none.
    """
    runs: dict[Path, list[GradedRun]] = {}
    for run in graded_runs(folder)[0]:
        if run.record.spec.protocol in PROTOCOLS:
            runs.setdefault(run.path.parents[1], []).append(run)
    found: dict[str, Judged] = {}
    left_out = 0
    for path, gradings in runs.items():
        for judged in _judged(path, gradings):
            if gradings[0].record.card.data_class == "public":
                found[judged.unit.name] = judged
            else:
                left_out += 1
    if not found and not left_out:
        raise UsageError(f"no run below {folder} has encounters with the items of a rubric")
    return [*found.values()], left_out


def _judged(path: Path, gradings: Sequence[GradedRun]) -> Iterator[Judged]:
    ticks = {}
    for run in gradings:
        for terms in run.record.grading.graders:
            if terms.grader == EVALUATIONS.name and RUBRIC not in terms.settings:
                ticks[terms.jury.name] = ticks_of(run)
    for episode in read_episodes(path, read_plan(path)):
        case, items = episode.instance, packets_of(episode.instance).evaluator.items
        if episode.ending not in (COMPLETED, CAPPED) or not items:
            continue
        encounter = encounter_of(episode)
        parts = parts_of(messages(encounter, items)[1].content)
        assert parts is not None
        shown = "\n\n".join(map(_turn, shown_turns(encounter).splitlines()))
        listed = "\n".join(f"{n}. {i.competency}: {i.text}" for n, i in enumerate(items, start=1))
        unit = Unit(
            unit_of(case.id, parts[0]),
            case.cluster or case.id,
            (("Encounter", shown), ("Items", listed)),
        )
        key = (case.id, episode.response.repeat)
        by_jury = {
            jury: _verdicts(said[key], len(items)) for jury, said in ticks.items() if key in said
        }
        yield Judged(unit, items, by_jury)


def _verdicts(said: Mapping[int, tuple[int, ...] | None], size: int) -> Mapping[int, bool | None]:
    return {n: n in said if said.get(n, ()) is not None else None for n in range(1, size + 1)}


def _turn(line: str) -> str:
    """Return a turn as a rater reads it."""
    said = json.loads(line)
    parts = [f"Turn {said.pop('turn')}"]
    for name, value in said.items():
        for one in value if isinstance(value, list) else [value]:
            if one not in ("", False):
                parts.append(f"{name.replace('_', ' ')}: {one if one is not True else 'yes'}")
    return "\n  ".join(parts)


def write_item_sheet(
    path: Path, judged: Sequence[Judged], *, most: int | None = None, seed: int = 0
) -> EncounterSheet:
    """Write a sheet of items and its page, readable by their owner alone; return what is in it.

    No evaluator's verdict is on either. `most` draws a sample of encounters by the seed.
    """
    page = path.with_name(f"{path.stem}.page.html")
    refuse_present(path, page)
    drawn = sorted(judged, key=lambda j: order_key(seed, j.unit.name))[:most]
    lines = [
        {"unit": j.unit.name, "competency": i.competency, "item": i.text, "met": "", "turns": ""}
        for j in drawn
        for i in j.items
    ]
    write_whole(page, page_of(defined(RULES), [j.unit for j in drawn]).encode())
    write_whole(path, to_csv(COLUMNS, lines))
    return EncounterSheet(path, page, len(drawn))


def items_table(paths: Sequence[Path], judged: Sequence[Judged]) -> Table:
    """Return how far each pair of raters and evaluators agrees on the items that both have judged."""
    known = {j.unit.name: j for j in judged}
    said: dict[str, dict[tuple[str, int], bool]] = {}
    for path in paths:
        if path.stem in said:
            raise DataError(
                f"{path}: another file is of the rater {path.stem!r}, too; give each file once, named as its rater"
            )
        said[path.stem] = _ticked(path, known)
    for one in judged:
        for jury, verdicts in one.by_jury.items():
            own = {(one.unit.name, n): met for n, met in verdicts.items() if met is not None}
            said.setdefault(f"jury={jury}", {}).update(own)
    rows = [_pair(a, b, said[a], said[b]) for a, b in combinations(said, 2)]
    columns = [
        text("one", "a rater, or the jury of a grading", "one"),
        text("other", "another one", "other"),
        count("units", "encounters that both have judged", "encounters"),
        count("items", "items that both have judged", "items"),
        number("met_one", "items that the one finds met", "share", "met, one", is_percent=True),
        number("met_other", "and the other", "share", "met, other", is_percent=True),
        number("agree", "items on which both say the same", "share", "agree", is_percent=True),
        number("kappa", "Cohen's kappa: agreement beyond chance", "", "kappa"),
    ]
    notes = [
        "An item counts as met by a rater only with a turn that shows it, as by any evaluator."
    ]
    return make_table("items", "Items judged by raters and evaluators", columns, rows, notes, {})


def _ticked(path: Path, known: Mapping[str, Judged]) -> dict[tuple[str, int], bool]:
    """Return what a sheet says of each item by unit and number; raises DataError."""
    found: dict[tuple[str, int], bool] = {}
    for unit, ticks in read_ticks(path).items():
        if unit not in known:
            near = closest(unit, list(known))
            hint = f"; did you mean {near[0]}?" if near else ""
            raise DataError(f"{path.name}: there is no unit {unit!r}{hint}")
        numbers: dict[tuple[str, str], int] = {
            (i.competency, plain(i.text)): n for n, i in enumerate(known[unit].items, start=1)
        }
        for tick in ticks:
            n = numbers.get((tick.competency, tick.item))
            if n is None:
                raise DataError(
                    f"{path.name}: unit {unit} has no item {tick.item[:60]!r} under "
                    f"{tick.competency!r}; items stay as the sheet has them"
                )
            if (unit, n) in found:
                raise DataError(f"{path.name}: unit {unit} has item {tick.item[:60]!r} twice")
            found[unit, n] = tick.met and bool(tick.turns)
    return found


def _pair(
    one: str, other: str, a: Mapping[tuple[str, int], bool], b: Mapping[tuple[str, int], bool]
) -> dict[str, object]:
    both = sorted(a.keys() & b.keys())
    row: dict[str, object] = {
        "one": one,
        "other": other,
        "units": len({unit for unit, _ in both}),
        "items": len(both),
    }
    if both:
        x, y = (np.array([float(said[key]) for key in both]) for said in (a, b))
        kappa = kappa_of_ratings(x, y, (0, 1), "linear")
        row |= {
            "met_one": float(x.mean()),
            "met_other": float(y.mean()),
            "agree": float((x == y).mean()),
            "kappa": None if math.isnan(kappa) else kappa,
        }
    return row
