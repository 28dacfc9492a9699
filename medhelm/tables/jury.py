"""The jury table: how far the judges agree, and what scores and ranks are without each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.panels import MISSING
from medhelm.stats import agreement
from medhelm.stats.aggregation import Floats
from medhelm.stats.intervals import jackknife
from medhelm.tables import notes
from medhelm.tables.format.column_kinds import count, measured, number, on_request, share, text, yes
from medhelm.tables.format.table import Column, Part, Row, Table
from medhelm.tables.jury_ratings import Jury
from medhelm.tables.notes import study_table
from medhelm.tables.study.cells import by_judge
from medhelm.tables.study.judge_errors import ERRORS, error_columns
from medhelm.tables.study.study import Study

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

_BRACKETS = (
    "Brackets behind a rank, and least and most of a score, are what they become with one judge "
    "left out, on the same instances."
)

_BY_GROUPS = "by the jackknife over groups of instances"

COLUMNS = (
    text("level", "agreement, judge, model, or left out: a model's score without one judge"),
    text("benchmark", "name of the benchmark", "benchmark"),
    text("jury", "name of the jury", "jury"),
    yes(
        "is_stand_in",
        "whether the judges are the offline graders, whose scores say nothing about quality",
    ),
    text("judge", "name of the judge; in a row `left out`, of the one that is left out", "judge"),
    text("model", "name of the model", "model"),
    count("judges", "judges of the jury", "judges"),
    count("judges_heard", "judges with a verdict on the compared answers: the k of what follows"),
    count("shown", "answers (of any model) that the judges were shown"),
    count(
        "rated",
        "those with a verdict of the judge, or of as many as the quorum",
        "rated",
        of="shown",
    ),
    on_request(share("coverage", "rated / shown", "cov")),
    count(
        "n",
        "compared answers of all models with two verdicts; of a judge: that it rated; of a score: "
        "instances",
        "n",
    ),
    count("n_complete", "compared answers that all judges heard rated: those of the ICC", "n ICC"),
    *measured(
        "alpha",
        "Krippendorff's alpha of the judges' ratings, interval level",
        "",
        "alpha",
        is_main=True,
        prefix="alpha",
        how=_BY_GROUPS,
    ),
    *measured(
        "icc_single",
        "ICC(2,1): absolute agreement of single judges",
        "",
        "ICC(2,1)",
        prefix="icc_single",
        how=_BY_GROUPS,
    ),
    *measured(
        "icc_mean",
        "ICC(2,k): absolute agreement of the mean of k judges",
        "",
        "ICC(2,k)",
        is_main=True,
        prefix="icc_mean",
        how="from those of icc_single",
    ),
    number("correlation", "mean correlation r of the ratings of two judges", "", "r"),
    number(
        "effective_votes",
        "k / (1 + (k - 1) r): independent judges that k are worth at least",
        "",
        "votes",
    ),
    number("alpha_without", "alpha of the other judges", "", "alpha without", is_main=True),
    yes("ranked", "whether the model is ranked on this benchmark"),
    *measured(
        "score",
        "score by all judges, or by one; of a metric by majority: the mean of each one's own",
        "metric",
        "score",
        is_main=True,
        how="instances resampled",
    ),
    text("interval_method", "how the interval was made, or why there is none"),
    Column(
        name="rank",
        type="integer",
        description="rank of the model on this benchmark; missing: not ranked, or by a majority",
        heading="rank",
        interval=("rank_best", "rank_worst"),
    ),
    count("rank_best", "best rank with one judge left out"),
    count("rank_worst", "worst rank with one judge left out"),
    number("score_least", "lowest score with one judge left out", "metric", "least"),
    number("score_most", "highest score with one judge left out", "metric", "most"),
    count("rank_shift", "most places by which a model moves without the judge", "moves"),
    yes("is_own", "whether the judge is of the model's family, or the model has one", "family"),
    text("own", "judges of the model's family, itself among them; of a judge: the models"),
    *measured(
        "score_without_own",
        "score by the other judges where one is of the model's family",
        "metric",
        "without",
        prefix="without_own",
        how="instances resampled",
        is_main=True,
    ),
    *ERRORS,
    on_request(
        text(
            "abstained",
            "how the judgements without a score ended, every try counted",
            "abstained",
            "",
        )
    ),
)


def jury(study: Study) -> Table:
    """Return the rows of every judged benchmark: agreement, judges, models, and each left out."""
    judged = ((b, dict.fromkeys(by_judge(study.metrics(b)).values())) for b in study.cells)
    juries = [Jury(study, b, metric) for b, metrics in judged for metric in metrics]
    rows = [row for own in juries for row in _rows(own)]
    return study_table(
        study,
        "jury",
        "Jury: agreement of the judges, and scores without each of them",
        COLUMNS,
        rows,
        _juries_in_words(juries),
        parts=_PARTS,
    )


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
        return [_alpha(heard[rows]), agreement.icc2(heard[rows])[0].value]

    every = np.ones(len(heard), dtype=np.bool_)
    alpha, single = measure(every)
    ends = jackknife(measure, codes, own.study.settings.confidence)
    r = agreement.mean_correlation(heard)
    return row | {
        "alpha": alpha,
        **ends[0].ends("alpha"),
        "icc_single": single,
        **ends[1].ends("icc_single"),
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
        "alpha_without": _alpha(np.delete(answers, place, axis=1)),
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
    """Return what must be said of these juries."""
    if not juries:
        return ["No benchmark here was rated by a jury."]
    found = [
        "Agreement is over the compared answers that judges were shown, by ratings on the rubric's "
        "scale, or by the score that each one's verdicts alone would give; its intervals leave out groups of instances with their clusters (jackknife), so "
        "that neither judges nor models count as instances.",
        "votes = k / (1 + (k - 1) r), r the mean correlation of two judges' ratings. Judges also "
        "agree since answers differ in quality, so that this is a lower bound; ratings by "
        "clinicians tell more.",
        _BRACKETS,
    ]
    found += [
        f"{own.benchmark}: judges decide on {own.metric} by majority. A score here is the mean of what each judge "
        "alone gives, not that of the benchmark, and ranks nobody."
        for own in juries
        if own.metric != JURY
    ]
    found += [
        f"{own.benchmark}: left out, since what each judge alone gives is not in their gradings: "
        f"{', '.join(own.without_judges)}; `medhelm score` adds it."
        for own in juries
        if own.without_judges
    ]
    silent = [
        f"{own.benchmark}: {judge}"
        for own in juries
        for place, judge in enumerate(own.judges)
        if np.isnan(own.answers[0][:, place]).all()
    ]
    if silent:
        found.append(f"Judges without any verdict on the compared answers: {', '.join(silent)}.")
    found += [
        f"{own.benchmark}: judge {judge} is missing on some answers ({_abstained(own, judge)}); "
        f"the scores of these are of the other judges{_below_quorum(own)}."
        for own in juries
        for judge in own.judges
        if _is_missing(own, judge)
    ]
    if own_judges := sorted({m for own in juries for m in own.own}):
        found.append(
            f"Judged by their own family too: {', '.join(own_judges)}. `without` is the score by the "
            "other judges; they may be stricter or milder, so compare it with the score of the "
            "same model only, and with what the others lose in the rows without the judge."
        )
    return found
