"""Evaluate language models on medical work.

What a plugin author needs and the three entry points, imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medhelm.api import evaluate as evaluate
    from medhelm.errors import DataError as DataError
    from medhelm.errors import MedhelmError as MedhelmError
    from medhelm.extract import extract_choice as extract_choice
    from medhelm.extract import extract_number as extract_number
    from medhelm.hookspecs import hookimpl as hookimpl
    from medhelm.results import Results as Results
    from medhelm.results import load_results as load_results
    from medhelm.schema import Benchmark as Benchmark
    from medhelm.schema import FileDataset as FileDataset
    from medhelm.schema import HubDataset as HubDataset
    from medhelm.schema import Instance as Instance
    from medhelm.schema import Metric as Metric
    from medhelm.schema import ModelSpec as ModelSpec
    from medhelm.schema import Price as Price
    from medhelm.schema import Prompt as Prompt
    from medhelm.schema import Response as Response
    from medhelm.schema import Row as Row
    from medhelm.schema import Score as Score
    from medhelm.schema import SourceFile as SourceFile

__version__ = "0.1.0"

_HOMES = {
    "api": ("evaluate",),
    "errors": ("DataError", "MedhelmError"),
    "extract": ("extract_choice", "extract_number"),
    "hookspecs": ("hookimpl",),
    "results": ("Results", "load_results"),
    "schema": (
        "Benchmark",
        "FileDataset",
        "HubDataset",
        "Instance",
        "Metric",
        "ModelSpec",
        "Price",
        "Prompt",
        "Response",
        "Row",
        "Score",
        "SourceFile",
    ),
}
_HOME_OF = {name: f"medhelm.{home}" for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'medhelm' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
