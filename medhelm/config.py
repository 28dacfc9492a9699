"""Define the request of one command, before it meets the registry. No Hydra here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from medhelm.errors import UsageError
from medhelm.schema.asking import Asking, Form
from medhelm.schema.data import DataClass, Variant
from medhelm.schema.model import EndpointClass, ModelSpec, Order
from medhelm.schema.run import JurySpec, NotEmpty, Positive
from medhelm.schema.score import Scoring, Unread
from medhelm.schema.type_errors import explain

DEFAULT_RESULTS = "medhelm-results"
DEFAULT_ASKING = "default"
"""Name of the asking that every benchmark declares itself."""
OTHERS = "others"
"""Group of the benchmarks that are in no suite averaged apart."""

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
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
    results_dir: NotEmpty = DEFAULT_RESULTS
    rename: bool = False
    """True if models that are stored under other names are the same: the stored names change."""
    show_errors: bool = False
    """True if servers' own words on failed requests are shown whatever the endpoint's class."""
    ask_again: tuple[Unread, ...] = ()
    """Outcomes of stored answers that are asked for once more."""
    shard: str = ""
    """The part of each run that this process asks, K/N; empty: all."""
    workers: str | int = ""
    """The engine and number of processes that ask a part each; empty: this process asks all."""
    engine: dict[str, Any] = {}
    """Settings that the engine of workers has."""
    order: Order | None = None
    """Judges' servers beside a model's, or after all; None: beside it where declared GPUs hold both."""
    batch: bool = False
    """True if all models are asked in batches whose service takes some."""
    max_instances: Positive | None = None
    repeats: Positive = 1
    seed: int = 0
    scoring: Scoring = "fixed"
    track: str | tuple[str, ...] = ()
    """Name or names of the trackers that receive each finished run."""
    servers: str = ""
    """The place of servers that `serve` starts: `ray` or `ray://HOST:PORT`; empty: this machine."""
    budget_usd: NotNegative | None = None
    budget_tokens: Positive | None = None
    jury: JurySpec | None = None
    """None: the default jury where all its keys are and the data are full, else offline."""
    cast: dict[str, str | dict[str, Any]] = {}
    """The models of a protocol's other roles, by role: a name, or `name` with keys of a model."""
    protocol: dict[str, Any] = {}
    """Settings of the protocol, in place of its defaults."""
    grader: dict[str, Any] = {}
    """Settings of the graders, in place of their defaults."""
    controls: Share = 0.05
    """Share of the cases of which judges are asked about answers whose verdicts are known; 0: of none."""
    reader: str | dict[str, Any] = ""
    """The model that reads replies which the rules could not: a name, or `name` with keys of a model."""
    ask: Asking | None = None
    """The way to ask benchmarks where that is not as they declare; None: as they declare."""
    variants: Variant | Literal["all", "patient"] | tuple[Variant, ...] = ()
    """Forms in which questions are asked again beside the original one: of their options, or of their patient."""
    privacy: PrivacyPolicy = {}
    """Endpoint classes that data of a class may go to, in place of `privacy.POLICY`."""


def chosen_asking(
    named: Asking,
    *,
    instruction: str | None = None,
    examples: int | None = None,
    form: Form | None = None,
) -> Asking | None:
    """Return an asking with what is chosen beside its name; None where that is the benchmark's own.

    Its name tells what is chosen, and of an instruction a short hash: other words are another asking.
    """
    parts = [named.name] if named.name != DEFAULT_ASKING else []
    chosen: dict[str, Any] = {}
    if examples is not None and examples != named.examples:
        chosen["examples"] = examples
        parts.append(f"{examples}-shot")
    if form is not None and form != named.form:
        chosen["form"] = form
        parts.append(form)
    if instruction:
        chosen["instruction"] = instruction
        parts.append(f"own-{hashlib.sha256(instruction.encode()).hexdigest()[:6]}")
    plain = Asking(name=named.name, version=named.version)
    if named.name == DEFAULT_ASKING and named != plain:  # ask.KEY=VALUE without a name
        words = msgspec.structs.replace(named, examples_from="")
        said = msgspec.json.encode(words, order="sorted")
        parts.insert(0, f"own-{hashlib.sha256(said).hexdigest()[:6]}")
    if not parts:
        return None
    return msgspec.structs.replace(named, name=".".join(parts), **chosen)


def chosen_settings(
    given: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str
) -> dict[str, Any]:
    """Return the settings that differ from their defaults; those without a default are another's.

    Raises UsageError where a value is not of its default's type.
    """
    chosen = {}
    for name, default in defaults.items():
        value = given.get(name, default)
        is_whole = isinstance(default, float) and type(value) is int  # 2 where 2.0 is meant
        if type(value) is not type(default) and not is_whole:
            raise UsageError(
                f"{prefix}.{name}={value} is not of the type of its default, {default!r}"
            )
        if value != default:
            chosen[name] = type(default)(value)  # one value, one run
    return chosen


DATA_DIR, COMMANDS_DATA_DIR = "MEDHELM_DATA_DIR", "MEDHELM_COMMANDS_DATA_DIR"
"""Environment variables that name the data folder; the second that of a worker's command, for a node without one."""


def data_root(data_dir: str | Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the data folder: the argument, else that of the environment, else ~/.medhelm/data."""
    chosen = (
        data_dir or environ.get(DATA_DIR) or environ.get(COMMANDS_DATA_DIR) or "~/.medhelm/data"
    )
    return Path(chosen).expanduser()


def packaged_suites() -> dict[str, list[str]]:
    """Return the benchmarks of each suite that comes with medhelm, by its name."""
    return {suite["name"]: suite["benchmarks"] for suite in _suite_files()}


@cache
def averaged_apart() -> Mapping[str, str]:
    """Return the suite of each benchmark of those suites over which alone means are taken."""
    apart = (suite for suite in _suite_files() if suite.get("is_averaged_apart"))
    return {benchmark: suite["name"] for suite in apart for benchmark in suite["benchmarks"]}


def _suite_files() -> list[dict[str, Any]]:
    from medhelm.files.yaml_bounds import packaged_files, read_yaml

    return [read_yaml(file.read_bytes(), name) for name, file in packaged_files("suite").items()]


def convert(value: Any, kind: Any, what: str) -> Any:
    """Return `value` as `kind`, or raise UsageError naming the key, the type and the nearest key.

    `kind` is that of a struct, or a Literal whose names are then all listed.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as e:
        raise UsageError(f"{what}: {explain(e, kind)}") from None
