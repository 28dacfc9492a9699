"""`medhelm agreement answers`: clinicians' ratings of stored answers against the jury."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from medhelm.cli.rating_forms import MIN_COMMON, Asked, RatingForm, Setting
from medhelm.errors import UsageError

if TYPE_CHECKING:
    from medhelm.tables.clinicians.sheet import RatingSheet
    from medhelm.tables.format.table import Table

_JUDGES = "judges"


def _sheet(asked: Asked) -> RatingSheet:
    from medhelm.tables.clinicians.rated_answers import answer_sheet

    return answer_sheet(asked.runs, asked.sample, asked.text_of)


def _tables(asked: Asked) -> list[Table]:
    from medhelm.tables.clinicians.agreement import agreement_table, scores_table
    from medhelm.tables.clinicians.rated_answers import load_rated
    from medhelm.tables.clinicians.ratings import read_ratings

    threshold, common = asked.own["threshold"], asked.number("min_common")
    z_scores = cast(Literal["before", "after"], asked.own["z_scores"])
    if common == 2 and z_scores == "before":
        raise UsageError("min_common must be at least 3, not 2: of two answers an ICC is 1 or none")
    metrics = [name for name in asked.show if name != _JUDGES]
    rated = load_rated(read_ratings(asked.files), asked.runs, metrics=metrics)
    makers = {
        "agreement": lambda: agreement_table(
            rated,
            asked.settings,
            min_common=common,
            with_judges=_JUDGES in asked.show,
            z_scores=z_scores,
        ),
        "corrected": lambda: scores_table(
            rated, asked.settings, None if threshold is None else float(threshold)
        ),
    }
    return [makers[name]() for name in asked.tables]


FORM = RatingForm(
    word="answers",
    help="Clinicians' ratings of stored answers against the jury, its judges and other metrics.",
    tables=("agreement", "corrected"),
    make_tables=_tables,
    make_sheet=_sheet,
    settings={
        "min_common": MIN_COMMON,
        "z_scores": Setting(
            help="z-score clinicians' ratings and average them, or their plain mean afterwards, as "
            "in the paper",
            default="before",
            words=("before", "after"),
        ),
        "threshold": Setting(
            help="of --table corrected: shares of answers with at least this score, not mean scores"
        ),
    },
    show="judges: each judge of the jury; other words: metrics of these names",
    takes_runs=True,
    sample="answers of each benchmark on the sheet (default: 30)",
)
add_arguments, run = FORM.add_arguments, FORM.run
