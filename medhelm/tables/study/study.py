"""Hold the basis of all tables: panels, the scores on them with their draws, the ranking.

A panel is one metric of one benchmark with the runs of all models. Its compared instances are
those with a value in the run of every model that may be ranked there, of every model where none
may be. Every score of the panel is taken on them, of other models too as far as they have values.
docs/statistics.md says who may be ranked where: neither a broken endpoint nor a newcomer takes benchmarks
or instances from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce

import msgspec
import numpy as np

from medhelm.models.identity import is_rankable
from medhelm.schema.aggregation import Aggregation
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import BenchmarkCard, MetricRef, RunRecord
from medhelm.schema.score import HIGHEST, LOWEST
from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import TIE, Floats, Ints, Pooling
from medhelm.stats.intervals import (
    NO_WIDTH,
    Interval,
    bootstrap,
    bounded,
    cluster_sums,
    effective_clusters,
    score_interval,
    seed_of,
)
from medhelm.tables.format.table import RankBy, Settings
from medhelm.tables.study.cells import MIN_READ as MIN_READ
from medhelm.tables.study.cells import Cell as Cell
from medhelm.tables.study.cells import Keys as Keys
from medhelm.tables.study.cells import Metadata as Metadata
from medhelm.tables.study.cells import MetricScores as MetricScores
from medhelm.tables.study.judge_errors import ERRORS as ERRORS
from medhelm.tables.study.judge_errors import error_columns as error_columns
from medhelm.tables.study.judge_errors import failure
from medhelm.tables.study.ranking import Ranking


@dataclass(frozen=True)
class Panel:
    """One metric of one benchmark with the cells of all models."""

    metric: MetricRef
    card: BenchmarkCard
    cells: Mapping[str, Cell]
    unfit: Mapping[str, str]
    """Models that might be ranked but not here, and why."""
    ids: Keys
    """Compared instances, sorted; empty where the runs that decide share none."""
    clusters: Keys
    """Their cluster keys."""

    def scores(self, model: str) -> MetricScores:
        """Return a model's scores on the panel's metric."""
        return self.cells[model].scores[self.metric.name]

    def normalise(self, values: Floats) -> Floats:
        """Return values of the metric on the scale from 0 (worst) to 1 (best)."""
        m = self.metric
        return stats.normalise(values, m.minimum, m.maximum, m.higher_is_better)

    def instance_tags(self, metadata: Metadata) -> dict[int, Mapping[str, str]]:
        """Return the metadata of the compared instances, from the first run that has them all."""
        for model, cell in self.cells.items():
            if np.isin(self.ids, self.scores(model).ids).all():
                found = metadata(cell)
                return {i: found.get(i, {}) for i in self.ids.tolist()}
        return {}

    def restrict(self, ids: Keys) -> Panel:
        """Return the panel on some of its compared instances (sorted)."""
        return replace(self, ids=ids, clusters=self.clusters[np.searchsorted(self.ids, ids)])

    def with_reading(
        self, reading: Aggregation, sums: Callable[[MetricScores], Floats] | None = None
    ) -> Panel:
        """Return the panel with another share, 0 to 1, of the sums of its metric as the score.

        `sums`: returns those of the reading, (n, k); None: they are sums of the metric.
        """
        ref = msgspec.structs.replace(self.metric, maximum=1.0, aggregation=reading.name)
        name, pooling = self.metric.name, Pooling(reading, reading.sums)

        def read(cell: Cell) -> Cell:
            own = cell.scores[name]
            found = sums(own) if sums else own.pooling.columns(own.sums, reading.sums)
            return replace(cell, scores={name: replace(own, sums=found, pooling=pooling)})

        return replace(self, metric=ref, cells={m: read(cell) for m, cell in self.cells.items()})

    def estimates(self, settings: Settings, *names: str) -> dict[str, Estimate]:
        """Return each model's estimate. All share the bootstrap's counts, seeded by `names`."""
        found = dict.fromkeys(self.cells, _nothing(settings))
        placed, count = _place(self)
        placed = {m: p for m, p in placed.items() if len(p.values)}
        if not placed:
            return found
        sums = [cluster_sums(p.sums, p.codes, count) for p in placed.values()]
        seed = seed_of(settings.bootstrap_seed, *names)
        joined = np.concatenate(sums, axis=1) if len(sums) > 1 else sums[0]
        drawn = bootstrap(joined, settings.draws, seed)
        ends = np.cumsum([s.shape[1] for s in sums])[:-1]
        seed = seed_of(settings.bootstrap_seed, *names, "interval")
        for model, own, draws in zip(placed, sums, np.split(drawn, ends, axis=1), strict=True):
            found[model] = _estimate(self, placed[model], own, draws, settings.confidence, seed)
        return found


@dataclass(frozen=True)
class Estimate:
    """A model's score on the compared instances of a panel. NaN where undefined."""

    n: int
    clusters: int
    score: float
    normalised: float
    error: float
    effect: float
    """Design effect of the clusters; NaN where instances are independent."""
    interval: Interval
    draws: Floats
    """Bootstrap draws of the score."""

    def cells(self, name: str) -> dict[str, object]:
        """Return score and interval under the name of a column, and those of its two ends."""
        return {name: self.score, **self.interval.ends(name)}

    def row(self, *names: str) -> dict[str, object]:
        """Return score and interval under the names of a table's columns, and what else is named."""
        more = {
            "n": self.n,
            "clusters": self.clusters,
            "normalised": self.normalised,
            "standard_error": self.error,
            "design_effect": self.effect,
            "interval_method": self.interval.described,
        }
        return {"score": self.score, **self.interval.ends(), **{n: more[n] for n in names}}


