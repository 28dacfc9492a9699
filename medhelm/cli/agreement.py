"""`medhelm agreement answers|criteria|taxonomy`: people's ratings against judges and metrics, and each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from medhelm.cli.rating_forms import Asked, RatingForm, Setting
from medhelm.errors import UsageError

if TYPE_CHECKING:
    from medhelm.tables.clinicians.sheet import RatingSheet
    from medhelm.tables.format.table import Table


# Answers, against the jury -----------------------------------------------------------------------


def _answers_sheet(asked: Asked) -> RatingSheet:
    from medhelm.tables.clinicians.rated_answers import answer_sheet

    return answer_sheet(asked.runs, asked.sample, asked.text_of)


def _answers_tables(asked: Asked) -> list[Table]:
    from medhelm.tables.clinicians.agreement import agreement_table, scores_table
    from medhelm.tables.clinicians.rated_answers import load_rated
    from medhelm.tables.clinicians.ratings import read_ratings

    threshold, common = asked.own["threshold"], asked.number("min_common")
    z_scores = cast(Literal["before", "after"], asked.own["z_scores"])
    if common == 2 and z_scores == "before":
        raise UsageError("min_common must be at least 3, not 2: of two answers an ICC is 1 or none")
    metrics = [name for name in asked.show if name != "judges"]
    rated = load_rated(read_ratings(asked.files), asked.runs, metrics=metrics)
    makers = {
        "agreement": lambda: agreement_table(
            rated,
            asked.settings,
            min_common=common,
            with_judges="judges" in asked.show,
            z_scores=z_scores,
        ),
        "corrected": lambda: scores_table(
            rated, asked.settings, None if threshold is None else float(threshold)
        ),
    }
    return [makers[name]() for name in asked.tables]


ANSWERS = RatingForm(
    word="answers",
    tables=("agreement", "corrected"),
    make_tables=_answers_tables,
    make_sheet=_answers_sheet,
    settings={
        "min_common": Setting(least=2),
        "z_scores": Setting(default="before", words=("before", "after")),
        "threshold": Setting(),
    },
)


# Criteria, against the judges --------------------------------------------------------------------


def _criteria_sheet(asked: Asked) -> RatingSheet:
    from medhelm.tables.clinicians.stored_decisions import criteria_sheet

    return criteria_sheet(asked.runs, asked.source, asked.sample, asked.text_of)


def _criteria_tables(asked: Asked) -> list[Table]:
    from medhelm.tables.clinicians.fidelity import Comparison, alignment_table, fidelity_table
    from medhelm.tables.clinicians.stored_decisions import read_raters, read_stored

    stored = read_stored(asked.runs, asked.source)
    compared = Comparison(read_raters(asked.files, stored), stored.judges)
    makers = {
        "fidelity": lambda: fidelity_table(compared, asked.settings),
        "alignment": lambda: alignment_table(compared),
    }
    return [makers[name]() for name in asked.tables]


CRITERIA = RatingForm(
    word="criteria",
    tables=("fidelity", "alignment"),
    make_tables=_criteria_tables,
    make_sheet=_criteria_sheet,
)


# The taxonomy ------------------------------------------------------------------------------------


def _taxonomy_sheet(asked: Asked) -> RatingSheet:
    from medhelm.plugins.taxonomy import load_taxonomy
    from medhelm.tables.clinicians.taxonomy_survey import survey_sheet

    return survey_sheet(load_taxonomy(), asked.sample)


def _taxonomy_tables(asked: Asked) -> list[Table]:
    from medhelm.plugins.taxonomy import load_taxonomy
    from medhelm.tables.clinicians.ratings import read_units
    from medhelm.tables.clinicians.taxonomy_survey import survey_table, survey_units

    taxonomy = load_taxonomy()
    return [survey_table(read_units(asked.files, survey_units(taxonomy)), taxonomy, asked.settings)]


TAXONOMY = RatingForm(
    word="taxonomy",
    tables=("taxonomy",),
    make_tables=_taxonomy_tables,
    make_sheet=_taxonomy_sheet,
    statistics=("seed", "confidence"),
)
