"""Evaluate language models on medical work.

What a plugin author needs and the three entry points, imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medhelm.api import evaluate as evaluate
    from medhelm.data.sections import cut_section as cut_section
    from medhelm.errors import DataError as DataError
    from medhelm.errors import MedhelmError as MedhelmError
    from medhelm.extract import extract_choice as extract_choice
    from medhelm.extract import extract_codes as extract_codes
    from medhelm.extract import extract_date as extract_date
    from medhelm.extract import extract_labels as extract_labels
    from medhelm.extract import extract_number as extract_number
    from medhelm.extract import extract_weeks_days as extract_weeks_days
    from medhelm.extract import final_answer as final_answer
    from medhelm.extract import is_code as is_code
    from medhelm.extract import visible_text as visible_text
    from medhelm.hookspecs import hookimpl as hookimpl
    from medhelm.noharm.menu import Labelled as Labelled
    from medhelm.noharm.menu import case_instance as case_instance
    from medhelm.noharm.menu import has_strong_action as has_strong_action
    from medhelm.noharm.menu import label_case as label_case
    from medhelm.rouge import rouge_scores as rouge_scores
    from medhelm.schema import Benchmark as Benchmark
    from medhelm.schema import Criterion as Criterion
    from medhelm.schema import FileDataset as FileDataset
    from medhelm.schema import HubDataset as HubDataset
    from medhelm.schema import Instance as Instance
    from medhelm.schema import Metric as Metric
    from medhelm.schema import ModelSpec as ModelSpec
    from medhelm.schema import Outcome as Outcome
    from medhelm.schema import Price as Price
    from medhelm.schema import Prompt as Prompt
    from medhelm.schema import Response as Response
    from medhelm.schema import Row as Row
    from medhelm.schema import Sampling as Sampling
    from medhelm.schema import Score as Score
    from medhelm.schema import Scoring as Scoring
    from medhelm.schema import SourceFile as SourceFile
    from medhelm.sql_compare import is_ordered as is_ordered
    from medhelm.sql_compare import same_query as same_query
    from medhelm.sql_compare import same_rows as same_rows
    from medhelm.sql_sandbox import QueryResult as QueryResult
    from medhelm.sql_sandbox import Sandbox as Sandbox
    from medhelm.sql_sandbox import open_sandbox as open_sandbox
    from medhelm.tables.results import Results as Results
    from medhelm.tables.results import load_results as load_results

__version__ = "0.1.0"

_HOMES = {
    "api": ("evaluate",),
    "data.sections": ("cut_section",),
    "errors": ("DataError", "MedhelmError"),
    "extract": (
        "extract_choice",
        "extract_codes",
        "extract_date",
        "extract_labels",
        "extract_number",
        "extract_weeks_days",
        "final_answer",
        "is_code",
        "visible_text",
    ),
    "hookspecs": ("hookimpl",),
    "noharm.menu": ("Labelled", "case_instance", "has_strong_action", "label_case"),
    "rouge": ("rouge_scores",),
    "sql_compare": ("is_ordered", "same_query", "same_rows"),
    "sql_sandbox": ("QueryResult", "Sandbox", "open_sandbox"),
    "tables.results": ("Results", "load_results"),
    "schema": (
        "Benchmark",
        "Criterion",
        "FileDataset",
        "HubDataset",
        "Instance",
        "Metric",
        "ModelSpec",
        "Outcome",
        "Price",
        "Prompt",
        "Response",
        "Row",
        "Sampling",
        "Score",
        "Scoring",
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
