"""Trackers that come with medhelm, each by the environment variables of its own tool."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from medhelm.errors import UnknownName, UsageError
from medhelm.schema.run import EndedRun, Tracker


def mlflow(run: EndedRun) -> None:
    """Log a run to MLflow; one that is there is renewed."""
    import mlflow as client

    client.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "medhelm"))
    wanted = f"tags.`medhelm.id` = '{run.id}'"
    found = client.search_runs(filter_string=wanted, output_format="list")
    there = found[0].info.run_id if found else None
    with client.start_run(run_id=there, run_name=run.name, nested=True):
        client.set_tag("medhelm.id", run.id)
        client.log_params(dict(run.settings))
        client.log_metrics({re.sub(r"[^\w./ -]", "_", k): v for k, v in run.numbers.items()})


def wandb(run: EndedRun) -> None:
    """Log a run to Weights & Biases; one that is there is renewed."""
    import wandb as client

    project, named = os.environ.get("WANDB_PROJECT", "medhelm"), {"id": run.id, "name": run.name}
    with client.init(project=project, resume="allow", config=dict(run.settings), **named) as sent:
        sent.summary.update(dict(run.numbers))


def opentelemetry(run: EndedRun) -> None:
    """Emit an event of each number to the logger provider of this process."""
    from opentelemetry._logs import LogRecord, get_logger_provider

    provider, event = get_logger_provider(), "gen_ai.evaluation.result"
    if type(provider).__module__.startswith("opentelemetry._logs"):
        raise UsageError("no logger provider is set; start medhelm by opentelemetry-instrument")
    facts = {f"medhelm.{k}": v for k, v in run.settings.items() if v is not None}
    for name, value in run.numbers.items():
        own = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": value}
        attributes: dict[str, Any] = {**facts, **own, "medhelm.id": run.id}
        record = LogRecord(timestamp=time.time_ns(), event_name=event, attributes=attributes)
        provider.get_logger("medhelm").emit(record)


OWN: Mapping[str, Tracker] = {own.__name__: own for own in (mlflow, wandb, opentelemetry)}


def find_trackers(names: Iterable[str], known: Mapping[str, Tracker]) -> dict[str, Tracker]:
    """Return trackers by name; raises UnknownName, and UsageError where a package is missing."""
    for name in names:
        if name not in known:
            raise UnknownName("tracker", name, known, f"There are: {', '.join(known)}.")
        if known[name] is OWN.get(name) and not _is_there(name):
            fix = f"run in the checkout: pip install '.[{name}]'"
            raise UsageError(f"track={name} needs the package {name}: {fix}")
    return {name: known[name] for name in names}


def _is_there(package: str) -> bool:
    """Return whether a package can be imported; a folder of its name in the current one is none."""
    try:
        found = find_spec("opentelemetry._logs" if package == "opentelemetry" else package)
    except ModuleNotFoundError:
        return False
    return found is not None and found.origin is not None
