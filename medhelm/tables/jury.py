"""The jury table: how far the judges agree, and what scores and ranks are without each of them.

A rating is what a jury's judge gave an answer; of a metric of a grader, its value by one judge alone.

Everything is over the compared instances of a benchmark. Where instances were asked several times,
ratings are of single answers. Agreement leaves out answers that no judge was shown (empty,
refused), which count with the metric's floor for every judge. Without a judge the score is the
mean of the others' ratings of the answers that the whole jury has rated, averaged as the jury's
score is: over judges, then over an instance's answers. So nothing but the judge changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medhelm.grading.graders.controls import EMPTY, OTHER, RIGHT
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.panels import MISSING
from medhelm.stats import aggregation as stats
from medhelm.stats import agreement
from medhelm.stats.aggregation import Floats, Ints
from medhelm.stats.intervals import jackknife
from medhelm.tables import notes
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm.tables.notes import study_table
from medhelm.tables.study.cells import Answers, Cell, Keys, MetricScores, by_judge, means
from medhelm.tables.study.judge_errors import ERRORS, LIMIT, error_columns, grader_of, judge_errors
from medhelm.tables.study.study import Estimate, Study


@dataclass(frozen=True)
class _Ratings:
    """The judges' ratings of one model's answers, sorted by instance."""

    ids: Keys
    clusters: Keys
    values: Floats
    """(n, k), NaN where a judge gave none."""
    sums: Floats
    """(n, k, w): what the values' aggregate is made of."""
    floored: NDArray[np.bool_]
    is_scored: NDArray[np.bool_]
    """Answers of which enough judges gave a rating for a score of the jury."""


def _ratings(cell: Cell, metric: str, judges: Sequence[str]) -> _Ratings:
    whole = _answers(cell, metric)
    views = [_answers(cell, f"{metric}[{judge}]") for judge in judges]
    ids, *places = _places([whole, *views])
    width = max((v.sums.shape[1] for v in views), default=1)
    values = np.full((len(ids), len(judges)), np.nan)
    sums = np.full((len(ids), len(judges), width), np.nan)
    clusters, floored = ids.copy(), np.zeros(len(ids), dtype=np.bool_)
    is_scored = np.zeros(len(ids), dtype=np.bool_)
    is_scored[places[0]] = True
    for judge, (view, at) in enumerate(zip(views, places[1:], strict=True)):
        values[at, judge], sums[at, judge] = view.values, view.sums
        clusters[at] = view.clusters
        floored[at] |= view.floored
    return _Ratings(ids, clusters, values, sums, floored, is_scored)


def _answers(cell: Cell, metric: str) -> Answers:
    scores = cell.scores.get(metric)
    return scores.answers if scores is not None and scores.answers is not None else Answers.none()


def _places(several: Sequence[Answers]) -> list[NDArray[Any]]:
    """Return the instances of all answers that any of several has, and the places of each one's."""
    dtype = np.dtype([("id", np.uint64), ("repeat", np.int32)])
    keys = [np.rec.fromarrays((a.ids, a.repeats), dtype=dtype) for a in several]
    every, places = np.unique(np.concatenate(keys), return_inverse=True)
    return [every["id"], *np.split(places, np.cumsum([len(own) for own in keys])[:-1])]


