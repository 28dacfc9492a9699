"""Copies of the source for each role, built line by line, and the checks that they are nothing else."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from medhelm_benchmarks.encounters.curation.forms import (
    Audit,
    Draft,
    Lines,
    Packet,
    Partition,
    Place,
    Rewrite,
    ScenarioMeta,
)
from medhelm_benchmarks.encounters.curation.sources import Article, Document
from medhelm_benchmarks.encounters.data.layout import PACKET_ROLES, PacketRole
from medhelm_benchmarks.encounters.matches import folded

_LONG_LINE = 6
"""Words from which a line that two roles keep is worth a second look."""


def range_faults(article: Article, ranges: Iterable[Lines]) -> list[str]:
    """Return what is wrong with lines that a reply names."""
    faults: list[str] = []
    for lines in ranges:
        document = article.document(lines.document)
        if document is None:
            known = ", ".join(repr(d.name) for d in article.documents)
            faults.append(f"there is no document {lines.document[:80]!r}, only {known}")
        elif not lines.first <= lines.last <= len(document.lines):
            faults.append(
                f"lines {lines.first} to {lines.last} of {document.name!r}: it has lines 1 to "
                f"{len(document.lines)}"
            )
    return list(dict.fromkeys(faults))


def places(ranges: Iterable[Lines]) -> frozenset[Place]:
    """Return single lines of ranges."""
    return frozenset((r.document, n) for r in ranges for n in range(r.first, r.last + 1))


def draft_of(meta: ScenarioMeta, partition: Partition) -> Draft:
    """Return the scenario that a partition makes."""
    own = {role: places(getattr(partition, role)) for role in PACKET_ROLES}
    packets = {role: Packet(kept) for role, kept in own.items()}
    return _rewritten(Draft(meta, packets), partition.rewrites)


def audited(draft: Draft, audit: Audit) -> Draft:
    """Return the scenario after its audit. The evaluator's packet stays as it is."""
    packets = dict(draft.packets)
    for role in PACKET_ROLES[:-1]:
        gone = places(cut.lines for cut in audit.remove if cut.role == role)
        kept = packets[role].kept - gone
        if role == "patient":
            kept |= places(audit.restore_for_patient)
        rewrites = {place: text for place, text in packets[role].rewrites.items() if place in kept}
        packets[role] = Packet(kept, rewrites)
    return _rewritten(Draft(draft.meta, packets), audit.rewrites)


def _rewritten(draft: Draft, rewrites: Iterable[Rewrite]) -> Draft:
    packets = dict(draft.packets)
    for rewrite in rewrites:
        packet = packets[rewrite.role]
        own = {**packet.rewrites, (rewrite.document, rewrite.line): rewrite.text}
        packets[rewrite.role] = Packet(packet.kept, own)
    return Draft(draft.meta, packets)


def rewrite_faults(article: Article, draft: Draft) -> list[str]:
    """Return rewrites of lines that a role does not keep, and those that bring in other words."""
    said = " ".join(filter(None, map(str, _values(draft.meta))))
    allowed = set(folded(said).split())
    faults: list[str] = []
    for role, packet in draft.packets.items():
        for place, text in packet.rewrites.items():
            name = f"the rewrite of line {place[1]} of {place[0]!r} for the {role}"
            document = article.document(place[0])
            if place not in packet.kept or document is None:
                faults.append(f"{name}: the {role} does not keep that line")
            elif len(text.splitlines()) > 1:
                faults.append(f"{name} has more than one line")
            elif new := _new_words(document.lines[place[1] - 1], text, allowed):
                faults.append(
                    f"{name} brings in {', '.join(map(repr, new[:5]))}: a rewrite only takes words "
                    "away, in their order, or repeats the scenario's metadata"
                )
    return faults


def _values(meta: ScenarioMeta) -> Iterator[str | None]:
    for name in meta.__struct_fields__:
        yield getattr(meta, name)


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


def strange_lines(document: Document, packet: Packet, copy: str) -> list[int]:
    """Return the numbers of a copy's lines that are neither in its source nor a logged rewrite."""
    known = {line.rstrip() for line in document.lines} | {""}
    known |= {t.rstrip() for place, t in packet.rewrites.items() if place[0] == document.name}
    return [n for n, line in enumerate(copy.splitlines(), 1) if line.rstrip() not in known]


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
    texts: list[tuple[Place, Sequence[str]]] = []
    for place in sorted(both):
        document = article.document(place[0])
        assert document is not None  # ranges are checked before
        texts.append((place, document.lines[place[1] - 1].split()))
    return [place for place, words in texts if len(words) >= _LONG_LINE]
