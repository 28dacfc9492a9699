"""Units that raters rate: cases as they were constructed, encounters as they ran, each under a blind name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from medhelm import Episode, Floats, Settings, Table, UsageError
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import (
    entries,
    intervals,
    measured,
    rating_forms,
    ratings,
    sheet,
    stored_decisions,
)
from medhelm_benchmarks.encounters.data.layout import PACKET_ROLES, SOURCE, read_scenarios
from medhelm_benchmarks.encounters.data.medsp1000 import CASES
from medhelm_benchmarks.encounters.fidelity.stored import (
    encounter_runs,
    rubric_of,
    ticks_of,
)
from medhelm_benchmarks.encounters.packets import Packets, RubricItem, packets_of
from medhelm_benchmarks.encounters.record import encounter_of, transcript, turn_lines

Kind = Literal["construction", "runtime"]

CONSTRUCTION = {
    "source_understanding": "The teaching material was understood rightly.",
    "structure": "The packets are complete and in order, and no role has what belongs to another.",
    "source_fidelity": "Clinical content and items are those of the source, unaltered.",
    "plausibility": "The case can be played stably in text.",
}
RUNTIME = {
    "material_fidelity": "What patient and surroundings gave is true to their material.",
    "role_boundary": "Each kept to its role throughout.",
    "dialogue": "The talk is clinically coherent.",
    "response": "The answers fit the state of the case at that moment.",
    "progression": "The case went on when it should, and as it should.",
    "evaluator": "The items that were ticked are those that were done.",
}
ASPECTS: Mapping[Kind, Mapping[str, str]] = {"construction": CONSTRUCTION, "runtime": RUNTIME}
SCALE = ratings.Scale(
    1,
    5,
    points=(
        ("5", "yes, wholly"),
        ("4", "yes, but for trifles"),
        ("3", "partly"),
        ("2", "hardly"),
        ("1", "no"),
    ),
)


@dataclass(frozen=True)
class RatedFolder:
    """All that can be rated in a folder."""

    kind: Kind
    units: tuple[ratings.Unit, ...]
    clusters: Mapping[str, str]
    """The source of each unit's case, by name of the unit: what has the same one is not independent."""
    left_out: int = 0
    """Encounters whose text must not be shown."""


def open_folder(asked: rating_forms.Asked) -> RatedFolder:
    """Return the cases of a folder that `curate` made, or the encounters of a results folder."""
    folder = Path(asked.source)
    if (folder / CASES).is_dir():
        return _folder("construction", _cases(folder / CASES))
    if not (folder / "runs").is_dir():
        raise UsageError(
            f"{folder} holds neither {CASES}/ (constructed cases) nor runs/ (encounters); name the "
            "folder of either"
        )
    runs = [gradings[-1] for gradings in encounter_runs(folder).values()]
    found = [(run.record.card.data_class, unit) for run in runs for unit in _encounters(run)]
    if not found:
        raise UsageError(f"no run below {folder} has encounters")
    shown = [unit for data_class, unit in found if data_class == "public"]
    return _folder("runtime", shown, len(found) - len(shown))


def _folder(kind: Kind, found: Iterable[tuple[str, ratings.Unit]], hidden: int = 0) -> RatedFolder:
    own = {unit.name: (cluster, unit) for cluster, unit in found}
    clusters = {name: cluster for name, (cluster, _) in own.items()}
    return RatedFolder(kind, tuple(unit for _, unit in own.values()), clusters, hidden)


def unit_sheet(asked: rating_forms.Asked) -> sheet.RatingSheet:
    """Return a sheet of a sample of the units."""
    folder = open_folder(asked)
    return sheet.RatingSheet(
        units=asked.sample.of(folder.units), notes=hidden_note(folder.left_out)
    )


def hidden_note(left_out: int) -> tuple[str, ...]:
    """Return how many encounters are on no sheet."""
    return (f"left out, since their data are not public: {left_out} encounters",) * bool(left_out)


def _unit(kind: Kind, place: str, parts: Sequence[tuple[str, str]]) -> ratings.Unit:
    return ratings.Unit(
        ratings.blind_name(place),
        tuple(starmap(ratings.Item, ASPECTS[kind].items())),
        SCALE,
        (*parts,),
    )


def _cases(folder: Path) -> Iterator[tuple[str, ratings.Unit]]:
    """Yield the source and the unit of each constructed case."""
    for scenario in read_scenarios(folder):
        source = folder / scenario.case / SOURCE
        parts = [(f"Packet of the {role}", scenario.texts[role]) for role in PACKET_ROLES]
        if source.is_dir():
            files = [p for p in entries(source, folder) if p.is_file()]
            parts += [(f"Source: {p.name}", p.read_text(encoding="utf-8")) for p in files]
        yield scenario.case, _unit("construction", scenario.id, parts)


