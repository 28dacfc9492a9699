"""Sheets on which people tick the items of stored encounters, and how far raters and evaluators agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from medhelm import Floats, Settings, Table, UsageError
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import (
    intervals,
    measured,
    rating_forms,
    ratings,
    sheet,
    stored_decisions,
    two_class,
)
from medhelm_benchmarks.encounters.experts.by_hand import TURNS, item_text, turns_of, unit_of
from medhelm_benchmarks.encounters.experts.units import hidden_note
from medhelm_benchmarks.encounters.fidelity.stored import (
    encounter_runs,
    ticks_of,
)
from medhelm_benchmarks.encounters.grading.evaluator import (
    EVALUATIONS,
    RUBRIC,
    messages,
    parts_of,
    shown_turns,
)
from medhelm_benchmarks.encounters.packets import packets_of
from medhelm_benchmarks.encounters.record import CAPPED, COMPLETED, encounter_of

RULES = (
    (
        "value",
        "yes where the turns show, in so many words or deeds, that the clinician did it; else no",
    ),
    (TURNS, "the numbers of the turns that show it; without one an item counts as not met"),
)


_FORM = kinds.form(__file__, "items")


@dataclass(frozen=True)
class Judged:
    """An encounter whose items can be ticked, with the verdicts of its evaluators."""

    unit: ratings.Unit
    cluster: str
    """The source of its case: encounters with the same one are not independent."""
    by_jury: Mapping[str, Mapping[int, bool | None]]
    """Jury -> number of the item -> whether it is met; None: no valid verdict."""


def read_judged(folder: Path) -> tuple[list[Judged], int]:
    """Return the encounters of a results folder that can be ticked, and how many are not public."""
    found = [
        (gradings[0].record.card.data_class == "public", judged)
        for gradings in encounter_runs(folder).values()
        for judged in _judged(gradings)
    ]
    if not found:
        raise UsageError(f"no run below {folder} has encounters with the items of a rubric")
    shown = {judged.unit.name: judged for is_public, judged in found if is_public}
    return [*shown.values()], sum(not is_public for is_public, _ in found)


def _judged(gradings: Sequence[stored_decisions.GradedRun]) -> Iterator[Judged]:
    ticks = {}
    for run in gradings:
        for terms in run.record.grading.graders:
            if terms.grader == EVALUATIONS.name and RUBRIC not in terms.settings:
                ticks[terms.jury.name] = ticks_of(run)
    for episode in gradings[0].episodes():
        case, items = episode.instance, packets_of(episode.instance).evaluator.items
        if episode.ending not in (COMPLETED, CAPPED) or not items:
            continue
        encounter = encounter_of(episode)
        parts = parts_of(messages(encounter, items)[1].content)
        assert parts is not None
        shown = "\n\n".join(map(_turn, shown_turns(encounter).splitlines()))
        listed = tuple(
            ratings.Item(str(n), item_text(i.competency, i.text))
            for n, i in enumerate(items, start=1)
        )
        unit = ratings.Unit(
            unit_of(case.id, parts[0]), listed, ratings.YES_NO, (("Encounter", shown),)
        )
        key = (case.id, episode.response.repeat)
        by_jury: dict[str, dict[int, bool | None]] = {}
        for jury, said in ticks.items():
            if (own := said.get(key)) is not None:
                numbers = range(1, len(items) + 1)
                by_jury[jury] = {
                    n: n in own if own.get(n, ()) is not None else None for n in numbers
                }
        yield Judged(unit, case.cluster or case.id, by_jury)


def _turn(line: str) -> str:
    """Return a turn as a rater reads it."""
    said = json.loads(line)
    parts = [f"Turn {said.pop('turn')}"]
    for name, value in said.items():
        for one in value if isinstance(value, list) else [value]:
            if one not in ("", False):
                parts.append(f"{name.replace('_', ' ')}: {one if one is not True else 'yes'}")
    return "\n  ".join(parts)


def item_sheet(judged: Sequence[Judged], left_out: int, sample: sheet.Sample) -> sheet.RatingSheet:
    """Return a sheet of the items of a sample of encounters; it has no evaluator's verdict."""
    units = sample.of(j.unit for j in judged)
    return sheet.RatingSheet(
        units=units, rules=RULES, more={TURNS: "[0-9,; ]*"}, notes=hidden_note(left_out)
    )


def items_table(
    rated: ratings.RatingTable[str], judged: Sequence[Judged], settings: Settings
) -> Table:
    """Return how far each pair of raters and evaluators agrees on the items that both have judged."""
    said: dict[str, dict[tuple[str, str], bool]] = {rater: {} for rater in rated.raters}
    for rating in rated.ratings:
        has_turn = bool(turns_of(rating.cells, rating.where))
        said[rating.rater][rating.unit, rating.item] = bool(rating.value) and has_turn
    for one in judged:
        for jury, verdicts in one.by_jury.items():
            own = {(one.unit.name, str(n)): met for n, met in verdicts.items() if met is not None}
            said.setdefault(f"jury={jury}", {}).update(own)
    clusters = {one.unit.name: one.cluster for one in judged}
    rows = [_pair(a, b, said, clusters, settings) for a, b in combinations(said, 2)]
    return _FORM.table(rows, settings=settings.of_draws)


_MEASURES: Mapping[str, Callable[[Floats], Floats]] = {
    "met_one": lambda counts: two_class.positive_rates(counts)[0],
    "met_other": lambda counts: two_class.positive_rates(counts)[1],
    "agree": two_class.same,
    "kappa": two_class.kappa,
}


def _pair(
    one: str,
    other: str,
    said: Mapping[str, Mapping[tuple[str, str], bool]],
    clusters: Mapping[str, str],
    settings: Settings,
) -> dict[str, object]:
    both = sorted(said[one].keys() & said[other].keys())
    decided = (np.array([said[who][key] for key in both], dtype=np.bool_) for who in (one, other))
    found = measured.counted(
        two_class.confusion(*decided),
        np.array([clusters[unit] for unit, _ in both], dtype=np.str_),
        _MEASURES,
        with_interval=("agree", "kappa"),
        rates=("agree",),
        draws=settings.draws,
        seed=intervals.seed_of(settings.bootstrap_seed, "items", one, other),
        confidence=settings.confidence,
    )
    row = {"one": one, "other": other, "units": len({unit for unit, _ in both})}
    row |= {f"{name}_method": own.described for name, own in found.intervals.items()}
    return row | {"items": found.n} | found.row


def _tables(asked: rating_forms.Asked) -> list[Table]:
    judged, _ = read_judged(Path(asked.source))
    rated = ratings.read_units(asked.files, [j.unit for j in judged])
    return [items_table(rated, judged, asked.settings)]


FORM = rating_forms.RatingForm(
    word="items",
    tables=("items",),
    make_tables=_tables,
    make_sheet=lambda asked: item_sheet(*read_judged(Path(asked.source)), asked.sample),
)
