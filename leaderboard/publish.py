"""Decide what may be published of a run: the one border between results and the site.

Text of instances, prompts, answers, judges' replies and their reasons is published of benchmarks
only whose data are public and redistributable. Of all others: scores, outcomes and hashes. Of a model's settings
what decides its answers, but no address, no file path and no text: a system prompt or an extra
field of the request may hold what only its owner should read.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np

from medhelm.errors import RecordError
from medhelm.files.durable import AtomicFile, os_errors_as
from medhelm.files.plain_names import metric_name as metric_name
from medhelm.files.plain_names import plain_name as plain_name
from medhelm.schema.asking import Asking
from medhelm.schema.data import MADE_BY, SPECIALTY, VALIDATION, DataClass
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import (
    BenchmarkCard,
    GraderTerms,
    JuryTerms,
    Party,
    RunRecord,
    RunSpec,
    UsageTotals,
    fields_of,
)
from medhelm.schema.score import Scoring
from medhelm.store.kept_fidelity import KeptFidelity, of_graders
from medhelm.store.records import grader_hash
from medhelm.tables.format.table import Settings, Table, Value
from medhelm.tables.published import PublishedRuns
from medhelm.tables.results import Results
from medhelm.tables.study.cells import Cell, Keys, MetricScores, metadata_of
from medhelm.tables.study.selection import GradedRun
from medhelm.tables.study.study import Study
from medhelm_leaderboard import own_words
from medhelm_leaderboard.pages import Content

KEY_FILE = "publishing.key"
"""A file in the results folder, without which nobody can find an instance by its published hash."""

_PROVENANCE = re.compile(
    r"version\.[\w.-]+|git_commit|graded_at|answered_(from|until)|machine|grading_seconds"
    r"|answer_seconds|asked_again|not_judged|damaged_verdict_lines|server\..+"
)
_KEY_BYTES = 32
LEAST_CASES = 5
"""Instances of public data that share a specialty, from which on it is a number and no text."""
NO_METADATA = "metadata in a scores.parquet cannot be read; `medhelm score` writes it"


def has_text(card: BenchmarkCard) -> bool:
    """Return whether texts of a benchmark's instances may be published."""
    return card.data_class == "public" and card.redistributable


def why_closed(record: RunRecord) -> str:
    """Return why no text of a run's instances may be published; empty where it may be."""
    if has_text(record.card):
        return ""
    if record.card.data_class != "public":
        return f"The data are {record.card.data_class}"
    is_sample = record.spec.data == "sample"
    more = ", or words or files of the user's went into a run on them" if is_sample else ""
    return f"The data are not declared redistributable{more}"


def instruction(card: BenchmarkCard) -> str | None:
    """Return the instruction of a benchmark; None where the data behind it are not public."""
    return card.instruction if card.data_class == "public" else None


def benchmark_line(card: BenchmarkCard) -> Content:
    """Return what every page is told of a benchmark."""
    return {
        **fields_of(card, "name", "title", "category", "subcategory"),
        "access": card.data_class,
        "has_text": has_text(card),
        "tasks": card.tasks,
    }


def strictest(runs: Iterable[GradedRun], samples: Mapping[str, str]) -> list[GradedRun]:
    """Return the runs with the strictest class of data that any run of their benchmark states.

    A benchmark that was public by mistake stays closed while runs of both kinds are stored. Its text may be
    shown where that of each run on samples, or else of each on full data, may be. `samples`: by benchmark the
    hash of medhelm's own ones.
    """
    runs, order = list(runs), get_args(DataClass)
    cards, free = defaultdict(list), defaultdict(list)
    for run in runs:
        name, spec = run.record.card.name, run.record.spec
        cards[name].append(run.record.card.data_class)
        is_ours = samples.get(name) == spec.dataset_sha256 and own_words.has_none(run.record)
        free[name, spec.data].append(run.record.card.redistributable or is_ours)
    found, change = [], msgspec.structs.replace
    for run in runs:
        name = run.record.card.name
        strict = max(cards[name], key=order.index)
        is_free = all(free[name, run.record.spec.data])
        card = change(run.record.card, data_class=strict, redistributable=is_free)
        found.append(replace(run, record=change(run.record, card=card)))
    return found


