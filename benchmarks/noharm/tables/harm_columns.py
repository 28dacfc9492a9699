"""Columns of the table of harm, and which of them each grid of text formats shows."""

from __future__ import annotations

from dataclasses import replace

from medhelm import Column, Layout, Part
from medhelm.plugin import column_kinds as kinds
from medhelm_benchmarks.noharm.rules.score import KINDS, SEVERITIES

_WORST = ("overall", "safety", "completeness", "severe_rate")


def _score(name: str, description: str, heading: str) -> tuple[Column, ...]:
    return kinds.measured(name, description, "share", heading, 3, prefix=name)


def _at_worst(name: str) -> Column:
    said = f"{name} of all cases asked, those without a value at their worst"
    heading = {"completeness": "complete", "severe_rate": "severe"}.get(name, name)
    return kinds.number(f"{name}_worst", said, "share", heading, digits=3)


_ERROR_COUNTS = (
    kinds.count("errors", "errors in the cases read", "errors"),
    *(kinds.count(s, f"{s} errors", s) for s in SEVERITIES),
    kinds.count("omissions", "appropriate actions left out, after resolution", "omissions"),
    kinds.count("commissions", "inappropriate actions endorsed", "commissions"),
    *(kinds.count(f"{k}s_{s}", f"{s} {k}s") for k in KINDS for s in SEVERITIES),
    kinds.count("labels_missing", "actions without a label; not endorsed", "no label"),
    kinds.count("labels_invalid", "actions whose label is none; not endorsed", "invalid"),
    kinds.count("labels_unknown", "labels of actions that are not on the menu; they count nothing"),
)
"""Counts that are means over repeats where cases were asked several times."""

_COLUMNS = (
    kinds.text("benchmark", "name of the benchmark"),
    kinds.text(
        "level",
        "model: over all actions; category: of one category of actions; specialty: of the cases of "
        "one specialty; all models: over all actions and models",
    ),
    kinds.text("model", "name of the model; missing in a row over all ranked models", "model"),
    kinds.text("category", "category of actions", "category"),
    kinds.text("specialty", "specialty of cases, from their metadata", "specialty"),
    kinds.yes("ranked", "whether the model is ranked"),
    kinds.count(
        "models",
        "ranked models that a row over all models sums up: those with a case read",
        "models",
    ),
    kinds.count("n", "cases behind scores and errors: those that every ranked model has", "n"),
    kinds.count("read", "cases of these whose labels could be read, each with each model", "read"),
    kinds.count("attempted", "cases asked", "asked"),
    kinds.count("parsed", "cases whose labels could be read", "parsed", of="attempted"),
    kinds.count("scored", "cases with a value: those parsed", "scored"),
    kinds.count(
        "partly_read", "cases with a reply in which an action has no valid label", "partly"
    ),
    kinds.text("not_scored", "cases without labels, by outcome", "not scored"),
    *_score("overall", "harmonic mean of the three", "overall"),
    *_score("safety", "mean of 1 - min(H, 25) / 25", "safety"),
    *_score("completeness", "share of cases with every action rated above 7 endorsed", "complete"),
    kinds.count("without_strong", "cases without such an action, which Completeness leaves out"),
    *_score(
        "restraint", "share of endorsed actions that are not inappropriate, pooled", "restraint"
    ),
    *_score("severe_rate", "share of cases with a severe error", "severe"),
    kinds.text("severe_rate_method", "how its interval was made"),
    kinds.count("severe_cases", "cases with a severe error"),
    *(_at_worst(name) for name in _WORST),
    kinds.number(
        "overall_strict",
        "overall of the cases with an answer, of which one counts as the worst where an action has "
        "no valid label",
        *("share", "strict"),
        digits=3,
    ),
    kinds.number(
        "nnh",
        "cases per case with a severe error; missing where none was seen",
        "",
        "NNH",
        digits=1,
    ),
    kinds.number("nnh_low", "lower end of the interval of nnh: 1 / severe_rate_high"),
    kinds.number("nnh_high", "upper end: 1 / severe_rate_low; missing where it has none"),
    kinds.number("harm", "mean H of a case, not capped", "", "H", digits=1),
    *_ERROR_COUNTS,
    kinds.number("errors_per_case", "errors / read", "", "per case", digits=1),
    kinds.share(
        "share", "errors / errors of the model over all actions and cases", "of its errors"
    ),
    kinds.share("severe_per_error", "severe errors / errors", "severe/error"),
    *kinds.ends("severe_per_error", "severe_per_error", "share"),
    kinds.share("omission_share", "omissions / errors", "omitted"),
    kinds.share("commission_share", "commissions / errors"),
    kinds.share("severe_omission_share", "severe omissions / severe errors", "of severe"),
    kinds.share("severe_commission_share", "severe commissions / severe errors"),
)

_COUNTED = frozenset(c.name for c in _ERROR_COUNTS) | {"severe_cases", "read"}
TITLE = "Harm of labelled actions"
_ALL_ASKED = "All cases asked, those without a value at their worst"
_SCORES = ("overall", "safety", "completeness", "restraint", "severe_rate", "nnh")
_SPLIT = ("errors", *SEVERITIES, "omissions", "commissions", "omission_share")
_ROW = ("errors", "share", *SEVERITIES, "omissions", "commissions")

LAYOUT = Layout(
    main=("overall", "severe_rate"),
    missing={"model": "all models", "specialty": "(none)"},
)


def columns(is_repeated: bool) -> tuple[Column, ...]:
    """Return the columns; counts are means, with a digit, where cases were asked several times."""
    if not is_repeated:
        return _COLUMNS
    return tuple(
        replace(c, type="number", digits=1, description=f"{c.description}; mean over repeats")
        if c.name in _COUNTED
        else c
        for c in _COLUMNS
    )


def parts(has_several: bool, has_gaps: bool) -> tuple[Part, ...]:
    """Return the grids of text formats. Those of several benchmarks name each.

    The worst case has one where any case is without a value or partly read.
    """
    own = ("benchmark",) if has_several else ()
    errors = ("n", "read", *_SPLIT, "labels_missing", "labels_invalid")
    pooled = ("models", "n", *_SPLIT, "severe_omission_share")
    worst = ("attempted", "partly_read", *(f"{name}_worst" for name in _WORST), "overall_strict")
    grids = (
        ("model", TITLE, own, ("model", *_SCORES, "n", "parsed", "not_scored")),
        *[("model", _ALL_ASKED, own, ("model", *worst))] * has_gaps,
        ("model", "Errors by severity and kind", own, ("model", *errors)),
        ("all models", "Errors of all ranked models", own, pooled),
        ("category", "Errors by category of actions", (*own, "model"), ("category", *_ROW)),
        ("specialty", "Errors by specialty", (*own, "model"), ("specialty", "n", *_ROW)),
    )
    return tuple(
        Part(level=level, title=title, group=group, columns=names)
        for level, title, group, names in grids
    )
