"""NOHARM as a package: cases whose next steps are labelled one by one, and what errors weigh.

`rules` has the form of a case and the arithmetic, `generation` writes cases from a guideline, `experts`
compares those who rate them. Wu et al., NOHARM (arXiv 2512.01241), as MedAct replicates it. Each
part is imported where it is asked for: its tables and commands need none of the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from medhelm import Benchmark, Metric, Page, Protocol, hookimpl

if TYPE_CHECKING:
    from medhelm_benchmarks.noharm.rules.menu import ACTION_ITEMS as ACTION_ITEMS
    from medhelm_benchmarks.noharm.rules.menu import Labelled as Labelled
    from medhelm_benchmarks.noharm.rules.menu import case_instance as case_instance
    from medhelm_benchmarks.noharm.rules.menu import has_strong_action as has_strong_action
    from medhelm_benchmarks.noharm.rules.menu import label_case as label_case
    from medhelm_benchmarks.noharm.rules.score import ACTION_OVERALL as ACTION_OVERALL

_HOME_OF = {
    "ACTION_ITEMS": "menu",
    "ACTION_OVERALL": "score",
    "Labelled": "menu",
    "case_instance": "menu",
    "has_strong_action": "menu",
    "label_case": "menu",
}
"""The module of `rules` of each name for benchmarks of labelled actions of one's own."""


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.rules.{_HOME_OF[name]}"), name)


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark."""
    from medhelm_benchmarks.noharm.benchmark import NOHARM

    return [NOHARM]


@hookimpl
def medhelm_metrics() -> list[Metric]:
    """Return the metrics of labelled actions."""
    from medhelm_benchmarks.noharm.metrics import METRICS

    return [*METRICS]


@hookimpl
def medhelm_protocols() -> list[Protocol]:
    """Return the protocol of labelled actions."""
    from medhelm_benchmarks.noharm.benchmark import ACTION_LABELS

    return [ACTION_LABELS]


@hookimpl
def medhelm_pages() -> list[Page]:
    """Return the page Harm."""
    from medhelm_benchmarks.noharm.page.page import HARM

    return [HARM]