class Jury:
    """One jury on one benchmark, with what several rows share."""

    def __init__(self, study: Study, benchmark: str, metric: str) -> None:
        self.study, self.benchmark, self.metric = study, benchmark, metric
        panel = study.panel(benchmark, metric)
        own = {m: c for m, c in panel.cells.items() if metric in by_judge(c.scores).values()}
        self.panel = replace(panel, cells=own)
        self.without_judges = [m for m in panel.cells if m not in own]
        """Models whose gradings are of before what each judge alone gives was kept."""
        views = dict.fromkeys(name for cell in own.values() for name in cell.scores)
        self.judges = [n[len(metric) + 1 : -1] for n in views if n.startswith(f"{metric}[")]
        self.ratings = {m: _ratings(c, metric, self.judges) for m, c in self.panel.cells.items()}
        self._without: dict[tuple[str, ...], dict[str, Estimate]] = {}

    @cached_property
    def is_stand_in(self) -> bool:
        """Return whether the judges are the graders of the offline jury."""
        raters = [c.record.grading.raters for c in self.panel.cells.values()]
        return any(r is not None and not r.judges for r in raters)

    @cached_property
    def fit(self) -> list[str]:
        """Models that are ranked on this benchmark."""
        return [m for m in self.panel.cells if m in self.study.ranked and m not in self.panel.unfit]

    @cached_property
    def full(self) -> dict[str, Estimate]:
        """Each model's estimate by all judges: a jury's score; else the mean of what each alone gives, since a
        majority of fewer judges is another measure."""
        if self.metric != JURY:
            return self.without()
        return self.study.estimates(self.benchmark, JURY)

    @cached_property
    def own(self) -> dict[str, tuple[str, ...]]:
        """Judges of the model's family, itself among them, of the models that have one."""
        found = {m: c.family_judges for m, c in self.panel.cells.items()}
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
            m: replace(c, scores={metric: self._mean_over(m, kept)})
            for m, c in self.panel.cells.items()
        }
        ids = clusters = self.panel.ids
        if len(ids):
            ids = reduce(np.intersect1d, (cells[m].scores[metric].ids for m in self.fit), ids)
            if not len(ids):
                return {}
            clusters = self.panel.clusters[np.searchsorted(self.panel.ids, ids)]
        panel = replace(self.panel, cells=cells, ids=ids, clusters=clusters)
        return panel.estimates(self.study.settings, self.benchmark)

    def _mean_over(self, model: str, kept: Sequence[int]) -> MetricScores:
        """Return a model's scores by some judges: the mean of those that gave one. Those of a majority are
        compared where all gave one, for an answer that only a mild judge could score would be worth more."""
        own = self.ratings[model]
        values = own.values[:, kept]
        there = ~np.isnan(values)
        rows = own.is_scored & (there.any(axis=1) if self.metric == JURY else there.all(axis=1))
        values, there, ids = values[rows], there[rows], own.ids[rows]
        votes = there.sum(axis=1)
        sums = np.where(there[:, :, None], own.sums[rows][:, kept], 0.0).sum(1) / votes[:, None]
        given = np.where(there, values, 0.0).sum(axis=1) / votes
        is_first = np.diff(ids, prepend=~ids[:1]) != 0
        item, count = np.cumsum(is_first) - 1, int(is_first.sum())
        scores = means(given, item, count)
        return MetricScores(
            ids=ids[is_first],
            values=scores,
            sums=np.stack([means(c, item, count) for c in sums.T], axis=1),
            clusters=own.clusters[rows][is_first],
            low=scores,
            high=scores,
            spread=np.zeros(count),
            floored=own.floored[rows][is_first],
            total=float(given.sum()),
            counted=len(given),
            outcomes={},
            pooling=self.panel.cells[model].scores[self.metric].pooling,
        )

    def ranks(self, found: Mapping[str, Estimate]) -> dict[str, int]:
        """Return the ranks of the fit models by some estimates; empty without a rival, and where the
        benchmark ranks by a majority."""
        if self.metric != JURY:
            return {}
        values = np.array([found[m].normalised if m in found else np.nan for m in self.fit])
        if len(values) < 2 or np.isnan(values).any():
            return {}
        return dict(zip(self.fit, stats.ranks(values).tolist(), strict=True))

    @cached_property
    def ranks_without(self) -> dict[str, dict[str, int]]:
        """Judge -> the ranks with it left out."""
        return {judge: self.ranks(self.without(judge)) for judge in self.judges}

    def _compared(self) -> Iterator[tuple[_Ratings, NDArray[np.bool_]]]:
        """Yield the ratings of each model, and which are of compared answers that judges were shown."""
        for model in self.fit or self.panel.cells:
            own = self.ratings[model]
            is_used = ~own.floored
            if len(self.panel.ids):
                is_used &= np.isin(own.ids, self.panel.ids)
            yield own, is_used

    @cached_property
    def answers(self) -> tuple[Floats, Ints]:
        """The compared answers that judges were shown: ratings (n, k), cluster codes (n,)."""
        values = [own.values[used] for own, used in self._compared()]
        keys = [own.clusters[used] for own, used in self._compared()]
        codes = np.unique(np.concatenate(keys), return_inverse=True)[1]
        return np.concatenate(values), codes.astype(np.int64)

    def score_by(self, place: int) -> float | None:
        """Return the score of the compared answers of all models by one judge; None where it rated none."""
        sums = np.concatenate([own.sums[used, place] for own, used in self._compared()])
        sums = sums[~np.isnan(sums).any(axis=1)]
        cell = next(iter(self.panel.cells.values()))
        return float(cell.scores[self.metric].pooling(sums.sum(0))) if len(sums) else None

    def counts(self, metric: str) -> tuple[int, int]:
        """Return how many answers of all models were shown to judges, and how many have a value."""
        outcomes: Counter[str] = Counter()
        for cell in self.panel.cells.values():
            if metric in cell.scores:
                outcomes.update(cell.scores[metric].outcomes)
        return outcomes["scored"] + outcomes["unscored"], outcomes["scored"]


