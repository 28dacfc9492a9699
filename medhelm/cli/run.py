"""`medhelm run`: a Hydra application whose jobs all run in this process, or in those of `workers`.

Composed configs become typed jobs here.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from medhelm.cli import demo
from medhelm.cli.completion import complete as complete
from medhelm.cli.completion import print_completions
from medhelm.cli.compose import Options, compose, read_options, with_own_models
from medhelm.cli.options import open_registry
from medhelm.cli.overrides import refuse_keys
from medhelm.config import DEFAULT_ASKING, Job, chosen_asking, convert
from medhelm.errors import UsageError
from medhelm.grading.jury.choice import OFFLINE, with_named_judges
from medhelm.plugins.registry import Registry
from medhelm.schema.asking import Asking, Form
from medhelm.schema.model import ModelSpec

_COMPLETION, _HELP = {"-sc", "--shell-completion"}, {"-h", "--help"}


def run(argv: list[str]) -> int:
    """Return the exit code of one sweep; without arguments, of the offline demo."""
    if not argv:
        return _run_demo()
    if _COMPLETION & set(argv):
        return print_completions([a for a in argv if a not in _COMPLETION])
    if is_help := bool(_HELP & set(argv)):
        refuse_keys(argv)
    typed = read_options([a for a in argv if a.startswith("plugins=")] if is_help else argv)
    registry = open_registry(typed.plugins)
    if is_help:
        from medhelm.cli.run_help import print_help

        print_help(registry)
    else:
        _run_typed(typed, registry)
    return 0


def _run_demo() -> int:
    print(demo.TITLE)
    registry = open_registry(())
    _run_typed(read_options(demo.options(registry)), registry, is_demo=True)
    demo.show_site(registry)
    return 0


def _run_typed(typed: Options, registry: Registry, *, is_demo: bool = False) -> None:
    """Ask all jobs, here or by workers, and show what came of them; raises what stopped a run or the sweep."""
    jobs, own = jobs_of(typed, registry)
    if not jobs:
        return
    from medhelm.cli.engines import POOL
    from medhelm.cli.sweep import ask_jobs, print_results, refuse_swept, show_runs, trial_lines

    refuse_swept(jobs)
    if any(job.workers for job in jobs):
        from medhelm.cli.workers import ask_with_workers

        asked = ask_with_workers(jobs, own, typed.words)
    else:
        asked = ask_jobs(jobs, own)
    if POOL not in os.environ:  # a worker leaves it to its command
        endings, results = asked.end.endings, Path(jobs[0].results_dir)
        show_runs(endings, results, own, demo.print_ranking if is_demo else print_results)
        for line in trial_lines(endings):
            print(line)
    asked.raise_worst(f"medhelm run {shlex.join(typed.words)}")


def jobs_of(typed: Options, registry: Registry) -> tuple[list[Job], Registry]:
    """Return the jobs that a command line asks for, none where it only shows, and the registry with the user's models."""
    own = with_own_models(registry, typed)
    return [to_job(config, own.models) for config in compose(typed, registry)], own


class _Chosen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    examples: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    form: Form | None = None
    instruction: str | None = None


def to_job(config: Mapping[str, Any], models: Mapping[str, ModelSpec]) -> Job:
    """Return the job that a composed config asks for; raises UsageError naming what is missing."""
    values = dict(config)
    for ours in ("hydra", "plugins", "experiment"):
        values.pop(ours, None)
    benchmark, suite = values.pop("benchmark"), values.pop("suite")
    _refuse_alone(benchmark, values)
    values["ask"] = _asking(values, benchmark)
    chosen = [benchmark] if benchmark["name"] else []
    chosen += [{"name": name} for name in suite["benchmarks"]]
    model = _model(values)
    if not chosen:
        raise UsageError(
            "the benchmark is missing: add benchmark=NAME (`medhelm list benchmarks`), "
            "'benchmark=glob(*)' or suite=NAME"
        )
    jury = values.pop("jury")
    if jury["name"]:
        values["jury"] = with_named_judges(jury, models)
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
        for key, value in values["jury"].items():
            given = tuple(value) if isinstance(value, list) else value
            if key != "name" and given != getattr(OFFLINE, key):
                raise UsageError(f"jury.{key} goes with jury=NAME, which says whose it is")
