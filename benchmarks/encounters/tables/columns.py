"""Columns of the table of encounters."""

from __future__ import annotations

from medhelm import Column, Layout, Part
from medhelm.tables.format.column_kinds import count, ends, number, text, yes


def _score(name: str, description: str, heading: str) -> tuple[Column, ...]:
    interval = (f"{name}_low", f"{name}_high")
    return (
        number(name, description, "share", heading, interval, 3),
        *ends(name, name, "share"),
    )


def _share(name: str, description: str, heading: str = "") -> Column:
    return number(name, description, "share", heading, digits=1, is_percent=True)


ENDED = "encounters that were completed or capped and have a score, of the cases of n"
COLUMNS: tuple[Column, ...] = (
    text("benchmark", "name of the benchmark"),
    text(
        "level",
        "model: over all cases; competency: over the items of one; specialty: over the cases of one, of "
        "at least 5; length: over one tenth of the cases by the input of the clinician; strategy: two "
        "strategies of a model on the same cases",
    ),
    text("model", "name of the clinician's model; missing in a row over all models", "model"),
    text("cast", "who played the other roles"),
    text("group", "the competency, specialty, tenth, or the two strategies", "group"),
    yes("ranked", "whether the model is ranked"),
    count("n", "cases behind the row: those that every ranked model has", "n"),
    count("clusters", "source articles of these cases"),
    *_score("case_mean", "mean over cases of each case's share of items", "case mean"),
    *_score("pooled", "items met / items, over all cases", "pooled"),
    *_score(
        "competency_mean", "mean over competencies of the pooled share", "mean of competencies"
    ),
    *_score("competency_case_mean", "mean over competencies of the mean over cases", ""),
    number("met", "items met; a mean over repeats where there are several", "", "met", digits=0),
    number("items", "items of the rubrics", "", "items", digits=0),
    number("invalid", "items without a valid verdict; they count as not met", "", "void", digits=0),
    number("no_evidence", "items said to be met without a turn that shows it; they count as not met"),
    number("extra", "texts that evaluators judged and that are no item"),
    *_score("accuracy", "share of cases whose diagnosis is the gold", "accuracy"),
    number("score_one", "case mean or accuracy of the first strategy", "share", "the first"),
    number("score_other", "that of the second, on the same cases", "share", "the second"),
    *_score("difference", "the first less the second", "difference"),
    number("p_holm", "p of the difference, by swaps within source articles, corrected by Holm", "", "p"),
    number("input_chars", f"mean length of what the clinician has before it in its last turn, over {ENDED}", "characters", "input", digits=0),
    count("attempted", "encounters asked for", "asked"),
    count("scored", "encounters with a score", "scored", of="attempted"),
    text("not_scored", "encounters without one, by outcome", "not scored"),
    _share("capped", f"encounters that the cap of turns ended / {ENDED}", "capped"),
    _share("failed", "encounters that patient, surroundings or network failed / encounters asked for", "failed"),
    number("turns", f"mean turns, over {ENDED}", "", "turns", digits=1),
    number("questions", f"mean questions asked, over {ENDED}", "", "questions", digits=1),
    number("actions", f"mean actions ordered, over {ENDED}", "", "actions", digits=1),
    number("unsupported", f"mean actions that the case holds nothing for, over {ENDED}"),
    _share("tests_first", f"encounters with a test ordered before the first question / {ENDED}"),
    number("turns_to_decision", f"mean turn of the first treatment or disposition, over those with one of {ENDED}"),
    number("corrections", f"mean corrective retries of the clinician, over {ENDED}"),
    number("overruled", f"mean claims of the controller that were overruled, over {ENDED}"),
)  # fmt: skip

LAYOUT = Layout(
    main=("group", "case_mean", "accuracy", "difference"), missing={"model": "all models"}
)
_READINGS = ("case_mean", "pooled", "competency_mean", "competency_case_mean")
_DONE = ("failed", "turns", "questions", "actions", "tests_first", "turns_to_decision")


def parts(has_several: bool) -> tuple[Part, ...]:
    """Return the grids of text formats. Those of several benchmarks name each."""
    own = ("benchmark",) if has_several else ()
    grids = (
        (
            "model",
            "Completion",
            own,
            ("model", *_READINGS, "accuracy", "capped", "n", "scored", "not_scored"),
        ),
        ("model", "What the clinicians did", own, ("model", *_DONE, "overruled", "input_chars")),
        ("model", "Items", own, ("model", "met", "items", "invalid", "no_evidence", "extra")),
        (
            "competency",
            "By competency",
            (*own, "model"),
            ("group", "pooled", "met", "items", "case_mean", "n"),
        ),
        (
            "specialty",
            "By specialty",
            (*own, "model"),
            ("group", "case_mean", "accuracy", "met", "items", "n"),
        ),
        (
            "length",
            "By length of input",
            (*own, "model"),
            ("group", "input_chars", "case_mean", "accuracy", "n"),
        ),
        (
            "strategy",
            "Strategies on the same cases",
            (*own, "model"),
            ("group", "score_one", "score_other", "difference", "p_holm", "n", "clusters"),
        ),
    )
    return tuple(
        Part(level=level, title=title, group=group, columns=names)
        for level, title, group, names in grids
    )