AGREEMENT, JUDGE, MODEL, LEFT_OUT = "agreement", "judge", "model", "left out"

JURY_TABLE = form(__file__, "jury", errors=ERRORS)


def jury(study: Study) -> Table:
    """Return the rows of every judged benchmark: agreement, judges, models, and each left out."""
    judged = ((b, dict.fromkeys(by_judge(study.metrics(b)).values())) for b in study.cells)
    juries = [Jury(study, b, metric) for b, metrics in judged for metric in metrics]
    rows = [row for own in juries for row in _rows(own)]
    return study_table(study, JURY_TABLE, rows, _juries_in_words(juries))


def _rows(own: Jury) -> Iterator[Row]:
    shared: Row = {
        "benchmark": own.benchmark,
        "jury": notes.jury_name(own.panel),
        "is_stand_in": own.is_stand_in,
    }
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
                **(found.row("n", "interval_method") if found is not None else {}),
            }


def _agreement(own: Jury) -> Row:
    """Return how far the judges agree. Those without any verdict are not among the k."""
    shown, rated = own.counts(own.metric)
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
        return [
            agreement.krippendorff_alpha(heard[rows], "interval"),
            agreement.icc2(heard[rows])[0],
        ]

    every = np.ones(len(heard), dtype=np.bool_)
    alpha, single = measure(every)
    ends = jackknife(measure, codes, own.study.settings.confidence)
    r = agreement.mean_correlation(heard)
    return row | {
        "alpha": alpha,
        **ends[0].ends("alpha"),
        "icc_single": single,
        **ends[1].ends("icc_single"),
        "icc_mean": agreement.icc2(heard)[1],
        "icc_mean_low": _of_mean(ends[1].low, k),
        "icc_mean_high": _of_mean(ends[1].high, k),
        "correlation": r,
        "effective_votes": agreement.effective_votes(k, r),
    }


def _of_mean(single: float | None, k: int) -> float | None:
    """Return ICC(2,k) of an ICC(2,1); None where it has none."""
    if single is None or 1 + (k - 1) * single <= 0:
        return None
    return k * single / (1 + (k - 1) * single)


