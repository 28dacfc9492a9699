"""The table of fidelity: rates by who plays a role, means without marked encounters, casts, variance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product

import msgspec
import numpy as np
from numpy.typing import NDArray

from medhelm import Settings, Table
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import stored_decisions
from medhelm_benchmarks.encounters.fidelity.stored import CheckedRun
from medhelm_benchmarks.encounters.grading.cast_fidelity import (
    ANY,
    BY_JUDGE,
    CAST,
    MEANING,
    ROLES,
    sums_of,
)
from medhelm_benchmarks.encounters.grading.evaluator import RUBRIC
from medhelm_benchmarks.encounters.tables.cast import (
    SAID,
    Tally,
    marked,
    role_rows,
    scores_row,
    share_row,
)

FACTORS = ("case", "run", "patient", "evaluator")


def simulation_table(
    runs: Sequence[CheckedRun],
    least: float,
    *,
    controls: Sequence[Tally] | None = None,
    level: str | None = None,
) -> Table:
    """Return the rows of all levels, or of one. `runs`: all gradings, the older ones first."""
    newest = [*{run.run.run_folder: run for run in runs}.values()]
    settings = Settings()
    rows = [*role_rows(_tallies(newest), settings), *_clinicians(newest, least)]
    rows += _control_rows(controls or (), settings)
    rows += [row | {"level": "cast"} for row in cast_rows(runs)]
    rows += [row | {"level": "variance"} for row in variance_rows(runs)]
    cast = kinds.form(__file__, "encounter_cast", marked=[marked(least)])
    form = kinds.form(__file__, "simulation", cast=cast.columns)
    said = [
        *(f"{kind}: {meaning}." for kind, meaning in MEANING.items()),
        *SAID,
        f"A case is marked where less than {least:g} of the lines of patient and surroundings are without a "
        "fault. Means are over encounters, not weighted by case.",
        *form.texts.values(),
        *(
            _judge_notes(newest, controls)
            if controls is not None
            else ["Nobody judged: add --judge MODEL."]
        ),
    ]
    return replace(form, parts=(*cast.parts, *form.parts)).table(
        [row for row in rows if level in (None, row["level"]) or row["level"] == "control"],
        said,
        settings.of_draws,
        under=("benchmark",),
    )


def _judge_notes(runs: Sequence[CheckedRun], controls: Sequence[Tally]) -> Iterator[str]:
    spoken = [e for run in runs for e in run.encounters if e.cast_lines]
    judged = sum(e.by_judge is not None for e in spoken)
    yield (
        f"The judge could be read on {judged:,} of {len(spoken):,} encounters; the others are in none of its "
        "shares."
    )
    read = sum(not tally.sums["unread"] for tally in controls)
    yield (
        f"It was sent {len(controls)} controls, copies of encounters with planted and clean lines at their end, "
        f"and could be read on {read}. They are in no other number."
        if controls
        else "No controls were sent, so that nothing is known of the judge."
    )


def _tallies(runs: Iterable[CheckedRun]) -> Iterator[Tally]:
    """Yield what rules counted in each encounter, and the judge in each that it could be read on."""
    for run in runs:
        players = {role: run.model(role) for role in ROLES}
        for e in run.encounters:
            of = (run.run.benchmark, players, e.case, e.cluster)
            yield Tally("role", *of, e.sums)
            if e.by_judge is not None:
                told = dict.fromkeys(CAST, (*BY_JUDGE, ANY))
                yield Tally("judge", *of, sums_of(e.lines, e.by_judge, told))


def _control_rows(controls: Sequence[Tally], settings: Settings) -> Iterator[dict[str, object]]:
    """Yield the judge's errors on control lines by kind of fault."""
    for benchmark, kind in product(sorted({t.benchmark for t in controls}), (*BY_JUDGE, ANY)):
        own = [tally for tally in controls if tally.benchmark == benchmark]
        row: dict[str, object] = {"benchmark": benchmark, "level": "control", "fault": kind}
        for part, whole in (("missed", "planted"), ("wrong", "clean_lines")):
            row[whole] = sum(tally.sums[f"{whole}/{kind}"] for tally in own) or None
            row |= share_row(part, f"{part}/{kind}", f"{whole}/{kind}", own, settings)
        if row["clean_lines"] or row["planted"]:
            yield row


def _clinicians(runs: Sequence[CheckedRun], least: float) -> Iterator[dict[str, object]]:
    """Yield each clinician's mean with and without the encounters below a fidelity."""
    for run in runs:
        found = {(e.case, e.repeat): e.fidelity for e in run.encounters}
        clean = {key: share for key, share in found.items() if share is not None}
        row = scores_row(run.values, clean, least) | {"benchmark": run.run.benchmark}
        yield row | {"model": run.run.model, "cast": run.cast}


def cast_rows(runs: Sequence[CheckedRun]) -> Iterator[dict[str, object]]:
    """Yield the means and ranks of clinicians under each cast, on the cases that all have."""
    import pandas as pd

    for benchmark, group in _by_benchmark(runs):
        if not (crossed := _crossed(_graded_alike(group))):
            continue
        by_case = {
            (run.run.model, run.cast): pd.Series(run.values, dtype=float).groupby(level=0).mean()
            for run in crossed
        }
        common = pd.concat(by_case, axis=1).dropna()
        means = common.mean()
        ranks = means.groupby(level=1).rank(method="min", ascending=False)
        for model, cast in by_case:
            row = {"benchmark": benchmark, "model": model, "cast": cast, "cases": len(common)}
            if len(common):
                own = ranks[model]
                row |= {
                    "mean": means[model, cast],
                    "rank": own[cast],
                    "moved": own.max() - own.min(),
                }
            yield row


