"""Find the tables of plugins, without importing what else they bring."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from medhelm.errors import MedhelmError, PluginError, UnknownName
from medhelm.plugins.commands import Broken, Installed, installed_plugins
from medhelm.plugins.discovery import (
    fault,
    hook_values,
    hooks_of,
    import_file,
    modules_named,
    package_folders,
)
from medhelm.tables import builtin
from medhelm.tables.format.table import Table
from medhelm.tables.study.study import Study
from medhelm.tables.suites import by_suite
from medhelm.tables.table_spec import TableRequest, TableSpec

_MODULE = "tables"


@dataclass(frozen=True)
class KnownTables:
    """All tables by name, those that need an option last, and the plugins that were left out."""

    specs: Mapping[str, TableSpec]
    broken: tuple[Broken, ...] = ()

    def spec(self, name: str) -> TableSpec:
        """Return a table by name; raises UnknownName with the nearest ones."""
        try:
            return self.specs[name]
        except KeyError:
            left_out = "".join(f"; plugin {b.plugin} is left out" for b in self.broken)
            hint = f"tables are: {', '.join(self.specs)}{left_out}"
            raise UnknownName("table", name, self.specs, hint) from None


def find_tables(plugins: Sequence[str] = ()) -> KnownTables:
    """Return the tables of medhelm, of installed plugins, and of the files named in `plugins`.

    Raises PluginError where a built-in plugin or a named file cannot be used.
    """
    found = _add({}, _specs(builtin, ""))
    broken = []
    for point in installed_plugins():
        try:
            found = _add(found, _installed(point))
        except BaseException as e:  # the boundary to plugins: what they raise is theirs
            if point.is_built_in or isinstance(e, KeyboardInterrupt):
                raise
            broken.append(Broken(str(point), fault(e)))
    for file in plugins:
        if Path(file).suffix not in (".yaml", ".yml"):
            found = _add(found, _named(Path(file)))
    ordered = sorted(found.values(), key=lambda spec: spec.needs is not None)
    return KnownTables({spec.name: spec for spec in ordered}, tuple(broken))


def _installed(point: Installed) -> list[TableSpec]:
    owner = "" if point.is_built_in else str(point)
    folders = package_folders(point.module)
    names = [point.module] if folders is None else modules_named(point.module, folders, _MODULE)
    return [spec for name in names for spec in _specs(importlib.import_module(name), owner)]


def _named(path: Path) -> list[TableSpec]:
    try:
        return list(_specs(import_file(path), str(path)))
    except (PluginError, KeyboardInterrupt):
        raise
    except BaseException as e:  # the boundary to plugins
        raise PluginError(f"plugin {path}: {fault(e)}") from None


def _specs(module: ModuleType, owner: str) -> Iterator[TableSpec]:
    origin = module.__file__ or module.__name__
    for spec in hook_values(hooks_of(module, origin).medhelm_tables(), TableSpec, origin):
        yield replace(spec, origin=origin, owner=owner)


def _add(known: Mapping[str, TableSpec], more: Iterable[TableSpec]) -> dict[str, TableSpec]:
    """Return the tables with all of a plugin's, or raise PluginError for a name that is taken."""
    found = dict(known)
    for spec in more:
        if first := found.get(spec.name):
            raise PluginError(
                f"table {spec.name!r} is defined twice: in {first.origin} and in {spec.origin}; "
                "rename one"
            )
        found[spec.name] = spec
    return found


def made_table(spec: TableSpec, asked: TableRequest) -> Table:
    """Return a table. Raises PluginError, with the plugin's name, where a plugin's function fails."""

    def make(study: Study) -> Table:
        return _checked(spec, lambda: spec.make(replace(asked, study=study)))

    return by_suite(asked.study, make) if spec.is_of_suite else make(asked.study)


def published_table(spec: TableSpec, asked: TableRequest, closed: frozenset[str]) -> Table | None:
    """Return what the site shows of a table, None for nothing; raises PluginError as `made_table`.

    `closed`: benchmarks whose text is not published.
    """
    table, publish = made_table(spec, asked), spec.publish
    return None if publish is None else _checked(spec, lambda: publish(table, asked, closed))


_Made = TypeVar("_Made", Table, Table | None)


def _checked(spec: TableSpec, make: Callable[[], _Made]) -> _Made:
    """Return what a function of a table's plugin returns, if that is a table of its name."""
    if not spec.owner:
        return make()
    named = f"table {spec.name!r} of plugin {spec.owner}"
    try:
        table = make()
    except (MedhelmError, KeyboardInterrupt):
        raise
    except BaseException as e:  # the boundary to plugins
        raise PluginError(f"{named}: {fault(e)}") from None
    is_table = isinstance(table, Table) and table.name == spec.name
    if not is_table:
        got = f"a table {table.name!r}" if isinstance(table, Table) else type(table).__name__
        raise PluginError(f"{named} is made as {got}; return make_table({spec.name!r}, ...)")
    return table
