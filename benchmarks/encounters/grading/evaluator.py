"""The evaluator: a grader that is shown the frozen rubric and the encounter, and judges item by item.

`docs/encounters.md` ("Grading") has the two forms of its replies, and what is a valid verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec

from medhelm import (
    Benchmark,
    DataError,
    Episode,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    Send,
    Terms,
)
from medhelm.plugin import estimate_tokens, fenced, grader, questions, reply_form, runlog, together
from medhelm_benchmarks.encounters.data.rubrics import FrozenRubric, read_rubrics
from medhelm_benchmarks.encounters.matches import folded, has_run, is_asked, normal
from medhelm_benchmarks.encounters.packets import Deed, RubricItem, packets_of
from medhelm_benchmarks.encounters.prompts import prompt_text
from medhelm_benchmarks.encounters.record import (
    CAPPED,
    COMPLETED,
    Encounter,
    Turn,
    as_state,
    text_of,
)

SIZE, FORM, RUBRIC = "batch", "form", "rubric"
"""Settings: items of one call, the form of replies, a file of rubrics in place of the cases' own."""
QUOTED, PUBLISHED = "quoted", "published"
QUOTE_WORDS = 15
_LISTED = "\n\nThe items, one JSON object a line:\n"
_TAGS = ("encounter", "items")


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Holds the verdict of one evaluator on one item."""

    met: bool | None = None
    """None: no valid verdict."""
    turns: tuple[int, ...] = ()
    fault: str = ""
    """The reason for no verdict (`no deed`: no rule can tell). In the published form an item that is met by the
    evaluator's word alone is not met, and this is `no evidence`."""


@runlog.of_threads
class Verdicts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Holds the verdicts of one evaluator on all items of a rubric, in its order."""

    items: tuple[Verdict, ...] = ()
    extra: int = 0
    """Texts that were judged and are no item: invented or reworded ones."""
    rubric: tuple[RubricItem, ...] | None = None
    """The items, where another rubric than the instance's was used."""


NO_EVIDENCE = "no evidence"


def items_of(instance: Instance, rubric: str = "") -> tuple[RubricItem, ...]:
    """Return the frozen items of a case: its own, or those that a file of rubrics has for it."""
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


_EVIDENCE = reply_form.closed({"turn": int, "quote": str})
_ENTRY: Mapping[str, Mapping[str, Any]] = {
    QUOTED: {"number": int, "item": str, "met": bool, "evidence": [_EVIDENCE]},
    PUBLISHED: {"competency": str, "item": str, "met": bool, "turns": [int]},
}
SCHEMA = {
    form: reply_form.closed({"items": [reply_form.closed(entry)]}) for form, entry in _ENTRY.items()
}
_ANY: dict[str, Any] = {name: {} for entry in _ENTRY.values() for name in entry}
_ENTRIES = [{"type": "object", "properties": _ANY}]
"""As they are read: each item has its own fault."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Thai, Lao, Khmer, Japanese and Chinese: a sentence is one run of letters."""


def read_batch(
    reply: str,
    items: Sequence[RubricItem],
    turns: Sequence[Turn],
    shown: str = "",
    form: str = QUOTED,
) -> Verdicts:
    """Return the verdicts on a batch of items. `shown`: the encounter, as the evaluator saw it."""
    found = reply_form.read_object(reply, reply_form.closed({"items": _ENTRIES}), shown)["items"]
    texts = [normal(item.text) for item in items]
    seen: dict[int, list[Mapping[str, Any]]] = {n: [] for n in range(len(items))}
    moved: set[int] = set()
    extra = 0
    for entry in found:
        named = entry.get("item")
        said = normal(named) if isinstance(named, str) else None
        places = [n for n, text in enumerate(texts) if text == said]
        own = [n for n in places if _is_at(entry, n, items[n], form)]
        if len(own) == 1:
            seen[own[0]].append(entry)
        elif places:
            moved.update(places)
        else:
            extra += 1
    if form == QUOTED:  # text of one item and number of another: either may be meant
        seen |= {n: [] for n in moved}
    verdicts = tuple(_verdict(seen[n], n in moved, turns, form) for n in range(len(items)))
    return Verdicts(items=verdicts, extra=extra)


def _is_at(entry: Mapping[str, Any], place: int, item: RubricItem, form: str) -> bool:
    """Return whether an entry is not of another number, or of another competency, than the item."""
    if form == PUBLISHED:
        return bool(entry.get("competency") == item.competency)
    return "number" not in entry or _fitted(entry["number"], "integer") == place + 1


