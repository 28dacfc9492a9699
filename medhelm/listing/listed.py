"""Lists of benchmarks and models, of all juries and profiles their entries: for people and programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from medhelm.data.sources import default_split
from medhelm.grading.jury.choice import DEFAULT
from medhelm.models.providers import known_providers
from medhelm.plugins.profiles import Profile
from medhelm.plugins.registry import Registry
from medhelm.proof.checks import is_data_present
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import JurySpec, fields_of
from medhelm.tables.format.grid import Grid, grid_of, to_html, to_text

if TYPE_CHECKING:
    import pandas as pd

Entry = dict[str, Any]
T = TypeVar("T", bound="BenchmarkEntry | ModelSpec")


class Listing(tuple[T, ...]):
    """Things that have a name, in order, which show themselves as a table."""

    _grid: Grid

    def __new__(cls, entries: Iterable[T], grid: Grid) -> Self:
        """`grid` is what is shown of them."""
        made = super().__new__(cls, entries)
        made._grid = grid
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, as `evaluate` and `describe` take them."""
        return tuple(entry.name for entry in self)

    def frame(self) -> pd.DataFrame:
        """Return a row for each, with all that is known of it."""
        import pandas as pd

        return pd.DataFrame([msgspec.to_builtins(entry) for entry in self])

    def __repr__(self) -> str:
        return to_text(self._grid, get_terminal_size().columns)

    def _repr_html_(self) -> str:
        return to_html(self._grid)


class BenchmarkEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark as lists show it."""

    name: str
    title: str
    category: str
    subcategory: str
    access: str
    """The class of its data: public, gated or private."""
    instances: int | None
    """Of the default split; None where the number is not declared."""
    metrics: tuple[str, ...]
    has_samples: bool
    has_full_data: bool
    """True if the files of the full data are on this machine."""
    public_since: str | None
    unverified: bool
    """True if it is written to the published layout and was never tried on the real file."""
    origin: str
    """The plugin that brings it."""


def benchmark_list(registry: Registry, root: Path) -> Listing[BenchmarkEntry]:
    """Return all benchmarks; `root` is the folder of their data."""
    entries = []
    for benchmark in registry.benchmarks.values():
        subcategory = registry.taxonomy.subcategory(benchmark.subcategory)
        split = default_split(benchmark, root)
        entry = BenchmarkEntry(
            name=benchmark.name,
            title=benchmark.title or benchmark.name,
            category=registry.taxonomy.category_of(subcategory.id).name,
            subcategory=subcategory.name,
            access=benchmark.data_class,
            instances=benchmark.expected_instances.get(split),
            metrics=tuple(benchmark.metrics),
            has_samples=benchmark.samples is not None and benchmark.samples.is_file(),
            has_full_data=is_data_present(benchmark, root),
            public_since=benchmark.exposure.public_since or None,
            unverified=benchmark.unverified,
            origin=benchmark.origin,
        )
        entries.append(entry)
    return Listing(entries, benchmark_grid(entries))


def benchmark_grid(entries: Sequence[BenchmarkEntry]) -> Grid:
    """Return what people are shown of benchmarks."""
    columns = {
        "name": [e.name for e in entries],
        "title": [e.title for e in entries],
        "subcategory": [e.subcategory for e in entries],
        "access": [e.access for e in entries],
        "n": ["?" if e.instances is None else str(e.instances) for e in entries],
        "metrics": [", ".join(e.metrics) for e in entries],
        "data here": [
            "full" if e.has_full_data else "samples" if e.has_samples else "none" for e in entries
        ],
        "public since": [e.public_since or ("?" if e.access == "public" else "–") for e in entries],
        "note": ["unverified" * e.unverified for e in entries],
    }
    leaving = ("title", "metrics", "subcategory", "access", "public since")
    return grid_of(columns, numbers=("n",), keys=("name",), leaving=leaving)


def model_list(registry: Registry) -> Listing[ModelSpec]:
    """Return all models that have a config file or come from a plugin."""
    specs = list(registry.models.values())
    return Listing(specs, model_grid([model_entry(spec) for spec in specs]))


def model_entry(spec: ModelSpec) -> Entry:
    """Return what a list says of a model."""
    shown = ("name", "provider", "endpoint_class", "reasoning", "weights", "price", "note")
    return fields_of(spec, *shown)


def model_grid(entries: Sequence[Entry]) -> Grid:
    """Return what people are shown of models."""
    price = "USD per million tokens"
    rules = {p.name for p in known_providers().values() if not p.reads_prompt}
    columns = {
        "name": [e["name"] for e in entries],
        "provider": [e["provider"] for e in entries],
        "endpoint": [e["endpoint_class"] for e in entries],
        price: ["none" if e["provider"] in rules else _price_text(e["price"]) for e in entries],
        "note": [e["note"] for e in entries],
    }
    leaving = ("note", "provider", "endpoint")
    return grid_of(columns, numbers=(price,), keys=("name",), leaving=leaving)


def _price_text(price: Price | None) -> str:
    if price is None:
        return "unknown"
    return f"{price.input:g} in, {price.output:g} out ({price.date})"


def jury_entry(jury: JurySpec) -> Entry:
    """Return all facts of a jury; one without judges has no quorum, and asks nothing."""
    facts: Entry = msgspec.to_builtins(jury) | {"judges": [j.name for j in jury.judges]}
    if not jury.judges:
        facts = {"name": jury.name, "judges": [], "quorum": None}
    return facts | {"is_default": jury.name == DEFAULT}


def profile_entry(profile: Profile) -> Entry:
    """Return all facts of a profile."""
    thresholds = [msgspec.to_builtins(t) for t in profile.thresholds]
    return fields_of(profile, "name", "description", "sha256") | {"thresholds": thresholds}