def _graded_alike(runs: Sequence[CheckedRun]) -> list[CheckedRun]:
    """Return the runs by the evaluator that most of them have, the newer one where two have as many."""
    by_evaluator: dict[tuple[str, ...], list[CheckedRun]] = defaultdict(list)
    for run in runs:
        key = _evaluator_of(run.run), *_rubrics_of(run.run)
        by_evaluator[key] = [*by_evaluator.pop(key, []), run]
    return max(
        reversed(by_evaluator.values()),
        key=lambda own: len({run.run.run_folder for run in own}),
        default=[],
    )


def _crossed(runs: Sequence[CheckedRun]) -> list[CheckedRun]:
    """Return one run for each clinician and cast, of those that have all casts."""
    newest = {(r.run.model, r.cast): r for r in runs}
    casts = {cast for _, cast in newest}
    whole = [m for m in {m for m, _ in newest} if all((m, c) in newest for c in casts)]
    return [r for (m, _), r in sorted(newest.items()) if m in whole] if len(casts) > 1 else []


def variance_rows(runs: Sequence[CheckedRun]) -> Iterator[dict[str, object]]:
    """Yield the variance of each clinician's scores by case, run, patient's run and evaluator, where there is one."""
    for benchmark, group in _by_benchmark(runs):
        values: dict[tuple[str, str], dict[Cellkey, float]] = defaultdict(dict)
        for run in group:
            spec, evaluator = run.run.record.spec, _evaluator_of(run.run)
            patient = f"{spec.cast['patient'].name} {spec.settings.get('patient_seed', 0)}"
            own = values[run.run.model, _others_of(run.run)]
            for (case, repeat), value in run.values.items():
                own[case, str(repeat), patient, evaluator] = value
        for (model, others), found in sorted(values.items()):
            parts = components(found, FACTORS)
            for part in parts if any(one.variance is not None for one in parts) else ():
                sd = part.variance**0.5 if part.variance and part.variance > 0 else None
                row = {"benchmark": benchmark, "model": model, "others": others, "sd": sd}
                yield row | asdict(part)


Cellkey = tuple[str, ...]
REST = "rest"


@dataclass(frozen=True)
class Component:
    """The variance of one factor."""

    factor: str
    levels: int
    variance: float | None
    """None where the factor has one level, or nothing is left over to compare with."""


def components(values: Mapping[Cellkey, float], factors: Sequence[str]) -> list[Component]:
    """Return the variance of each factor and of the rest; nothing where no case is complete.

    A fully crossed design without interactions: a value is a mean plus one random effect for each factor
    plus a rest. The estimates are those of the analysis of variance for balanced data (mean squares). One
    below 0 is shown as it is, since it says that the factor is too small to be seen. The first factor is
    the case: one that lacks a value at any combination of the others is left out.
    """
    levels = [sorted({key[n] for key in values}) for n in range(len(factors))]
    others = list(product(*levels[1:]))
    cases = [c for c in levels[0] if all((c, *other) in values for other in others)]
    if not cases:
        return []
    shape = (len(cases), *(len(level) for level in levels[1:]))
    flat = [values[(c, *other)] for c in cases for other in others]
    array: NDArray[np.float64] = np.array(flat, dtype=np.float64).reshape(shape)
    mean = array.mean()
    effects = [
        array.mean(axis=tuple(a for a in range(array.ndim) if a != axis), keepdims=True) - mean
        for axis in range(array.ndim)
    ]
    left = array.size - 1 - sum(size - 1 for size in shape)
    fitted = mean + sum(effects)
    rest = float(((array - fitted) ** 2).sum() / left) if left > 0 else None
    result = []
    for factor, size, effect in zip(factors, shape, effects, strict=True):
        variance = None
        if size > 1 and rest is not None:
            per_level = array.size / size
            square = per_level * float((effect**2).sum()) / (size - 1)
            variance = (square - rest) / per_level
        result.append(Component(factor, size, variance))
    return [*result, Component(REST, left, rest)]


def _others_of(run: stored_decisions.GradedRun) -> str:
    """Return what else decides an encounter: runs that differ in it are not pooled."""
    spec = run.record.spec
    settings = [f"{k}={v}" for k, v in sorted(spec.settings.items()) if k != "patient_seed"]
    settings += [f"rubric={rubric}" for rubric in _rubrics_of(run)]
    return ", ".join((spec.cast["controller"].name, *settings, spec.data, spec.benchmark_version))


def _rubrics_of(run: stored_decisions.GradedRun) -> list[str]:
    """Return the files of rubrics in place of the cases' own."""
    graders = run.record.grading.graders
    return [str(terms.settings[RUBRIC]) for terms in graders if RUBRIC in terms.settings]


def _evaluator_of(run: stored_decisions.GradedRun) -> str:
    """Return who judged, and how: gradings that differ in other metrics alone are by one evaluator."""
    terms = [
        (t.grader, t.version, t.jury, {n: v for n, v in t.settings.items() if n != RUBRIC})
        for t in run.record.grading.graders
    ]
    return msgspec.json.encode(terms, order="sorted").decode()


def _by_benchmark(runs: Iterable[CheckedRun]) -> Iterator[tuple[str, list[CheckedRun]]]:
    found: dict[str, list[CheckedRun]] = defaultdict(list)
    for run in runs:
        found[run.run.benchmark].append(run)
    yield from sorted(found.items())
