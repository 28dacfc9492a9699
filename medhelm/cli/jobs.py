"""A composed config -> the job that it asks for; a job's command line as a shell takes it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from medhelm.config import Job, JuryChoice, convert
from medhelm.errors import UsageError


def to_job(config: Mapping[str, Any]) -> Job:
    """Return the job that a composed config asks for; raises UsageError naming what is missing."""
    values = dict(config)
    for ours in ("hydra", "plugins", "experiment"):
        values.pop(ours, None)
    benchmark, suite = values.pop("benchmark"), values.pop("suite")
    _refuse_alone(benchmark, values)
    if not values["jury"]["name"]:
        del values["jury"]
    chosen = [benchmark] if benchmark["name"] else []
    chosen += [{"name": name} for name in suite["benchmarks"]]
    if not values["model"]["name"]:
        raise UsageError(
            "the model is missing: add model=NAME (`medhelm list models`), "
            "for example model=openai/gpt-4o"
        )
    if not chosen:
        raise UsageError(
            "the benchmark is missing: add benchmark=NAME (`medhelm list benchmarks`), "
            "'benchmark=glob(*)' or suite=NAME"
        )
    model = {key: value for key, value in values["model"].items() if value != "???"}
    values |= {"benchmarks": chosen, "rename": model.pop("rename"), "model": model}
    job: Job = convert(values, Job, "config")
    return job


def _refuse_alone(benchmark: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Refuse settings that have no effect without another one."""
    if benchmark["split"] and not benchmark["name"]:
        raise UsageError("benchmark.split goes with benchmark=NAME; a suite takes default splits")
    if not values["jury"]["name"]:
        unset = JuryChoice(name="offline")
        for key, value in values["jury"].items():
            given = tuple(value) if isinstance(value, list) else value
            if key != "name" and given != getattr(unset, key):
                raise UsageError(f"jury.{key} goes with jury=NAME, which says whose it is")


def command(argv: Sequence[str]) -> str:
    """Return the command line as a shell takes it."""
    return "medhelm run " + shlex.join(argv)
