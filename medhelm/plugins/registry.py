"""Find plugins and look things up by name.

A plugin is a module that implements hooks of `hookspecs`. Built-in and third-party plugins
come the same way: an entry point of the group `medhelm` names a module, or a package whose
modules and YAML files are all read; `plugins=[file.py]` adds single files.
A third-party plugin that fails is reported and left out, the others work.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from medhelm.errors import MedhelmError, PluginError, UnknownName, closest
from medhelm.files.durable import is_file
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.jury.metric import default_jury
from medhelm.models.catalogue import load_models
from medhelm.models.provider import Provider
from medhelm.models.providers import add_providers, built_in
from medhelm.plugins import hookspecs
from medhelm.plugins.benchmark_checks import (
    check_benchmark,
    check_metrics,
    check_protocol,
    check_published,
)
from medhelm.plugins.distribution import NAME, OTHER
from medhelm.plugins.metric_checks import check_aggregation
from medhelm.plugins.page_checks import check_page
from medhelm.plugins.provider_checks import check_provider
from medhelm.plugins.taxonomy import Taxonomy, load_taxonomy
from medhelm.plugins.yaml_benchmark import read_yaml_benchmark
from medhelm.protocols.completion import COMPLETION
from medhelm.protocols.protocol import Protocol
from medhelm.protocols.strategy import Strategy
from medhelm.schema.data import Benchmark
from medhelm.schema.model import ModelSpec
from medhelm.schema.page import Page
from medhelm.schema.score import Metric, Scoring
from medhelm.similarity.bertscore import bertscore_metric, is_bertscore

GROUP = "medhelm"
_HOOKS = (
    "medhelm_benchmarks",
    "medhelm_metrics",
    "medhelm_models",
    "medhelm_pages",
    "medhelm_protocols",
    "medhelm_providers",
    "medhelm_strategies",
)
_ADD = f"a plugin returns what it adds from a hook marked @hookimpl: {', '.join(_HOOKS)}"


@dataclass(frozen=True)
class Broken:
    """A third-party plugin that was left out, and why (one line)."""

    plugin: str
    reason: str


@dataclass(frozen=True)
class Registry:
    """Everything that plugins offer, checked."""

    taxonomy: Taxonomy
    benchmarks: Mapping[str, Benchmark]
    metrics: Mapping[tuple[str, Scoring], Metric]
    models: Mapping[str, ModelSpec]
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: {COMPLETION.name: COMPLETION})
    strategies: Mapping[str, Strategy] = field(default_factory=dict)
    pages: Mapping[str, Page] = dataclasses.field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Plugin files that the user named: another process loads the same plugins by them."""
    broken: tuple[Broken, ...] = ()

    def benchmark(self, name: str) -> Benchmark:
        """Return a benchmark by name; raises UnknownName with the nearest ones."""
        try:
            return self.benchmarks[name]
        except KeyError:
            raise UnknownName(
                "benchmark", name, self.benchmarks, "`medhelm list benchmarks` shows all."
            ) from None

    def protocol(self, name: str) -> Protocol:
        """Return a protocol by name; raises UnknownName."""
        if name not in self.protocols:
            known = ", ".join(self.protocols)
            raise UnknownName("protocol", name, self.protocols, f"The protocols are {known}.")
        return self.protocols[name]

    def strategy(self, name: str) -> Strategy:
        """Return a strategy by name; raises UnknownName."""
        if name not in self.strategies:
            known = f"are {', '.join(self.strategies)}" if self.strategies else "come with plugins"
            raise UnknownName("strategy", name, self.strategies, f"Strategies {known}.")
        return self.strategies[name]

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
            raise UnknownName(
                "metric",
                name,
                {n for n, _ in self.metrics},
                "`medhelm list metrics` shows all.",
            )
        if scoring == "helm" and found.is_as_published:
            return dataclasses.replace(found, scoring="helm")
        return found

    def has_published_form(self, name: str) -> bool:
        """Return whether there is a published scorer of this name, or one by the same rule."""
        fixed = self.metrics.get((name, "fixed"))
        return (name, "helm") in self.metrics or (fixed is not None and fixed.is_as_published)


