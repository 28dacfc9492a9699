"""A scenario on its way: forms of replies in which a model names lines, and the copies made of these lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from medhelm_benchmarks.encounters.curation.sources import Article, Document, Place
from medhelm_benchmarks.encounters.data.layout import PACKET_ROLES, PacketRole
from medhelm_benchmarks.encounters.matches import folded
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
    """The content and use of each document."""
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


_LONG_LINE = 6
"""Words from which a line that two roles keep is worth a second look."""


@dataclass(frozen=True)
class Packet:
    """The lines that a role keeps, with those that are rewritten."""

    kept: frozenset[Place]
    rewrites: Mapping[Place, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """A scenario on its way."""

    meta: ScenarioMeta
    packets: Mapping[PacketRole, Packet]


def range_faults(article: Article, ranges: Iterable[Lines]) -> list[str]:
    """Return what is wrong with lines that a reply names."""
    lengths = {d.name: len(d.lines) for d in article.documents}
    faults: list[str] = []
    for lines in ranges:
        if lines.document not in lengths:
            known = ", ".join(map(repr, lengths))
            faults.append(f"there is no document {lines.document[:80]!r}, only {known}")
        elif not lines.first <= lines.last <= (length := lengths[lines.document]):
            faults.append(
                f"lines {lines.first} to {lines.last} of {lines.document!r}: it has lines 1 to {length}"
            )
    return list(dict.fromkeys(faults))


def places(ranges: Iterable[Lines]) -> frozenset[Place]:
    """Return single lines of ranges."""
    return frozenset((r.document, n) for r in ranges for n in range(r.first, r.last + 1))


def draft_of(meta: ScenarioMeta, partition: Partition) -> Draft:
    """Return the scenario that a partition makes."""
    packets = {role: Packet(places(getattr(partition, role))) for role in PACKET_ROLES}
    return _rewritten(meta, packets, partition.rewrites)


def audited(draft: Draft, audit: Audit) -> Draft:
    """Return the scenario after its audit. The evaluator's packet stays as it is."""
    packets = dict(draft.packets)
    for role in PACKET_ROLES[:-1]:
        kept = packets[role].kept - places(cut.lines for cut in audit.remove if cut.role == role)
        if role == "patient":
            kept |= places(audit.restore_for_patient)
        rewrites = {place: text for place, text in packets[role].rewrites.items() if place in kept}
        packets[role] = Packet(kept, rewrites)
    return _rewritten(draft.meta, packets, audit.rewrites)


def _rewritten(
    meta: ScenarioMeta, packets: dict[PacketRole, Packet], rewrites: Iterable[Rewrite]
) -> Draft:
    for rewrite in rewrites:
        packet = packets[rewrite.role]
        own = {**packet.rewrites, (rewrite.document, rewrite.line): rewrite.text}
        packets[rewrite.role] = Packet(packet.kept, own)
    return Draft(meta, packets)


def rewrite_faults(article: Article, draft: Draft) -> list[str]:
    """Return rewrites of lines that a role does not keep, and those that bring in other words."""
    stated = filter(None, msgspec.structs.astuple(draft.meta))
    allowed = set(folded(" ".join(stated)).split())
    faults: list[str] = []
    for role, packet in draft.packets.items():
        for place, text in packet.rewrites.items():
            name = f"the rewrite of line {place[1]} of {place[0]!r} for the {role}"
            if place not in packet.kept:
                faults.append(f"{name}: the {role} does not keep that line")
            elif len(text.splitlines()) > 1:
                faults.append(f"{name} has more than one line")
            elif new := _new_words(article.line(place), text, allowed):
                faults.append(
                    f"{name} brings in {', '.join(map(repr, new[:5]))}: a rewrite only takes words "
                    "away, in their order, or repeats the scenario's metadata"
                )
    return faults


def _new_words(source: str, text: str, allowed: set[str]) -> list[str]:
    """Return the words of a rewrite that are neither in the source's order nor allowed."""
    words, at = folded(source).split(), 0
    new: list[str] = []
    for word in folded(text).split():
        if word in words[at:]:
            at = words.index(word, at) + 1
        elif word not in allowed:
            new.append(word)
    return new


def copy_of(document: Document, packet: Packet) -> str:
    """Return what a role keeps of a document; a blank line where something is left out."""
    shown: list[str] = []
    before = 0
    for number, line in enumerate(document.lines, 1):
        place = (document.name, number)
        if place not in packet.kept:
            continue
        if shown and number > before + 1:
            shown.append("")
        shown.append(packet.rewrites.get(place, line))
        before = number
    text = "\n".join(shown).strip("\n")
    return text if text.strip() else ""


def text_of(article: Article, packet: Packet) -> str:
    """Return all that a role keeps, under the names of its documents."""
    copies = ((d.copy_name, copy_of(d, packet)) for d in article.documents)
    return "\n\n".join(f"# {name}\n\n{text}" for name, text in copies if text)


def diff_of(document: Document, packet: Packet, role: PacketRole) -> str:
    """Return what a copy leaves out and rewrites, as a unified diff from the source."""
    copied = copy_of(document, packet).splitlines()
    lines = difflib.unified_diff(
        document.lines, copied, f"source/{document.copy_name}", f"{role}/{document.copy_name}", n=0
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def shared_with_evaluator(article: Article, draft: Draft) -> list[Place]:
    """Return the longer lines that the clinician keeps and the evaluator, too."""
    both = draft.packets["clinician"].kept & draft.packets["evaluator"].kept
    return [place for place in sorted(both) if len(article.line(place).split()) >= _LONG_LINE]
