"""The evaluator: a grader that is shown the frozen rubric and the encounter, and judges item by item."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from medhelm import (
    Benchmark,
    DataError,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    Response,
    Terms,
)
from medhelm.extract.json_reply import BadReply
from medhelm.grading.graders.grader import JUDGE, REPAIRS, Grader, Shown
from medhelm.models.tokens import estimate_tokens, request_tokens
from medhelm.prompts.fencing import fenced, tag_pattern
from medhelm.protocols.parallel import together
from medhelm.protocols.protocol import Ask
from medhelm_benchmarks.encounters.data.rubrics import FrozenRubric, read_rubrics
from medhelm_benchmarks.encounters.grading.verdicts import (
    SCHEMA,
    Batch,
    Verdict,
    Verdicts,
    read_batch,
)
from medhelm_benchmarks.encounters.matches import is_asked
from medhelm_benchmarks.encounters.packets import (
    Deed,
    RubricItem,
    packets_of,
)
from medhelm_benchmarks.encounters.prompts import prompt_text
from medhelm_benchmarks.encounters.record import CAPPED, COMPLETED, Encounter, Turn
from medhelm_benchmarks.encounters.replies import ask_until_read

SIZE, RUBRIC = "batch", "rubric"
_LISTED = "\n\nThe items, one JSON object a line:\n"
_TAG = tag_pattern(("encounter", "items"))


def items_of(instance: Instance, rubric: str = "") -> tuple[RubricItem, ...]:
    """Return the frozen items of a case: its own, or those that a file of rubrics has for it.

    Raises DataError where there are none: an encounter without items cannot be scored.
    """
    if not rubric:
        items = packets_of(instance).evaluator.items
        if not items:
            raise DataError(f"case {instance.id!r} has no items, so that nothing can be scored")
        return items
    try:
        there = Path(rubric).stat()
        own = _rubrics(rubric, there.st_mtime_ns, there.st_size).get(instance.id)
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(f"rubrics {rubric} cannot be read: {e}; give grader.rubric=FILE") from None
    if own is None or not own.items:
        raise DataError(f"{rubric}: no rubric of case {instance.id!r}")
    return own.items


@lru_cache(maxsize=4)
def _rubrics(path: str, changed: int, size: int) -> Mapping[str, FrozenRubric]:
    """Return the rubrics of a file as it is; `changed` and `size` tell it from what it was."""
    return read_rubrics(Path(path), is_whole=False)


def shown_turns(encounter: Encounter) -> str:
    """Return an encounter as an evaluator reads it: a JSON object for each turn."""
    lines = []
    if encounter.opening:
        lines.append({"turn": 0, "events": list(encounter.opening)})
    for number, turn in enumerate(encounter.turns, start=1):
        lines.append({"turn": number, **_turn(turn, encounter)})
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


def _turn(turn: Turn, encounter: Encounter) -> dict[str, Any]:
    label = encounter.states[turn.state] if turn.state < len(encounter.states) else ""
    return {
        "state": label,
        "clinician_says": turn.speak,
        "clinician_does": list(turn.actions),
        "clinician_ends_the_state": turn.eos,
        "patient_side": list(turn.heard),
        "feedback": list(turn.feedback),
        "events": list(turn.events),
        "patient_status": turn.status,
    }


def messages(encounter: Encounter, items: Sequence[RubricItem]) -> tuple[Message, Message]:
    """Return what an evaluator is sent: rules, then the encounter and one batch of items."""
    listed = "\n".join(
        json.dumps({"competency": i.competency, "item": i.text}, ensure_ascii=False) for i in items
    )
    body = fenced("encounter", shown_turns(encounter), _TAG)
    return Message("system", prompt_text("evaluator")), Message("user", f"{body}{_LISTED}{listed}")


def parts_of(asked: str) -> tuple[str, list[dict[str, str]]] | None:
    """Return the encounter and the items of what an evaluator is sent; None of anything else."""
    body, listed, items = asked.partition(_LISTED)
    return (body, [json.loads(line) for line in items.splitlines()]) if listed else None


async def grade(benchmark: Benchmark, shown: Shown, terms: Terms, ask: Ask) -> FinalAnswer:
    """Return one evaluator's verdicts on all items, asked for in batches of the stated size."""
    rubric: str = terms.settings[RUBRIC]
    items = items_of(shown.instance, rubric)
    batches = batched(items, terms.settings[SIZE])
    found = await together(
        _judge(shown, terms, ask, n, batch) for n, batch in enumerate(batches, start=1)
    )
    ends = {end for _, end in found}
    if "error" in ends:
        return FinalAnswer(finish="error", error="a call to the evaluator failed")
    if "oversize" in ends:
        return FinalAnswer(finish="oversize", error="the encounter does not fit the window")
    verdicts = Verdicts(
        items=tuple(verdict for batch, _ in found for verdict in batch.items),
        extra=sum(batch.extra for batch, _ in found),
        rubric=items if rubric else None,
    )
    invalid = [verdict for verdict in verdicts.items if verdict.met is None]
    ending = "partly invalid" if invalid else ""
    if invalid and len(invalid) == len(verdicts.items):
        ending = "unreadable"
    state: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(verdicts))
    return FinalAnswer(state=state, ending=ending)