def named(run: GradedRun) -> GradedRun:
    """Return a run whose metrics bear the names that are published."""
    record = run.record
    if all(metric_name(m.name) == m.name for m in record.grading.metrics):
        return run
    change = msgspec.structs.replace
    metrics = tuple(change(m, name=metric_name(m.name)) for m in record.grading.metrics)
    results = tuple(change(r, metric=metric_name(r.metric)) for r in record.results)
    grading = change(record.grading, metrics=metrics)
    return replace(run, record=change(record, grading=grading, results=results))


def agreement(table: Table, results: Path) -> Table:
    """Return the table of agreement without notes that name folders of this machine."""
    paths = {str(results), str(results.resolve())}
    rows = tuple({**row, "measure": metric_name(str(row["measure"]))} for row in table.rows)
    notes = tuple(n for n in table.notes if not any(path in n for path in paths))
    return replace(table, rows=rows, notes=notes)


def runs(
    scoring: Scoring, results: Results, settings: Settings, kept: Mapping[str, KeptFidelity]
) -> PublishedRuns:
    """Return the runs under one scoring as a page of a plugin may read them."""
    raw = results.study(settings)
    cells = {(b, m): cell for b, own in raw.cells.items() for m, cell in own.items()}
    closed = frozenset(b for b, panel in raw.panels.items() if not has_text(panel.card))
    places = {b: _places(raw.cells[b].values()) for b in closed}
    shown = {key: _stripped(cell, places.get(key[0])) for key, cell in cells.items()}

    def metadata(cell: Cell) -> Mapping[int, Mapping[str, str]]:
        benchmark = cell.run.benchmark
        try:
            found = metadata_of(cells[benchmark, cell.run.model])
        except RecordError:  # whose message names a path
            raise RecordError(NO_METADATA) from None
        if benchmark not in closed:
            return found
        scored = {key: place for place, key in enumerate(places[benchmark].tolist())}
        others = enumerate((key for key in found if key not in scored), start=len(scored))
        at = scored | {key: place for place, key in others}
        is_public = raw.panels[benchmark].card.data_class == "public"
        sizes = Counter(tags.get(SPECIALTY, "") for tags in found.values() if is_public)
        named = {name for name, n in sizes.items() if name and n >= LEAST_CASES}
        return {at[key]: _closed_metadata(tags, named) for key, tags in found.items()}

    study = Study(shown.values(), settings)
    asked = {b: _asked(own.values()) for b, own in raw.cells.items()}
    fidelity = {b: of_graders(kept.get(b), judges) for b, judges in asked.items()}
    return PublishedRuns(
        scoring=scoring,
        study=study,
        metadata=metadata,
        closed=closed,
        fidelity={b: found for b, found in fidelity.items() if found},
    )


def _asked(cells: Iterable[Cell]) -> set[tuple[str, str]]:
    """Return the judges of the graders of some runs, each with the hash of how it was asked."""
    return {
        (judge.name, grader_hash(judge, terms))
        for cell in cells
        for terms in cell.record.grading.graders
        for judge in terms.jury.judges
    }


def _closed_metadata(tags: Mapping[str, str], specialties: Collection[str]) -> dict[str, str]:
    """Return what may be known of a closed instance: that experts validated it, which models made it."""
    found = {VALIDATION: ""} if VALIDATION in tags else {}
    if (specialty := tags.get(SPECIALTY, "")) in specialties:
        found[SPECIALTY] = specialty
    if MADE_BY in tags:
        found[MADE_BY] = ", ".join(map(plain_name, tags[MADE_BY].split(", ")))
    return found


def _places(cells: Iterable[Cell]) -> Keys:
    """Return every key of an instance or cluster of a benchmark, sorted: its place takes its place."""
    keys = [k for c in cells for s in c.scores.values() for k in (s.ids, s.clusters)]
    return np.unique(np.concatenate(keys))