def best_first(found: Mapping[str, Estimate]) -> list[str]:
    """Return the models, the highest score first, those without one last."""
    return sorted(found, key=lambda m: (-np.nan_to_num(found[m].score, nan=-1.0), m))


def make_panel(
    cells: Mapping[str, Cell],
    metric: MetricRef,
    models: Iterable[str],
    outside: Collection[str] = (),
) -> Panel:
    """Return the panel of a metric for the cells of one benchmark.

    `models`: every model that may be ranked somewhere, so that those without a run are named.
    `outside`: those of them that are not in the ranking and take no instance from the others.
    """
    cells = {m: c for m, c in cells.items() if metric.name in c.scores}
    unfit, fit = {}, {}
    for model in models:
        if reason := _unfit(cells.get(model), metric.name):
            unfit[model] = reason
        else:
            fit[model] = cells[model].scores[metric.name]
    none = np.empty(0, dtype=np.uint64)
    every = {m: c.scores[metric.name] for m, c in cells.items() if len(c.scores[metric.name].ids)}
    basis = fit or every  # those that are not ranked are compared with each other all the same
    few = {*outside, *_with_few_instances({m: s.ids for m, s in basis.items() if m not in outside})}
    deciding = [s for m, s in basis.items() if m not in few] or list(basis.values())
    ids = reduce(np.intersect1d, (s.ids for s in deciding)) if basis else none
    for model, scores in fit.items():
        if not len(ids):
            unfit[model] = "no instance in common"
        elif (own := int(np.count_nonzero(scores.among(ids)))) < len(ids):
            unfit[model] = f"{own:,} of the {len(ids):,} compared instances"
    settled = [model for model in fit if model not in unfit]
    unfit |= _unsettled({model: cells[model] for model in settled}, metric.name, ids)
    if failed := failure([c.record for c in cells.values()], metric.name):
        unfit |= dict.fromkeys(fit, failed)
    clusters = _clusters(deciding[0], ids) if len(ids) else none
    card = next(iter(cells.values())).record.column_card
    return Panel(metric, card, cells, unfit, ids, clusters)


def _with_few_instances(ids: Mapping[str, Keys]) -> list[str]:
    """Return the models that lack more than half of the instances that most models have."""
    first, *others = ids.values() if ids else (np.empty(0, dtype=np.uint64),)
    if all(np.array_equal(first, own) for own in others):
        return []
    seen, counts = np.unique(np.concatenate([first, *others]), return_counts=True)
    shared = seen[2 * counts > len(ids)]
    return [m for m, own in ids.items() if 2 * np.isin(shared, own).sum() < len(shared)]


