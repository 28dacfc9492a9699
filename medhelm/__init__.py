"""Evaluate language models on medical work.

What a plugin author needs and the entry points of Python, imported on first use. `__init__.pyi` lists
the names; `medhelm.plugin` has those that a package of benchmarks needs besides.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"


def listed_names(stub: Path) -> dict[str, str]:
    """Return the home of each name that a stub re-exports, so that names are listed once."""
    lines = re.findall(r"^from (\S+) import (\w+) as \2\b", stub.read_text("utf-8"), re.MULTILINE)
    return {name: home for home, name in lines}


_HOME_OF = listed_names(Path(__file__).with_suffix(".pyi"))

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'medhelm' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
