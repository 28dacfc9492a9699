"""The jury table: how far the judges agree, and what scores and ranks are without each of them.

Everything is over the compared instances of a benchmark, an instance standing for one answer of
each model. Agreement leaves out answers that no judge was shown (empty, refused), which count
with the metric's floor for every judge. Without a judge the score is the mean of the others'
ratings on the same instances, so that nothing but the judge changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm import agreement, stats
from medhelm.jury.metric import NAME as JURY
from medhelm.stats import Floats, Ints
from medhelm.tables import notes
from medhelm.tables.cells import Cell, Keys, MetricScores
from medhelm.tables.jackknife import jackknife
from medhelm.tables.jury_columns import JURY as COLUMNS
from medhelm.tables.study import Estimate, Panel, Study, estimate
from medhelm.tables.table import Part, Row, Table, make_table

AGREEMENT, JUDGE, MODEL, LEFT_OUT = "agreement", "judge", "model", "left out"

_PARTS = (
    Part(level=AGREEMENT, title="Jury: agreement of the judges"),
    Part(level=JUDGE, title="Jury: its judges", group=("benchmark", "jury")),
    Part(
        level=MODEL,
        title="Jury: scores, and what one judge changes",
        group=("benchmark", "jury"),
    ),
    Part(
        level=LEFT_OUT,
        title="Jury: scores and ranks without one judge",
        group=("benchmark", "jury", "model"),
    ),
)


@dataclass(frozen=True)
class _Ratings:
    """The judges' ratings of one model's answers, over the instances that any of them has."""

    ids: Keys
    clusters: Keys
    values: Floats
    """(n, k), NaN where a judge gave none."""
    stats: Floats
    """(n, k, w): what the values' aggregate is made of."""
    floored: NDArray[np.bool_]


def judges_of(panel: Panel) -> list[str]:
    """Return the names of the judges of a jury's panel."""
    found: dict[str, None] = {}
    for cell in panel.cells.values():
        names = [n for n in cell.scores if n.startswith(f"{JURY}[")]
        found |= dict.fromkeys(n[len(JURY) + 1 : -1] for n in names)
    return list(found)


def _ratings(cell: Cell, judges: Sequence[str]) -> _Ratings:
    views = [cell.scores.get(f"{JURY}[{judge}]") for judge in judges]
    given = [v for v in views if v is not None and len(v.ids)]
    none = np.empty(0, dtype=np.uint64)
    ids = np.unique(np.concatenate([v.ids for v in given])) if given else none
    width = max((v.stats.shape[1] for v in given), default=1)
    values = np.full((len(ids), len(judges)), np.nan)
    sums = np.full((len(ids), len(judges), width), np.nan)
    clusters, floored = ids.copy(), np.zeros(len(ids), dtype=np.bool_)
    for place, view in enumerate(views):
        if view is not None and len(view.ids):
            at = np.searchsorted(ids, view.ids)
            values[at, place], sums[at, place] = view.values, view.stats
            clusters[at] = view.clusters
            floored[at] |= view.floored
    return _Ratings(ids, clusters, values, sums, floored)


class _Jury:
    """One jury on one benchmark, with what several rows share."""

    def __init__(self, study: Study, benchmark: str) -> None:
        self.study, self.benchmark = study, benchmark
        self.panel = study.panel(benchmark, JURY)
        self.judges = judges_of(self.panel)
        self.ratings = {m: _ratings(c, self.judges) for m, c in self.panel.cells.items()}
        self._without: dict[tuple[str, ...], dict[str, Estimate]] = {}

    @cached_property
    def fit(self) -> list[str]:
        """Models that are ranked on this benchmark."""
        return [m for m in self.panel.cells if m in self.study.ranked and m not in self.panel.unfit]

    @cached_property
    def full(self) -> dict[str, Estimate]:
        """Each model's estimate by the whole jury."""
        return self.study.estimates(self.benchmark, JURY)

    @cached_property
    def own(self) -> dict[str, tuple[str, ...]]:
        """Judges that are the model itself, of the models that have one."""
        found = {m: c.own_judges for m, c in self.panel.cells.items()}
        return {m: names for m, names in found.items() if names}

    def without(self, *judges: str) -> dict[str, Estimate]:
        """Return each model's estimate with some judges left out; empty where nothing is left."""
        if judges not in self._without:
            self._without[judges] = self._estimate_without(judges)
        return self._without[judges]

    def _estimate_without(self, judges: Sequence[str]) -> dict[str, Estimate]:
        kept = [place for place, name in enumerate(self.judges) if name not in judges]
        if not kept:
            return {}
        metric = self.panel.metric.name
        cells = {
            m: replace(c, scores={metric: _mean_over(self.ratings[m], kept)})
            for m, c in self.panel.cells.items()
        }
        ids = clusters = self.panel.ids
        if len(ids):
            ids = reduce(np.intersect1d, (cells[m].scores[metric].ids for m in self.fit), ids)
            if not len(ids):
                return {}
            clusters = self.panel.clusters[np.searchsorted(self.panel.ids, ids)]
        panel = replace(self.panel, cells=cells, ids=ids, clusters=clusters)
        return estimate(panel, self.study.settings, self.benchmark)

    def ranks(self, found: Mapping[str, Estimate]) -> dict[str, int]:
        """Return the ranks of the fit models by some estimates; empty without a rival."""
        values = np.array([found[m].normalised if m in found else np.nan for m in self.fit])
        if len(values) < 2 or np.isnan(values).any():
            return {}
        return dict(zip(self.fit, stats.ranks(values).tolist(), strict=True))

    @cached_property
    def ranks_without(self) -> dict[str, dict[str, int]]:
        """Judge -> the ranks with it left out."""
        return {judge: self.ranks(self.without(judge)) for judge in self.judges}

    @cached_property
    def answers(self) -> tuple[Floats, Ints]:
        """The compared answers that judges were shown: ratings (n, k), cluster codes (n,)."""
        values, keys = [], []
        for model in self.fit or self.panel.cells:
            own = self.ratings[model]
            is_used = ~own.floored
            if len(self.panel.ids):
                is_used &= np.isin(own.ids, self.panel.ids)
            values.append(own.values[is_used])
            keys.append(own.clusters[is_used])
        codes = np.unique(np.concatenate(keys), return_inverse=True)[1]
        return np.concatenate(values), codes.astype(np.int64)

    def counts(self, metric: str) -> tuple[int, int]:
        """Return how many answers of all models were shown to judges, and how many have a value."""
        outcomes: Counter[str] = Counter()
        for cell in self.panel.cells.values():
            if metric in cell.scores:
                outcomes.update(cell.scores[metric].outcomes)
        return outcomes["scored"] + outcomes["unscored"], outcomes["scored"]


