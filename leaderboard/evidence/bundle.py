"""The folder of a report: its files, the manifest that signs them, its description for archives, its check."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from medhelm import __version__
from medhelm.errors import RecordError, UsageError
from medhelm.files.durable import why
from medhelm.plugins.registry import Registry
from medhelm.store.records import find_gradings
from medhelm.tables.format import formats
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard.evidence.checklists import checklists
from medhelm_leaderboard.evidence.facts import known_facts, run_facts
from medhelm_leaderboard.evidence.gather import Asked, Evidence, gather
from medhelm_leaderboard.evidence.page import render, shown_sections

MANIFEST = "manifest.json"
CRATE = "ro-crate-metadata.json"
_PAGE = "index.html"
_KINDS = {"html": "text/html", "csv": "text/csv", "json": "application/json"}
_PROFILE = "https://w3id.org/ro/crate/1.1"
_BLOCK = 1 << 20


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a run that a report rests on."""

    folder: str
    """Of the grading, below the results folder."""
    request_hash: str
    grading_hash: str
    files: dict[str, str]
    """Path below the run's folder -> sha256."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json`."""

    schema: Literal["medhelm.evidence/1"] = "medhelm.evidence/1"
    medhelm: str
    model: str
    files: dict[str, str]
    """Path below the folder -> sha256; all files but this one."""
    runs: tuple[StoredRun, ...]