def _stripped(cell: Cell, places: Keys | None) -> Cell:
    """Return a cell without folder, endpoint and texts; with places as keys where it is closed.

    A key is a hash of an id, which can be found by trying all record numbers. The order is kept, so
    that every number stays the same.
    """
    record, change = named(cell.run).record, msgspec.structs.replace
    spec = record.spec
    card = change(record.card, plugin="")
    if card.data_class != "public":
        card = change(card, instruction="", source="")
    grading = record.grading
    if grading.jury is not None:
        grading = change(grading, jury=_stripped_jury(grading.jury, card))
    reader = grading.reader and _stripped_terms(grading.reader)
    grading = change(grading, graders=tuple(map(_stripped_terms, grading.graders)), reader=reader)
    stripped = RunRecord(  # field by field, here and below, so that a new one stays unknown
        spec=RunSpec(
            **fields_of(spec, "benchmark", "benchmark_version", "data", "split", "dataset_sha256"),
            **fields_of(spec, "prompt_name", "prompt_version", "prompt_sha256"),
            **fields_of(spec, "max_output_tokens", "repeats", "seed", "max_instances"),
            **fields_of(spec, "protocol", "protocol_version"),
            model=_stripped_model(spec.model),
            cast={role: _stripped_model(model) for role, model in spec.cast.items()},
            settings={k: v for k, v in spec.settings.items() if isinstance(v, bool | int | float)},
            asking=_stripped_asking(spec.asking),
        ),
        **fields_of(record, "request_hash", "grading_hash", "state", "instances", "results"),
        **fields_of(record, "controls"),
        grading=grading if has_text(card) else change(grading, parts=()),
        card=card,
        left_out=record.left_out if has_text(card) else {},
        parties=tuple(map(_stripped_party, record.parties)),
        provenance=dict(provenance(record)),
    )
    run = replace(cell.run, path=Path(cell.run.folder), record=stripped)
    if places is None:
        return Cell(run, cell.scores)
    return Cell(run, {name: _placed(own, places) for name, own in cell.scores.items()})


def _stripped_terms(terms: GraderTerms) -> GraderTerms:
    change = msgspec.structs.replace
    jury = change(terms.jury, judges=tuple(map(_stripped_model, terms.jury.judges)))
    return change(terms, jury=jury, settings=own_words.settings_of(terms))


def _stripped_party(party: Party) -> Party:
    model, served = _stripped_model(party.model), _served(party.served_models)
    return msgspec.structs.replace(party, model=model, served_models=served, served_at={})


def _stripped_model(model: ModelSpec) -> ModelSpec:
    return ModelSpec(
        **fields_of(model, "name", "provider", "family", "endpoint_class", "weights", "reasoning"),
        **fields_of(model, "max_output_tokens", "context_window", "json_schema", "price"),
        model=plain_name(model.model) if model.model else "",
        sampling=msgspec.structs.replace(model.sampling, stop=()),
    )


def _stripped_jury(terms: JuryTerms, card: BenchmarkCard) -> JuryTerms:
    change = msgspec.structs.replace
    judges = tuple(map(_stripped_model, terms.jury.judges))
    rubric = terms.rubric
    if card.data_class != "public":
        criteria = tuple(change(c, text="") for c in rubric.criteria)
        rubric = change(rubric, task="", criteria=criteria, reference="")
    return change(terms, jury=change(terms.jury, judges=judges), rubric=rubric, instruction="")


def _placed(scores: MetricScores, places: Keys) -> MetricScores:
    ids = np.searchsorted(places, scores.ids).astype(np.uint64)
    is_own = scores.clusters is scores.ids
    clusters = ids if is_own else np.searchsorted(places, scores.clusters).astype(np.uint64)
    return replace(scores, ids=ids, clusters=clusters, answers=None)


def publishing_key(results: Path) -> bytes:
    """Return the secret by which ids of a results folder are hashed; makes it on first use."""
    path = results / KEY_FILE
    with os_errors_as(RecordError, f"cannot keep the secret of published hashes {path}"):
        if not path.exists():
            with AtomicFile(path) as handle:
                handle.write(f"{secrets.token_hex(_KEY_BYTES)}\n".encode())
        key = path.read_bytes().strip()
    if len(key) < _KEY_BYTES:  # else hashes could be found by trying all record numbers
        raise RecordError(f"{path} is damaged; remove it, and published hashes will be others")
    return key


def key_mark(key: bytes) -> str:
    """Return a mark that separates one secret from another and reveals neither."""
    return hmac.new(key, b"mark", "sha256").hexdigest()[:16]


