"""The hooks that a plugin may implement. Each returns a list, none changes anything."""

from __future__ import annotations

import pluggy

from medhelm.models.provider import Provider
from medhelm.protocols.protocol import Protocol
from medhelm.protocols.strategy import Strategy
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark
from medhelm.schema.model import ModelSpec
from medhelm.schema.page import Page
from medhelm.schema.run import Tracker
from medhelm.schema.score import Metric

hookspec = pluggy.HookspecMarker("medhelm")
hookimpl = pluggy.HookimplMarker("medhelm")


@hookspec
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmarks that this plugin adds."""
    return []


@hookspec
def medhelm_askings() -> list[Asking]:
    """Return the askings that this plugin adds; `ask=NAME` chooses one."""
    return []


@hookspec
def medhelm_metrics() -> list[Metric]:
    """Return the metrics that this plugin adds."""
    return []


@hookspec
def medhelm_tables() -> list[object]:
    """Return the tables that this plugin adds, each a `medhelm.TableSpec`.

    A package brings them in its module `tables`, which is imported alone where only tables are asked
    for.
    """
    return []


@hookspec
def medhelm_models() -> list[ModelSpec]:
    """Return the models that this plugin adds; `provider` names who serves them."""
    return []


@hookspec
def medhelm_protocols() -> list[Protocol]:
    """Return the protocols that this plugin adds; a benchmark names the one that it goes by."""
    return []


@hookspec
def medhelm_strategies() -> list[Strategy]:
    """Return the strategies that this plugin adds; `model.strategy` or a cast entry names one."""
    return []


@hookspec
def medhelm_pages() -> list[Page]:
    """Return the pages that this plugin adds to the leaderboard's site."""
    return []


@hookspec
def medhelm_providers() -> list[Provider]:
    """Return the providers that this plugin adds: who serves models, and how they are asked."""
    return []


@hookspec
def medhelm_trackers() -> list[Tracker]:
    """Return functions that receive each finished run; `track=NAME` chooses one by its name.

    Each is handed a `medhelm.schema.run.EndedRun`: names, hashes and numbers, and no text of data.
    """
    return []
