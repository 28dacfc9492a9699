"""Prompts of curation, each made from what its phase may see.

phase      sees
triage     all documents of the article
partition  the documents, the metadata of one scenario
audit      the documents, the metadata, and what each role keeps
rubric     the evaluator's packet alone
leaks      the clinician's packet and the items alone
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from medhelm import Message
from medhelm_benchmarks.encounters.curation.drafts import Draft, copy_of
from medhelm_benchmarks.encounters.curation.sources import Article, Place
from medhelm_benchmarks.encounters.data.layout import PACKET_ROLES
from medhelm_benchmarks.encounters.packets import RubricItem
from medhelm_benchmarks.encounters.prompts import prompt_text

PROMPT_VERSION = "1"


def messages(phase: str, *parts: str) -> tuple[Message, ...]:
    """Return what a phase is sent."""
    return Message("system", prompt_text(phase)), Message("user", "\n\n".join(parts))


def leak_messages(
    article: Article, draft: Draft, items: Sequence[RubricItem]
) -> tuple[Message, ...]:
    """Return what the judge of leaks is sent."""
    copies = [copy_of(document, draft.packets["clinician"]) for document in article.documents]
    lines = "\n".join(filter(None, copies)).splitlines()
    briefing = _document("briefing", [f"{n}| {line}" for n, line in enumerate(lines, 1)])
    listed = "\n".join(f"{n}. {' '.join(item.text.split())}" for n, item in enumerate(items, 1))
    return messages("leaks", briefing, f"Items:\n{listed}")


def kept(draft: Draft) -> Iterator[str]:
    """Yield what each role keeps."""
    for role in PACKET_ROLES:
        kept = sorted(draft.packets[role].kept)
        by_document = {name: [n for d, n in kept if d == name] for name, _ in kept}
        shown = "; ".join(f"{name}: {_ranges(ns)}" for name, ns in by_document.items())
        yield f"The {role} keeps {shown}."
        for (name, line), text in draft.packets[role].rewrites.items():
            yield f"For the {role} line {line} of {name} reads: {text}"


def documents(article: Article, places: Collection[Place] | None = None) -> str:
    """Return the documents with numbered lines; of `places`, those lines alone."""
    shown = (
        (
            d.name,
            [
                f"{n}| {x}"
                for n, x in enumerate(d.lines, 1)
                if places is None or (d.name, n) in places
            ],
        )
        for d in article.documents
    )
    return "\n\n".join(_document(name, lines) for name, lines in shown if lines)


def _document(name: str, lines: Sequence[str]) -> str:
    return "\n".join((f"Document {name}:", *lines, f"End of {name}."))


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: 1-3, 7."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
