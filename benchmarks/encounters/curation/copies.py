"""Copies of the source for each role, built line by line: a scenario on its way."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from medhelm_benchmarks.encounters.curation.forms import (
    Audit,
    Lines,
    Partition,
    Rewrite,
    ScenarioMeta,
)
from medhelm_benchmarks.encounters.curation.sources import Article, Document, Place
from medhelm_benchmarks.encounters.data.layout import PACKET_ROLES, PacketRole
from medhelm_benchmarks.encounters.matches import folded

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