def load_registry(plugins: Sequence[str] = ()) -> Registry:
    """Return all plugins: installed ones by entry point, then the files named in `plugins`.

    Raises PluginError where a built-in plugin or a named file cannot be used.
    """
    loader = _Loader(load_taxonomy())
    # An installation from before the renaming, beside or in place of a new one, names the same parts.
    points = {(_is_built_in(p) or _owner(p), p.value): p for p in entry_points(group=GROUP)}
    for point in sorted(points.values(), key=_built_in_first):
        loader.add_entry_point(point)
    for file in plugins:
        loader.add_file(Path(file))
    return loader.finish()


def _built_in_first(point: EntryPoint) -> tuple[bool, str, str]:
    return (not _is_built_in(point), _owner(point), point.name)


def _is_built_in(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name in (NAME, OTHER)


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


class _Loader:
    """Collects plugins one by one; `finish` gives the frozen registry."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._taxonomy = taxonomy
        self._benchmarks: dict[str, Benchmark] = {}
        self._metrics: dict[tuple[str, Scoring], tuple[Metric, str]] = {
            (JURY, "fixed"): (default_jury(), "medhelm.grading.jury")
        }
        self._models: dict[str, tuple[ModelSpec, str]] = {
            name: (spec, "conf/model") for name, spec in load_models().items()
        }
        self._protocols: dict[str, tuple[Protocol, str]] = {
            COMPLETION.name: (COMPLETION, "medhelm.protocols")
        }
        self._strategies: dict[str, tuple[Strategy, str]] = {}
        self._pages: dict[str, Page] = {}
        self._files: list[str] = []
        self._providers: dict[str, Provider] = dict(built_in())
        self._broken: list[Broken] = []
        self._third_party: dict[str, str] = {}

    def add_entry_point(self, point: EntryPoint) -> None:
        """Add an installed plugin. A third-party one that fails is reported and left out."""
        plugin = f"{_owner(point)} ({point.value})"
        try:
            added = self._add_module(point.load())
        except BaseException as e:  # the boundary to plugins: what they raise is theirs
            if _is_built_in(point) or isinstance(e, KeyboardInterrupt):
                raise
            reason = str(e) if isinstance(e, MedhelmError) else _describe(e)
            self._broken.append(Broken(plugin, reason))
        else:
            if not _is_built_in(point):
                self._third_party.update(dict.fromkeys(added, plugin))

    def add_file(self, path: Path) -> None:
        """Add a file that the user named; raises PluginError if it cannot be used."""
        if not is_file(path):
            raise PluginError(f"plugin file {path} does not exist; plugins=[PATH.py] takes files")
        try:
            if path.suffix in (".yaml", ".yml"):
                found = _Found(benchmarks=[read_yaml_benchmark(path)])
            else:
                found = _call_hooks(_import_file(path), str(path))
            self._add_values(found)
            if not found:
                raise PluginError(f"plugin {path} adds nothing; {_ADD}")
            self._files.append(str(path.absolute()))
        except (MedhelmError, KeyboardInterrupt):
            raise
        except BaseException as e:  # the boundary to plugins
            raise PluginError(f"plugin {path}: {_describe(e)}") from None

    def _add_module(self, module: ModuleType) -> list[str]:
        found = _Found()
        for part, origin in _parts(module):
            if isinstance(part, Path):
                found.benchmarks.append(read_yaml_benchmark(part))
            else:
                found.extend(_call_hooks(part, origin))
        self._add_values(found)
        if not found:
            raise PluginError(f"it adds nothing; {_ADD}")
        return [b.name for b in found.benchmarks]

    def _add_values(self, found: _Found) -> None:
        """Add all of a plugin's values, or none of them."""
        benchmarks = dict(self._benchmarks)
        metrics = dict(self._metrics)
        models = dict(self._models)
        protocols = dict(self._protocols)
        strategies = dict(self._strategies)
        pages = dict(self._pages)
        for benchmark in found.benchmarks:
            check_benchmark(benchmark, self._taxonomy)
            _refuse_second("benchmark", benchmark.name, benchmark.origin, benchmarks, _origin)
            benchmarks[benchmark.name] = benchmark
        for metric, origin in found.metrics:
            key = (metric.name, metric.scoring)
            name = f"{metric.name} ({metric.scoring})"
            _refuse_second("metric", name, origin, metrics, _second, key)
            check_aggregation(metric, origin, (m for m, _ in metrics.values()))
            metrics[key] = (metric, origin)
        for model, origin in found.models:
            _refuse_second("model", model.name, origin, models, _second)
            models[model.name] = (model, origin)
        providers = dict(self._providers)
        for protocol, origin in found.protocols:
            _refuse_second("protocol", protocol.name, origin, protocols, _second)
            protocols[protocol.name] = (protocol, origin)
        for strategy, origin in found.strategies:
            _refuse_second("strategy", strategy.name, origin, strategies, _second)
            strategies[strategy.name] = (strategy, origin)
        for page in found.pages:
            check_page(page)
            _refuse_second("page", page.name, page.origin, pages, _origin)
            pages[page.name] = page
        self._benchmarks, self._metrics, self._models = benchmarks, metrics, models
        self._protocols, self._strategies, self._pages = protocols, strategies, pages
        for provider in found.providers:
            check_provider(provider)
            _refuse_second("provider", provider.name, provider.origin, providers, _origin)
            providers[provider.name] = provider
        self._providers = providers

    def finish(self) -> Registry:
        """Return the registry, in order of names."""
        names = {name for name, _ in self._metrics}
        for benchmark in list(self._benchmarks.values()):
            try:
                check_metrics(benchmark, names)
                check_protocol(benchmark, self._protocols)
                check_published(benchmark, self._metrics)
            except PluginError as e:
                if benchmark.name not in self._third_party:
                    raise
                self._broken.append(Broken(self._third_party[benchmark.name], str(e)))
                del self._benchmarks[benchmark.name]
        own = {n: p for n, p in self._providers.items() if n not in built_in()}
        add_providers(own.values())
        return Registry(
            taxonomy=self._taxonomy,
            benchmarks=dict(sorted(self._benchmarks.items())),
            metrics={k: m for k, (m, _) in sorted(self._metrics.items())},
            models={k: m for k, (m, _) in sorted(self._models.items())},
            protocols={k: p for k, (p, _) in sorted(self._protocols.items())},
            strategies={k: s for k, (s, _) in sorted(self._strategies.items())},
            pages=dict(sorted(self._pages.items())),
            files=tuple(self._files),
            broken=tuple(self._broken),
        )


@dataclass
class _Found:
    benchmarks: list[Benchmark] = dataclasses.field(default_factory=list)
    metrics: list[tuple[Metric, str]] = dataclasses.field(default_factory=list)
    models: list[tuple[ModelSpec, str]] = dataclasses.field(default_factory=list)
    protocols: list[tuple[Protocol, str]] = dataclasses.field(default_factory=list)
    strategies: list[tuple[Strategy, str]] = dataclasses.field(default_factory=list)
    providers: list[Provider] = dataclasses.field(default_factory=list)
    pages: list[Page] = dataclasses.field(default_factory=list)

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in dataclasses.fields(self))

    def extend(self, other: _Found) -> None:
        self.benchmarks += other.benchmarks
        self.metrics += other.metrics
        self.models += other.models
        self.protocols += other.protocols
        self.strategies += other.strategies
        self.pages += other.pages
        self.providers += other.providers


