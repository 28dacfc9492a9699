"""Rubrics: YAML files -> frozen values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from medhelm.errors import PluginError, UnknownName
from medhelm.files.folders import beside
from medhelm.files.yaml_bounds import packaged_files, read_yaml
from medhelm.schema.data import Benchmark, Criterion, Instance, Rubric
from medhelm.schema.type_errors import explain

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RUBRICS = ("rubrics", "medhelm.grading.jury")
"""Folder and package of the rubrics that come with medhelm."""


def load_rubric(benchmark: Benchmark) -> Rubric:
    """Return the rubric that a benchmark names: `rubrics/NAME.yaml` beside its plugin, else ours.

    Raises PluginError for a file that is not a rubric or lies outside, UnknownName for a name that is none.
    """
    name = benchmark.rubric
    folder = Path(benchmark.origin).parent / "rubrics"
    if name and benchmark.origin and (own := beside(benchmark.origin, "rubrics", f"{name}.yaml")):
        return read_rubric(own.read_bytes(), str(own))
    packaged = packaged_files(*_RUBRICS)
    if name not in packaged:
        if not name:
            raise PluginError(
                f"benchmark {benchmark.name!r} is rated by a jury but names no rubric: set "
                f"rubric=NAME, one of {', '.join(packaged)} or of {folder / 'NAME.yaml'}"
            )
        where = f"rubric of benchmark {benchmark.name!r}"
        raise UnknownName(where, name, packaged, f"Or write {folder / name}.yaml.")
    return packaged_rubric(name)


def packaged_rubric(name: str) -> Rubric:
    """Return a rubric that comes with medhelm."""
    return read_rubric(packaged_files(*_RUBRICS)[name].read_bytes(), name)


def known_rubrics(benchmarks: Iterable[Benchmark]) -> dict[str, Rubric]:
    """Return the rubrics of medhelm and of these benchmarks by name."""
    found = {n: packaged_rubric(n) for n in packaged_files(*_RUBRICS)}
    return found | {b.rubric: load_rubric(b) for b in benchmarks if b.rubric}


def read_rubric(text: str | bytes, where: str) -> Rubric:
    """Return the rubric of a YAML text; raises PluginError naming what is wrong with it."""
    try:
        rubric = msgspec.convert(read_yaml(text, where, PluginError), Rubric)
    except msgspec.ValidationError as e:
        raise PluginError(f"{where}: not a rubric: {explain(e, Rubric)}") from None
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