def _clusters(scores: MetricScores, ids: Keys) -> Keys:
    """Return the cluster of each of some of the instances."""
    if scores.clusters is scores.ids:
        return ids
    return scores.clusters[np.searchsorted(scores.ids, ids)]


def _unsettled(cells: Mapping[str, Cell], metric: str, ids: Keys) -> dict[str, str]:
    """Return the models whose place among the others hangs on verdicts that no judge gave, and why."""
    ranges = {model: _range(cell, metric, ids) for model, cell in cells.items()}
    return {
        model: f"{low:.3f} to {high:.3f} by verdicts that are missing, which others' scores lie in"
        for model, (low, high) in ranges.items()
        if high - low > TIE
        and any(
            low < top + TIE and bottom < high + TIE  # a tie that the bounds break is none
            for other, (bottom, top) in ranges.items()
            if other != model
        )
    }


def _range(cell: Cell, metric: str, ids: Keys) -> tuple[float, float]:
    """Return the least and most that a score could be, whichever way missing verdicts would go."""
    names = (metric, metric + LOWEST, metric + HIGHEST)
    found = [cell.scores[name] for name in names if name in cell.scores]
    ends = [float(own.pooling(own.sums[own.among(ids)].sum(0))) for own in found if len(own.ids)]
    return min(ends), max(ends)


def _unfit(cell: Cell | None, metric: str) -> str:
    """Return why a cell may not be ranked; empty if it may."""
    if cell is None:
        return "no run"
    if not cell.scores[metric].counted:
        return cell.scores[metric].without or "no instance with a value"
    return cell.shortfall(metric)


@dataclass(frozen=True)
class _Placed:
    """A model's scores on the panel's instances, with codes of their clusters."""

    values: Floats
    sums: Floats
    codes: Ints
    pooling: Pooling


def _place(panel: Panel) -> tuple[dict[str, _Placed], int]:
    """Return each model's scores on the compared instances, and the number of clusters.

    Where runs share no instance, all of each model's own are taken.
    """
    scores = {model: panel.scores(model) for model in panel.cells}
    is_shared = len(panel.ids) > 0
    every = panel.clusters if is_shared else np.concatenate([s.clusters for s in scores.values()])
    keys, found = np.unique(every), {}
    for model, own in scores.items():
        at, clusters = np.ones(len(own.ids), dtype=np.bool_), own.clusters
        if is_shared:
            at = own.among(panel.ids)
            clusters = panel.clusters[np.searchsorted(panel.ids, own.ids[at])]
        codes = np.searchsorted(keys, clusters).astype(np.int64)
        found[model] = _Placed(own.values[at], own.sums[at], codes, own.pooling)
    return found, len(keys)


def placed_sums(panel: Panel, models: Iterable[str]) -> list[tuple[Floats, Ints, int]]:
    """Return sums, cluster codes and number of clusters of models on the compared instances."""
    placed, count = _place(panel)
    return [(placed[m].sums, placed[m].codes, count) for m in models]


def _nothing(settings: Settings) -> Estimate:
    nan = float("nan")
    none = Interval(None, None, "none (no instance)")
    return Estimate(0, 0, nan, nan, nan, nan, none, np.full(settings.draws, nan))


def _estimate(
    panel: Panel, placed: _Placed, sums: Floats, drawn: Floats, confidence: float, seed: int
) -> Estimate:
    values, codes, pooling = placed.values, placed.codes, placed.pooling
    score, draws = float(pooling(sums.sum(0))), pooling(drawn)
    is_mean = panel.metric.aggregation == "mean"
    count = int(np.count_nonzero(np.bincount(codes)))
    known = draws[~np.isnan(draws)]
    return Estimate(
        n=len(values),
        clusters=count,
        score=score,
        normalised=float(panel.normalise(np.asarray(score))),
        error=(stats.clustered_error(values, codes) if is_mean else stats.sample_sd(known, ddof=1)),
        effect=(
            stats.design_effect(values, codes) if is_mean and count < len(values) else float("nan")
        ),
        interval=_interval(panel.metric, placed, sums, score, draws, confidence, seed),
        draws=draws,
    )