def _encounters(run: stored_decisions.GradedRun) -> Iterator[tuple[str, ratings.Unit]]:
    """Yield the source and the unit of each encounter, with the evaluator's ticks; no part names a model."""
    ticks = ticks_of(run)
    for episode in run.episodes():
        if not transcript(episode):
            continue
        case, repeat = episode.instance, episode.response.repeat
        parts = [("Encounter", "\n".join(_numbered(episode)))]
        parts += [("Briefing of the clinician", case.context), *_material(packets_of(case))]
        parts += _ticks(rubric_of(run, case), ticks.get((case.id, repeat)))
        unit = _unit("runtime", f"{run.run_folder.name}/{case.id}/{repeat}", parts)
        yield case.cluster or case.id, unit


def _numbered(episode: Episode) -> Iterator[str]:
    """Yield the lines of an encounter, each turn under its number."""
    encounter = encounter_of(episode)
    yield from (f"event: {line}" for line in encounter.opening)
    for number, turn in enumerate(encounter.turns, start=1):
        yield f"Turn {number}"
        yield from (f"{who}: {text}" for who, text in turn_lines(turn))


def _material(packets: Packets) -> list[tuple[str, str]]:
    parts = [
        (
            f"Material of the {whose}",
            "\n".join((packet.text, *(h.text for h in packets.hidden(role)))),
        )
        for role, whose, packet in (
            ("patient", "patient's side", packets.patient),
            ("controller", "surroundings", packets.controller),
        )
    ]
    return [(heading, text) for heading, text in parts if text]


def _ticks(
    items: Sequence[RubricItem], ticks: Mapping[int, tuple[int, ...] | None] | None
) -> list[tuple[str, str]]:
    """Return the items, each with what the evaluator ticked; nothing of a case without items."""
    if not items:
        return []
    if ticks is None:
        lines = [f"{item.competency}: {item.text}" for item in items]
        return [("Items (no evaluator has scored this encounter)", "\n".join(lines))]
    lines = []
    for number, item in enumerate(items, start=1):
        turns = ticks.get(number, ())
        said = "no valid verdict" if turns is None else "met, turns " + ", ".join(map(str, turns))
        lines.append(f"[{said if turns != () else 'not met'}] {item.competency}: {item.text}")
    return [("Items, as the evaluator ticked them", "\n".join(lines))]


ALL = "all"
_TITLES = {"construction": "Ratings of constructed cases", "runtime": "Ratings of encounters"}
_FORM = kinds.form(__file__, "units")


def units_table(rated: ratings.RatingTable[str], folder: RatedFolder, settings: Settings) -> Table:
    """Return mean, exact and within-one agreement and mean difference of each aspect and of all."""
    clusters = [folder.clusters[unit.name] for unit in folder.units]
    codes = np.unique(clusters, return_inverse=True)[1]
    own = {
        aspect: rated.matrix([(unit.name, aspect) for unit in folder.units])
        for aspect in ASPECTS[folder.kind]
    }
    rows = [_row(aspect, found, codes, settings) for aspect, found in own.items()]
    whole = np.concatenate([*own.values()])
    rows.append(_row(ALL, whole, np.tile(codes, len(own)), settings))
    notes = [f"{aspect}: {question}" for aspect, question in ASPECTS[folder.kind].items()]
    notes.append(
        f"Raters: {', '.join(rated.raters)}. Agreement near the top of a scale is high by chance; "
        "alpha takes chance out, and has no value where all ratings are equal."
    )
    if not rows[-1]["pairs"]:
        notes.append("No unit is rated by two raters: agreement needs the files of both.")
    return _FORM.table(rows, notes, settings.of_draws, title=_TITLES[folder.kind])


def _row(
    aspect: str, found: Floats, clusters: NDArray[np.int64], settings: Settings
) -> dict[str, object]:
    """Return the measures of an aspect; `found` is (units, raters), their clusters (units,)."""
    names = ("units", aspect)
    row = ratings.agreement_of(found, clusters=clusters, settings=settings, names=names)
    units, raters = np.nonzero(~np.isnan(found))
    given = found[units, raters]
    own = measured.counted(
        np.stack([given, given >= 4, np.ones(len(given))], axis=1),
        clusters[units],
        {"mean": measured.column_mean(0), "high": measured.column_mean(1)},
        with_interval=("mean", "high"),
        rates=("high",),
        draws=settings.draws,
        seed=intervals.seed_of(settings.bootstrap_seed, *names),
        confidence=settings.confidence,
    )
    return {"aspect": aspect, **row, **own.row}


def _tables(asked: rating_forms.Asked) -> list[Table]:
    folder = open_folder(asked)
    rated = ratings.read_units(asked.files, folder.units)
    return [units_table(rated, folder, asked.settings)]


FORM = rating_forms.RatingForm(
    word="encounters",
    tables=("units",),
    make_tables=_tables,
    make_sheet=unit_sheet,
)
