"""What all tables are computed from: panels, the scores on them with their draws, the ranking.

A panel is one metric of one benchmark with the runs of all models. Its compared instances are
those with a value in the run of every model that may be ranked there, and every score of the
panel is taken on them, of other models too as far as they have values. A model may be ranked on
a benchmark if it reads no gold, has a run there, and that run covers `MIN_COVERAGE` of its
instances. The common benchmarks are those on which every ranked model may be ranked; ranks, win
rates, macro-averages and category means are over them. A model that fits no benchmark is not
ranked at all, so that one broken endpoint does not empty the tables of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from medhelm import stats
from medhelm.intervals import (
    Interval,
    bootstrap,
    cluster_sums,
    percentile,
    score_interval,
    seed_of,
)
from medhelm.schema import BenchmarkCard, MetricRef, RunRecord
from medhelm.stats import Floats, Ints, WinDefinition
from medhelm.tables.cells import MIN_COVERAGE, Cell, Keys, MetricScores
from medhelm.tables.selection import is_ranked
from medhelm.tables.table import RankBy, Settings


@dataclass(frozen=True)
class Panel:
    """One metric of one benchmark with the cells of all models."""

    metric: MetricRef
    card: BenchmarkCard
    cells: Mapping[str, Cell]
    unfit: Mapping[str, str]
    """Models that might be ranked but not here, and why."""
    ids: Keys
    """Compared instances, sorted; empty where the rankable runs share none."""
    clusters: Keys
    """Their cluster keys."""

    def scores(self, model: str) -> MetricScores:
        """Return a model's scores on the panel's metric."""
        return self.cells[model].scores[self.metric.name]

    def normalise(self, values: Floats) -> Floats:
        """Return values of the metric on the scale from 0 (worst) to 1 (best)."""
        m = self.metric
        return stats.normalise(values, m.minimum, m.maximum, m.higher_is_better)


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


def make_panel(cells: Mapping[str, Cell], metric: MetricRef, models: Iterable[str]) -> Panel:
    """Return the panel of a metric for the cells of one benchmark.

    `models`: every model that may be ranked somewhere, so that those without a run are named.
    """
    cells = {m: c for m, c in cells.items() if metric.name in c.scores}
    unfit = {}
    for model in models:
        if reason := _unfit(cells.get(model), metric.name):
            unfit[model] = reason
    fit = [
        cell.scores[metric.name]
        for model, cell in cells.items()
        if model not in unfit and is_ranked(cell.record.spec.model)
    ]
    none = np.empty(0, dtype=np.uint64)
    ids = reduce(np.intersect1d, (s.ids for s in fit)) if fit else none
    if fit and not len(ids):
        unfit |= {m: "no instance in common" for m in cells if m not in unfit and m in set(models)}
    clusters = _clusters(fit[0], ids) if len(ids) else none
    card = next(iter(cells.values())).record.card
    return Panel(metric, card, cells, unfit, ids, clusters)


def _clusters(scores: MetricScores, ids: Keys) -> Keys:
    """Return the cluster of each of some of the instances."""
    if scores.clusters is scores.ids:
        return ids
    return scores.clusters[np.searchsorted(scores.ids, ids)]


def _unfit(cell: Cell | None, metric: str) -> str:
    """Return why a cell may not be ranked; empty if it may."""
    if cell is None:
        return "no run"
    if not cell.scores[metric].counted:
        return "no instance with a value"
    coverage = cell.coverage(metric)
    return f"coverage {coverage:.1%}" if coverage < MIN_COVERAGE else ""


def restrict(panel: Panel, ids: Keys) -> Panel:
    """Return the panel on some of its compared instances (sorted)."""
    return replace(panel, ids=ids, clusters=panel.clusters[np.searchsorted(panel.ids, ids)])


@dataclass(frozen=True)
class _Placed:
    """A model's scores on the panel's instances, with codes of their clusters."""

    values: Floats
    stats: Floats
    codes: Ints


def _place(panel: Panel) -> tuple[dict[str, _Placed], int]:
    """Return each model's scores on the compared instances, and the number of clusters.

    Where runs share no instance, all of each model's own are taken.
    """
    found = {}
    if not len(panel.ids):
        all_scores = {m: panel.scores(m) for m in panel.cells}
        keys = np.unique(np.concatenate([s.clusters for s in all_scores.values()]))
        for model, scores in all_scores.items():
            codes = np.searchsorted(keys, scores.clusters).astype(np.int64)
            found[model] = _Placed(scores.values, scores.stats, codes)
        return found, len(keys)
    keys, shared = panel.clusters, np.arange(len(panel.ids))
    if not np.array_equal(panel.clusters, panel.ids):  # else each instance is its own cluster
        keys, shared = np.unique(panel.clusters, return_inverse=True)
    for model in panel.cells:
        scores = panel.scores(model)
        if np.array_equal(scores.ids, panel.ids):
            found[model] = _Placed(scores.values, scores.stats, shared)
            continue
        at = scores.among(panel.ids)
        own = shared
        if np.count_nonzero(at) < len(panel.ids):
            own = shared[np.searchsorted(panel.ids, scores.ids[at])]
        found[model] = _Placed(scores.values[at], scores.stats[at], own)
    return found, len(keys)


def placed_stats(panel: Panel, models: Iterable[str]) -> list[tuple[Floats, Ints, int]]:
    """Return statistics, cluster codes and number of clusters of models on the compared instances."""
    placed, count = _place(panel)
    return [(placed[m].stats, placed[m].codes, count) for m in models]


def estimate(panel: Panel, settings: Settings, *names: str) -> dict[str, Estimate]:
    """Return each model's estimate; all share the bootstrap's counts, seeded by `names`."""
    value = stats.AGGREGATIONS[panel.metric.aggregation]
    found = dict.fromkeys(panel.cells, _nothing(settings))
    placed, count = _place(panel)
    placed = {m: p for m, p in placed.items() if len(p.values)}
    if not placed:
        return found
    sums = [cluster_sums(p.stats, p.codes, count) for p in placed.values()]
    seed = seed_of(settings.bootstrap_seed, *names)
    joined = np.concatenate(sums, axis=1) if len(sums) > 1 else sums[0]
    drawn = bootstrap(joined, settings.draws, seed)
    ends = np.cumsum([s.shape[1] for s in sums])[:-1]
    for model, own, draws in zip(placed, sums, np.split(drawn, ends, axis=1), strict=True):
        score = float(value(own.sum(0)))
        found[model] = _estimate(panel, placed[model], score, value(draws), settings)
    return found


def _nothing(settings: Settings) -> Estimate:
    nan = float("nan")
    none = Interval(None, None, "none (no instance)")
    return Estimate(0, 0, nan, nan, nan, nan, none, np.full(settings.draws, nan))


def _estimate(
    panel: Panel, placed: _Placed, score: float, draws: Floats, settings: Settings
) -> Estimate:
    values, codes = placed.values, placed.codes
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
        interval=score_interval(
            values,
            codes,
            draws,
            span=(panel.metric.minimum, panel.metric.maximum),
            is_mean=is_mean,
            is_exact=panel.metric.interval == "exact",
            confidence=settings.confidence,
        ),
        draws=draws,
    )


@dataclass(frozen=True)
class Ranking:
    """The ranked models on the common benchmarks; arrays follow the order of these two tuples."""

    models: tuple[str, ...]
    benchmarks: tuple[str, ...]
    scores: Floats
    """Normalised scores (M, B)."""
    draws: Floats
    """Their bootstrap draws (D, M, B), models paired within each benchmark."""
    settings: Settings

    @property
    def is_defined(self) -> bool:
        """Whether there is anything to rank: two models on one benchmark."""
        return len(self.models) > 1 and len(self.benchmarks) > 0

    def rates(self, definition: WinDefinition) -> tuple[Floats, Floats]:
        """Return win rates (M,) and their SD over rivals."""
        shares = stats.win_shares(self.scores, definition)
        return stats.win_rates(shares), stats.win_sd(shares)

    def rate_draws(self, definition: WinDefinition) -> Floats:
        """Return draws (D, M) of the win rate, instances resampled within each benchmark."""
        return stats.win_rates(stats.win_shares(self.draws, definition))

    @cached_property
    def merit(self) -> Floats:
        """What ranks (M,): a win rate or the macro-average."""
        by = self.settings.rank_by
        return np.asarray(self.scores.mean(axis=1)) if by == "macro" else self.rates(by)[0]

    @cached_property
    def merit_draws(self) -> Floats:
        """Draws (D, M) of what ranks."""
        by = self.settings.rank_by
        return np.asarray(self.draws.mean(axis=2)) if by == "macro" else self.rate_draws(by)

    def rank_intervals(self) -> tuple[Ints, Ints, Ints]:
        """Return ranks (M,) and the ends of their percentile intervals over paired draws.

        An interval is widened where needed to hold the rank itself.
        """
        own, tail = stats.ranks(self.merit), (1 - self.settings.confidence) / 2
        drawn = stats.ranks(self.merit_draws)
        ends = np.quantile(drawn, [tail, 1 - tail], axis=0, method="inverted_cdf").astype(np.int64)
        return own, np.minimum(own, ends[0]), np.maximum(own, ends[1])

    def groups(self) -> Ints:
        """Return the tie group (M,) of each model."""
        return stats.tie_groups(self.merit, self.merit_draws, self.settings.confidence)

    def suite_intervals(self, definition: WinDefinition) -> list[Interval]:
        """Return each model's interval of the win rate over resampled benchmarks.

        This is the uncertainty if the suite were drawn from a population of benchmarks; the
        scores are taken as they are.
        """
        wins = np.stack(
            [
                stats.win_rates(stats.win_shares(self.scores[:, [b]], definition))
                for b in range(len(self.benchmarks))
            ]
        )
        if len(wins) < 2:
            return [Interval(None, None, "none (one benchmark)")] * len(self.models)
        seed = seed_of(self.settings.bootstrap_seed, "benchmarks")
        drawn = bootstrap(wins, self.settings.draws, seed) / len(wins)
        return [percentile(d, self.settings.confidence, len(wins)) for d in drawn.T]


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
        rankable = tuple(m for m in self.models if is_ranked(specs[m]))
        self.rankable = rankable
        """Models that read no gold; `ranked` are those of them that fit some benchmark."""
        main = {
            b: next(iter(c.values())).record.grading.metrics[0] for b, c in by_benchmark.items()
        }
        panels = {b: make_panel(c, main[b], rankable) for b, c in by_benchmark.items()}
        self.ranked = tuple(m for m in rankable if any(m not in p.unfit for p in panels.values()))
        self.panels: Mapping[str, Panel] = panels
        self._estimates: dict[tuple[str, str], dict[str, Estimate]] = {}

    def on(self, benchmarks: Collection[str], rank_by: RankBy | None = None) -> Study:
        """Return the study of some benchmarks, perhaps ranked otherwise; estimates are shared."""
        cells = [c for b, own in self.cells.items() if b in benchmarks for c in own.values()]
        settings = replace(self.settings, rank_by=rank_by or self.settings.rank_by)
        part = Study(cells, settings, self.notes)
        part.panels = {b: self.panels[b] for b in part.cells}
        part._estimates = self._estimates
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
        return make_panel(cells, ref, self.rankable)

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
            self._estimates[benchmark, name] = estimate(panel, self.settings, benchmark)
        return self._estimates[benchmark, name]

    def reasons(self, benchmark: str) -> dict[str, str]:
        """Return why a benchmark is not common: ranked model -> reason. Empty: it is."""
        unfit = self.panels[benchmark].unfit
        found = {m: unfit[m] for m in self.ranked if m in unfit}
        for model, e in self.estimates(benchmark).items():
            if model in self.ranked and model not in found and np.isnan(e.normalised):
                found[model] = "score undefined"
        return found

    @cached_property
    def ranking(self) -> Ranking:
        """The ranked models on the common benchmarks."""
        common = tuple(b for b in self.panels if self.ranked and not self.reasons(b))
        shape = (len(self.ranked), len(common))
        scores, draws = np.empty(shape), np.empty((self.settings.draws, *shape))
        for b, benchmark in enumerate(common):
            panel = self.panels[benchmark]
            for m, model in enumerate(self.ranked):
                own = self.estimates(benchmark)[model]
                scores[m, b] = own.normalised
                drawn = panel.normalise(own.draws)
                # A ratio can be undefined in a draw that holds no positive: no news, no change.
                draws[:, m, b] = np.where(np.isnan(drawn), own.normalised, drawn)
        return Ranking(self.ranked, common, scores, draws, self.settings)
