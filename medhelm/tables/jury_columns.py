"""The columns of the table `jury`."""

from __future__ import annotations

from medhelm.tables.format.column_kinds import count, ends, number, text, yes
from medhelm.tables.format.table import Column

JURY = (
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
    number("coverage", "rated / shown", "share", "cov", digits=1, is_percent=True),
    count(
        "n",
        "compared answers of all models with two verdicts; of a judge: that it rated; of a score: "
        "instances",
        "n",
    ),
    count("n_complete", "compared answers that all judges heard rated: those of the ICC", "n ICC"),
    number(
        "alpha",
        "Krippendorff's alpha of the judges' ratings, interval level",
        "",
        "alpha",
        ("alpha_low", "alpha_high"),
    ),
    *ends("alpha", "alpha, by the jackknife over groups of instances", ""),
    number(
        "icc_single",
        "ICC(2,1): absolute agreement of single judges",
        "",
        "ICC(2,1)",
        ("icc_single_low", "icc_single_high"),
    ),
    *ends("icc_single", "icc_single, by the jackknife over groups of instances", ""),
    number(
        "icc_mean",
        "ICC(2,k): absolute agreement of the mean of k judges",
        "",
        "ICC(2,k)",
        ("icc_mean_low", "icc_mean_high"),
    ),
    *ends("icc_mean", "icc_mean, from those of icc_single", ""),
    number("correlation", "mean correlation r of the ratings of two judges", "", "r"),
    number(
        "effective_votes",
        "k / (1 + (k - 1) r): independent judges that k are worth at least",
        "",
        "votes",
    ),
    number("alpha_without", "alpha of the other judges", "", "alpha without"),
    yes("ranked", "whether the model is ranked on this benchmark"),
    number(
        "score",
        "jury score; of a judge: the mean of its ratings",
        "metric",
        "score",
        ("low", "high"),
    ),
    number("low", "lower end of the interval of score, instances resampled", "metric"),
    number("high", "upper end of the interval of score", "metric"),
    text("interval_method", "how the interval was made, or why there is none"),
    Column(
        name="rank",
        type="integer",
        description="rank of the model on this benchmark; missing: not ranked",
        heading="rank",
        interval=("rank_best", "rank_worst"),
    ),
    count("rank_best", "best rank with one judge left out"),
    count("rank_worst", "worst rank with one judge left out"),
    number("score_least", "lowest score with one judge left out", "metric", "least"),
    number("score_most", "highest score with one judge left out", "metric", "most"),
    count("rank_shift", "most places by which a model moves without the judge", "moves"),
    yes("is_own", "whether the judge is the model itself, or the model has such a judge", "itself"),
    text("own", "the judge that is the model itself; of a judge: the models that it is"),
    number(
        "score_without_own",
        "score by the other judges where one is the model itself",
        "metric",
        "without",
        ("without_own_low", "without_own_high"),
    ),
    *ends("without_own", "score_without_own, instances resampled", "metric"),
    text("abstained", "how the judgements without a score ended, every try counted", "abstained"),
)
