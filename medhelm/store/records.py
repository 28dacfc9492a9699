"""Run folders: where they lie, what names them, and their small files (docs/design.md). The log is in `runlog`."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from medhelm.errors import OtherVersion, RecordError
from medhelm.files.durable import make_private, os_errors_as, why, write_whole
from medhelm.files.seals import is_broken, sealed, unsealed
from medhelm.models.identity import identity, reads_prompt, without_unused
from medhelm.schema.episode import SCHEMA, of_threads
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import (
    GraderTerms,
    GradingSpec,
    JurySpec,
    JuryTerms,
    RunRecord,
    RunSpec,
)
from medhelm.schema.score import Scoring

STAMP = "grading_stamp"
"""Key of the mark that scores.parquet and summary.json of one grading share."""
SCORES_HASH = "scores_sha256"
"""Key of the hash of scores.parquet in the provenance."""

ANSWERS_AGAIN, VERDICTS_AGAIN = "answers_asked_again", "verdicts_asked_again"
"""Keys of the numbers of replies that count in place of others to the same question."""
CONTROLS = "controls"
"""Key of the share of the cases of which judges have been asked about controls."""
DAMAGED = "damaged_verdict_lines"
"""Key of the number of lines of judges' logs that could not be read."""
VERDICT_BYTES = "verdict_bytes"
"""Key of the size of the judges' logs that a grading has read."""

_DATE = re.compile(r"[-@](?:20\d\d-\d\d-\d\d|20\d{6})$")
"""Of a model's state: `gpt-4o-2024-08-06`."""

_T = TypeVar("_T", bound=msgspec.Struct)

_SPEC_FIELDS = (
    "benchmark",
    "benchmark_version",
    "data",
    "split",
    "dataset_sha256",
    "prompt_sha256",
    "max_output_tokens",
    "repeats",
    "seed",
)


_LIMITS = ("max_concurrency", "timeout_s", "max_attempts", "replicas", "gpus", "batch")
_NO_LIMITS = ModelSpec(name="")


@of_threads
class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`spec.json`: a run and the instances that it is to ask."""

    schema: int = SCHEMA
    spec: RunSpec
    request_hash: str
    instances: int
    cut: int | None = None
    """Instances whose `order_key` is at most this; None: all."""
    left_out: dict[str, int] = {}
    """Rows of the data that the benchmark leaves out, by reason."""


@of_threads
class Served(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`served.json`: what servers said of the weights behind the models of a run, and what these servers are."""

    schema: int = SCHEMA
    models: dict[str, dict[str, str]] = {}
    """By address and `model`."""
    servers: dict[str, list[str]] = {}
    """Versions and GPUs of servers that the run started, by the model's name."""


def request_hash(spec: RunSpec) -> str:
    """Return 16 hex digits over all that decides the requests.

    Left out on purpose: the number of instances (growing it reuses every response), the
    model's display name, prices, time-outs and limits on concurrency.
    """
    plain = one_spelling(spec)
    decides: dict[str, Any] = {f: getattr(plain, f) for f in _SPEC_FIELDS}
    decides["model"] = identity(spec.model)
    # The rest only where it is chosen: a setting that is added later renames no run.
    decides["model"] |= _chosen(spec.model)
    if spec.protocol or spec.protocol_version != "1":
        decides["protocol"] = [spec.protocol, spec.protocol_version]
    if spec.cast:
        decides["cast"] = {
            role: identity(model) | _chosen(model) | {"max_output_tokens": model.max_output_tokens}
            for role, model in spec.cast.items()
        }
    if spec.settings:
        decides["settings"] = spec.settings
    if spec.strategies:
        decides["strategies"] = spec.strategies
    if spec.variant:
        decides["variant"] = spec.variant
    if spec.asking is not None:
        asking = msgspec.structs.replace(spec.asking, examples_from="")
        decides["asking"] = [asking, spec.examples, spec.examples_sha256]
    return _digest(decides)


def _chosen(model: ModelSpec) -> dict[str, Any]:
    """Return the settings of a model that decide requests only where they are chosen."""
    values = {"json_schema": model.json_schema, "strategy": model.strategy}
    return {name: value for name, value in values.items() if value}


def one_spelling(spec: RunSpec) -> RunSpec:
    """Return a spec whose model is spelt as all equal ones are. Its name and price stay.

    Its limits (requests in flight, time-outs, tries, servers) are at their defaults: they decide no answer.
    """
    spec = msgspec.structs.replace(
        spec,
        model=_one_spelling(spec.model),
        cast={role: _one_spelling(model) for role, model in spec.cast.items()},
    )
    if reads_prompt(spec.model) or spec.cast:
        return spec
    return msgspec.structs.replace(
        spec, prompt_name="", prompt_version="", prompt_sha256="", max_output_tokens=0
    )