def _interval(
    metric: MetricRef,
    placed: _Placed,
    sums: Floats,
    score: float,
    draws: Floats,
    confidence: float,
    seed: int,
) -> Interval:
    """Return the interval of a score as its metric declares it.

    A score at an end of its range has no width in any draw. It is bounded from the other side.
    """
    span = (metric.minimum, metric.maximum)
    found = score_interval(
        placed.values,
        placed.codes,
        draws,
        span=span,
        is_mean=metric.aggregation == "mean",
        is_exact=metric.interval == "exact",
        confidence=confidence,
    )
    is_at_end = found.method == NO_WIDTH and min(abs(score - end) for end in span) <= TIE
    is_own = np.bincount(placed.codes, minlength=len(sums)) > 0
    if is_own.sum() < 2 or not (metric.interval == "bounded" or is_at_end):
        return found
    cluster = sums[is_own]
    terms = (placed.pooling, span, confidence, seed)
    if cluster.nbytes <= _KEPT:
        own = _bounded(cluster.astype(np.float64).tobytes(), cluster.shape[1], *terms)
    else:
        own = bounded(cluster, *terms)
    return found if own.low is None else own


_KEPT = 20_000
"""Bytes of sums up to which an interval is kept: several tables and the site show the same one."""


@lru_cache(maxsize=4096)
def _bounded(
    sums: bytes,
    width: int,
    pooling: Pooling,
    span: tuple[float, float],
    confidence: float,
    seed: int,
) -> Interval:
    found = np.frombuffer(sums, dtype=np.float64).reshape(-1, width)
    return bounded(found, pooling, span, confidence, seed)


