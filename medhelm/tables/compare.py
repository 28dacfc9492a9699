"""Two models on the same instances: paired differences per benchmark and over all of them.

Only instances that both have a value for count, whatever other models answered. A benchmark on
which either run covers too little (`Cell.shortfall`) is shown but not compared: it is in neither the
Holm family nor the overall row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from medhelm.errors import UnknownName, UsageError
from medhelm.schema.run import MetricRef
from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import TIE, Floats
from medhelm.stats.intervals import (
    PERMUTATIONS,
    Interval,
    bootstrap,
    cluster_sums,
    clustered_percentile,
    percentile,
    permutation_p,
    seed_of,
    swap_differences,
)
from medhelm.tables import notes
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Settings, Table
from medhelm.tables.notes import FLAGS_COLUMN, study_table
from medhelm.tables.study.cells import Cell, shared_pooling
from medhelm.tables.study.selection import is_named
from medhelm.tables.study.study import Study
from medhelm.tables.suites import grouped

COMPARE = form(__file__, "compare", flags=(FLAGS_COLUMN,))


@dataclass(frozen=True)
class Paired:
    """Two models on one benchmark; differences are of normalised scores, first less second."""

    n: int
    clusters: int
    scores: tuple[float, float]
    normalised: tuple[float, float]
    error: float
    correlation: float
    interval: Interval
    wins: tuple[int, int] | None
    """Instances that the first and the second alone answer, of a rate of independent instances."""
    draws: Floats
    """Bootstrap draws of the difference."""
    swap: Callable[[], Floats]

    @cached_property
    def swaps(self) -> Floats:
        """The difference under random swaps of the two models, cluster by cluster."""
        return self.swap()

    @cached_property
    def p(self) -> float:
        """Return the p of the test."""
        if self.wins is not None:
            return stats.mcnemar(*self.wins)
        return permutation_p(self.difference, self.swaps)

    @property
    def test(self) -> str:
        """Name of the test."""
        return "permutation" if self.wins is None else "McNemar exact"

    @property
    def difference(self) -> float:
        """Normalised score of the first less that of the second."""
        return self.normalised[0] - self.normalised[1]


def _only(study: Study, name: str) -> str:
    """Return the one model of a name or pattern; raises UnknownName, or UsageError where it has several."""
    found = [name] if name in study.models else [m for m in study.models if is_named(m, (name,))]
    if not found:
        known = f"runs were found of: {', '.join(study.models)}"
        raise UnknownName("model", name, study.models, known)
    if len(found) > 1:
        raise UsageError(f"{name!r} matches {', '.join(found)}, and compare needs one of them")
    return found[0]


def compare(study: Study, a: str, b: str) -> Table:
    """Return one row per benchmark of either model, and one over all benchmarks compared."""
    a, b = (_only(study, name) for name in (a, b))
    if a == b:
        raise UsageError(f"compare needs two different models, not {a!r} twice")
    rows: list[Row] = []
    pairs: list[tuple[Row, Paired]] = []
    for benchmark, cells in study.cells.items():
        if a not in cells and b not in cells:
            continue
        row, found = _row(study, benchmark, cells.get(a), cells.get(b), (a, b))
        rows.append(row)
        if found is not None and row["is_compared"]:
            pairs.append((row, found))
    for (row, _), p in zip(pairs, stats.holm([q.p for _, q in pairs]), strict=True):
        row["p_holm"] = p
    suites = grouped(str(row["benchmark"]) for row, _ in pairs)
    for suite, members in suites.items():
        own = [q for row, q in pairs if row["benchmark"] in members]
        named: Row = {"benchmark": f"all of {suite}"} if len(suites) > 1 else {}
        rows.append(named | _overall(own, study.settings))
    return study_table(
        study,
        COMPARE,
        rows,
        [
            *_verdict([q for _, q in pairs], [r for r, _ in pairs], a, b, study.settings),
            *(notes.pooled_intervals(study) if pairs else []),
            *COMPARE.say(scales=_scales(study, rows), not_compared=_not_compared(rows)),
        ],
        title=f"A = {a} and B = {b} on the same instances",
        more={"permutations": PERMUTATIONS, "model_a": a, "model_b": b},
    )


def _row(
    study: Study, benchmark: str, a: Cell | None, b: Cell | None, names: tuple[str, str]
) -> tuple[Row, Paired | None]:
    metric = study.panels[benchmark].metric
    row: Row = {
        "benchmark": benchmark,
        "level": "benchmark",
        "metric": metric.name,
        "is_compared": False,
    }
    flags: dict[str, None] = {}
    for side, cell in (("a", a), ("b", b)):
        if cell is not None:
            row[f"coverage_{side}"] = cell.coverage(metric.name)
            row[f"run_{side}"] = cell.run.folder
            flags |= dict.fromkeys(notes.flags(cell, metric.name))
    row["flags"] = " ".join(f for f in notes.FLAGS if f in flags)
    if a is None or b is None:
        lacking = names[0] if a is None else names[1]
        is_stored = study.panels[benchmark].unfit.get(lacking) == notes.NOT_GRADED
        test = f"{lacking} is not graded" if is_stored else f"no run of {lacking}"
        return row | {"n": 0, "test": test}, None
    found = pair(a, b, metric, study.settings, benchmark)
    if found is None:
        return row | {"n": 0, "test": "no instance in common"}, None
    is_whole = not (a.shortfall(metric.name) or b.shortfall(metric.name))
    is_defined = not math.isnan(found.difference)
    return row | {
        "is_compared": is_whole and is_defined,
        "n": found.n,
        "clusters": found.clusters,
        "score_a": found.scores[0],
        "score_b": found.scores[1],
        "difference": found.difference,
        **found.interval.ends(),
        "interval_method": found.interval.described,
        "standard_error": found.error,
        "correlation": found.correlation,
        "p": found.p,
        "test": found.test,
    }, found


def pair(
    a: Cell,
    b: Cell,
    metric: MetricRef,
    settings: Settings,
    benchmark: str,
    seeds: tuple[int, int] | None = None,
) -> Paired | None:
    """Return two cells of one benchmark, paired; None where they share no instance.

    `seeds`: of the bootstrap and of the swaps; None: by the name of the benchmark.
    """
    one, two = a.scores[metric.name], b.scores[metric.name]
    ids = np.intersect1d(one.ids, two.ids)
    if not len(ids):
        return None
    at, bt = one.among(ids), two.among(ids)
    keys, codes = np.unique(one.clusters[at], return_inverse=True)
    codes = codes.astype(np.int64)
    sums = [
        cluster_sums(one.sums[at], codes, len(keys)),
        cluster_sums(two.sums[bt], codes, len(keys)),
    ]
    value = shared_pooling([one, two], benchmark)

    def scale(x: Floats) -> Floats:
        return stats.normalise(x, metric.minimum, metric.maximum, metric.higher_is_better)

    scores = (float(value(sums[0].sum(0))), float(value(sums[1].sum(0))))
    first, second = seeds or (
        seed_of(settings.bootstrap_seed, benchmark, *more) for more in ((), ("swaps",))
    )
    drawn = np.split(bootstrap(np.concatenate(sums, axis=1), settings.draws, first), 2, axis=1)
    draws = scale(value(drawn[0])) - scale(value(drawn[1]))
    width = (metric.maximum - metric.minimum) * (1 if metric.higher_is_better else -1)

    def swap() -> Floats:
        drawn = swap_differences(sums[0], sums[1], value, permutations=PERMUTATIONS, seed=second)
        return drawn / width

    left, right = scale(one.values[at]), scale(two.values[bt])
    gap = left - right
    normalised = (float(scale(np.asarray(scores[0]))), float(scale(np.asarray(scores[1]))))
    is_mean = metric.aggregation == "mean"
    is_rate = is_mean and len(keys) == len(ids) and bool(np.isin([left, right], (0.0, 1.0)).all())
    wins, losses = int((gap > TIE).sum()), int((gap < -TIE).sum())
    known = draws[~np.isnan(draws)]
    return Paired(
        n=len(ids),
        clusters=len(keys),
        scores=scores,
        normalised=normalised,
        error=stats.clustered_error(gap, codes) if is_mean else stats.sample_sd(known, ddof=1),
        correlation=_correlation(left, right),
        interval=clustered_percentile(draws, settings.confidence, np.bincount(codes)),
        wins=(wins, losses) if is_rate else None,
        draws=draws,
        swap=swap,
    )


def _correlation(left: Floats, right: Floats) -> float:
    if left.std() <= TIE or right.std() <= TIE:
        return math.nan
    return float(np.corrcoef(left, right)[0, 1])


def _overall(pairs: list[Paired], settings: Settings) -> Row:
    """Return the row of the macro-averages: their difference, interval and permutation p.

    Of one benchmark interval, error and p are its own, so that no difference has two of them.
    """
    draws = np.mean([q.draws for q in pairs], axis=0)
    swaps = np.mean([q.swaps for q in pairs], axis=0)
    means = np.mean([q.normalised for q in pairs], axis=0)
    one = pairs[0] if len(pairs) == 1 else None
    ends = one.interval if one else percentile(draws, settings.confidence)
    return {
        "level": "overall",
        "metric": "macro_average",
        "n": sum(q.n for q in pairs),
        "clusters": sum(q.clusters for q in pairs),
        "score_a": means[0],
        "score_b": means[1],
        "difference": means[0] - means[1],
        **ends.ends(),
        "interval_method": ends.described,
        "standard_error": (one.error if one else stats.sample_sd(draws[~np.isnan(draws)], ddof=1)),
        "p": one.p if one else permutation_p(float(means[0] - means[1]), swaps),
        "test": one.test if one else "permutation",
        "is_compared": True,
    }


def _verdict(pairs: list[Paired], rows: list[Row], a: str, b: str, settings: Settings) -> list[str]:
    if not pairs:
        return COMPARE.say(none=(a, b))
    better = sum(q.difference > TIE for q in pairs)
    worse = sum(q.difference < -TIE for q in pairs)
    level = 1 - settings.confidence
    clear = [q for q, r in zip(pairs, rows, strict=True) if float(str(r["p_holm"])) <= level]
    up = sum(q.difference > TIE for q in clear)
    count, equal = len(pairs), len(pairs) - better - worse
    return COMPARE.say(
        verdict=(count, a, better, b, worse, equal, level, up, len(clear) - up), overlap=True
    )


def _scales(study: Study, rows: list[Row]) -> str:
    """Return the benchmarks whose scores are not on the scale of the differences, with theirs."""
    own = [
        f"{b} ({m.minimum:g} to {m.maximum:g}{'' if m.higher_is_better else ', lower is better'})"
        for b in dict.fromkeys(str(r["benchmark"]) for r in rows if r["level"] == "benchmark")
        for m in [study.panels[b].metric]
        if (m.minimum, m.maximum, m.higher_is_better) != (0.0, 1.0, True)
    ]
    return ", ".join(own)


def _not_compared(rows: list[Row]) -> str:
    whys = ((r, "coverage" if "p" in r else r["test"]) for r in rows if not r["is_compared"])
    return ", ".join(f"{row['benchmark']} ({why})" for row, why in whys)