def _one_spelling(model: ModelSpec) -> ModelSpec:
    plain = without_unused(model)
    decides = {name: identity(plain)[name] for name in ("model", "base_url")}
    decides |= {name: getattr(_NO_LIMITS, name) for name in _LIMITS}
    return msgspec.structs.replace(plain, **decides)


def bare_name(model: str) -> str:
    """Return a model's name without who serves it: `gpt-4o` of `openai/GPT-4o`."""
    return model.rpartition("/")[2].lower()


def is_same_model(model: ModelSpec, name: str) -> bool:
    """Return whether a name is that of a model, whoever serves it and of whatever date."""
    own = {_DATE.sub("", bare_name(n)) for n in (model.name, model.model) if n}
    return _DATE.sub("", bare_name(name)) in own


def grading_hash(grading: GradingSpec) -> str:
    """Return 16 hex digits over metrics, their versions, the scoring and who judges."""
    decides = msgspec.to_builtins(grading)
    if grading.graders:
        decides["graders"] = [
            [grader_hash(judge, terms) for judge in terms.jury.judges]
            + [terms.grader, terms.version, terms.settings, terms.jury.quorum]
            for terms in grading.graders
        ]
    if grading.reader is not None:
        (model,) = grading.reader.jury.judges
        decides["reader"] = [grader_hash(model, grading.reader)]
    if grading.jury is None:
        return _digest(decides if grading.graders or grading.reader else grading)
    decides["jury"] = {
        "judges": [judge_hash(judge, grading.jury) for judge in grading.jury.jury.judges],
        "quorum": grading.jury.jury.quorum,
        "rubric": decides["jury"]["rubric"],
        "version": grading.jury.version,
        "instruction": grading.jury.instruction,
    }
    return _digest(decides)


def stored_jury(run: Path) -> JurySpec | None:
    """Return the jury of a run's newest grading by one; None where there is none."""
    newest = _newest_judged(run)
    return newest.raters if newest is not None else None


def stored_settings(run: Path) -> dict[str, Any]:
    """Return the settings of the graders of a run's newest grading by judges."""
    newest = _newest_judged(run)
    graders = newest.graders if newest is not None else ()
    return {name: value for own in graders for name, value in own.settings.items()}


def stored_reader(run: Path, scoring: Scoring) -> GraderTerms | None:
    """Return the reader of a run's newest grading of a scoring; None where there is none."""
    newest = (r.grading for r in stored_records(run) if r.grading.scoring == scoring)
    return next((grading.reader for grading in newest), None)


def _newest_judged(run: Path) -> GradingSpec | None:
    judged = (r.grading for r in stored_records(run) if r.grading.raters is not None)
    return next(judged, None)


def stored_records(run: Path) -> list[RunRecord]:
    """Return the records of a run's gradings that can be read, the newest first."""
    found: list[RunRecord] = []
    for path in (run / "gradings").glob("*"):
        with suppress(RecordError):
            found.append(read_record(path))
    return sorted(found, key=lambda r: -float(r.provenance.get(STAMP, "0").split()[0]))


def judge_hash(judge: ModelSpec, terms: JuryTerms) -> str:
    """Return 16 hex digits over all that decides what one judge is asked: itself, rubric, prompt."""
    return _digest(
        {
            "model": identity(judge),
            "rubric": terms.rubric,
            "version": terms.version,
            "instruction": terms.instruction,
            "repairs": terms.jury.repairs,
            "reasons": terms.jury.reasons,
            "max_output_tokens": judge_budget(judge, terms.jury),
        }
    )


def grader_hash(judge: ModelSpec, terms: GraderTerms) -> str:
    """Return 16 hex digits over all that decides what a grader asks one judge."""
    limits = [terms.jury.repairs, judge_budget(judge, terms.jury)]
    asked = [terms.grader, terms.version, terms.settings]
    return _digest({"model": identity(judge), "grader": asked, "limits": limits})


def grader_folder(run: Path, judge: ModelSpec, terms: GraderTerms) -> Path:
    """Return the folder of what a grader asked one judge, in a run folder."""
    return run / "graders" / grader_hash(judge, terms)


def judge_folders(run: Path, terms: JuryTerms | GraderTerms) -> tuple[Path, ...]:
    """Return the folder of the verdicts of each judge in a run folder."""
    if isinstance(terms, JuryTerms):
        return tuple(run / "judges" / judge_hash(judge, terms) for judge in terms.jury.judges)
    return tuple(grader_folder(run, judge, terms) for judge in terms.jury.judges)


def judge_budget(judge: ModelSpec, jury: JurySpec) -> int:
    """Return the output tokens that a judge may use for one reply."""
    if judge.max_output_tokens is not None:
        return judge.max_output_tokens
    return jury.reasoning_output_tokens if judge.reasoning else jury.max_output_tokens


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


