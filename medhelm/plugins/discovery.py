"""Find the modules of plugins and call their hooks, each plugin by itself."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.machinery import SOURCE_SUFFIXES, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from medhelm.errors import MedhelmError, PluginError, closest
from medhelm.files.durable import is_file
from medhelm.plugins import hookspecs

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("medhelm_"))
_HOW = "plugins=[PATH] of `run` and --plugin PATH of other commands take .py and .yaml files"
ADD = f"a plugin returns what it adds from a hook marked @hookimpl: {', '.join(HOOKS)}"


def package_folders(module: str) -> list[Path] | None:
    """Return the folders of a package, which is not imported for it; None for a plain module.

    Packages that it lies in are imported, where it lies in any. Raises ImportError.
    """
    spec = importlib.util.find_spec(module)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
    where = spec.submodule_search_locations
    return None if where is None else [Path(folder) for folder in where]


def modules_named(package: str, folders: Iterable[Path], name: str) -> Iterator[str]:
    """Yield the modules of this name in a package, and in each package that lies in it."""
    for folder in folders:
        found = list(pkgutil.iter_modules([str(folder)]))
        yield from (f"{package}.{name}" for info in found if info.name == name)
        for inner in (info.name for info in found if info.ispkg):
            inside = pkgutil.iter_modules([str(folder / inner)])
            yield from (f"{package}.{inner}.{name}" for info in inside if info.name == name)


class _Uncached(SourceFileLoader):
    """Loads a file as it is now: of one written twice in a second the compiled form may be the first's."""

    def path_stats(self, path: str | bytes) -> Any:
        """Say that nothing is known of the file, so that no compiled form is read or written."""
        raise OSError


def import_file(path: Path) -> ModuleType:
    """Return the module of a plugin file that the user named; raises PluginError."""
    if not is_file(path):
        raise PluginError(f"plugin file {path} does not exist; {_HOW}")
    tag = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"medhelm_plugin_{path.stem}_{tag}"
    if path.suffix not in SOURCE_SUFFIXES:
        raise PluginError(f"plugin {path} is not a Python file; {_HOW}")
    loader = _Uncached(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@lru_cache(maxsize=256)
def hooks_of(module: ModuleType, origin: str) -> pluggy.HookRelay:
    """Return the hooks of one module, to be called; raises PluginError for one that is misspelt."""
    manager = pluggy.PluginManager("medhelm")
    manager.add_hookspecs(hookspecs)
    manager.register(module, name=origin)
    # another plugin's hook under a name of one's own is a function to call, and no hook
    unknown = [
        name
        for name in _marked(module)
        if name not in HOOKS and getattr(module, name).__module__ == module.__name__
    ]
    if unknown:
        nearest = closest(unknown[0], HOOKS)
        did = f"; did you mean {nearest[0]!r}?" if nearest else f"; hooks are {', '.join(HOOKS)}"
        raise PluginError(f"plugin {origin}: unknown hook {unknown[0]!r}{did}")
    _refuse_unmarked(module, origin)
    return manager.hook


def has_hook(module: ModuleType, hook: str) -> bool:
    """Return whether a module implements a hook."""
    return hook in _marked(module)


def _marked(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if getattr(getattr(module, name), "medhelm_impl", None)]


def _refuse_unmarked(module: ModuleType, origin: str) -> None:
    """Refuse a function named as a hook but not marked as one, which nothing would ever call."""
    for name, value in vars(module).items():
        is_own = callable(value) and getattr(value, "__module__", "") == module.__name__
        if name.startswith("medhelm_") and is_own and not hasattr(value, "medhelm_impl"):
            near = difflib.get_close_matches(name, HOOKS, n=1, cutoff=0.9)
            if name in HOOKS or near:
                as_what = "" if name in HOOKS else f" (as {near[0]!r})"
                raise PluginError(
                    f"plugin {origin}: {name} is not marked as a hook, so it would not be read; "
                    f"write @hookimpl above it{as_what}, from `from medhelm import hookimpl`"
                )


def hook_values(returned: list[Any], kind: type[Any], origin: str) -> Iterator[Any]:
    """Yield what a hook returned; raises PluginError for a value of another type."""
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


def fault(e: BaseException) -> str:
    """Return what a plugin raised in one line, with the plugin's own line where it did."""
    if isinstance(e, MedhelmError):
        return str(e)
    text = " ".join(str(e).split())[:300]
    said = f"{type(e).__name__}: {text}" if text else type(e).__name__
    if isinstance(e, SyntaxError) or not (place := _place(e)):  # a SyntaxError names its line
        return said
    return f"{said} ({place}); mend the plugin or leave it out"


def _place(e: BaseException) -> str:
    """Return the plugin's own line of an exception; what it called lies deeper."""
    own_folder = f"{Path(__file__).parents[1]}{os.sep}"
    ours = [str(Path(str(m.__file__)).parent) for m in (importlib, pluggy)]
    frames = [
        frame
        for frame in traceback.extract_tb(e.__traceback__)
        if not frame.filename.startswith(("<", own_folder, *ours))
    ]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f"{Path(own[-1].filename).name} line {own[-1].lineno}" if own else ""