def _mean_over(own: _Ratings, kept: Sequence[int]) -> MetricScores:
    """Return the scores of a jury of some of the judges: the mean of those that gave one."""
    values = own.values[:, kept]
    there = ~np.isnan(values)
    rows = there.any(axis=1)
    values, there = values[rows], there[rows]
    sums, votes = own.stats[rows][:, kept], there.sum(axis=1)
    means = np.where(there, values, 0.0).sum(axis=1) / votes
    ids = own.ids[rows]
    return MetricScores(
        ids=ids,
        values=means,
        stats=np.where(there[:, :, None], sums, 0.0).sum(axis=1) / votes[:, None],
        clusters=own.clusters[rows],
        low=means,
        high=means,
        spread=np.zeros(len(ids)),
        floored=own.floored[rows],
        total=float(means.sum()),
        counted=len(ids),
        outcomes={},
    )


def jury(study: Study) -> Table:
    """Return the rows of every judged benchmark: agreement, judges, models, and each left out."""
    juries = [_Jury(study, b) for b in study.cells if JURY in study.metrics(b)]
    juries = [j for j in juries if j.judges]
    rows = [row for own in juries for row in _rows(own)]
    return make_table(
        "jury",
        "Jury: agreement of the judges, and scores without each of them",
        COLUMNS,
        rows,
        [*notes.common(study), *_said(juries)],
        notes.settings(study),
        parts=_PARTS,
    )


def _rows(own: _Jury) -> Iterator[Row]:
    shared: Row = {"benchmark": own.benchmark, "jury": notes.jury_name(own.panel)}
    yield shared | {"level": AGREEMENT, **_agreement(own)}
    for place, judge in enumerate(own.judges):
        yield shared | {"level": JUDGE, "judge": judge, **_judge(own, place)}
    models = sorted(own.full, key=lambda m: (-np.nan_to_num(own.full[m].normalised, nan=-1.0), m))
    for model in models:
        yield shared | {"level": MODEL, "model": model, **_model(own, model)}
    for model in models:
        for judge in own.judges:
            found = own.without(judge).get(model)
            yield shared | {
                "level": LEFT_OUT,
                "model": model,
                "judge": judge,
                "ranked": model in own.fit,
                "is_own": judge in own.own.get(model, ()),
                "rank": own.ranks_without[judge].get(model),
                **(_score(found) if found is not None else {}),
            }


def _score(own: Estimate) -> Row:
    return {
        "n": own.n,
        "score": own.score,
        "low": own.interval.low,
        "high": own.interval.high,
        "interval_method": own.interval.method,
    }


