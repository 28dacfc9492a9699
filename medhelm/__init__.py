"""Evaluate language models on medical work.

What a plugin author needs and the entry points of Python, imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medhelm.api import estimate as estimate
    from medhelm.api import evaluate as evaluate
    from medhelm.api import fetch_data as fetch_data
    from medhelm.api import score as score
    from medhelm.api import validate as validate
    from medhelm.api import verify_data as verify_data
    from medhelm.config import PrivacyPolicy as PrivacyPolicy
    from medhelm.data.csv_table import read_table as read_table
    from medhelm.data.sections import cut_section as cut_section
    from medhelm.data.table_layout import TableLayout as TableLayout
    from medhelm.data.weighted_rubrics import weighted_rubric_instance as weighted_rubric_instance
    from medhelm.errors import BudgetReached as BudgetReached
    from medhelm.errors import DataError as DataError
    from medhelm.errors import MedhelmError as MedhelmError
    from medhelm.errors import ModelError as ModelError
    from medhelm.errors import PrivacyRefused as PrivacyRefused
    from medhelm.extract import Glossary as Glossary
    from medhelm.extract import Quantity as Quantity
    from medhelm.extract import Reading as Reading
    from medhelm.extract import extract_choice as extract_choice
    from medhelm.extract import extract_codes as extract_codes
    from medhelm.extract import extract_date as extract_date
    from medhelm.extract import extract_labels as extract_labels
    from medhelm.extract import extract_number as extract_number
    from medhelm.extract import extract_weeks_days as extract_weeks_days
    from medhelm.extract import final_answer as final_answer
    from medhelm.extract import is_code as is_code
    from medhelm.extract import marked_answers as marked_answers
    from medhelm.extract import own_text as own_text
    from medhelm.extract import read_answer as read_answer
    from medhelm.extract import read_choice as read_choice
    from medhelm.extract import read_codes as read_codes
    from medhelm.extract import read_date as read_date
    from medhelm.extract import read_labels as read_labels
    from medhelm.extract import read_number as read_number
    from medhelm.extract import read_weeks_days as read_weeks_days
    from medhelm.extract import visible_text as visible_text
    from medhelm.grading.rubric.metrics import rubric_score_of as rubric_score_of
    from medhelm.models.endpoint import Endpoint as Endpoint
    from medhelm.models.endpoint import EndpointModel as EndpointModel
    from medhelm.models.hosts import Access as Access
    from medhelm.models.hosts import Host as Host
    from medhelm.models.provider import Provider as Provider
    from medhelm.models.wire import Answer as Answer
    from medhelm.models.wire import Failure as Failure
    from medhelm.models.wire import read_failure as read_failure
    from medhelm.plugins.hookspecs import hookimpl as hookimpl
    from medhelm.protocols.protocol import Ask as Ask
    from medhelm.protocols.protocol import FinalAnswer as FinalAnswer
    from medhelm.protocols.protocol import Forecast as Forecast
    from medhelm.protocols.protocol import Protocol as Protocol
    from medhelm.protocols.protocol import Terms as Terms
    from medhelm.protocols.strategy import AskRole as AskRole
    from medhelm.protocols.strategy import Strategy as Strategy
    from medhelm.schema.aggregation import MEAN as MEAN
    from medhelm.schema.aggregation import Aggregation as Aggregation
    from medhelm.schema.aggregation import Floats as Floats
    from medhelm.schema.aggregation import Sums as Sums
    from medhelm.schema.aggregation import pooled_share as pooled_share
    from medhelm.schema.data import Benchmark as Benchmark
    from medhelm.schema.data import CriteriaRules as CriteriaRules
    from medhelm.schema.data import Criterion as Criterion
    from medhelm.schema.data import Exposure as Exposure
    from medhelm.schema.data import FileDataset as FileDataset
    from medhelm.schema.data import HubDataset as HubDataset
    from medhelm.schema.data import HubSource as HubSource
    from medhelm.schema.data import Instance as Instance
    from medhelm.schema.data import Items as Items
    from medhelm.schema.data import LeftOut as LeftOut
    from medhelm.schema.data import Phrasing as Phrasing
    from medhelm.schema.data import Prompt as Prompt
    from medhelm.schema.data import Row as Row
    from medhelm.schema.data import RowFinding as RowFinding
    from medhelm.schema.data import SourceFile as SourceFile
    from medhelm.schema.data import Turn as Turn
    from medhelm.schema.episode import Call as Call
    from medhelm.schema.episode import Episode as Episode
    from medhelm.schema.episode import Message as Message
    from medhelm.schema.episode import Request as Request
    from medhelm.schema.episode import Response as Response
    from medhelm.schema.episode import Sampling as Sampling
    from medhelm.schema.episode import Usage as Usage
    from medhelm.schema.model import ModelSpec as ModelSpec
    from medhelm.schema.model import Price as Price
    from medhelm.schema.page import Page as Page
    from medhelm.schema.run import JurySpec as JurySpec
    from medhelm.schema.score import Metric as Metric
    from medhelm.schema.score import Outcome as Outcome
    from medhelm.schema.score import Score as Score
    from medhelm.schema.score import Scoring as Scoring
    from medhelm.similarity.rouge import rouge_scores as rouge_scores
    from medhelm.stats.aggregation import by_label as by_label
    from medhelm.stats.aggregation import mean_of_defined as mean_of_defined
    from medhelm.stats.aggregation import ratio as ratio
    from medhelm.tables.format.table import Column as Column
    from medhelm.tables.format.table import Layout as Layout
    from medhelm.tables.format.table import Part as Part
    from medhelm.tables.format.table import Table as Table
    from medhelm.tables.format.table import make_table as make_table
    from medhelm.tables.published import Mark as Mark
    from medhelm.tables.published import PageData as PageData
    from medhelm.tables.published import PublishedRuns as PublishedRuns
    from medhelm.tables.results import Results as Results
    from medhelm.tables.results import load_results as load_results
    from medhelm.tables.table_spec import TableRequest as TableRequest
    from medhelm.tables.table_spec import TableSpec as TableSpec
    from medhelm.tables.table_spec import publish_whole as publish_whole

__version__ = "0.1.0"

_HOMES = {
    "api": ("estimate", "evaluate", "fetch_data", "score", "validate", "verify_data"),
    "data.csv_table": ("read_table",),
    "data.sections": ("cut_section",),
    "data.table_layout": ("TableLayout",),
    "data.weighted_rubrics": ("weighted_rubric_instance",),
    "grading.rubric.metrics": ("rubric_score_of",),
    "config": ("PrivacyPolicy",),
    "errors": ("BudgetReached", "DataError", "MedhelmError", "ModelError", "PrivacyRefused"),
    "extract": (
        "Glossary",
        "Quantity",
        "Reading",
        "extract_choice",
        "extract_codes",
        "extract_date",
        "extract_labels",
        "extract_number",
        "extract_weeks_days",
        "read_date",
        "read_number",
        "read_weeks_days",
        "final_answer",
        "is_code",
        "marked_answers",
        "own_text",
        "read_answer",
        "read_choice",
        "read_codes",
        "read_labels",
        "visible_text",
    ),
    "models.endpoint": ("Endpoint", "EndpointModel"),
    "models.hosts": ("Access", "Host"),
    "models.provider": ("Provider",),
    "models.wire": ("Answer", "Failure", "read_failure"),
    "plugins.hookspecs": ("hookimpl",),
    "schema.aggregation": ("MEAN", "Aggregation", "Floats", "Sums", "pooled_share"),
    "stats.aggregation": ("by_label", "mean_of_defined", "ratio"),
    "similarity.rouge": ("rouge_scores",),
    "tables.published": ("Mark", "PageData", "PublishedRuns"),
    "tables.results": ("Results", "load_results"),
    "tables.format.table": ("Column", "Layout", "Part", "Table", "make_table"),
    "tables.table_spec": ("TableRequest", "TableSpec", "publish_whole"),
    "schema.data": (
        "Benchmark",
        "CriteriaRules",
        "Criterion",
        "Exposure",
        "FileDataset",
        "HubDataset",
        "HubSource",
        "Instance",
        "Items",
        "LeftOut",
        "Phrasing",
        "Prompt",
        "Row",
        "RowFinding",
        "SourceFile",
        "Turn",
    ),
    "protocols.protocol": ("Ask", "FinalAnswer", "Forecast", "Protocol", "Terms"),
    "protocols.strategy": ("AskRole", "Strategy"),
    "schema.episode": (
        "Call",
        "Episode",
        "Message",
        "Request",
        "Response",
        "Sampling",
        "Usage",
    ),
    "schema.model": (
        "ModelSpec",
        "Price",
    ),
    "schema.page": ("Page",),
    "schema.run": ("JurySpec",),
    "schema.score": (
        "Metric",
        "Outcome",
        "Score",
        "Scoring",
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
