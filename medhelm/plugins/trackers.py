"""Trackers that come with medhelm: MLflow, Weights & Biases, OpenTelemetry, each by its own settings."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from medhelm.errors import UnknownName, UsageError
from medhelm.schema.ended_run import EndedRun, Tracker


def mlflow(run: EndedRun) -> None:
    """Log a run to the tracking server or folder of MLFLOW_TRACKING_URI; one that is there is renewed."""
    import mlflow as client

    client.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "medhelm"))
    wanted = f"tags.`medhelm.id` = '{run.id}'"
    found = client.search_runs(filter_string=wanted, output_format="list")
    there = found[0].info.run_id if found else None
    with client.start_run(run_id=there, run_name=run.name, nested=True):
        client.set_tag("medhelm.id", run.id)
        client.log_params(dict(run.settings))
        client.log_metrics({re.sub(r"[^\w./ -]", "_", k): v for k, v in run.flat.items()})


def wandb(run: EndedRun) -> None:
    """Log a run to Weights & Biases, by its own environment variables; one that is there is renewed."""
    import wandb as client

    project, config = os.environ.get("WANDB_PROJECT", "medhelm"), dict(run.settings)
    with client.init(
        project=project, id=run.id, name=run.name, resume="allow", config=config
    ) as sent:
        sent.summary.update(run.flat)


def opentelemetry(run: EndedRun) -> None:
    """Emit an event `gen_ai.evaluation.result` of each metric to the logger provider of this process."""
    from opentelemetry._logs import LogRecord, get_logger_provider

    provider = get_logger_provider()
    if type(provider).__module__.startswith("opentelemetry._logs"):
        raise UsageError("no logger provider is set; start medhelm by opentelemetry-instrument")
    known = {**run.settings, **run.numbers, "run": run.id}
    facts = {f"medhelm.{name}": value for name, value in known.items() if value is not None}
    for metric, own in run.scores.items():
        score = {f"medhelm.{name}": value for name, value in own.items() if name != "score"}
        named = {"gen_ai.evaluation.name": metric, "gen_ai.evaluation.score.value": own["score"]}
        event = "gen_ai.evaluation.result"
        record = LogRecord(
            timestamp=time.time_ns(), event_name=event, attributes={**facts, **score, **named}
        )
        provider.get_logger("medhelm").emit(record)


OWN: Mapping[str, Tracker] = {own.__name__: own for own in (mlflow, wandb, opentelemetry)}
_NEEDS = {mlflow: "mlflow", wandb: "wandb", opentelemetry: "opentelemetry"}


def find_trackers(names: Iterable[str], known: Mapping[str, Tracker]) -> dict[str, Tracker]:
    """Return trackers by name; raises UnknownName, and UsageError where a package is missing."""
    found = {}
    for name in names:
        if name not in known:
            raise UnknownName("tracker", name, known, f"There are: {', '.join(known)}.")
        needed = _NEEDS.get(known[name])
        if needed and find_spec(needed) is None:
            fix = f"pip install 'medhelm-framework[{name}]'"
            raise UsageError(f"track={name} needs the package {needed}: {fix}")
        found[name] = known[name]
    return found
