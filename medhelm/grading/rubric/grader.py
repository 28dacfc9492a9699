"""The grader of binary criteria: one call a criterion, or all of a case in one call by choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from medhelm.errors import DataError
from medhelm.extract.json_reply import BadReply
from medhelm.extract.terms import terms_of
from medhelm.grading.graders.controls import Controls, Item, answer, gold_answer
from medhelm.grading.graders.grader import JUDGE, Grader, Shown
from medhelm.grading.rubric.prompt import (
    repair_message,
    rules_version,
    shared_messages,
    with_criteria,
    with_criterion,
)
from medhelm.grading.rubric.verdicts import (
    ONE,
    Decision,
    Verdicts,
    all_of,
    read_decision,
    read_decisions,
)
from medhelm.models.tokens import estimate_tokens, request_tokens
from medhelm.protocols.protocol import FinalAnswer, Forecast, Send, Terms, together
from medhelm.protocols.questions import followed_by, send_until_read
from medhelm.schema.data import Benchmark, Criterion, Instance
from medhelm.schema.episode import Episode, Message

MODE, STRICT, BATCHED = "mode", "strict", "batched"
STRICT_STEP, BATCHED_STEP = "criterion/", "criteria"
_T = TypeVar("_T")

_EXPLANATION = 50
"""Tokens of the object that decides on one criterion."""
_FENCE = 22
"""Tokens of the lines around a criterion."""
_REPAIR = 40
"""Tokens of the message that asks for a reply again."""


def criteria_of(instance: Instance) -> tuple[Criterion, ...]:
    """Return the criteria of a case; raises DataError where there are none to decide on."""
    if not instance.criteria:
        raise DataError(f"instance {instance.id!r} has no criteria, so no rubric can grade it")
    return instance.criteria  # their names were checked when the data were read


async def _grade(benchmark: Benchmark, shown: Shown, terms: Terms, send: Send) -> FinalAnswer:
    """Return the verdicts of one judge on all criteria of a case.

    The first criterion goes alone, so that a provider's cache holds the beginning when the others
    come; these go at once.
    """
    criteria = criteria_of(shown.instance)
    is_batched = terms.settings[MODE] == BATCHED
    shared = shared_messages(benchmark, shown.instance, shown.answer, batched=is_batched)
    decide = partial(_decide, shown.instance, terms, send)
    found: dict[str, tuple[Decision | None, str]] = {}
    if is_batched:
        names = [c.name for c in criteria]
        decisions, fault = await decide(
            with_criteria(shared, criteria),
            BATCHED_STEP,
            all_of(names),
            lambda text: read_decisions(text, names, shown.answer),
        )
        found = {n: (decisions[n] if decisions else None, fault) for n in names}
    else:
        first, *others = criteria

        async def one(criterion: Criterion) -> tuple[Decision | None, str]:
            return await decide(
                with_criterion(shared, criterion),
                STRICT_STEP + criterion.name,
                ONE,
                lambda text: read_decision(text, shown.answer),
            )

        found[first.name] = await one(first)
        rest = await together(one(c) for c in others)
        found |= dict(zip((c.name for c in others), rest, strict=True))
    return _ended(criteria, found)


def _ended(
    criteria: Sequence[Criterion], found: Mapping[str, tuple[Decision | None, str]]
) -> FinalAnswer:
    faults = [fault for _, fault in found.values() if fault]
    if "error" in faults:
        return FinalAnswer(finish="error", error="a call to the judge failed")
    if "oversize" in faults:
        return FinalAnswer(finish="oversize", error="the case does not fit the judge's window")
    verdicts = Verdicts(
        met=tuple(d.is_met if (d := found[c.name][0]) else None for c in criteria),
        invalid={name: fault for name, (_, fault) in found.items() if fault},
    )
    ending = "partly invalid" if faults else ""
    if all(met is None for met in verdicts.met):
        ending = faults[0]
    return FinalAnswer(state=verdicts.to_state(), ending=ending)


async def _decide(
    instance: Instance,
    terms: Terms,
    send: Send,
    messages: tuple[Message, ...],
    step: str,
    schema: dict[str, Any],
    read: Callable[[str], _T],
) -> tuple[_T | None, str]:
    """Return what is read of a judge's reply, else None and why."""
    found = await send_until_read(
        partial(send, JUDGE, step=step),
        partial(terms.request, instance, JUDGE, json_schema=schema),
        messages,
        read,
        followed_by(partial(repair_message, instance)),
        terms.repairs,
        ends_when_cut=True,
    )
    return found.value, found.end


