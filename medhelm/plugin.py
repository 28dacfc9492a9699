"""Re-export what a package of benchmarks needs besides `medhelm`: commands, judges, tables of a study.

Names are imported on first use. `plugin.pyi` lists them with a line each; a test holds that each has a use.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from medhelm import listed_names

_HOME_OF = listed_names(Path(__file__).with_suffix(".pyi"))

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'medhelm.plugin' has no attribute {name!r}")
    home = import_module(_HOME_OF[name])
    return getattr(home, name, None) or import_module(f"{home.__name__}.{name}")
