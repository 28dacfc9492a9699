"""The description of a report for archives: RO-Crate 1.1 metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from medhelm import __version__
from medhelm_leaderboard.evidence.gather import Evidence

CRATE = "ro-crate-metadata.json"
_PROFILE = "https://w3id.org/ro/crate/1.1"
_KINDS = {"html": "text/html", "csv": "text/csv", "json": "application/json"}
_LICENCE = "Who hands this folder on states its licence. Texts of a benchmark stay under the benchmark's own."


def describe(evidence: Evidence, files: Mapping[str, bytes], *others: str) -> dict[str, Any]:
    """Return the metadata: the folder, its files (of `others` the names alone), the software, the benchmarks."""
    cards = [record.column_card for record in evidence.records]
    made = [record.provenance.get("graded_at", "") for record in evidence.records]
    parts = [_file(name, files.get(name, b"")) for name in (*files, *others)]
    benchmarks = [
        _entity(f"#{quote(c.name, safe='')}", "CreativeWork", name=c.title, citation=c.citation)
        for c in cards
    ]
    root = {
        "name": f"Evidence on {evidence.model}",
        "description": f"An evaluation on medical work: {', '.join(card.title for card in cards)}.",
        "datePublished": max(made)[:10] or "1970-01-01",  # of the runs: the same bytes again
        "license": {"@id": "#licence"},
        "hasPart": [{"@id": part["@id"]} for part in parts],
        "mentions": [{"@id": own["@id"]} for own in benchmarks],
    }
    by = {"instrument": {"@id": "#medhelm"}, "result": {"@id": "./"}}
    graph = [
        _entity(CRATE, "CreativeWork", conformsTo={"@id": _PROFILE}, about={"@id": "./"}),
        _entity("./", "Dataset", **root),
        _entity("#licence", "CreativeWork", name="Not stated", description=_LICENCE),
        _entity("#medhelm", "SoftwareApplication", name="medhelm", softwareVersion=__version__),
        _entity("#made", "CreateAction", **by),
    ]
    terms = [f"{_PROFILE}/context", {"sha256": "http://schema.org/sha256"}]
    return {"@context": terms, "@graph": [*graph, *parts, *benchmarks]}


def _entity(place: str, kind: str, /, **more: Any) -> dict[str, Any]:
    return {"@id": place, "@type": kind, **{key: value for key, value in more.items() if value}}


def _file(name: str, content: bytes) -> dict[str, Any]:
    known = {"name": name, "encodingFormat": _KINDS[name.rpartition(".")[2]]}
    size = str(len(content)) if content else ""
    sha256 = hashlib.sha256(content).hexdigest() if content else ""
    return _entity(quote(name), "File", **known, contentSize=size, sha256=sha256)
