"""Rubrics: YAML files -> frozen values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from medhelm.errors import PluginError, UnknownName
from medhelm.files.folders import beside
from medhelm.files.yaml_bounds import refuse_many
from medhelm.schema.data import Benchmark, Criterion, Instance, Rubric
from medhelm.schema.type_errors import explain

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def load_rubric(benchmark: Benchmark) -> Rubric:
    """Return the rubric that a benchmark names: `rubrics/NAME.yaml` beside its plugin, else ours.

    Raises PluginError for a file that is not a rubric or lies outside, UnknownName for a name that is none.
    """
    name = benchmark.rubric
    folder = Path(benchmark.origin).parent / "rubrics"
    if name and benchmark.origin and (own := beside(benchmark.origin, "rubrics", f"{name}.yaml")):
        return read_rubric(own.read_text(encoding="utf-8"), str(own))
    packaged = _packaged()
    if name not in packaged:
        if not name:
            raise PluginError(
                f"benchmark {benchmark.name!r} is rated by a jury but names no rubric: set "
                f"rubric=NAME, one of {', '.join(packaged)} or of {folder / 'NAME.yaml'}"
            )
        where = f"rubric of benchmark {benchmark.name!r}"
        raise UnknownName(where, name, packaged, f"Or write {folder / name}.yaml.")
    return read_rubric(packaged[name].read_text(encoding="utf-8"), name)


def known_rubrics(benchmarks: Iterable[Benchmark]) -> dict[str, Rubric]:
    """Return the rubrics of medhelm and of these benchmarks by name."""
    found = {n: read_rubric(file.read_text(encoding="utf-8"), n) for n, file in _packaged().items()}
    return found | {b.rubric: load_rubric(b) for b in benchmarks if b.rubric}


def _packaged() -> dict[str, Traversable]:
    folder = resources.files("medhelm.grading.jury") / "rubrics"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    return {file.name.removesuffix(".yaml"): file for file in files}


def read_rubric(text: str, where: str) -> Rubric:
    """Return the rubric of a YAML text; raises PluginError naming what is wrong with it."""
    refuse_many(text, where)
    try:
        values: Any = yaml.safe_load(text)
        rubric = msgspec.convert(values, Rubric)
    except msgspec.ValidationError as e:
        raise PluginError(f"{where}: not a rubric: {explain(e, Rubric)}") from None
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise PluginError(f"{where}: not readable as YAML{line}") from None
    if rubric.minimum >= rubric.maximum:
        raise PluginError(f"{where}: the scale {rubric.minimum} to {rubric.maximum} is empty")
    check_criteria(rubric.criteria, where)
    return rubric


def check_criteria(criteria: tuple[Criterion, ...], where: str) -> None:
    """Raise PluginError where criteria are missing, named twice or not in snake_case."""
    names = [c.name for c in criteria]
    if not names:
        raise PluginError(f"{where}: a rubric needs at least one criterion")
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise PluginError(f"{where}: criterion {name!r}: a name is snake_case: a-z, 0-9 and _")
        if name in seen:
            raise PluginError(f"{where}: criterion {name!r} is there twice")
        seen.add(name)


def criteria_of(rubric: Rubric, instance: Instance) -> tuple[Criterion, ...]:
    """Return what is rated on an instance: its own criteria, else the rubric's."""
    if instance.criteria:
        check_criteria(instance.criteria, f"instance {instance.id!r}")
    return instance.criteria or rubric.criteria
