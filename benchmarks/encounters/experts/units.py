"""What raters rate: cases as they were constructed, encounters as they ran, each under a blind name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from medhelm.errors import UsageError
from medhelm.store.records import read_plan
from medhelm.store.runlog import read_episodes
from medhelm.tables.clinicians.rated_answers import graded_runs
from medhelm_benchmarks.encounters.data.cases import CASES
from medhelm_benchmarks.encounters.data.layout import PACKET_ROLES, read_scenarios
from medhelm_benchmarks.encounters.fidelity.stored import PROTOCOLS
from medhelm_benchmarks.encounters.packets import Packets, packets_of
from medhelm_benchmarks.encounters.record import transcript

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
SCALE = (
    ("5", "yes, wholly"),
    ("4", "yes, but for trifles"),
    ("3", "partly"),
    ("2", "hardly"),
    ("1", "no"),
)


@dataclass(frozen=True)
class Unit:
    """One case or encounter, with what a rater reads of it."""

    name: str
    """Blind: 10 hex digits."""
    cluster: str
    """Its case, which several encounters share."""
    parts: tuple[tuple[str, str], ...]
    """(heading, text)."""


@dataclass(frozen=True)
class Units:
    """All that can be rated in a folder."""

    kind: Kind
    units: tuple[Unit, ...]
    left_out: int = 0
    """Encounters whose text must not be shown."""

    @property
    def aspects(self) -> dict[str, str]:
        """Return the aspects that are rated, and their wording."""
        return CONSTRUCTION if self.kind == "construction" else RUNTIME


def read_units(folder: Path) -> Units:
    """Return the cases of a folder that `curate` made, or the encounters of a results folder.

    Raises UsageError where the folder holds neither.
    """
    if (folder / CASES).is_dir():
        return Units("construction", tuple(_cases(folder / CASES)))
    if not (folder / "runs").is_dir():
        raise UsageError(
            f"--encounters {folder} holds neither {CASES}/ (constructed cases) nor runs/ (encounters); "
            "name the folder of either"
        )
    runs = [r for r in graded_runs(folder)[0] if r.record.spec.protocol in PROTOCOLS]
    paths = {r.path.parents[1]: r.record.card.data_class == "public" for r in runs}
    units: dict[str, Unit] = {}
    left_out = 0
    for path, is_public in paths.items():
        for unit in _encounters(path):
            left_out += not is_public
            if is_public:
                units[unit.name] = unit
    if not units and not left_out:
        raise UsageError(f"no run below {folder} has encounters")
    return Units("runtime", tuple(units.values()), left_out)


def _cases(folder: Path) -> Iterator[Unit]:
    for scenario in read_scenarios(folder):
        source = folder / scenario.case / "source"
        parts = [(f"Packet of the {role}", scenario.texts[role]) for role in PACKET_ROLES]
        if source.is_dir():
            files = sorted(p for p in source.iterdir() if p.is_file())
            parts += [(f"Source: {p.name}", p.read_text(encoding="utf-8")) for p in files]
        yield Unit(_blind(scenario.id), scenario.case, tuple(parts))


def _encounters(path: Path) -> Iterator[Unit]:
    """Yield the encounters of a run; no part names a model."""
    for episode in read_episodes(path, read_plan(path)):
        said = transcript(episode)
        if not said:
            continue
        packets = packets_of(episode.instance)
        name = _blind(f"{path.name}/{episode.instance.id}/{episode.response.repeat}")
        parts = [("Encounter", "\n".join(f"{who}: {text}" for who, text in said))]
        parts += [("Briefing of the clinician", episode.instance.context), *_material(packets)]
        yield Unit(name, episode.instance.cluster or episode.instance.id, tuple(parts))


def _material(packets: Packets) -> list[tuple[str, str]]:
    facts = (f.answer for f in packets.patient.facts)
    results = (r.text for state in packets.controller.states for r in state.results)
    items = (f"{i.competency}: {i.text}" for i in packets.evaluator.items)
    parts = [
        ("Material of the patient's side", "\n".join((packets.patient.text, *facts))),
        ("Material of the surroundings", "\n".join((packets.controller.text, *results))),
        ("Items", "\n".join(items)),
    ]
    return [(heading, text) for heading, text in parts if text]


def _blind(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()[:10]