def _key(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def order_key(seed: int, instance_id: str) -> int:
    """Return the 64-bit place of an instance in the seeded order that `max_instances` cuts."""
    return _key(f"{seed}\0{instance_id}")


def instance_key(instance_id: str) -> int:
    """Return the 64-bit key by which tables join instances; collisions as in `episode_key`."""
    return _key(f"i\0{instance_id}")


def cluster_key(instance_id: str, cluster: str | None) -> int:
    """Return the 64-bit key of an instance's cluster. Without one it is its own."""
    return instance_key(instance_id) if cluster is None else _key(f"c\0{cluster}")


def run_path(results: Path, spec: RunSpec) -> Path:
    """Return the folder of a run: the one that holds its answers, else where it is to be begun.

    A run is the same under another name of its model (`names`).
    """
    place = results / "runs" / spec.benchmark
    new = place / folder_name(spec.model.name) / request_hash(spec)
    if (new / "spec.json").is_file():
        return new
    found = sorted(place.glob(f"*/{new.name}/spec.json"))
    return found[0].parent if found else new


def folder_name(model: str) -> str:
    """Return the name of the folder that holds the runs of a model."""
    name = quote(model.replace("/", "__"), safe="-_.+@=,")
    return "%2E" + name[1:] if name.startswith(".") else name  # '..' would leave the folder


def write_struct(path: Path, value: msgspec.Struct) -> None:
    """Write a struct as indented JSON with its hash, atomically; raises RecordError."""
    with os_errors_as(RecordError, f"cannot write {path}"):
        make_private(path.parent)
        write_whole(path, sealed(value))


def read_plan(run: Path) -> Plan:
    """Return `spec.json` of a run folder; raises RecordError."""
    return read_struct(run / "spec.json", Plan)


def read_served(run: Path) -> Served:
    """Return `served.json` of a run folder; an empty one where there is none that can be read."""
    try:
        return read_struct(run / "served.json", Served)
    except RecordError:
        return Served()


def read_record(grading: Path) -> RunRecord:
    """Return `summary.json` of a grading folder; raises RecordError."""
    return read_struct(grading / "summary.json", RunRecord)


def read_struct(path: Path, kind: type[_T]) -> _T:
    """Return what `write_struct` has written; raises RecordError where it is damaged or of another version."""
    try:
        raw = path.read_bytes()
        schema = msgspec.json.decode(raw, type=_Version).schema
        was_changed = is_broken(raw)
    except OSError as e:
        raise RecordError(f"cannot read {path}: {why(e)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RecordError(f"{path} is not readable JSON; restore it or remove its folder") from None
    if schema != SCHEMA:
        raise OtherVersion(other_version(path, schema))
    if was_changed:
        fix = "`medhelm score`" if kind is RunRecord else "the same `medhelm run` command"
        raise RecordError(
            f"{path} is damaged: it was changed after it was written; {fix} writes it again"
        )
    try:
        return msgspec.json.decode(unsealed(raw), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise OtherVersion(other_version(path, schema, e)) from None


def other_version(place: object, schema: int, e: Exception | None = None) -> str:
    """Return the refusal of what another version wrote; `e`: why it cannot be read."""
    said = f"{e}" if e is not None else f"schema {schema}, this version reads {SCHEMA}"
    return (
        f"{place} was written by another version of medhelm ({said}): run again in another "
        "results_dir, or use that version"
    )


@of_threads
class _Version(msgspec.Struct):
    schema: int = 0


def find_runs(results: Path) -> list[Path]:
    """Return every run folder below a results folder, sorted."""
    return sorted(p.parent for p in (results / "runs").glob("*/*/*/spec.json"))


def find_gradings(results: Path) -> list[Path]:
    """Return every grading folder that has a summary below a results folder, sorted."""
    return sorted(p.parent for p in (results / "runs").glob("*/*/*/gradings/*/summary.json"))


def find_unreadable(results: Path) -> list[tuple[Path, str]]:
    """Return every place below a results folder that may hide a run or a grading, and why.

    `find_runs` and `find_gradings` cannot see what is in a folder that may not be entered, or that
    has lost the file that makes it one; whoever shows runs names it.
    """
    found: list[tuple[Path, str]] = []
    places = [results / "runs"]
    for _ in ("benchmark", "model", "run"):
        places = [below for place in places for below in _folders(place, found)]
    for run in places:
        is_shown = _has(run / "spec.json", found)
        for grading in _folders(run / "gradings", found):
            if _has(grading / "summary.json", found):
                is_shown = True
            elif _has(grading / "scores.parquet", found):
                found.append((grading, "summary.json is missing, `medhelm score` writes it"))
        if not is_shown and _has(run / "responses.jsonl", found):
            found.append((run, "spec.json is missing"))
    return list(dict.fromkeys(found))


def _folders(place: Path, found: list[tuple[Path, str]]) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            return sorted(Path(entry) for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as e:
        found.append((place, f"cannot be read ({why(e)})"))
        return []


def _has(path: Path, found: list[tuple[Path, str]]) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as e:
        found.append((path.parent, f"cannot be read ({why(e)})"))
        return True  # who knows
    return True
