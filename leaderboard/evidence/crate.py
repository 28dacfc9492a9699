"""The description of a report for archives: RO-Crate 1.1 metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from medhelm import __version__
from medhelm_leaderboard.evidence.facts import run_facts
from medhelm_leaderboard.evidence.gather import Evidence

CRATE = "ro-crate-metadata.json"
_PROFILE = "https://w3id.org/ro/crate/1.1"
_KINDS = {"html": "text/html", "csv": "text/csv", "json": "application/json"}
_LICENCE = "Who hands this folder on states its licence. Texts of a benchmark stay under the benchmark's own."


def describe(evidence: Evidence, files: Mapping[str, bytes], *others: str) -> dict[str, Any]:
    """Return the metadata: the folder, its files (of `others` the names alone), the software, the benchmarks."""
    runs, cards = [*map(run_facts, evidence.records)], [r.column_card for r in evidence.records]
    dates = [own[n] for own in runs for n in ("graded_at", "answered_until") if own.get(n)]
    parts = [_file(name, files.get(name)) for name in (*files, *others)]
    benchmarks = [
        _entity(
            f"#{quote(card.name, safe='')}", "CreativeWork", name=card.title, citation=card.citation
        )
        for card in cards
    ]
    root = {
        "name": f"Evidence on {evidence.model}",
        "description": f"An evaluation on medical work: {', '.join(card.title for card in cards)}.",
        "datePublished": max(dates, default="1970-01-01")[:10],  # of the runs: the same bytes again
        "license": _ref("#licence"),
        "hasPart": [_ref(part["@id"]) for part in parts],
        "mentions": [_ref(own["@id"]) for own in benchmarks],
    }
    graph = [
        _entity(CRATE, "CreativeWork", conformsTo=_ref(_PROFILE), about=_ref("./")),
        _entity("./", "Dataset", **root),
        _entity("#licence", "CreativeWork", name="Not stated", description=_LICENCE),
        _entity("#medhelm", "SoftwareApplication", name="medhelm", softwareVersion=__version__),
        _entity("#made", "CreateAction", instrument=_ref("#medhelm"), result=_ref("./")),
    ]
    terms = [f"{_PROFILE}/context", {"sha256": "http://schema.org/sha256"}]
    return {"@context": terms, "@graph": [*graph, *parts, *benchmarks]}


def _ref(name: str) -> dict[str, str]:
    return {"@id": name}


def _entity(place: str, kind: str, /, **more: Any) -> dict[str, Any]:
    return {"@id": place, "@type": kind, **{key: value for key, value in more.items() if value}}


def _file(name: str, content: bytes | None) -> dict[str, Any]:
    known = {"name": name, "encodingFormat": _KINDS[name.rpartition(".")[2]]}
    if content is not None:
        known |= {"contentSize": str(len(content)), "sha256": hashlib.sha256(content).hexdigest()}
    return _entity(quote(name), "File", **known)
