"""Record a benchmark's data and embedded answers as they were at the last check.

`manifests/<benchmark>.json` beside the plugin file holds it for the bundled samples and for
the full data, so that a change of data, prompt, extraction or metric is seen before it costs.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.errors import PluginError, UsageError
from medhelm.plugins.registry import Registry
from medhelm.schema.data import Benchmark

SCHEMA = "medhelm.manifest/1"

Scores = dict[str, dict[str, float | None]]
"""Answer -> metric -> value to six places; None where no instance has a value."""


class Readings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers of readings of one phrasing by the metrics (but slow ones) over the instances, to six places.

    Of a phrasing of the gold `read` is the share read right by all of them, `wrong` the share read
    as another answer by any. Of a reply without an answer `read` is the share in which nothing is read, `wrong`
    the share in which something is.
    """

    read: float
    wrong: float = 0.0


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One benchmark on one kind of data."""

    version: str
    split: str
    dataset_sha256: str
    instances: int
    left_out: dict[str, int] = {}
    """Rows of the data that the benchmark leaves out, by reason."""
    unscored: int = 0
    """Instances whose gold is uninformative: the main metric gives them no score."""
    metrics: dict[str, str]
    """Versions by name. The first is the main metric."""
    scores: Scores
    parts: Scores = {}
    """Answer -> part -> its mean of the main metric, of a benchmark of several parts."""
    scores_helm: Scores = {}
    """Under scoring=helm, of the metrics that differ there."""
    readings: dict[str, Readings] = {}
    """By phrasing; empty where the benchmark has no answer that is read out of a reply."""


class _Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: str
    benchmark: str
    sample: Facts | None = None
    full: Facts | None = None


def manifest_path(benchmark: Benchmark) -> Path:
    """Return the path of the manifest of a benchmark."""
    return Path(benchmark.origin).parent / "manifests" / f"{benchmark.name}.json"


def read_manifest(benchmark: Benchmark, data: Literal["sample", "full"]) -> Facts | None:
    """Return the stored facts, None where there are none; raises PluginError if unreadable."""
    manifest = _read_manifest(benchmark)
    return None if manifest is None else getattr(manifest, data)


def shipped_samples(registry: Registry) -> dict[str, str]:
    """Return the hash of the bundled samples of each benchmark that comes with medhelm, as they were shipped."""
    own = {name: read_manifest(registry.benchmark(name), "sample") for name in registry.own}
    return {name: facts.dataset_sha256 for name, facts in own.items() if facts is not None}


def _read_manifest(benchmark: Benchmark) -> _Manifest | None:
    path = manifest_path(benchmark)
    if not path.is_file():
        return None
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise PluginError(f"{path}: {e}; write it anew with `medhelm validate --update`") from None
    if manifest.schema != SCHEMA or manifest.benchmark != benchmark.name:
        raise PluginError(f"{path}: expected {SCHEMA} of {benchmark.name!r}; remove it")
    return manifest


def write_manifest(benchmark: Benchmark, data: Literal["sample", "full"], facts: Facts) -> Path:
    """Store the facts beside the plugin file and return the path. The other kind of data stays."""
    path = manifest_path(benchmark)
    if not Path(benchmark.origin).is_file():
        raise UsageError(
            f"{benchmark.name}: no manifest is written, {benchmark.origin or 'its plugin'} is not a file"
        )
    before = _read_manifest(benchmark) or _Manifest(schema=SCHEMA, benchmark=benchmark.name)
    after = msgspec.structs.replace(before, **{data: facts})
    text = msgspec.json.format(msgspec.json.encode(after), indent=1) + b"\n"
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(exist_ok=True)
        part.write_bytes(text)
        part.replace(path)
    except OSError as e:
        raise UsageError(f"{benchmark.name}: cannot write {path}: {e.strerror}") from None
    return path


def compare(stored: Facts, found: Facts) -> dict[str, tuple[str, str]]:
    """Return what differs: 'instances', 'score of random on exact_match' -> (stored, found).

    Phrasings that only one of the two knows are passed over, so that one more is not a difference,
    and rows that are left out where none is stored, as before they were counted.
    """
    both = stored.readings.keys() & found.readings.keys()
    if not stored.left_out:
        found = msgspec.structs.replace(found, left_out={})
    then, now = (_flat(facts, both) for facts in (stored, found))
    return {
        key: (then.get(key, "nothing"), now.get(key, "nothing"))
        for key in [*then, *(k for k in now if k not in then)]
        if then.get(key) != now.get(key)
    }


def _flat(facts: Facts, phrasings: Collection[str]) -> dict[str, str]:
    flat = {
        "version": facts.version,
        "split": facts.split,
        "sha256 of the data": facts.dataset_sha256,
        "number of instances": str(facts.instances),
        "number of unscored instances": str(facts.unscored),
    }
    flat |= {f"rows left out: {why}": str(rows) for why, rows in facts.left_out.items()}
    flat |= {f"version of {name}": version for name, version in facts.metrics.items()}
    for scoring, scores in (("", facts.scores), (" (helm)", facts.scores_helm)):
        for answer, values in scores.items():
            for metric, value in values.items():
                shown = "no value" if value is None else f"{value:.6f}"
                flat[f"score of '{answer}' on {metric}{scoring}"] = shown
    for answer, values in facts.parts.items():
        for part, value in values.items():
            flat[f"score of '{answer}' in part {part}"] = (
                "none" if value is None else f"{value:.6f}"
            )
    for name in (name for name in facts.readings if name in phrasings):
        reading = facts.readings[name]
        flat[f"share of '{name}' read right"] = f"{reading.read:.6f}"
        flat[f"share of '{name}' read wrongly"] = f"{reading.wrong:.6f}"
    return flat