def _judge(own: Jury, place: int) -> Row:
    judge = own.judges[place]
    shown, rated = own.counts(f"{own.metric}[{judge}]")
    answers, _ = own.answers
    ratings = answers[:, place][~np.isnan(answers[:, place])]
    full, without = own.ranks(own.full), own.ranks_without[judge]
    return {
        "shown": shown,
        "rated": rated,
        "coverage": rated / shown if shown else None,
        "n": len(ratings),
        "score": own.score_by(place),
        "alpha_without": agreement.alpha_without(answers, place, "interval"),
        "rank_shift": (
            max(abs(full[m] - without[m]) for m in own.fit) if full and without else None
        ),
        "is_own": any(judge in names for names in own.own.values()),
        "own": ", ".join(m for m, names in own.own.items() if judge in names) or None,
        "abstained": _abstained(own, judge),
        **error_columns(
            [cell.record for cell in own.panel.cells.values()],
            f"{own.metric}[{judge}]",
            own.study.settings.confidence,
        ),
    }


def _ends(own: Jury, judge: str) -> Counter[str]:
    """Return how the judgements of a judge ended, over all models."""
    ends: Counter[str] = Counter()
    for cell in own.panel.cells.values():
        for grader in cell.record.graders:
            if grader.model.name == judge and grader.role == JUDGE:
                ends.update(grader.ends)
    return ends


def _is_missing(own: Jury, judge: str) -> bool:
    return any(_ends(own, judge)[end] for end in MISSING)


def _below_quorum(own: Jury) -> str:
    """Return how many answers have too few verdicts for a score; empty where none has."""
    shown, rated = own.counts(own.metric)
    if rated == shown:
        return ""
    return f"; {shown - rated:,} of {shown:,} answers have fewer verdicts than the quorum: no score"


def _abstained(own: Jury, judge: str) -> str | None:
    ends = _ends(own, judge)
    return ", ".join(f"{n:,} {e}" for e, n in sorted(ends.items()) if e != "scored") or None


def _model(own: Jury, model: str) -> Row:
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
        **full.row("n", "interval_method"),
    }
    if names := own.own.get(model):
        row["own"] = ", ".join(names)
        alone = own.without(*names).get(model)
        if alone is not None:
            row |= {"score_without_own": alone.score, **alone.interval.ends("without_own")}
    return row


def _juries_in_words(juries: Sequence[Jury]) -> list[str]:
    if not juries:
        return JURY_TABLE.say(none=True)
    silent = [
        f"{own.benchmark}: {judge}"
        for own in juries
        for place, judge in enumerate(own.judges)
        if np.isnan(own.answers[0][:, place]).all()
    ]
    return JURY_TABLE.say(
        agreement=True,
        votes=True,
        brackets=True,
        by_majority=[(own.benchmark, own.metric) for own in juries if own.metric != JURY],
        without_judges=[
            (own.benchmark, ", ".join(own.without_judges)) for own in juries if own.without_judges
        ],
        silent=", ".join(silent),
        missing=[
            (own.benchmark, judge, _abstained(own, judge), _below_quorum(own))
            for own in juries
            for judge in own.judges
            if _is_missing(own, judge)
        ],
        own_family=", ".join(sorted({m for own in juries for m in own.own})),
    )


ALL = "all together"
CONTROLS = form(__file__, "controls")
_COUNTED = ("what", "wrong", "verdicts", "invalid", "cases", "runs")


def controls(study: Study) -> Table:
    """Return a row of each benchmark, judge and kind of error."""
    rows = [*_control_rows(study)]
    said = CONTROLS.say(counts=rows and LIMIT, none=not rows)
    return study_table(study, CONTROLS, rows, said)


def _control_rows(study: Study) -> Iterator[Row]:
    for benchmark, panel in study.panels.items():
        records = [cell.record for cell in panel.cells.values()]
        first: dict[str, str] = {}
        for metric in study.metrics(benchmark):
            first.setdefault(grader_of(records[0], metric), metric)
        for metric in first.values():
            for one in judge_errors(records, metric, study.settings.confidence):
                row: Row = {"benchmark": benchmark, "metric": metric, "judge": one.judge or ALL}
                row |= {name: getattr(one, name) for name in _COUNTED} | one.row("share")
                yield row | {
                    kind: f"{own['wrong']:,} of {own['verdicts']:,}"
                    for kind in (EMPTY, OTHER, RIGHT)
                    if (own := one.kinds.get(kind))
                }
