"""The command that shows a sweep's tables again, from whatever folder it is typed in."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from medhelm.errors import MedhelmError
from medhelm.store.records import read_record
from medhelm.tables.clinicians.rated_answers import graded_runs
from medhelm.tables.study.selection import choose_runs


def tables_command(gradings: Sequence[Path], results: Path) -> str:
    """Return the shortest `medhelm tables` that shows these gradings.

    A results folder may hold runs that cannot share a table with them (other settings, older data),
    and newer ones in place of which these are shown.
    """
    folder = results.resolve()
    start = ["medhelm", "tables", "--results-dir", str(folder)]
    specs = [(record.spec, record.grading.scoring) for record in map(read_record, gradings)]
    if not specs:
        return shlex.join(start)
    chosen: dict[str, Any] = {"data": specs[0][0].data, "scoring": specs[0][1]}
    start += ["--data", "sample"] * (chosen["data"] == "sample")
    start += ["--scoring", "helm"] * (chosen["scoring"] == "helm")
    try:
        runs, _ = graded_runs(folder)
    except MedhelmError:
        return shlex.join(start)
    wanted = {path.resolve() for path in gradings}
    has_one_a_cell = len({(spec.column, spec.model.name) for spec, _ in specs}) == len(specs)
    for further in _choices(specs):
        try:
            shown = choose_runs(runs, **chosen, **further).runs
            if has_one_a_cell and (others := wanted - {run.path for run in shown}):
                further["folders"] = sorted(str(path.relative_to(folder)) for path in others)
                choose_runs(runs, **chosen, **further)
        except MedhelmError:
            continue
        words = ["--latest"] * further.get("latest", False)
        for option in ("benchmarks", "models"):
            words += [f"--{option[:-1]}", *further[option]] if option in further else []
        words += ["--run", *further["folders"]] if "folders" in further else []
        return shlex.join([*start, *words])
    return shlex.join([*start, "--latest"])


def _choices(specs: Sequence[tuple[Any, str]]) -> Iterator[dict[str, Any]]:
    """Yield what `medhelm tables` may be given, least first."""
    newest: dict[str, Any] = {"latest": True}
    of_benchmarks = newest | {"benchmarks": sorted({spec.column for spec, _ in specs})}
    of_models = of_benchmarks | {"models": sorted({spec.model.name for spec, _ in specs})}
    yield from ({}, newest, of_benchmarks, of_models)