def _verdict(
    entries: Sequence[Mapping[str, Any]], is_moved: bool, turns: Sequence[Turn], form: str
) -> Verdict:
    if not entries:
        return Verdict(fault="moved" if is_moved else "missing")
    if len(entries) > 1:
        return Verdict(fault="repeated")
    (entry,) = entries
    met = _fitted(entry.get("met"), "boolean")
    if met is None:
        return Verdict(fault="not boolean")
    if not met:
        return Verdict(met=False)
    shown = _turns_of(entry.get("turns" if form == PUBLISHED else "evidence"), turns, form)
    if not shown:
        return Verdict(met=False if form == PUBLISHED else None, fault=NO_EVIDENCE)
    return Verdict(met=True, turns=shown)


def _turns_of(named: object, turns: Sequence[Turn], form: str) -> tuple[int, ...]:
    """Return the turns that show an item, of those that an entry names."""
    found = set()
    for one in named if isinstance(named, list) else []:
        own = {"turn": one} if form == PUBLISHED else one if isinstance(one, dict) else {}
        number = _fitted(own.get("turn"), "integer")
        if number is None or not 1 <= number <= len(turns):
            continue
        if form == PUBLISHED or is_quoted(turns[number - 1], own.get("quote")):
            found.add(number)
    return tuple(sorted(found))


def is_quoted(turn: Turn, quote: object) -> bool:
    """Return whether the clinician says or does in a turn what a quote holds.

    A quote has 3 to 15 words (at least 4 characters in scripts without spaces), or is the whole utterance or
    action.
    """
    if not isinstance(quote, str) or len(quote.split()) > QUOTE_WORDS:
        return False
    words = normal(quote)
    is_unspaced = len(words) >= 4 and _UNSPACED.search(words) is not None
    is_long = len(folded(words).split()) >= 3
    return any(
        (is_long and has_run(text, words))
        or (is_unspaced and words in text)
        or folded(words) == folded(text) != ""
        for text in map(normal, (turn.speak, *turn.actions))
    )


def _fitted(value: object, kind: str) -> Any:
    try:
        return reply_form.fit(value, {"type": kind}, "")
    except reply_form.BadReply:
        return None


def _faults(items: Sequence[RubricItem], found: Verdicts) -> list[str]:
    """Return what is wrong with a reply, in words that repeat our own items alone."""
    said = [
        f"{verdict.fault}: {item.competency} {item.text[:60]!r}"
        for item, verdict in zip(items, found.items, strict=True)
        if verdict.fault
    ]
    return said + [f"{found.extra} entries are no item of the list"] * bool(found.extra)


def majority(given: Sequence[Verdicts], size: int, quorum: int = 1) -> tuple[Verdict, ...]:
    """Return what several evaluators say of each item: met where more than half of them say so.

    Half is not enough: only explicit evidence counts. With fewer valid verdicts than `quorum`, or where those
    that are missing could turn it, an item has none. An evaluator without any valid verdict on the encounter is
    not one of them. The turns are those that any of them names.
    """
    found = []
    heard = [v for v in given if any(item.met is not None for item in v.items)] or given
    for n in range(size):
        own = [verdicts.items[n] for verdicts in heard]
        valid = [verdict for verdict in own if verdict.met is not None]
        yes = [verdict for verdict in valid if verdict.met]
        is_met = 2 * len(yes) > len(own)
        is_open = is_met != (2 * (len(yes) + len(own) - len(valid)) > len(own))
        if len(valid) < max(quorum, 1) or is_open:
            faults = (verdict.fault for verdict in own if verdict.met is None)
            found.append(Verdict(fault=next(faults, "missing")))
            continue
        turns = tuple(sorted({turn for v in yes for turn in v.turns})) if is_met else ()
        fault = next((v.fault for v in valid if v.fault), "") if not is_met else ""
        found.append(Verdict(met=is_met, turns=turns, fault=fault))
    return tuple(found)


def shown_turns(encounter: Encounter) -> str:
    """Return an encounter as an evaluator reads it: a JSON object for each turn."""
    labels = dict(enumerate(encounter.states))
    lines: list[dict[str, Any]] = [
        {
            "turn": number,
            "state": labels.get(turn.state, ""),
            "clinician_says": turn.speak,
            "clinician_does": turn.actions,
            "clinician_ends_the_state": turn.eos,
            "patient_side": turn.heard,
            "feedback": turn.feedback,
            "events": turn.events,
            "patient_status": turn.status,
        }
        for number, turn in enumerate(encounter.turns, start=1)
    ]
    if encounter.opening:
        lines.insert(0, {"turn": 0, "events": encounter.opening})
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


