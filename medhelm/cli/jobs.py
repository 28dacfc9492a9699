"""A composed config -> the job that it asks for; a job's command line as a shell takes it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from medhelm.config import DEFAULT_ASKING, Job, JuryChoice, chosen_asking, convert
from medhelm.errors import UsageError
from medhelm.schema.asking import Asking, Form
from medhelm.schema.model import ModelSpec


class _Chosen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    examples: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    form: Form | None = None
    instruction: str | None = None


def to_job(config: Mapping[str, Any]) -> Job:
    """Return the job that a composed config asks for; raises UsageError naming what is missing."""
    values = dict(config)
    for ours in ("hydra", "plugins", "experiment"):
        values.pop(ours, None)
    benchmark, suite = values.pop("benchmark"), values.pop("suite")
    _refuse_alone(benchmark, values)
    if not values["jury"]["name"]:
        del values["jury"]
    values["ask"] = _asking(values, benchmark)
    chosen = [benchmark] if benchmark["name"] else []
    chosen += [{"name": name} for name in suite["benchmarks"]]
    model = _model(values)
    if not chosen:
        raise UsageError(
            "the benchmark is missing: add benchmark=NAME (`medhelm list benchmarks`), "
            "'benchmark=glob(*)' or suite=NAME"
        )
    values |= {"benchmarks": chosen, "rename": model.pop("rename"), "model": model}
    job: Job = convert(values, Job, "config")
    return job


def _asking(values: dict[str, Any], benchmark: dict[str, Any]) -> Asking | None:
    """Take the keys of an asking out of a job's values; returns what they choose."""
    named = {key: value for key, value in values.pop("ask").items() if value is not None}
    asking: Asking = convert({"name": DEFAULT_ASKING} | named, Asking, "ask")
    chosen: _Chosen = convert(
        {
            "examples": values.pop("examples"),
            "form": values.pop("form"),
            "instruction": benchmark.pop("instruction", None),
        },
        _Chosen,
        "config",
    )
    return chosen_asking(asking, **msgspec.structs.asdict(chosen))


def to_model(config: Mapping[str, Any]) -> ModelSpec:
    """Return the model alone that a composed config asks for; raises UsageError as `to_job`."""
    model = _model(config)
    del model["rename"]
    spec: ModelSpec = convert(model, ModelSpec, "model")
    return spec


def _model(values: Mapping[str, Any]) -> dict[str, Any]:
    if not values["model"]["name"]:
        raise UsageError(
            "the model is missing: add model=NAME (`medhelm list models`), "
            "for example model=openai/gpt-4o"
        )
    return {key: value for key, value in values["model"].items() if value != "???"}


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
