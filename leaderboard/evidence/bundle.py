"""The folder of a report: its files, the manifest that signs them, and its check."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from medhelm import __version__
from medhelm.data.sources import hash_file
from medhelm.errors import RecordError, UsageError
from medhelm.files.durable import os_errors_as
from medhelm.store.records import find_gradings
from medhelm.tables.format import formats
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard.evidence.facts import run_facts
from medhelm_leaderboard.evidence.gather import Evidence
from medhelm_leaderboard.evidence.page import render

MANIFEST = "manifest.json"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json`."""

    schema: Literal["medhelm.evidence/1"] = "medhelm.evidence/1"
    medhelm: str
    model: str
    files: dict[str, str]
    """Path below the folder -> sha256; all files but this one."""
    runs: dict[str, dict[str, str]]
    """Folder of a grading below the results folder -> path below its run's folder -> sha256."""


def write_report(evidence: Evidence, out: Path, command: str) -> None:
    """Write the folder of a report, or write it anew; raises UsageError, RecordError."""
    before = _manifest(out)
    if before is None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} holds other files and no {MANIFEST}; name an empty folder with -o")
    page, lists = render(evidence, command)
    own = [{"benchmark": r.spec.column, "state": r.state, **run_facts(r)} for r in evidence.records]
    files = {"index.html": page.encode(), "runs.json": _encoded(own)}
    for table in (*evidence.tables.values(), *lists):
        name = re.sub(r"[^\w-]", "_", table.name)
        files[f"tables/{name}.csv"] = formats.to_csv(table).encode()
        files[f"tables/{name}.json"] = formats.to_json(table).encode()
    files[CRATE] = _encoded(describe(evidence, files, MANIFEST))
    manifest = Manifest(
        medhelm=__version__,
        model=evidence.model,
        files={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        runs={run.folder: _stored(run) for run in (*evidence.runs, *evidence.forms)},
    )
    there = _found(out)
    for name in {*(before.files if before else ())} & {*there} - {*files}:
        there[name].unlink()
    for name, content in {MANIFEST: _encoded(manifest), **files}.items():
        formats.write(out / name, content)


def _encoded(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _stored(run: GradedRun) -> dict[str, str]:
    folder = run.run_folder
    own = [folder / "spec.json", run.path / "summary.json", run.path / "scores.parquet"]
    own += [folder / "responses.jsonl", *sorted(folder.glob("*/*/responses.jsonl"))]
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in own if path.is_file()}


def sha256_of(path: Path) -> str:
    """Return the hash of a file; raises RecordError."""
    with os_errors_as(RecordError, f"cannot read {path}"):
        return hash_file(path)


def verify(folder: Path, results: Path) -> tuple[list[str], list[str]]:
    """Return what has changed since a report was written, and which of its runs are not in a results folder.

    Raises UsageError where there is no report.
    """
    manifest = _manifest(folder)
    if manifest is None:
        raise UsageError(f"{folder} holds no report: there is no {MANIFEST}")
    gradings = {p.relative_to(results).as_posix(): p for p in find_gradings(results)}
    there, runs = _found(folder), sorted(manifest.runs)
    every = [("", manifest.files, there)]
    every += [
        (f"the run {run}: ", manifest.runs[run], _found(gradings[run].parents[1]))
        for run in runs
        if run in gradings
    ]
    changed = [
        f"{of}{name} {'was changed' if name in own else 'is missing'}"
        for of, files, own in every
        for name, known in sorted(files.items())
        if name not in own or sha256_of(own[name]) != known
    ]
    changed += [f"{name} was added" for name in there if name not in manifest.files]
    return changed, [f"{run} is not in {results}" for run in runs if run not in gradings]


def _found(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their paths in it, without the manifest."""
    every = (path for path in sorted(folder.rglob("*")) if path.is_file() or path.is_symlink())
    return {p.relative_to(folder).as_posix(): p for p in every if p != folder / MANIFEST}


def _manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder, None where there is none; raises RecordError where it is damaged."""
    path = folder / MANIFEST
    with os_errors_as(RecordError, f"cannot read {path}"):
        content = path.read_bytes() if path.exists() else None
    try:
        return None if content is None else msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RecordError(f"{path} is damaged, or of another version") from None


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
