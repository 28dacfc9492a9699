"""Find plugins and look things up by name.

A plugin is a module that implements hooks of `hookspecs`. Built-in and third-party plugins
come the same way: an entry point of the group `medhelm` names a module, or a package whose
modules and YAML files are all read; `plugins=[file.py]` adds single files.
A third-party plugin that fails is reported and left out, the others work.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from medhelm.errors import MedhelmError, PluginError, UnknownName
from medhelm.files.durable import is_file
from medhelm.files.folders import beside, entries, homes
from medhelm.grading.answer_form import LIKELIHOOD_METRICS
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.jury.metric import default_jury
from medhelm.grading.rubric.metrics import rubric_metrics
from medhelm.models.catalogue import load_models
from medhelm.models.provider import Provider
from medhelm.models.providers import add_providers, built_in
from medhelm.plugins.askings import load_askings
from medhelm.plugins.checks import (
    benchmark_faults,
    metric_faults,
    page_faults,
    provider_faults,
    refuse,
    unknown_names,
)
from medhelm.plugins.commands import Broken, Installed, data_files, installed_plugins
from medhelm.plugins.discovery import (
    ADD,
    fault,
    has_hook,
    hook_values,
    hooks_of,
    import_file,
)
from medhelm.plugins.taxonomy import Taxonomy, load_taxonomy
from medhelm.plugins.trackers import OWN as OWN_TRACKERS
from medhelm.plugins.yaml_benchmark import read_yaml_benchmark
from medhelm.protocols.completion import COMPLETION
from medhelm.protocols.protocol import Protocol
from medhelm.protocols.strategy import Strategy
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark
from medhelm.schema.model import ModelSpec
from medhelm.schema.page import Page
from medhelm.schema.run import Tracker
from medhelm.schema.score import Metric, Scoring
from medhelm.similarity.bertscore import bertscore_metric, is_bertscore

_T = TypeVar("_T")


@dataclass(frozen=True)
class Registry:
    """Everything that plugins offer, checked."""

    taxonomy: Taxonomy
    benchmarks: Mapping[str, Benchmark]
    metrics: Mapping[tuple[str, Scoring], Metric]
    models: Mapping[str, ModelSpec]
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: {COMPLETION.name: COMPLETION})
    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    pages: Mapping[str, Page] = field(default_factory=dict)
    askings: Mapping[str, Asking] = field(default_factory=dict)
    trackers: Mapping[str, Tracker] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Plugin files that the user named: another process loads the same plugins by them."""
    broken: tuple[Broken, ...] = ()
    own: frozenset[str] = frozenset()
    """Names of the benchmarks that come with medhelm."""

    def benchmark(self, name: str) -> Benchmark:
        """Return a benchmark by name; raises UnknownName with the nearest ones."""
        return _named("benchmark", name, self.benchmarks, "`medhelm list benchmarks` shows all.")

    def protocol(self, name: str) -> Protocol:
        """Return a protocol by name; raises UnknownName."""
        known = f"The protocols are {', '.join(self.protocols)}."
        return _named("protocol", name, self.protocols, known)

    def strategy(self, name: str) -> Strategy:
        """Return a strategy by name; raises UnknownName."""
        known = f"are {', '.join(self.strategies)}" if self.strategies else "come with plugins"
        return _named("strategy", name, self.strategies, f"Strategies {known}.")

    def metric(self, name: str, scoring: Scoring = "fixed") -> Metric:
        """Return a metric as it is scored: without a published form as 'fixed' under 'helm', too.

        The `scoring` of what is returned says by which rule it goes; grading records keep it.
        `evaluate:NAME` makes a metric of the evaluate library, `bertscore:MODEL` a BERTScore.
        Raises UnknownName.
        """
        if name.startswith("evaluate:"):
            from medhelm.similarity.evaluate_metric import evaluate_metric

            return evaluate_metric(name)
        if is_bertscore(name):
            return bertscore_metric(name)
        found = self.metrics.get((name, scoring)) or self.metrics.get((name, "fixed"))
        if found is None:
            known = {n for n, _ in self.metrics}
            raise UnknownName("metric", name, known, "`medhelm list metrics` shows all.")
        if scoring == "helm" and found.is_as_published:
            return dataclasses.replace(found, scoring="helm")
        return found

    def has_published_form(self, name: str) -> bool:
        """Return whether there is a published scorer of this name, or one by the same rule."""
        fixed = self.metrics.get((name, "fixed"))
        return (name, "helm") in self.metrics or (fixed is not None and fixed.is_as_published)