def _parts(module: ModuleType) -> Iterator[tuple[ModuleType | Path, str]]:
    """Yield a plain module itself, or a package with its modules and YAML files by name."""
    yield module, _file_of(module)
    for folder in map(Path, getattr(module, "__path__", ())):
        names = sorted(info.name for info in pkgutil.iter_modules([str(folder)]))
        for name in names:
            part = importlib.import_module(f"{module.__name__}.{name}")
            yield part, _file_of(part)
        for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"))):
            yield path, str(path)


def _file_of(module: ModuleType) -> str:
    return module.__file__ or module.__name__


def _import_file(path: Path) -> ModuleType:
    tag = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"medhelm_plugin_{path.stem}_{tag}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"plugin {path} is no Python file; plugins=[PATH.py] takes .py and .yaml")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _call_hooks(module: ModuleType, origin: str) -> _Found:
    manager = pluggy.PluginManager("medhelm")
    manager.add_hookspecs(hookspecs)
    manager.register(module, name=origin)
    unknown = [
        name
        for name in dir(module)
        if getattr(getattr(module, name), "medhelm_impl", None) and name not in _HOOKS
    ]
    if unknown:
        nearest = closest(unknown[0], _HOOKS)
        did = f"; did you mean {nearest[0]!r}?" if nearest else f"; hooks are {', '.join(_HOOKS)}"
        raise PluginError(f"plugin {origin}: unknown hook {unknown[0]!r}{did}")
    _refuse_unmarked(module, origin)
    found = _Found()
    for benchmark in _values(manager.hook.medhelm_benchmarks(), Benchmark, origin):
        found.benchmarks.append(_with_origin(benchmark, origin))
    found.metrics += [(m, origin) for m in _values(manager.hook.medhelm_metrics(), Metric, origin)]
    hook = manager.hook
    found.models += [(m, origin) for m in _values(hook.medhelm_models(), ModelSpec, origin)]
    found.protocols += [(p, origin) for p in _values(hook.medhelm_protocols(), Protocol, origin)]
    found.strategies += [(s, origin) for s in _values(hook.medhelm_strategies(), Strategy, origin)]
    for page in _values(hook.medhelm_pages(), Page, origin):
        found.pages.append(dataclasses.replace(page, origin=origin))
    for provider in _values(hook.medhelm_providers(), Provider, origin):
        found.providers.append(dataclasses.replace(provider, origin=origin))
    return found


