"""Resolve a user's settings of the jury to the jury of a run, its recorded terms and its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec

from medhelm.config import convert
from medhelm.data.rubrics import load_rubric
from medhelm.errors import ModelError, UnknownName, UsageError
from medhelm.files.yaml_bounds import packaged_files, read_yaml
from medhelm.grading.graders.grader import NotAsked
from medhelm.grading.jury.grader import PROMPT_VERSION
from medhelm.grading.jury.metric import NAME, OFFLINE_VERSION, jury_metrics, offline_jury
from medhelm.models import check_model
from medhelm.models.access import secret_variables
from medhelm.models.catalogue import find_model
from medhelm.models.identity import identity, reads_prompt
from medhelm.schema.data import Benchmark
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec, JuryTerms
from medhelm.schema.score import Metric

DEFAULT = "medhelm_2026_11"
"""Changed with the names of its judges: the meaning of a name stays as it is."""


def choose_jury(
    chosen: JurySpec | None,
    models: Mapping[str, ModelSpec],
    environ: Mapping[str, str],
    *,
    is_sample: bool,
    default: str = "",
) -> JurySpec:
    """Return the jury that is asked for; else the default where all its keys are, else offline.

    `default`: the benchmark's own, in place of the one of most benchmarks.

    Bundled samples are rated offline unless a jury is named. Raises UsageError, UnknownName, and
    ModelError where a judge that is asked for has no key.
    """
    if chosen is not None:
        return _checked(chosen, environ)
    if is_sample:
        return OFFLINE
    try:
        return _checked(packaged_jury(default or DEFAULT, models), environ)
    except ModelError:  # no key of one of the judges
        return OFFLINE


def keys_lacking(models: Mapping[str, ModelSpec], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables without a key for want of which the default jury is not asked.

    Empty where none of its keys is there: who has no key expects no jury of models.
    """
    judges = packaged_jury(DEFAULT, models).judges
    wanted = [v for judge in judges for v in secret_variables(judge)]
    lacking = [v for v in dict.fromkeys(wanted) if not environ.get(v, "").strip()]
    return tuple(lacking) if len(lacking) < len(set(wanted)) else ()


def jury_names() -> list[str]:
    """Return the names of the juries that come with medhelm."""
    return [*packaged_files("jury")]


def packaged_jury(name: str, models: Mapping[str, ModelSpec]) -> JurySpec:
    """Return the jury of a file of `conf/jury`; raises UnknownName."""
    if name not in (known := packaged_files("jury")):
        raise UnknownName("jury", name, known)
    place = f"conf/jury/{name}.yaml"
    values = with_named_judges(read_yaml(known[name].read_bytes(), place), models)
    jury: JurySpec = convert(values, JurySpec, place)
    return jury


def with_named_judges(values: Mapping[str, Any], models: Mapping[str, ModelSpec]) -> dict[str, Any]:
    """Return what a config says of a jury, with what is known of the models that it names; raises UnknownName."""
    judges = values.get("judges", [])
    if isinstance(judges, list):
        judges = [find_model(j, models) if isinstance(j, str) else j for j in judges]
    return {**values, "judges": msgspec.to_builtins(judges)}


def _checked(jury: JurySpec, environ: Mapping[str, str]) -> JurySpec:
    judges, where = jury.judges, f"jury {jury.name!r}"
    names = [judge.name for judge in judges]
    if twice := [n for n in names if names.count(n) > 1]:
        raise UsageError(f"{where}: judge {twice[0]} is there twice")
    for one, other in combinations(judges, 2):
        if identity(one) == identity(other):
            raise UsageError(f"{where}: {one.name} and {other.name} are the same model")
    if judges and jury.quorum > len(judges):
        raise UsageError(f"{where}: a quorum of {jury.quorum} with {len(judges)} judge(s)")
    for judge in judges:
        if not reads_prompt(judge):
            raise UsageError(f"{where}: {judge.name} is a rule and no judge; see jury=offline")
        if judge.system_prompt:
            raise UsageError(
                f"{where}: {judge.name} has a system prompt, in whose place judges get the rubric; "
                "leave it out"
            )
        check_model(judge, environ)
    return jury


OFFLINE = JurySpec(name="offline")


def jury_terms(benchmark: Benchmark, jury: JurySpec) -> JuryTerms | None:
    """Return what is recorded of the jury; None for a benchmark that needs none."""
    if NAME not in benchmark.metrics:
        return None
    version = PROMPT_VERSION if jury.judges else OFFLINE_VERSION
    return JuryTerms(
        jury=jury,
        rubric=load_rubric(benchmark),
        version=version,
        instruction=benchmark.instruction if jury.judges else "",
    )


def with_jury(metrics: Sequence[Metric], terms: JuryTerms | None) -> tuple[Metric, ...]:
    """Return the metrics, the jury's own in place of the name, its judges and criteria behind."""
    if terms is None:
        return tuple(metrics)
    jury = terms.jury
    if jury.judges:
        panel = NotAsked([judge.name for judge in jury.judges])
        main, *views = jury_metrics(terms.rubric, panel, jury.quorum)
    else:
        main, *views = offline_jury(terms.rubric, jury.quorum)
    return (*(main if m.name == NAME else m for m in metrics), *views)