def _agreement(own: _Jury) -> Row:
    """Return how far the judges agree; those without any verdict are not among the k."""
    shown, rated = own.counts(JURY)
    answers, codes = own.answers
    heard = answers[:, ~np.isnan(answers).all(axis=0)]
    k = heard.shape[1]
    row: Row = {
        "judges": len(own.judges),
        "judges_heard": k,
        "shown": shown,
        "rated": rated,
        "coverage": rated / shown if shown else None,
        "n": int(((~np.isnan(heard)).sum(axis=1) > 1).sum()),
        "n_complete": int((~np.isnan(heard)).all(axis=1).sum()) if k > 1 else 0,
    }
    if k < 2:
        return row

    def measure(rows: NDArray[np.bool_]) -> list[float]:
        return [_alpha(heard[rows]), agreement.icc2(heard[rows])[0].value]

    every = np.ones(len(heard), dtype=np.bool_)
    alpha, single = measure(every)
    ends = jackknife(measure, codes, own.study.settings.confidence)
    r = _correlation(heard)
    return row | {
        "alpha": alpha,
        "alpha_low": ends[0].low,
        "alpha_high": ends[0].high,
        "icc_single": single,
        "icc_single_low": ends[1].low,
        "icc_single_high": ends[1].high,
        "icc_mean": agreement.icc2(heard)[1].value,
        "icc_mean_low": _of_mean(ends[1].low, k),
        "icc_mean_high": _of_mean(ends[1].high, k),
        "correlation": r,
        "effective_votes": agreement.effective_votes(k, r),
    }


def _alpha(ratings: Floats) -> float:
    return agreement.krippendorff_alpha(ratings, "interval")


def _of_mean(single: float | None, k: int) -> float | None:
    """Return ICC(2,k) of an ICC(2,1); None where it has none."""
    if single is None or 1 + (k - 1) * single <= 0:
        return None
    return k * single / (1 + (k - 1) * single)


def _correlation(ratings: Floats) -> float:
    """Return the mean correlation of the ratings of two judges, over pairs that have one."""
    once = agreement.once(len(ratings))
    pairs = combinations(ratings.T, 2)
    found = np.array([agreement.correlation(a, b, once)[0] for a, b in pairs])
    found = found[~np.isnan(found)]
    return float(found.mean()) if len(found) else float("nan")


def _judge(own: _Jury, place: int) -> Row:
    judge = own.judges[place]
    shown, rated = own.counts(f"{JURY}[{judge}]")
    answers, _ = own.answers
    ratings = answers[:, place][~np.isnan(answers[:, place])]
    full, without = own.ranks(own.full), own.ranks_without[judge]
    return {
        "shown": shown,
        "rated": rated,
        "coverage": rated / shown if shown else None,
        "score": ratings.mean() if len(ratings) else None,
        "alpha_without": _alpha(np.delete(answers, place, axis=1)),
        "rank_shift": (
            max(abs(full[m] - without[m]) for m in own.fit) if full and without else None
        ),
        "is_own": any(judge in names for names in own.own.values()),
        "own": ", ".join(m for m, names in own.own.items() if judge in names) or None,
        "abstained": _abstained(own, judge),
    }


def _abstained(own: _Jury, judge: str) -> str | None:
    ends: Counter[str] = Counter()
    for cell in own.panel.cells.values():
        for totals in cell.record.judges:
            if totals.judge.name == judge:
                ends.update(totals.judgements)
    return ", ".join(f"{n:,} {e}" for e, n in sorted(ends.items()) if e != "scored") or None


def _model(own: _Jury, model: str) -> Row:
    full = own.full[model]
    rank = own.ranks(own.full).get(model)
    others = [r[model] for r in own.ranks_without.values() if model in r]
    found = [own.without(judge).get(model) for judge in own.judges]
    scores = [e.score for e in found if e is not None and not np.isnan(e.score)]
    row: Row = {
        "ranked": model in own.fit,
        "rank": rank,
        "rank_best": min(others, default=None) if rank else None,
        "rank_worst": max(others, default=None) if rank else None,
        "score_least": min(scores, default=None),
        "score_most": max(scores, default=None),
        "is_own": model in own.own,
        **_score(full),
    }
    if names := own.own.get(model):
        row["own"] = ", ".join(names)
        alone = own.without(*names).get(model)
        if alone is not None:
            row |= {
                "score_without_own": alone.score,
                "without_own_low": alone.interval.low,
                "without_own_high": alone.interval.high,
            }
    return row


def _said(juries: Sequence[_Jury]) -> list[str]:
    """Return what must be said of these juries."""
    if not juries:
        return ["No benchmark here was rated by a jury."]
    found = [
        "Agreement is over the compared answers that judges were shown, by ratings on the rubric's "
        "scale; its intervals leave out groups of instances with their clusters (jackknife), so "
        "that neither judges nor models count as instances.",
        "votes = k / (1 + (k - 1) r), r the mean correlation of two judges' ratings. Judges also "
        "agree since answers differ in quality, so that this is a lower bound; ratings by "
        "clinicians tell more.",
        "Brackets behind a rank, and least and most of a score, are what they become with one judge "
        "left out, on the same instances.",
    ]
    silent = [
        f"{own.benchmark}: {judge}"
        for own in juries
        for place, judge in enumerate(own.judges)
        if np.isnan(own.answers[0][:, place]).all()
    ]
    if silent:
        found.append(f"Judges without any verdict on the compared answers: {', '.join(silent)}.")
    if own_judges := sorted({m for own in juries for m in own.own}):
        found.append(
            f"Judged by themselves too: {', '.join(own_judges)}. `without` is the score by the "
            "other judges; they may be stricter or milder, so compare it with the score of the "
            "same model only."
        )
    return found