def _shared(benchmarks: Iterable[str], fits: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return the benchmarks that more than half of the models fit, of those that fit any."""
    known = [own for own in fits.values() if own]
    return tuple(b for b in benchmarks if 2 * sum(b in own for own in known) > len(known))


class Study:
    """The runs of one set of tables, with the numbers that several tables share."""

    def __init__(
        self, cells: Iterable[Cell], settings: Settings, notes: Iterable[str] = ()
    ) -> None:
        self.settings = settings
        self.notes = tuple(notes)
        by_benchmark: dict[str, dict[str, Cell]] = {}
        for cell in sorted(cells, key=lambda c: (c.run.benchmark, c.run.model)):
            by_benchmark.setdefault(cell.run.benchmark, {})[cell.run.model] = cell
        self.cells: Mapping[str, Mapping[str, Cell]] = by_benchmark
        self.models = tuple(sorted({m for column in by_benchmark.values() for m in column}))
        specs = {m: c.record.spec.model for b in by_benchmark.values() for m, c in b.items()}
        self._specs = specs
        rankable = tuple(m for m in self.models if is_rankable(specs[m]))
        self.rankable = rankable
        """Models that read no gold and are not people; `ranked` are those of them that fit some benchmark."""
        main = {
            b: next(iter(c.values())).record.grading.metrics[0] for b, c in by_benchmark.items()
        }
        panels = {b: make_panel(c, main[b], rankable) for b, c in by_benchmark.items()}
        fits = {m: {b for b, p in panels.items() if m not in p.unfit} for m in rankable}
        self.shared = _shared(panels, fits)
        """Benchmarks that more than half of the models fit, of those that fit any."""
        lacked = {
            m: tuple(b for b in self.shared if b not in own) for m, own in fits.items() if own
        }
        self.lacking = {
            m: found for m, found in lacked.items() if 2 * len(found) > len(self.shared)
        }
        """Models that are not in the ranking, since they lack more than half of those; and which."""
        if self.lacking:
            panels = {
                b: make_panel(c, main[b], rankable, self.lacking) for b, c in by_benchmark.items()
            }
        self.ranked = tuple(m for m in rankable if fits[m])
        """Models that are ranked on some benchmark."""
        self.contenders = tuple(m for m in self.ranked if m not in self.lacking)
        """Models that are ranked over all: their runs decide what is compared."""
        self.panels: Mapping[str, Panel] = panels
        self._estimates: dict[tuple[str, str], dict[str, Estimate]] = {}

    def spec(self, model: str) -> ModelSpec:
        """Return the settings of a model, of one of its runs."""
        return self._specs[model]

    def on(self, benchmarks: Collection[str], rank_by: RankBy | None = None) -> Study:
        """Return the study of some benchmarks, perhaps ranked otherwise; estimates are shared."""
        cells = [c for b, own in self.cells.items() if b in benchmarks for c in own.values()]
        settings = replace(self.settings, rank_by=rank_by or self.settings.rank_by)
        part = Study(cells, settings, self.notes)
        whole = {b: self.panels[b] for b in part.cells}
        own = {b for b, p in part.panels.items() if not np.array_equal(p.ids, whole[b].ids)}
        for b in own:  # why a model has no run here the whole study knows
            absent = {m: why for m, why in whole[b].unfit.items() if m not in whole[b].cells}
            whole[b] = replace(part.panels[b], unfit={**part.panels[b].unfit, **absent})
        part.panels = whole
        part._estimates = self._estimates
        if own:  # other models are ranked on these alone, so that other instances are compared
            part._estimates = {k: e for k, e in self._estimates.items() if k[0] not in own}
        return part

    @property
    def any_record(self) -> RunRecord:
        """Return one of the records; data and scoring are the same in all."""
        return next(iter(next(iter(self.cells.values())).values())).record

    def panel(self, benchmark: str, metric: str) -> Panel:
        """Return the panel of any metric of a benchmark."""
        main = self.panels[benchmark]
        if metric == main.metric.name:
            return main
        cells = self.cells[benchmark]
        ref = next(m for c in cells.values() for m in c.record.grading.metrics if m.name == metric)
        return make_panel(cells, ref, self.rankable, self.lacking)

    def metrics(self, benchmark: str) -> list[str]:
        """Return names of the metrics of a benchmark, the main one first."""
        found = dict.fromkeys([self.panels[benchmark].metric.name])
        for cell in self.cells[benchmark].values():
            found |= dict.fromkeys(m.name for m in cell.record.grading.metrics)
        return list(found)

    def estimates(self, benchmark: str, metric: str | None = None) -> dict[str, Estimate]:
        """Return each model's estimate on a benchmark, on its main metric or another one."""
        name = metric or self.panels[benchmark].metric.name
        if (benchmark, name) not in self._estimates:
            panel = self.panel(benchmark, name)
            self._estimates[benchmark, name] = panel.estimates(self.settings, benchmark)
        return self._estimates[benchmark, name]

    def reasons(self, benchmark: str) -> dict[str, str]:
        """Return why a benchmark is not common: ranked model -> reason. Empty: it is."""
        unfit = self.panels[benchmark].unfit
        found = {m: unfit[m] for m in self.contenders if m in unfit}
        for model, e in self.estimates(benchmark).items():
            if model in self.contenders and model not in found and np.isnan(e.normalised):
                found[model] = "score undefined"
        return found

    @cached_property
    def ranking(self) -> Ranking:
        """The ranked models on the common benchmarks."""
        models = self.contenders
        common = tuple(b for b in self.panels if models and not self.reasons(b))
        shape = (len(models), len(common))
        scores, draws = np.empty(shape), np.empty((self.settings.draws, *shape))
        for b, benchmark in enumerate(common):
            panel = self.panels[benchmark]
            for m, model in enumerate(models):
                own = self.estimates(benchmark)[model]
                scores[m, b] = own.normalised
                drawn = panel.normalise(own.draws)
                # A ratio can be undefined in a draw that holds no positive: no news, no change.
                draws[:, m, b] = np.where(np.isnan(drawn), own.normalised, drawn)
        sizes = [np.unique(self.panels[b].clusters, return_counts=True)[1] for b in common]
        clusters = np.array([effective_clusters(s) for s in sizes])
        return Ranking(models, common, scores, draws, clusters, self.settings)