def write_report(asked: Asked, registry: Registry, out: Path, command: str) -> Evidence:
    """Write the folder of a report, or write it anew; raises UsageError, UnknownName, RecordError."""
    before = _manifest(out) if out.exists() else None
    if before is None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} holds other files and no {MANIFEST}; name an empty folder with -o")
    evidence = gather(asked, registry)
    files = {name: content.encode() for name, content in _files(evidence, command)}
    files[CRATE] = _encoded({"@context": _context(), "@graph": [*_graph(evidence, files)]})
    manifest = Manifest(
        medhelm=__version__,
        model=evidence.model,
        files={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        runs=tuple(_stored(run) for run in (*evidence.runs, *evidence.forms)),
    )
    for name in {*(before.files if before else ())} - {*files}:
        if name in _found(out):
            (out / name).unlink()
    for name, content in {**files, MANIFEST: _encoded(manifest)}.items():
        formats.write(out / name, content)
    return evidence


def _encoded(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _files(evidence: Evidence, command: str) -> Iterator[tuple[str, str]]:
    known = known_facts(evidence)
    lists = [*checklists(known, shown_sections(evidence))]
    yield _PAGE, render(evidence, known, lists, command)
    gate = [evidence.verdict] if evidence.verdict else []
    tables = [table for own in evidence.tables.values() for table in own]
    for table in (*tables, *gate, *lists):
        name = re.sub(r"[^\w-]", "_", table.name)
        yield f"tables/{name}.csv", formats.to_csv(table)
        yield f"tables/{name}.json", formats.to_json(table)
    runs = [
        {"benchmark": record.spec.column, "state": record.state, **run_facts(record)}
        for record in evidence.records
    ]
    yield "runs.json", _encoded(runs).decode()


def _stored(run: GradedRun) -> StoredRun:
    folder = run.path.parents[1]
    own = [folder / "spec.json", folder / "responses.jsonl"]
    own += sorted(folder.glob("judges/*/responses.jsonl"))
    own += sorted(folder.glob("graders/*/responses.jsonl"))
    own += [run.path / "summary.json", run.path / "scores.parquet"]
    return StoredRun(
        folder=run.folder,
        request_hash=run.record.request_hash,
        grading_hash=run.record.grading_hash,
        files={p.relative_to(folder).as_posix(): sha256_of(p) for p in own if p.is_file()},
    )


def sha256_of(path: Path) -> str:
    """Return the hash of a file; raises RecordError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as e:
        raise RecordError(f"cannot read {path}: {why(e)}") from None


# Check -----------------------------------------------------------------------------------------


def verify(folder: Path, results: Path) -> tuple[str, list[str], list[str]]:
    """Return the sha256 of a folder's manifest, what has changed since it was written, and what cannot be told.

    Raises UsageError where there is no report.
    """
    manifest = _manifest(folder)
    if manifest is None:
        raise UsageError(f"{folder} holds no report: there is no {MANIFEST}")
    there = _found(folder)
    changed = [f"{name} is missing" for name in sorted({*manifest.files} - {*there})]
    changed += [f"{name} was added" for name in sorted({*there} - {*manifest.files})]
    changed += [
        f"{name} was changed"
        for name, known in sorted(manifest.files.items())
        if name in there and sha256_of(there[name]) != known
    ]
    gradings = {p.relative_to(results).as_posix(): p for p in find_gradings(results)}
    untold = []
    for run in manifest.runs:
        if run.folder not in gradings:
            untold.append(f"{run.folder} is not in {results}")
            continue
        own = _found(gradings[run.folder].parents[1])
        for name, known in sorted(run.files.items()):
            if name not in own:
                changed.append(f"the run {run.folder}: {name} is missing")
            elif sha256_of(own[name]) != known:
                changed.append(f"the run {run.folder}: {name} was changed")
    return sha256_of(folder / MANIFEST), changed, untold


def _found(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their paths in it, without the manifest."""
    every = (path for path in sorted(folder.rglob("*")) if path.is_file() or path.is_symlink())
    found = {path.relative_to(folder).as_posix(): path for path in every}
    return {name: path for name, path in found.items() if name != MANIFEST}


def _manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder, None where there is none; raises RecordError where it is damaged."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise RecordError(f"cannot read {folder / MANIFEST}: {why(e)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RecordError(f"{folder / MANIFEST} is damaged, or of another version") from None


# Description for archives ----------------------------------------------------------------------


def _context() -> list[Any]:
    return [f"{_PROFILE}/context", {"sha256": "http://schema.org/sha256"}]


def _graph(evidence: Evidence, files: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    """Yield the entities of the RO-Crate: the folder, its files, the benchmarks, the runs, the software."""
    runs = [run_facts(record) for record in evidence.records]
    dates = [own[name] for own in runs for name in ("graded_at", "answered_until") if name in own]
    names = [record.spec.column for record in evidence.records]
    titles = ", ".join(record.column_card.title for record in evidence.records)
    yield {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": _ref(_PROFILE),
        "about": _ref("./"),
    }
    yield {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Evidence on {evidence.model}",
        "description": f"Evaluation of the language model {evidence.model} on medical work: {titles}.",
        "datePublished": max(dates, default="1970-01-01")[:10],
        "license": _ref("#licence"),
        "hasPart": [_ref(quote(name)) for name in (*files, MANIFEST)],
        "mentions": [_ref(_id("benchmark", name)) for name in names]
        + [_ref(_id("run", name)) for name in names],
    }
    yield {
        "@id": "#licence",
        "@type": "CreativeWork",
        "name": "Not stated",
        "description": "Who hands this folder on states its licence. Texts of a benchmark stay under "
        "the benchmark's own.",
    }
    for name in (*files, MANIFEST):
        known = {"sha256": hashlib.sha256(files[name]).hexdigest()} if name in files else {}
        size = {"contentSize": str(len(files[name]))} if name in files else {}
        kind = _KINDS[name.rpartition(".")[2]]
        yield {
            "@id": quote(name),
            "@type": "File",
            "name": name,
            "encodingFormat": kind,
            **size,
            **known,
        }
    yield {
        "@id": "#medhelm",
        "@type": "SoftwareApplication",
        "name": "medhelm",
        "softwareVersion": __version__,
    }
    for record, own in zip(evidence.records, runs, strict=True):
        card, spec = record.column_card, record.spec
        yield {
            "@id": _id("benchmark", card.name),
            "@type": "CreativeWork",
            "name": card.title,
            "identifier": f"sha256:{spec.dataset_sha256}",
            "version": spec.benchmark_version,
            "conditionsOfAccess": f"{card.data_class}; licence: {card.licence or 'not stated'}",
            **({"citation": card.citation} if card.citation else {}),
        }
        yield {
            "@id": _id("run", card.name),
            "@type": "CreateAction",
            "name": f"{evidence.model} on {card.title}",
            "description": own["command"],
            "instrument": _ref("#medhelm"),
            "object": _ref(_id("benchmark", card.name)),
            "result": _ref("./"),
            **{to: own[of] for to, of in _TIMES.items() if own.get(of)},
        }


_TIMES = {"startTime": "answered_from", "endTime": "answered_until"}


def _ref(name: str) -> dict[str, str]:
    return {"@id": name}


def _id(kind: str, name: str) -> str:
    return f"#{kind}-{quote(name, safe='')}"