def messages(
    encounter: Encounter, items: Sequence[RubricItem], form: str = QUOTED
) -> tuple[Message, Message]:
    """Return what an evaluator is sent: rules, then the encounter and one batch of items."""
    if form not in _ENTRY:
        raise DataError(f"grader.{FORM}={form}: it is {' or '.join(_ENTRY)}")
    rows: list[dict[str, object]] = [{"competency": i.competency, "item": i.text} for i in items]
    if form == QUOTED:
        rows = [{"number": n} | row for n, row in enumerate(rows, start=1)]
    listed = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    body = fenced("encounter", shown_turns(encounter), _TAGS)
    rules = prompt_text("evaluator" if form == QUOTED else "evaluator_published")
    return Message("system", rules), Message("user", f"{body}{_LISTED}{listed}")


def parts_of(asked: str) -> tuple[str, list[dict[str, Any]]] | None:
    """Return the encounter and the items of what an evaluator is sent; None of anything else."""
    body, listed, items = asked.partition(_LISTED)
    return (body, [json.loads(line) for line in items.split("\n")]) if listed else None


async def grade(benchmark: Benchmark, shown: grader.Shown, terms: Terms, send: Send) -> FinalAnswer:
    """Return one evaluator's verdicts on all items, asked for in batches of the stated size."""
    rubric: str = terms.settings[RUBRIC]
    items = items_of(shown.instance, rubric)
    batches = batched(items, terms.settings[SIZE], terms.roles[grader.JUDGE].max_output_tokens)
    found = await together(
        _judge(shown, terms, send, n, batch) for n, batch in enumerate(batches, start=1)
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
    is_valid = {verdict.met is not None for verdict in verdicts.items}
    ending = "" if False not in is_valid else "partly invalid" if True in is_valid else "unreadable"
    return FinalAnswer(state=as_state(verdicts), ending=ending)


def batched(items: Sequence[RubricItem], size: int, budget: int) -> list[Sequence[RubricItem]]:
    """Return the items in batches of at most so many, whose verdicts fit a budget of output tokens."""
    if size < 1:
        raise DataError(f"grader.{SIZE}={size}: a batch has at least one item")
    found: list[list[RubricItem]] = []
    left = 0
    for item in items:
        need = _verdict_tokens(item)
        if not found or len(found[-1]) == size or need > left:
            found.append([])
            left = budget
        found[-1].append(item)
        left -= need
    return [*found]


def _verdict_tokens(item: RubricItem) -> int:
    """Return about how many tokens a verdict takes that repeats its item and quotes one turn."""
    return estimate_tokens([Message("assistant", item.text)]) + 60


async def _judge(
    shown: grader.Shown, terms: Terms, ask: Send, number: int, items: Sequence[RubricItem]
) -> tuple[Verdicts, str]:
    """Return the verdicts on a batch, and how its call ended where it has none.

    A reply with any invalid verdict is asked for again, as often as the terms allow; of the last
    one that can be read the valid verdicts count.
    """
    encounter = msgspec.convert(dict(shown.state), Encounter)
    form: str = terms.settings[FORM]
    first = messages(encounter, items, form)
    best: Verdicts | None = None

    def read(text: str) -> Verdicts:
        nonlocal best
        best = read_batch(text, items, encounter.turns, first[1].content, form)
        if faults := _faults(items, best):
            raise reply_form.BadReply("; ".join(faults))
        return best

    def again(_: tuple[Message, ...], text: str, fault: str) -> tuple[Message, ...]:
        asked = f"Your reply is not as asked for ({fault}). Reply again, with every item once."
        return (*first, Message("assistant", text.strip() or "(empty)"), Message("user", asked))

    found = await questions.send_until_read(
        partial(ask, grader.JUDGE, step=f"items/{number}"),
        partial(terms.request, shown.instance, grader.JUDGE, json_schema=SCHEMA[form]),
        first,
        read,
        again,
        terms.repairs,
    )
    is_lost = found.end in ("error", "oversize")
    if best is None or is_lost:
        best = Verdicts(items=(Verdict(fault=found.end),) * len(items))
    return best, found.end if is_lost else ""


def forecast(
    benchmark: Benchmark, instance: Instance, terms: Terms, answer: int
) -> Iterator[Forecast]:
    """Yield the calls to one evaluator: one a batch. An encounter is some three times its answer."""
    items = items_of(instance, terms.settings[RUBRIC])
    batches = batched(items, terms.settings[SIZE], terms.roles[grader.JUDGE].max_output_tokens)
    empty, form = Encounter(), terms.settings[FORM]
    sent = (
        terms.request(instance, grader.JUDGE, messages(empty, b, form), SCHEMA[form])
        for b in batches
    )
    spent = sum(estimate_tokens(request) + 3 * answer for request in sent)
    repairs = terms.repairs
    again = terms.roles[grader.JUDGE].max_output_tokens + 200
    yield Forecast(
        role=grader.JUDGE,
        calls=len(batches),
        calls_limit=len(batches) * (1 + repairs),
        input_tokens=spent,
        input_tokens_limit=(1 + repairs) * spent + len(batches) * repairs * again,
        output_tokens=sum(map(_verdict_tokens, items)),
    )


def stand_in(shown: grader.Shown, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return verdicts by rule: an item is met in the turns that hold one of its deed's wordings."""
    encounter = msgspec.convert(dict(shown.state), Encounter)
    items = items_of(shown.instance, settings[RUBRIC])
    found = [
        Verdict(fault="no deed") if item.deed is None else _by_rule(item.deed, encounter)
        for item in items
    ]
    return as_state(Verdicts(items=tuple(found), rubric=items if settings[RUBRIC] else None))


def _by_rule(deed: Deed, encounter: Encounter) -> Verdict:
    turns = []
    for number, turn in enumerate(encounter.turns, start=1):
        texts = turn.actions if deed.channel == "actions" else (turn.speak,)
        if turn.state >= deed.state and any(is_asked(deed.wordings, text) for text in texts):
            turns.append(number)
    return Verdict(met=bool(turns), turns=tuple(turns))


def is_whole(shown: grader.Shown) -> bool:
    """Return whether an encounter came to its end: by the case or by the cap."""
    return shown.ending in (COMPLETED, CAPPED)


def _items(instance: Instance, settings: Mapping[str, Any]) -> list[grader.Item]:
    listed = (grader.Item(item.text) for item in items_of(instance, settings[RUBRIC]))
    return [item._replace(is_in_right=item.needs_content) for item in listed]


def _played(instance: Instance, *turns: Turn) -> Episode:
    """Return an encounter in which the clinician does this, and nothing comes of it."""
    labels = [state.label for state in packets_of(instance).controller.states]
    reached = max((turn.state for turn in turns), default=0) + 1
    played = Encounter(turns=turns, states=tuple(labels[:reached]))
    return grader.answer(instance, text_of(played), ending=COMPLETED, state=as_state(played))


def _scripted(instance: Instance, settings: Mapping[str, Any]) -> Episode:
    """Return the encounter in which every deed of the rubric is done; an item without one as an action of
    its own words."""
    done: dict[int, tuple[list[str], list[str]]] = {}
    for item in items_of(instance, settings[RUBRIC]):
        if item.deed is None and not grader.Item(item.text).needs_content:
            continue
        deed = item.deed or Deed(channel="actions", wordings=(item.text,))
        said, acted = done.setdefault(deed.state, ([], []))
        (said if deed.channel == "speak" else acted).append(deed.wordings[0])
    turns = [
        Turn(state=n, speak=" ".join(f"{words}." for words in said), actions=tuple(acted), eos=True)
        for n, (said, acted) in sorted(done.items())
    ]
    return _played(instance, *turns)


def _material(instance: Instance) -> str:
    packets = packets_of(instance)
    return f"{instance.context} {packets.patient.text} {packets.controller.text}"


EVALUATIONS = grader.Grader(
    name="encounter_rubric",
    version="3",
    grade=grade,
    forecast=forecast,
    stand_in=stand_in,
    is_graded=is_whole,
    controls=grader.Controls(
        items=_items,
        decide=lambda state: [verdict.get("met") for verdict in state["items"]],
        empty=lambda instance: _played(instance, Turn(eos=True)),
        right=_scripted,
        material=_material,
    ),
    settings={SIZE: 15, RUBRIC: "", FORM: QUOTED},
    files=(RUBRIC,),
)