def _named(kind: str, name: str, known: Mapping[str, _T], hint: str) -> _T:
    if name not in known:
        raise UnknownName(kind, name, known, hint)
    return known[name]


def load_registry(plugins: Sequence[str] = ()) -> Registry:
    """Return all plugins: installed ones by entry point, then the files named in `plugins`.

    Raises PluginError where a built-in plugin or a named file cannot be used.
    """
    points = installed_plugins()
    loader = _Loader(load_taxonomy(), _built_in(tuple(p for p in points if p.is_built_in)))
    for point in points:
        if not point.is_built_in:
            loader.add_entry_point(point)
    for file in plugins:
        loader.add_file(Path(file))
    return loader.finish()


_KINDS: Mapping[str, type[Any]] = {
    "benchmark": Benchmark,
    "metric": Metric,
    "model": ModelSpec,
    "protocol": Protocol,
    "strategy": Strategy,
    "provider": Provider,
    "page": Page,
    "asking": Asking,
    "tracker": FunctionType,
}
"""The kinds of values that plugins bring to the registry, each by a hook of its own."""

_PLURAL = {kind: f"{kind}s" for kind in _KINDS} | {"strategy": "strategies"}

_Known = dict[Any, tuple[Any, str]]
"""Values by name, with the file or distribution that brings each."""


class _Loader:
    """Collects plugins one by one; `finish` gives the frozen registry."""

    def __init__(self, taxonomy: Taxonomy, known: Mapping[str, _Known]) -> None:
        self._taxonomy = taxonomy
        self.known = known
        self._files: list[str] = []
        self._broken: list[Broken] = []
        self._third_party: dict[str, str] = {}
        self._own = frozenset(known["benchmark"])

    def add_entry_point(self, point: Installed) -> None:
        """Add a third party's plugin. One that fails is reported and left out."""
        plugin = str(point)
        try:
            added = self.add_module(point.load())
        except KeyboardInterrupt:
            raise
        except BaseException as e:  # the boundary to plugins: what they raise is theirs
            self._broken.append(Broken(plugin, fault(e)))
        else:
            self._third_party.update(dict.fromkeys(added, plugin))

    def add_file(self, path: Path) -> None:
        """Add a file that the user named; raises PluginError if it cannot be used."""
        try:
            found = _Found()
            if path.suffix in (".yaml", ".yml") and is_file(path):
                found.values.append(("benchmark", read_yaml_benchmark(path), str(path)))
            else:
                found.call_hooks(import_file(path), str(path))
            self._add_values(found)
            if not found and not data_files(path):
                raise PluginError(f"plugin {path} adds nothing; {ADD}")
            self._files.append(str(path.absolute()))
        except (MedhelmError, KeyboardInterrupt):
            raise
        except BaseException as e:  # the boundary to plugins
            raise PluginError(f"plugin {path}: {fault(e)}") from None

    def add_module(self, module: ModuleType) -> list[str]:
        """Add what a module or a package brings; returns the names of its benchmarks."""
        found = _Found()
        for part, origin in _parts(module):
            if isinstance(part, Path):
                found.values.append(("benchmark", read_yaml_benchmark(part), origin))
            else:
                found.call_hooks(part, origin)
                _refuse_misplaced(module, part, origin)
        self._add_values(found)
        places = [*map(Path, getattr(module, "__path__", ())), Path(_file_of(module))]
        if not found and not any(map(data_files, places)):
            raise PluginError(f"it adds nothing; {ADD}")
        return [value.name for kind, value, _ in found.values if kind == "benchmark"]

    def _add_values(self, found: _Found) -> None:
        """Add all of a plugin's values, or none of them."""
        known = {kind: dict(values) for kind, values in self.known.items()}
        for kind, value, origin in found.values:
            self._check(kind, value, origin, known)
            key, name = _key_of(value)
            if first := known[kind].get(key):
                raise PluginError(
                    f"{kind} {name!r} is defined twice: in {first[1]} and in {origin}; rename one"
                )
            known[kind][key] = (value, origin)
        self.known = known

    def _check(self, kind: str, value: Any, origin: str, known: Mapping[str, _Known]) -> None:
        faults: Iterator[str] = iter(())
        if kind == "benchmark":
            faults = benchmark_faults(value, self._taxonomy)
        elif kind == "metric":
            faults = metric_faults(value, (m for m, _ in known["metric"].values()))
        elif kind in ("page", "provider"):
            faults = page_faults(value) if kind == "page" else provider_faults(value)
        refuse(kind, getattr(value, "name", ""), origin, faults)

    def finish(self) -> Registry:
        metrics, benchmarks = self.known["metric"], dict(self.known["benchmark"])
        for benchmark, origin in self.known["benchmark"].values():
            unknown = unknown_names(benchmark, metrics, self.known["protocol"])
            try:
                refuse("benchmark", benchmark.name, origin, unknown)
            except PluginError as e:
                if benchmark.name not in self._third_party:
                    raise
                self._broken.append(Broken(self._third_party[benchmark.name], str(e)))
                del benchmarks[benchmark.name]
        self.known = {**self.known, "benchmark": benchmarks}
        found: dict[str, Any] = {
            name: {key: value for key, (value, _) in sorted(self.known[kind].items())}
            for kind, name in _PLURAL.items()
        }
        providers = found.pop("providers")
        add_providers(own for name, own in providers.items() if name not in built_in())
        return Registry(
            taxonomy=self._taxonomy,
            **found,
            files=tuple(self._files),
            broken=tuple(self._broken),
            own=self._own,
        )


