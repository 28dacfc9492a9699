"""What makes the patients of one guideline differ: drawn by a seed, the same for the same number."""

from __future__ import annotations

import random
from collections.abc import Sequence

from medhelm.generation.views import Setting

_PLACES = (
    "a family practice in a town",
    "a rural practice two hours from the next hospital",
    "the walk-in clinic of a hospital",
    "a nursing home visit",
    "a video consultation",
    "an out-of-hours service on a Saturday",
    "a follow-up visit a week after a hospital stay",
    "the ward round of a small hospital without the specialty",
)
_COMPLICATIONS = (
    "chronic kidney disease with an eGFR between 20 and 45",
    "an oral anticoagulant",
    "a reported drug allergy of uncertain nature",
    "a bleed in the past",
    "chronic liver disease",
    "frailty and falls",
    "a pregnancy, or the possibility of one",
    "treatment that weakens the immune system",
    "nine regular medicines, one of which interacts with the usual treatment",
    "a prolonged QT interval",
    "heart failure",
    "a mental illness under treatment",
    "nothing else; the difficulty lies in how it presents",
)
_GAPS = (
    "how long it has been going on",
    "the result of a test that is on its way",
    "whether an earlier finding is old or new",
    "whether the medicines are taken as prescribed",
    "the wishes of the patient",
    "the cause of an earlier reaction to a medicine",
    "baseline values from before this illness",
    "a family history that may matter",
)


def draw_setting(seed: int, name: str, number: int, passages: Sequence[str]) -> Setting:
    """Return the setting of case `number` (from 1) of a named series.

    Complications come once each before one comes again; so do places, gaps and the guideline's
    passages, in other orders.
    """

    def take(values: Sequence[str], what: str) -> str:
        turn, place = divmod(number - 1, len(values))
        order = random.Random(f"{seed}\0{name}\0{what}\0{turn}").sample(values, len(values))  # noqa: S311
        return order[place]

    return Setting(
        place=take(_PLACES, "place"),
        complication=take(_COMPLICATIONS, "complication"),
        gap=take(_GAPS, "gap"),
        passage=take(passages, "passage"),
    )
