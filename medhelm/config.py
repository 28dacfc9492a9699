"""What one command asks for, before it meets the registry. No Hydra here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from medhelm.errors import UsageError, closest
from medhelm.schema import DataClass, EndpointClass, ModelSpec, Scoring

DEFAULT_RESULTS = "medhelm-results"

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]

PrivacyPolicy = dict[DataClass, tuple[EndpointClass, ...]]


class BenchmarkChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A benchmark and the split of its data; None: the benchmark's default split."""

    name: str
    split: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model on one benchmark, or on those of a suite."""

    model: ModelSpec
    benchmarks: tuple[BenchmarkChoice, ...]
    data: Literal["sample", "full"] = "full"
    data_dir: str | None = None
    results_dir: str = DEFAULT_RESULTS
    max_instances: Positive | None = None
    repeats: Positive = 1
    seed: int = 0
    scoring: Scoring = "fixed"
    budget_usd: NotNegative | None = None
    budget_tokens: Positive | None = None
    privacy: PrivacyPolicy = {}
    """Endpoint classes that data of a class may go to, beyond the default policy."""


def data_root(data_dir: str | Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the data folder: the argument, else MEDHELM_DATA_DIR, else ~/.medhelm/data."""
    chosen = data_dir or environ.get("MEDHELM_DATA_DIR") or "~/.medhelm/data"
    return Path(chosen).expanduser()


def convert(value: Mapping[str, Any], kind: type[msgspec.Struct], what: str) -> Any:
    """Return `value` as `kind`, or raise UsageError naming the key, the type and the nearest key."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as e:
        raise UsageError(_explain(str(e), kind, what)) from None


def _explain(message: str, kind: type[msgspec.Struct], what: str) -> str:
    text, _, path = message.partition(" - at `$")
    key = path.rstrip("`").lstrip(".")
    if text.startswith("Object contains unknown field"):
        name = text.split("`")[1]
        nearest = closest(name, [f.name for f in msgspec.structs.fields(kind)])
        did = f"; did you mean {nearest[0]!r}?" if nearest else ""
        return f"{what}: unknown key {(key + '.' if key else '') + name!r}{did}"
    return f"{what}: {key or 'value'}: {text[0].lower()}{text[1:]}"
