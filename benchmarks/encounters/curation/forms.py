"""Forms of replies in which a model names lines of documents."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from medhelm_benchmarks.encounters.packets import Competency

_Text = Annotated[str, msgspec.Meta(min_length=1)]
PlayedRole = Literal["clinician", "patient", "controller"]


class Lines(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines of a document, from the first to the last."""

    document: _Text
    first: Annotated[int, msgspec.Meta(ge=1)]
    last: Annotated[int, msgspec.Meta(ge=1)]


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reports whether a criterion is met, and where the source shows it."""

    is_met: bool
    reason: _Text
    lines: list[Lines]


class ScenarioMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds the source's statements on one scenario; null where it has none."""

    scenario_id: Annotated[str, msgspec.Meta(pattern=r"^scenario[1-9][0-9]?$")]
    scenario_title: str | None
    specialty: str | None
    department: str | None
    urgency_level: str | None
    patient_gender: str | None
    patient_age: str | None
    patient_race: str | None
    patient_nationality: str | None
    injury_body_part: str | None


class Triage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Phase 1. Whether the article can be simulated follows from its three criteria, by rule."""

    documents: dict[str, str]
    """Says of each document what it holds and is for."""
    encounter_task: Criterion
    counterpart: Criterion
    scene: Criterion
    case_shape: _Text
    scenarios: list[ScenarioMeta]

    @property
    def criteria(self) -> dict[str, Criterion]:
        """Return the three criteria by name."""
        return {name: getattr(self, name) for name in ("encounter_task", "counterpart", "scene")}

    @property
    def is_simulatable(self) -> bool:
        """Return whether all three criteria are met."""
        return all(criterion.is_met for criterion in self.criteria.values())


class Rewrite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One retained line in other words: parted alternatives, an attribute of this scenario."""

    role: PlayedRole
    document: _Text
    line: Annotated[int, msgspec.Meta(ge=1)]
    text: str


class Partition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Phase 2: the lines that each role keeps."""

    is_ready: bool
    reason: _Text
    clinician: list[Lines]
    patient: list[Lines]
    controller: list[Lines]
    evaluator: list[Lines]
    rewrites: list[Rewrite]


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines that a role must not see."""

    role: PlayedRole
    lines: Lines
    category: _Text


class Audit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Phase 3: what is taken away, and what the patient's side still needs."""

    remove: list[Cut]
    restore_for_patient: list[Lines]
    rewrites: list[Rewrite]
    summary: list[str]


class ExtractedItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item, verbatim, and the lines of the evaluator's packet that it stands in."""

    competency: Competency
    text: _Text
    lines: Lines


class Extraction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rubric of a scenario."""

    items: list[ExtractedItem]


class Leak(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item whose meaning the clinician's packet gives away, and the words that do."""

    item: Annotated[int, msgspec.Meta(ge=1)]
    quote: _Text


class LeakReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The judge's leaks."""

    leaks: list[Leak]
