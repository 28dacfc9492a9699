"""Forecast the usage of a series, before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medhelm.models.costs import usd
from medhelm.models.tokens import estimate_tokens
from medhelm.schema.episode import Message
from medhelm.schema.model import ModelSpec
from medhelm_benchmarks.noharm.generation import prompts
from medhelm_benchmarks.noharm.generation.assembly import PERSPECTIVES
from medhelm_benchmarks.noharm.generation.pipeline import REPAIRS, Series, stage_budget
from medhelm_benchmarks.noharm.generation.views import Brief, MenuView, RatingView, Scene, TrapView

_LETTER, _ACTION = 500, 16
"""Tokens of a scene and of an action: means of the bundled cases."""
_ACTIONS = prompts.BLIND + prompts.FIRST_LINE + prompts.CONDITIONAL + 5 * prompts.PER_TRAP
_STRONG = _ACTIONS // 2
"""Strong actions without a reference that raters are asked about again: more than most cases have."""
_REPLIES = {
    "scene": _LETTER + 60,
    "options": prompts.BLIND * (_ACTION + 12),
    "traps": (_ACTIONS - prompts.BLIND) * (_ACTION + 20),
    "groups": 250,
    "rating": _ACTIONS * 49,
    "quotes": _STRONG * 40,
}
"""Tokens of a reply as asked for, with the signs of its JSON."""
_WORDS_OF_A_REPAIR = 150


@dataclass(frozen=True)
class Forecast:
    """Tokens and USD of one stage over all cases: as asked for, and at most.

    At most: every reply fills its budget and is asked for `REPAIRS` times again, quotes never.
    """

    stage: str
    model: str
    requests: int
    input_expected: int
    output_expected: int
    usd_expected: float | None
    input_limit: int
    output_limit: int
    usd_limit: float | None


def forecast(series: Series, count: int) -> list[Forecast]:
    """Return what each stage of a series from nothing will use, in their order.

    Models that think before they answer may use more than is expected, never more than the limit.
    """
    nothing = Scene(series.specialty, "", "", (), (), ())
    guideline, writer = series.guideline, series.generator
    setting = series.setting(1)
    menu = _ACTIONS * (_ACTION + 4)
    # the menu at most: what two authors can write within their budgets
    most_menu = stage_budget(writer, "options") + stage_budget(writer, "traps")
    letter, most_letter = _LETTER, stage_budget(writer, "scene")
    blind, most_blind = prompts.BLIND * _ACTION, stage_budget(writer, "options")
    stages: list[tuple[str, ModelSpec, Sequence[Message], int, int]] = [
        (
            "scene",
            writer,
            prompts.scene_messages(Brief(series.specialty, guideline, setting)),
            0,
            0,
        ),
        ("options", writer, prompts.option_messages(nothing), letter, most_letter),
        (
            "traps",
            writer,
            prompts.trap_messages(TrapView(nothing, guideline, ())),
            letter + blind,
            most_letter + most_blind,
        ),
        (
            "groups",
            writer,
            prompts.group_messages(MenuView(nothing, ())),
            letter + menu,
            most_letter + most_menu,
        ),
    ]
    for perspective, rater in zip(PERSPECTIVES, series.raters, strict=True):
        sheet = prompts.rating_messages(RatingView(nothing, guideline, perspective, ()))
        more = (letter + menu, most_letter + most_menu)
        stages.append((f"rating/{perspective}", rater, sheet, *more))
    for perspective, rater in zip(PERSPECTIVES, series.raters, strict=True):
        sheet = prompts.quote_messages(RatingView(nothing, guideline, perspective, ()))
        more = (letter + _STRONG * (_ACTION + 4), most_letter + most_menu)
        stages.append((f"quotes/{perspective}", rater, sheet, *more))
    return [_forecast(*stage, count) for stage in stages]


def _forecast(
    stage: str, model: ModelSpec, fixed: Sequence[Message], more: int, most: int, count: int
) -> Forecast:
    kind = stage.partition("/")[0]
    budget, tries = stage_budget(model, stage), 1 if kind == "quotes" else 1 + REPAIRS
    words, reply = estimate_tokens(fixed), _REPLIES[kind]
    earlier = sum(range(tries)) * (budget + _WORDS_OF_A_REPAIR)  # each repair repeats the messages
    tokens_in, tokens_out = count * (words + more), count * min(reply, budget)
    most_in = count * (tries * (words + most) + earlier)
    most_out = count * tries * budget
    price = model.price
    return Forecast(
        stage=stage,
        model=model.name,
        requests=count,
        input_expected=tokens_in,
        output_expected=tokens_out,
        usd_expected=None if price is None else usd(price, tokens_in, 0, tokens_out),
        input_limit=most_in,
        output_limit=most_out,
        usd_limit=None if price is None else usd(price, most_in, 0, most_out),
    )
