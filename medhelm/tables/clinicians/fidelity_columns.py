"""The columns of the tables of `medhelm fidelity`."""

from __future__ import annotations

from medhelm.tables.format.column_kinds import count, ends, number, text
from medhelm.tables.format.table import Layout

_PAIR = (
    text("reference", "the group of experts that is compared with", "against"),
    text("grader", "the judge, or the second group of experts", "grader"),
)

FIDELITY = (
    text("level", "overall: all models; model: one of them; mean: over the groups of experts"),
    *_PAIR,
    text("kind", "judge, or experts: two groups against each other", "kind"),
    text("model", "whose answers were graded", "model"),
    count("decisions", "criteria that both decided on", "decisions"),
    count("answers", "answers that they belong to", "answers"),
    count("cases", "cases of these answers: the clusters of the interval"),
    number(
        "mf1",
        "macro F1 of all decisions, invalid replies as unmet",
        "share",
        "MF1",
        ("mf1_low", "mf1_high"),
        3,
    ),
    *ends("mf1", "mf1", "share"),
    text("mf1_method", "how that interval was made, or why there is none"),
    number("f1_met", "F1 of the class met", "share", digits=3),
    number("f1_unmet", "F1 of the class not met", "share", digits=3),
    number(
        "mf1_wrong",
        "macro F1 with invalid replies wrong whatever the label is",
        "share",
        "invalid wrong",
        digits=3,
    ),
    number(
        "mf1_of_answers",
        "mean of the macro F1 of single answers that have one",
        "share",
        "by answer",
        digits=3,
    ),
    count("answers_defined", "answers with a macro F1 of their own"),
    count(
        "answers_undefined",
        "answers where nobody finds a criterion met, or nobody one unmet",
        "no value",
    ),
    count("answers_below", "answers with a macro F1 below 0.6"),
    number(
        "below_share",
        "their share of the answers with a value",
        "share",
        "< 0.6",
        is_percent=True,
        digits=1,
    ),
    number(
        "positive_reference",
        "share of the decisions that the reference finds met",
        "share",
        "met by reference",
        is_percent=True,
        digits=1,
    ),
    number(
        "positive",
        "share that the grader finds met, invalid replies as unmet",
        "share",
        "met",
        is_percent=True,
        digits=1,
    ),
    count("invalid", "decisions of the grader that could not be read, or are not there", "invalid"),
    count("absent", "those of the invalid that its file does not name"),
    number("kappa", "Cohen's kappa", "", "kappa", ("kappa_low", "kappa_high")),
    *ends("kappa", "kappa", ""),
    count("raters_reference", "people whom the rows of the reference name"),
    count("raters", "people whom the rows of the grader name"),
)

GRADERS = (
    text("a", "one grader", "a"),
    text("b", "the other", "b"),
    count("models", "models with answers that both graded", "models"),
    count("decisions", "criteria that both decided on", "decisions"),
    number(
        "spearman",
        "rank correlation of the models' shares of criteria met",
        "",
        "Spearman",
        digits=3,
    ),
    number("kendall", "tau-b of the same", "", "Kendall", digits=3),
    number(
        "difference",
        "mean over models of share of b - share of a",
        "share",
        "b - a",
        is_percent=True,
        digits=2,
    ),
    number("absolute", "mean of its absolute value", "share", "|b - a|", is_percent=True, digits=2),
    number("top_3", "models that both have among their first three", "", "top 3", digits=1),
    number("top_5", "among their first five", "", "top 5", digits=1),
    text("higher", "models of which b finds more met than a, of all"),
)

LOW = (
    *_PAIR,
    text("model", "whose answer it is", "model"),
    text("case", "id of the case, or a name made of its text", "case"),
    number("mf1", "macro F1 of this answer", "share", "MF1", digits=3),
    count("decisions", "criteria that both decided on"),
    count("disputed", "of them those on which they differ", "disputed", of="decisions"),
    count("met_reference", "criteria that the reference finds met", "met by reference"),
    count("met", "criteria that the grader finds met", "met"),
    text("best_model", "the model with the highest macro F1 on the same case", "best model"),
    number("best_mf1", "that macro F1", "share", "its MF1", digits=3),
    text("text", "the first disputed criteria, where asked for", "disputed criteria"),
)

ALIGNMENT = (
    *_PAIR,
    text("of", "whose rows this line counts", "rows of"),
    count("rows", "answers in its files", "answers"),
    count("matched", "those with decisions that the other has too", "matched", of="rows"),
    count("other_model", "lost: the other has no answer of the model", "model"),
    count("other_case", "lost: the other has not this case of the model", "case"),
    count("surplus", "lost: more answers to one case than the other has", "surplus"),
    count(
        "criteria", "decisions lost: the other's answer has no criterion of this text", "criteria"
    ),
    count("undecided", "decisions lost: left empty by an expert", "undecided"),
)

CORRECTED = (
    text("judge", "whose decisions on all answers are corrected", "judge"),
    text("reference", "the group of experts that corrects them"),
    text("model", "whose answers were graded", "model"),
    count("decisions", "decisions of the judge, invalid ones as unmet", "decisions"),
    count("cases", "cases that they are about"),
    number("share", "share of them that is met", "share", "judge", is_percent=True, digits=1),
    count(
        "labelled",
        "criteria of this model that the experts decided too",
        "labelled",
        of="decisions",
    ),
    count("labelled_cases", "cases that those are about"),
    number(
        "labelled_share",
        "share of them that the experts find met",
        "share",
        "experts",
        is_percent=True,
        digits=1,
    ),
    text(
        "labels_of",
        "own: sensitivity and specificity are of the labelled of this model; others: "
        "of all other models, since it has none",
        "labels",
    ),
    number(
        "sensitivity", "share of what experts find met that the judge finds met", "share", digits=3
    ),
    number(
        "specificity",
        "share of what experts find unmet that the judge finds unmet",
        "share",
        digits=3,
    ),
    number(
        "corrected",
        "share corrected after Rogan and Gladen",
        "share",
        "Rogan-Gladen",
        ("corrected_low", "corrected_high"),
        3,
    ),
    *ends("corrected", "corrected", "share"),
    text("corrected_method", "how, or why there is none"),
    number(
        "powered",
        "prediction-powered share",
        "share",
        "prediction-powered",
        ("powered_low", "powered_high"),
        3,
    ),
    *ends("powered", "powered", "share"),
    text("powered_method", "how, or why there is none"),
)

FIDELITY_LAYOUT = Layout(
    leaving=(
        "answers",
        "decisions",
        "mf1_of_answers",
        "kind",
        "invalid",
        "answers_undefined",
        "kappa",
        "mf1_wrong",
    ),
    main=("mf1",),
    missing={"below_share": "-"},
)
GRADERS_LAYOUT = Layout(leaving=("decisions", "kendall"), main=("spearman",))
LOW_LAYOUT = Layout(leaving=("text", "best_model", "best_mf1"), main=("mf1",))
CORRECTED_LAYOUT = Layout(leaving=("labels_of", "labelled_share"), main=("corrected", "powered"))
