"""The columns of the tables that are made of experts' ratings of actions."""

from __future__ import annotations

from medhelm.tables.format.column_kinds import count, ends, number, text, yes
from medhelm.tables.format.table import Column, Layout


def _with_interval(
    name: str, description: str, heading: str = "", unit: str = "", is_percent: bool = False
) -> tuple[Column, ...]:
    low_high = (f"{name}_low", f"{name}_high")
    return (
        number(
            name,
            description,
            unit,
            heading,
            None if is_percent else low_high,
            0 if is_percent else 2,
            is_percent,
        ),
        *ends(name, name, unit),
        text(f"{name}_method", "how that interval was made, or why there is none"),
    )


ACTIONS = (
    text("level", "overall: of all actions; category, specialty, class: of a part of them"),
    text(
        "who",
        "whose ratings are compared with the median of the case's own: median (of the experts) or "
        "expert; experts, synthetic: those among themselves",
    ),
    text("rater", "that in words, an expert by name; missing in rows of a part", "rater"),
    text("part", "the category, the specialty or the class of the synthetic ratings", "actions"),
    count("n", "actions that both rated; of pairs those that any pair did", "n", of="asked"),
    count("asked", "actions that the files name; missing for pairs"),
    count("cases", "cases of the n", "cases"),
    count("pairs", "pairs of raters in the mean"),
    count("pairs_undefined", "pairs left out of the mean of kappa_quadratic: one has no spread"),
    *_with_interval("kappa_quadratic", "weighted kappa, quadratic weights", "kappa"),
    *_with_interval("kappa_linear", "weighted kappa, linear weights"),
    *_with_interval("same_class", "share of the n in one class", "class", "share", is_percent=True),
    *_with_interval("class_kappa", "Cohen's kappa of the three classes", "class kappa"),
    *_with_interval("difference", "mean of expert - synthetic, in points", "difference"),
    number("within_1", "share at most one point apart", "share", "within 1", None, 0, True),
    count("reversed", "appropriate to one, inappropriate to the other", "reversed"),
    *_with_interval("reversed_rate", "share reversed", "", "share"),
    number(
        "harm_changed",
        "share whose error would weigh otherwise, or be of the other kind",
        "share",
        "harm differs",
        None,
        0,
        True,
    ),
    count("severe_missed", "an error about it is severe by the expert's rating only"),
    count("severe_added", "an error about it is severe by the synthetic rating only"),
    number("alpha", "Krippendorff's alpha (ordinal) of all ratings of these raters"),
    count(
        "appropriate", "of a class of synthetic ratings: those of it that experts rate so", "7 to 9"
    ),
    count("uncertain", "the same", "4 to 6"),
    count("inappropriate", "the same", "1 to 3"),
)

DIFFERENCES = (
    text("case", "code of the case", "case"),
    text("action", "id of the action", "action"),
    text("category", "category of the action", "category"),
    text("specialty", "specialty of the case"),
    text("synthetic", "the ratings that the case came with", "synthetic"),
    number("synthetic_median", "their median", "", "", digits=1),
    text("synthetic_class", "class of that median"),
    text(
        "experts",
        "the experts' ratings in the order of their names; - where one has none",
        "experts",
    ),
    number("experts_median", "their median", "", "median", digits=1),
    text("experts_class", "class of that median"),
    number("difference", "experts_median - synthetic_median", "", "gap", digits=1),
    yes("reversed", "appropriate to one, inappropriate to the other", "reversed"),
    count(
        "synthetic_harm",
        "weight of an error by the synthetic rating: above 0 of leaving it out, below 0 of doing it",
    ),
    count("experts_harm", "the same by the experts' median"),
    text("text", "the action's text, where asked for", "text"),
)


def _of_both(name: str, description: str, heading: str) -> tuple[Column, ...]:
    return (
        number(
            f"{name}_file", f"{description}, by the ratings of the cases", "share", heading, None, 3
        ),
        number(
            f"{name}_experts",
            f"{description}, by the experts' medians",
            "share",
            "experts",
            None,
            3,
        ),
    )


RUBRICS = (
    text("model", "name of the model", "model"),
    yes("ranked", "whether nearly all of its replies could be read"),
    count("n", "cases behind the scores: those that every ranked model has", "n"),
    count("asked", "replies asked for to cases that experts rated whole"),
    count("read", "those of them that could be read", "read", of="asked"),
    *_of_both("overall", "harmonic mean of Safety, Completeness, Restraint", "overall"),
    number(
        "difference",
        "overall_experts - overall_file",
        "share",
        "difference",
        ("difference_low", "difference_high"),
        3,
    ),
    *ends("difference", "difference", "share"),
    text("difference_method", "how that interval was made, or why there is none"),
    count("rank_file", "rank by the ratings of the cases", "rank"),
    count("rank_experts", "rank by the experts' medians", "experts"),
    *_of_both("severe_rate", "share of cases with a severe error", "severe"),
    *(
        number(f"{name}_{rubric}", f"{name}, by the {rubric}", "share")
        for name in ("safety", "completeness", "restraint")
        for rubric in ("file", "experts")
    ),
)

SENSITIVITY = (
    text("level", "model: over raters and draws; rater: under one rubric"),
    text("rater", "whose ratings: a median, or one rater by number", "rater"),
    text("model", "name of the model", "model"),
    count("n", "cases behind the scores", "n"),
    count("rank_file", "rank by the median of the file", "file"),
    count("rank", "rank by the experts' median, or by the one rater", "rank"),
    text("rank_single", "ranks under each expert alone, best to worst", "each alone"),
    count("rank_single_low", "the best of them"),
    count("rank_single_high", "the worst of them"),
    text("rank_drawn", "range of ranks under ratings drawn again", "drawn again"),
    count("rank_drawn_low", "its better end"),
    count("rank_drawn_high", "its worse end"),
    number(
        "same_rank", "share of the draws in which the model has the rank of the median", "share"
    ),
    number(
        "overall",
        "Overall under these ratings",
        "share",
        "overall",
        ("overall_low", "overall_high"),
        3,
    ),
    number("overall_low", "lower end of the range of overall over the draws", "share"),
    number("overall_high", "upper end", "share"),
    number(
        "severe_rate",
        "share of cases with a severe error under these ratings",
        "share",
        "severe",
        ("severe_rate_low", "severe_rate_high"),
        3,
    ),
    number("severe_rate_low", "lower end of the range of severe_rate over the draws", "share"),
    number("severe_rate_high", "upper end", "share"),
)

ACTIONS_LAYOUT = Layout(
    leaving=("harm_changed", "within_1", "class_kappa", "reversed", "cases", "difference"),
    main=("kappa_quadratic",),
)
DIFFERENCES_LAYOUT = Layout(
    leaving=("category", "reversed", "experts_median"), main=("difference",)
)