def hashed_id(key: bytes, benchmark: str, instance_id: str) -> str:
    """Return 16 hex digits that represent an instance whose id is not published.

    Keyed, since record numbers are few enough to be found by trying them all.
    """
    return hmac.new(key, f"{benchmark}\0{instance_id}".encode(), "sha256").hexdigest()[:16]


def settings(record: RunRecord) -> list[tuple[str, Value]]:
    """Return what decided the answers of a run, as far as it may be known."""
    spec, model = record.spec, record.spec.model
    found: dict[str, Value] = {
        "benchmark version": spec.benchmark_version,
        "data": f"{spec.data}, split {spec.split}",
        "dataset sha256": spec.dataset_sha256,
        "prompt": f"{spec.prompt_name} version {spec.prompt_version}",
        "prompt sha256": spec.prompt_sha256,
        **_asking_settings(spec),
        "instances at most": spec.max_instances,
        "repeats": spec.repeats,
        "seed": spec.seed,
        "output budget, tokens": spec.max_output_tokens,
        "provider": model.provider,
        "model at the endpoint": plain_name(model.model) if model.model else None,
        "weights": model.weights,
        "endpoint class": model.endpoint_class,
        "reasoning": model.reasoning,
        "context window, tokens": model.context_window,
        "temperature": model.sampling.temperature,
        "top p": model.sampling.top_p,
        "stop sequences": len(model.sampling.stop) or None,
        "reasoning effort": model.sampling.reasoning_effort,
        "system prompt": _sha(model.system_prompt),
        "extra fields of the request": _sha(model.extra_body or None),
        "price": _price(model),
        "scoring": record.grading.scoring,
    }
    return [(name, value) for name, value in found.items() if value is not None]


def _stripped_asking(asking: Asking | None) -> Asking | None:
    """Return an asking with hashes in the place of the user's own words."""
    if asking is None:
        return None
    words = {name: _sha(said) for name in own_words.OWN_WORDS if (said := getattr(asking, name))}
    return msgspec.structs.replace(asking, examples_from="", **words)


def _asking_settings(spec: RunSpec) -> dict[str, Value]:
    """Return how a run was asked, where that is not as the benchmark declares; own words as hashes."""
    if (asking := _stripped_asking(spec.asking)) is None:
        return {}
    chosen: dict[str, Value] = msgspec.to_builtins(asking)
    said = {
        f"asked, {name.replace('_', ' ')}": value
        for name, value in chosen.items()
        if name != "name"
    }
    return {"asked": asking.name} | said


def _sha(value: object) -> str | None:
    if value is None:
        return None
    return "sha256 " + hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


def _price(model: ModelSpec) -> str | None:
    if model.price is None:
        return None
    return (
        f"{model.price.input:g} in, {model.price.output:g} out, USD per million tokens "
        f"({model.price.date})"
    )


def provenance(record: RunRecord) -> list[tuple[str, str]]:
    """Return versions, dates and machine class of a run."""
    return [(k, v) for k, v in sorted(record.provenance.items()) if _PROVENANCE.fullmatch(k)]


def run_line(record: RunRecord) -> Content:
    """Return what must be known to make a run again, and when it was made."""
    spec, known = record.spec, dict(provenance(record))
    return {
        "benchmark": spec.column,
        "model": spec.model.name,
        **fields_of(spec, "seed", "repeats"),
        "state": record.state,
        **fields_of(spec, "dataset_sha256", "prompt_sha256"),
        **{n: known.get(n, "") for n in ("answered_from", "answered_until", "graded_at")},
        "medhelm": " ".join(filter(None, (known.get("version.medhelm"), known.get("git_commit")))),
    }


def served(record: RunRecord) -> list[tuple[str, int]]:
    """Return model ids and fingerprints as served, with counts."""
    return [(plain_name(name), n) for name, n in sorted(record.own.served_models.items())]


def _served(found: Mapping[str, int]) -> dict[str, int]:
    """Return them as a record holds them. Those that are not published are one."""
    sums: Counter[str] = Counter()
    for name, n in found.items():
        sums[plain_name(name)] += n
    return dict(sums)


def usage(totals: UsageTotals) -> list[tuple[str, int]]:
    """Return sums of tokens and requests by name."""
    return [(name, int(value)) for name, value in msgspec.structs.asdict(totals).items()]