@cache
def _built_in(points: tuple[Installed, ...]) -> Mapping[str, _Known]:
    """Return what comes with medhelm, which is the same as long as a process lives."""
    known: dict[str, _Known] = {kind: {} for kind in _KINDS}
    known["metric"][JURY, "fixed"] = (default_jury(), "medhelm.grading.jury")
    for metric in (*rubric_metrics(), *LIKELIHOOD_METRICS):
        known["metric"][metric.name, "fixed"] = (metric, "medhelm.grading")
    known["protocol"][COMPLETION.name] = (COMPLETION, "medhelm.protocols")
    known["asking"] = {n: (own, "conf/ask") for n, own in load_askings().items()}
    known["model"] = {n: (spec, "conf/model") for n, spec in load_models().items()}
    known["tracker"] = {n: (own, "medhelm.plugins") for n, own in OWN_TRACKERS.items()}
    known["provider"] = {n: (own, own.origin) for n, own in built_in().items()}
    loader = _Loader(load_taxonomy(), known)
    for point in points:
        loader.add_module(point.load())
    return loader.known


@dataclass
class _Found:
    """The values of one plugin, and what else it brings."""

    values: list[tuple[str, Any, str]] = field(default_factory=list)
    """Kind, value, and the file that brings it."""
    has_tables: bool = False
    """True if it brings tables, too, which are found without the rest (`tables.known_tables`)."""

    def __bool__(self) -> bool:
        return bool(self.values or self.has_tables)

    def call_hooks(self, module: ModuleType, origin: str) -> None:
        hook = hooks_of(module, origin)
        self.has_tables |= has_hook(module, "medhelm_tables")
        for kind, kept in _KINDS.items():
            for value in hook_values(getattr(hook, f"medhelm_{_PLURAL[kind]}")(), kept, origin):
                self.values.append((kind, _with_origin(value, origin), origin))


def _key_of(value: Any) -> tuple[Any, str]:
    """Return the key of a value among those of its kind, and its name in messages."""
    if isinstance(value, Metric):
        return (value.name, value.scoring), f"{value.name} ({value.scoring})"
    name = value.__name__ if isinstance(value, FunctionType) else value.name
    return name, name


def _parts(module: ModuleType) -> Iterator[tuple[ModuleType | Path, str]]:
    yield module, _file_of(module)
    for folder in map(Path, getattr(module, "__path__", ())):
        names = sorted(info.name for info in pkgutil.iter_modules([str(folder)]))
        for name in names:
            part = importlib.import_module(f"{module.__name__}.{name}")
            yield part, _file_of(part)
        for path in entries(folder, *homes(folder / "__init__.py"), ends=(".yaml", ".yml")):
            yield path, str(path)


def _refuse_misplaced(package: ModuleType, part: ModuleType, origin: str) -> None:
    """Refuse a hook of tables where `medhelm tables`, which imports little, would not find it."""
    is_read = part.__name__ == f"{package.__name__}.tables" or not hasattr(package, "__path__")
    if has_hook(part, "medhelm_tables") and not is_read:
        raise PluginError(
            f"plugin {origin}: a package brings its tables in its module `tables`; move the hook "
            "medhelm_tables to tables.py"
        )


def _file_of(module: ModuleType) -> str:
    return module.__file__ or module.__name__


def _with_origin(value: Any, origin: str) -> Any:
    """Return a value that knows the file that brings it, where its kind keeps that."""
    if isinstance(value, Benchmark):
        samples = value.samples or beside(origin, "samples", f"{value.name}.jsonl")
        return dataclasses.replace(value, origin=origin, samples=samples)
    if isinstance(value, (Page, Provider)):
        return dataclasses.replace(value, origin=origin)
    return value