def _refuse_unmarked(module: ModuleType, origin: str) -> None:
    """Refuse a function named as a hook but not marked as one, which nothing would ever call."""
    for name, value in vars(module).items():
        is_own = callable(value) and getattr(value, "__module__", "") == module.__name__
        if name.startswith("medhelm_") and is_own and not hasattr(value, "medhelm_impl"):
            near = difflib.get_close_matches(name, _HOOKS, n=1, cutoff=0.9)
            if name in _HOOKS or near:
                as_what = "" if name in _HOOKS else f" (as {near[0]!r})"
                raise PluginError(
                    f"plugin {origin}: {name} is not marked as a hook, so it would not be read; "
                    f"write @hookimpl above it{as_what}, from `from medhelm import hookimpl`"
                )


def _values(returned: list[Any], kind: type[Any], origin: str) -> Iterator[Any]:
    for values in returned:
        if not isinstance(values, Iterable):
            raise PluginError(f"plugin {origin}: a hook must return a list of {kind.__name__}")
        for value in values:
            if not isinstance(value, kind):
                raise PluginError(
                    f"plugin {origin}: a hook returned {type(value).__name__}, "
                    f"expected {kind.__name__}"
                )
            yield value


def _with_origin(benchmark: Benchmark, origin: str) -> Benchmark:
    beside = Path(origin).parent / "samples" / f"{benchmark.name}.jsonl"
    samples = benchmark.samples or (beside if beside.is_file() else None)
    return dataclasses.replace(benchmark, origin=origin, samples=samples)


def _refuse_second(
    kind: str, name: str, origin: str, known: Mapping[Any, Any], owner: Any, key: Any = None
) -> None:
    first = known.get(name if key is None else key)
    if first is not None:
        raise PluginError(
            f"{kind} {name!r} is defined twice: in {owner(first)} and in {origin}; rename one"
        )


def _origin(value: Benchmark | Page | Provider) -> str:
    return value.origin


def _second(pair: tuple[Any, str]) -> str:
    return pair[1]


def _describe(e: BaseException) -> str:
    text = " ".join(str(e).split())[:300]
    said = f"{type(e).__name__}: {text}" if text else type(e).__name__
    if isinstance(e, SyntaxError) or not (place := _place(e)):  # a SyntaxError names its line
        return said
    return f"{said} ({place}); mend the plugin or leave it out"


def _place(e: BaseException) -> str:
    """Return the plugin's own line of an exception; what it called lies deeper."""
    ours = [str(Path(str(m.__file__)).parent) for m in (importlib, pluggy)]
    frames = [
        frame
        for frame in traceback.extract_tb(e.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith(("<", *ours))
    ]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f"{Path(own[-1].filename).name} line {own[-1].lineno}" if own else ""