def _forecast(
    benchmark: Benchmark, instance: Instance, terms: Terms, answer: int
) -> Iterator[Forecast]:
    criteria = criteria_of(instance)
    is_batched = terms.settings[MODE] == BATCHED
    case, own = _tokens(benchmark, instance, is_batched)
    schema = all_of([c.name for c in criteria]) if is_batched else ONE
    shared = case + answer + request_tokens(terms.request(instance, JUDGE, (), schema))
    calls = 1 if is_batched else len(criteria)
    tokens = calls * shared + own
    repairs = terms.repairs
    again = terms.roles[JUDGE].max_output_tokens + _REPAIR
    yield Forecast(
        role=JUDGE,
        calls=calls,
        calls_limit=calls * (1 + repairs),
        input_tokens=tokens,
        input_tokens_limit=(1 + repairs) * tokens + calls * repairs * (repairs + 1) // 2 * again,
        output_tokens=_EXPLANATION * len(criteria),
        cached_tokens=(calls - 1) * shared,
    )


class _LastCase:
    """The tokens of the case that was counted last: many models and judges ask for it in a row."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._tokens = (0, 0)

    def __call__(
        self, benchmark: Benchmark, instance: Instance, is_batched: bool
    ) -> tuple[int, int]:
        of = (id(benchmark), id(instance), is_batched)
        if of != self._of[:3]:
            shared = shared_messages(benchmark, instance, "", batched=is_batched)
            text = "\n".join(c.text for c in instance.criteria)
            own = estimate_tokens(text) + _FENCE * len(instance.criteria)
            self._tokens = estimate_tokens(shared), own
            self._of = (*of, benchmark, instance)  # held, so that no other one gets its id
        return self._tokens


_tokens = _LastCase()


def _stand_in(shown: Shown, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return verdicts by rule: met where half of a criterion's words are in the answer."""
    answer = terms_of(shown.answer)
    met = []
    for criterion in criteria_of(shown.instance):
        own = terms_of(criterion.text)
        met.append(bool(own) and len(own & answer) >= math.ceil(len(own) / 2))
    return Verdicts(met=tuple(met)).to_state()


def _items(instance: Instance, settings: Mapping[str, Any]) -> list[Item]:
    return [Item(text=c.text, is_good=c.points > 0) for c in criteria_of(instance)]


CONTROLS = Controls(
    items=_items,
    decide=lambda state: state["met"],
    empty=partial(answer, text=""),
    right=gold_answer,
    material=lambda i: " ".join((i.context, i.question, *(turn.content for turn in i.turns))),
)
RUBRIC = Grader(
    name="rubric",
    version="2",
    rules=rules_version,
    grade=_grade,
    forecast=_forecast,
    stand_in=_stand_in,
    controls=CONTROLS,
    marks=lambda state: state["met"],
    listed=lambda instance, own: criteria_of(instance) if own[MODE] == BATCHED else (),
    settings={MODE: STRICT},
    choices={MODE: (STRICT, BATCHED)},
)


class Explained(NamedTuple):
    """One criterion as one judge decided on it."""

    criterion: Criterion
    is_met: bool | None
    """None: no valid verdict."""
    explanation: str
    """The judge's words; of an invalid verdict why there is none."""


def explained(grading: Episode) -> list[Explained]:
    """Return the decisions of a grading in the order of its criteria; none of another grader's."""
    criteria = grading.instance.criteria
    met, invalid = grading.state.get("met", ()), grading.state.get("invalid", {})
    if not criteria or len(met) != len(criteria):
        return []
    said = _decisions_by_name(grading)
    return [
        Explained(
            c, is_met, invalid.get(c.name) or (said[c.name].explanation if c.name in said else "")
        )
        for c, is_met in zip(criteria, met, strict=True)
    ]


def _decisions_by_name(grading: Episode) -> dict[str, Decision]:
    found: dict[str, Decision] = {}
    for call in grading.calls:
        try:
            if call.step.startswith(STRICT_STEP):
                found[call.step.removeprefix(STRICT_STEP)] = read_decision(call.response.text)
            elif call.step == BATCHED_STEP:
                names = [c.name for c in grading.instance.criteria]
                found |= read_decisions(call.response.text, names)
        except BadReply:
            continue  # asked again, or invalid
    return found