def batched(items: Sequence[RubricItem], size: int) -> list[Sequence[RubricItem]]:
    """Return the items in batches of at most so many, in order; raises DataError below 1."""
    if size < 1:
        raise DataError(f"grader.{SIZE}={size}: a batch has at least one item")
    return [items[n : n + size] for n in range(0, len(items), size)]


async def _judge(
    shown: Shown, terms: Terms, ask: Ask, number: int, items: Sequence[RubricItem]
) -> tuple[Batch, str]:
    """Return the verdicts on a batch, and how its call ended where it has none.

    A reply with any invalid verdict is asked for again, as often as the terms allow; of the last
    one that can be read the valid verdicts count.
    """
    encounter = msgspec.convert(dict(shown.state), Encounter)
    first = messages(encounter, items)
    best: Batch | None = None

    async def send(sent: tuple[Message, ...], attempt: int) -> Response:
        request = terms.request(shown.instance, JUDGE, sent, SCHEMA)
        return await ask(JUDGE, request, step=f"items/{number}", attempt=attempt)

    def read(text: str) -> Batch:
        nonlocal best
        best = read_batch(text, items, len(encounter.turns), first[1].content)
        if best.faults:
            raise BadReply("; ".join(best.faults))
        return best

    def correct(_: tuple[Message, ...], text: str, fault: BadReply) -> tuple[Message, ...]:
        asked = f"Your reply is not as asked for ({fault}). Reply again, with every item once."
        return (*first, Message("assistant", text.strip() or "(empty)"), Message("user", asked))

    _, response = await ask_until_read(send, first, read, correct, 1 + terms.settings[REPAIRS])
    if response.finish in ("error", "oversize"):
        return _void(items, response.finish), response.finish
    ends = {"refusal": "refused", "length": "truncated"}
    return best or _void(items, ends.get(response.finish, "unreadable")), ""


def _void(items: Sequence[RubricItem], fault: str) -> Batch:
    return Batch(items=tuple(Verdict(fault=fault) for _ in items), extra=0, faults=(fault,))


def forecast(
    benchmark: Benchmark, instance: Instance, terms: Terms, answer: int
) -> Iterator[Forecast]:
    """Yield the calls to one evaluator: one a batch. An encounter is some three times its answer."""
    items = items_of(instance, terms.settings[RUBRIC])
    batches = batched(items, terms.settings[SIZE])
    empty = Encounter()
    sent = (terms.request(instance, JUDGE, messages(empty, b), SCHEMA) for b in batches)
    tokens = sum(request_tokens(request) + 3 * answer for request in sent)
    repairs: int = terms.settings[REPAIRS]
    again = terms.roles[JUDGE].max_output_tokens + 200
    yield Forecast(
        role=JUDGE,
        calls=len(batches),
        calls_limit=len(batches) * (1 + repairs),
        input_tokens=tokens,
        input_tokens_limit=(1 + repairs) * tokens + len(batches) * repairs * again,
        output_tokens=sum(estimate_tokens([Message("user", i.text)]) + 25 for i in items),
    )


def stand_in(shown: Shown, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return verdicts by rule: an item is met in the turns that hold one of its deed's wordings.

    An item without a deed has no verdict: only a reader can tell.
    """
    encounter = msgspec.convert(dict(shown.state), Encounter)
    items = items_of(shown.instance, settings[RUBRIC])
    found = [
        Verdict(fault="no deed") if item.deed is None else _by_rule(item.deed, encounter)
        for item in items
    ]
    verdicts = Verdicts(items=tuple(found), rubric=items if settings[RUBRIC] else None)
    state: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(verdicts))
    return state


def _by_rule(deed: Deed, encounter: Encounter) -> Verdict:
    turns = []
    for number, turn in enumerate(encounter.turns, start=1):
        texts = turn.actions if deed.channel == "actions" else (turn.speak,)
        if turn.state >= deed.state and any(is_asked(deed.wordings, text) for text in texts):
            turns.append(number)
    return Verdict(met=bool(turns), turns=tuple(turns))


def is_whole(shown: Shown) -> bool:
    """Return whether an encounter came to its end: by the case or by the cap."""
    return shown.ending in (COMPLETED, CAPPED)


EVALUATIONS = Grader(
    name="encounter_rubric",
    version="2",
    grade=grade,
    forecast=forecast,
    stand_in=stand_in,
    is_graded=is_whole,
    settings={SIZE: 15, RUBRIC: ""},
    files=(RUBRIC,),
)
