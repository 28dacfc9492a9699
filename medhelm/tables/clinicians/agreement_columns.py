"""The columns of the tables that are made of clinicians' ratings."""

from __future__ import annotations

from medhelm.tables.format.table import Column, Kind


def _column(
    name: str,
    type: Kind,
    description: str,
    heading: str = "",
    unit: str = "",
    interval: tuple[str, str] | None = None,
    of: str = "",
) -> Column:
    return Column(
        name=name,
        type=type,
        description=description,
        heading=heading,
        unit=unit,
        interval=interval,
        of=of,
    )


AGREEMENT = (
    _column("level", "string", "combined, or benchmark"),
    _column("benchmark", "string", "name of the benchmark; combined: all of the file", "benchmark"),
    _column(
        "measure",
        "string",
        "who is compared with the clinicians: the jury, a judge, a metric; clinicians: each pair "
        "of them, averaged",
        "measure",
    ),
    _column("is_stand_in", "boolean", "whether the scores are of the offline graders"),
    _column("n", "integer", "answers that have both: those of the ICC", "n", of="answers"),
    _column("answers", "integer", "rated answers"),
    _column("n_scale", "integer", "answers of MAE, bias and kappa, which need no z-score"),
    _column("clusters", "integer", "patients, notes or dialogues among the n"),
    _column("raters", "integer", "clinicians that rated any of them"),
    _column("pairs", "integer", "pairs of clinicians in the average"),
    _column("pairs_undefined", "integer", "pairs left out: no spread, or exact contradiction"),
    _column("pairs_of_two", "integer", "pairs in the average with two answers in common"),
    _column(
        "icc",
        "number",
        "ICC(3,k), k = 2, of z-scores: consistency; of clinicians the mean over pairs",
        "ICC(3,k)",
        interval=("icc_low", "icc_high"),
    ),
    _column("icc_low", "number", "lower end of its F interval, not clipped"),
    _column("icc_high", "number", "upper end of its F interval"),
    _column("icc_method", "string", "F, or why there is no such interval"),
    _column("boot_low", "number", "lower end of its bootstrap interval, over clusters", "low"),
    _column("boot_high", "number", "upper end of its bootstrap interval", "high"),
    _column("boot_method", "string", "how that interval was made, or why there is none"),
    _column("icc_median", "number", "median over pairs of clinicians"),
    _column("correlation", "number", "Pearson's r of the same z-scores"),
    _column("mae", "number", "mean absolute difference on the rubric's scale", "MAE", "metric"),
    _column("bias", "number", "mean of score - clinicians' mean", "", "metric"),
    _column("kappa_quadratic", "number", "quadratically weighted kappa of rounded scores", "kappa"),
    _column("kappa_linear", "number", "linearly weighted kappa of rounded scores"),
    _column("alpha", "number", "Krippendorff's alpha (ordinal) of all clinicians' ratings"),
    _column("judges", "integer", "judges that rated any of the answers"),
    _column(
        "effective_votes",
        "number",
        "k / (1 + (k - 1) r), r the mean correlation of the judges' errors against the clinicians",
    ),
)

CORRECTED = (
    _column("benchmark", "string", "name of the benchmark", "benchmark"),
    _column("model", "string", "name of the model", "model"),
    _column("is_stand_in", "boolean", "whether the scores are of the offline graders"),
    _column("n", "integer", "answers with a score of the jury", "n", of="answers"),
    _column("answers", "integer", "graded answers; those without a score are in no number here"),
    _column("labelled", "integer", "those of n that clinicians rated", "rated"),
    _column("clusters", "integer", "patients, notes or dialogues among the rated"),
    _column("jury", "number", "mean of the jury over all n", "jury", "metric"),
    _column("clinicians", "number", "clinicians' mean over the rated", "clinicians", "metric"),
    _column(
        "corrected",
        "number",
        "mean of the jury over all + mean of clinicians - jury over the rated",
        "corrected",
        "metric",
        ("low", "high"),
    ),
    _column("low", "number", "lower end of its interval", "", "metric"),
    _column("high", "number", "upper end of its interval", "", "metric"),
    _column("method", "string", "how the correction was made, or why there is none"),
)

SHARES = (
    *CORRECTED[:5],
    _column("labelled", "integer", "answers of all models that clinicians rated", "rated, all"),
    _column("share", "number", "share of all n that the jury calls good", "good", "share"),
    _column(
        "corrected",
        "number",
        "that share after Rogan and Gladen",
        "corrected",
        "share",
        ("low", "high"),
    ),
    _column("low", "number", "lower end of its interval", "", "share"),
    _column("high", "number", "upper end of its interval", "", "share"),
    _column("method", "string", "how the correction was made, or why there is none", "method"),
    _column(
        "sensitivity",
        "number",
        "share called good by the jury among the benchmark's rated answers good to clinicians",
        "",
        "share",
    ),
    _column(
        "specificity",
        "number",
        "share not called good by the jury among those not good to clinicians",
        "",
        "share",
    ),
)
