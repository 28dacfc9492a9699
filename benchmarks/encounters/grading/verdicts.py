"""An evaluator's reply on a batch of items: which are met, by which turns, and which verdicts are void.

    {"items": [{"competency": "PC", "item": "TEXT", "met": true, "turns": [2, 5]}, ...]}

An item counts as met only by a verdict that names it verbatim, under its own competency, once, with a
boolean and at least one turn of the encounter. An item that is missing, named twice, moved to
another competency or judged without a boolean has no verdict; a text that is no item is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from medhelm.extract.json_reply import BadReply
from medhelm.extract.reply_form import BOOLEAN, INTEGER, TEXT, closed, fit, list_of, read_object
from medhelm_benchmarks.encounters.packets import RubricItem

Fault = Literal[
    "missing", "repeated", "moved", "not boolean", "unreadable", "refused", "truncated", "no deed"
]
"""The reason why an item has no verdict. `no deed`: no rule can tell."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Holds the verdict of one evaluator on one item."""

    met: bool | None = None
    """None: no valid verdict."""
    turns: tuple[int, ...] = ()
    """The turns that show it."""
    fault: str = ""
    """The reason for no verdict; or `no evidence`: met by the evaluator's word alone, which counts as not."""


class Verdicts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Holds the verdicts of one evaluator on all items of a rubric, in its order."""

    items: tuple[Verdict, ...] = ()
    extra: int = 0
    """Texts that were judged and are no item: invented or reworded ones."""
    rubric: tuple[RubricItem, ...] | None = None
    """The items, where another rubric than the instance's was used."""


NO_EVIDENCE = "no evidence"


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the verdicts of a reply on the items of one batch."""

    items: tuple[Verdict, ...]
    extra: int
    faults: tuple[str, ...]
    """The faults of the reply, in words for its writer."""


_ENTRY = {"competency": TEXT, "item": TEXT, "met": BOOLEAN, "turns": list_of(INTEGER)}
SCHEMA = closed({"items": list_of(closed(_ENTRY))})
"""The JSON Schema of a reply."""
_ENTRIES = list_of({"type": "object", "properties": dict.fromkeys(_ENTRY, {})})
"""As they are read: each item has its own fault."""


def read_batch(text: str, items: Sequence[RubricItem], turns: int, shown: str = "") -> Batch:
    """Return the verdicts on a batch of items; raises BadReply where there is nothing to read.

    `shown`: the encounter, as the evaluator saw it.
    """
    said = read_object(text, closed({"items": _ENTRIES}), shown)["items"]
    found = [{k: _hashable(k, v) for k, v in entry.items()} for entry in said]
    due = {(item.competency, item.text): n for n, item in enumerate(items)}
    texts = {item.text for item in items}
    seen: dict[int, list[Mapping[str, Any]]] = {n: [] for n in range(len(items))}
    moved: set[str] = set()
    extra = 0
    for entry in found:
        place = due.get((entry.get("competency"), entry.get("item")))  # type: ignore[arg-type]
        if place is not None:
            seen[place].append(entry)
        elif entry.get("item") in texts:
            moved.add(str(entry["item"]))
        else:
            extra += 1
    verdicts = tuple(_verdict(seen[n], items[n], moved, turns) for n in range(len(items)))
    return Batch(items=verdicts, extra=extra, faults=tuple(_faults(items, verdicts, extra)))


def _hashable(key: str, value: Any) -> Any:
    """Return a value as it is, but for a name that is none: that names nothing."""
    return None if key in ("competency", "item") and not isinstance(value, str) else value


def _verdict(
    entries: Sequence[Mapping[str, Any]], item: RubricItem, moved: set[str], turns: int
) -> Verdict:
    if not entries:
        return Verdict(fault="moved" if item.text in moved else "missing")
    if len(entries) > 1:
        return Verdict(fault="repeated")
    (entry,) = entries
    met = _fitted(entry.get("met"), BOOLEAN)
    if met is None:
        return Verdict(fault="not boolean")
    if not met:
        return Verdict(met=False)
    named = entry.get("turns")
    said = [_fitted(n, INTEGER) for n in named] if isinstance(named, list) else []
    shown = sorted({n for n in said if n is not None and 1 <= n <= turns})
    if not shown:
        return Verdict(met=False, fault=NO_EVIDENCE)
    return Verdict(met=True, turns=tuple(shown))


def _fitted(value: object, schema: Mapping[str, Any]) -> Any:
    try:
        return fit(value, schema, "")
    except BadReply:
        return None


def _faults(items: Sequence[RubricItem], verdicts: Sequence[Verdict], extra: int) -> list[str]:
    """Return what is wrong with a reply, in words that repeat our own items alone."""
    said = [
        f"{verdict.fault}: {item.competency} {item.text[:60]!r}"
        for item, verdict in zip(items, verdicts, strict=True)
        if verdict.fault
    ]
    return said + [f"{extra} entries are no item of the list"] * bool(extra)


def majority(given: Sequence[Verdicts], size: int, quorum: int = 1) -> tuple[Verdict, ...]:
    """Return what several evaluators say of each item: met where more than half of the valid verdicts are.

    Half is not enough: only explicit evidence counts. With fewer valid verdicts than `quorum` an item
    has none. The turns are those that any of them names.
    """
    found = []
    for n in range(size):
        own = [verdicts.items[n] for verdicts in given]
        valid = [verdict for verdict in own if verdict.met is not None]
        if len(valid) < max(quorum, 1):
            faults = (verdict.fault for verdict in own if verdict.met is None)
            found.append(Verdict(fault=next(faults, "missing")))
            continue
        yes = [verdict for verdict in valid if verdict.met]
        is_met = 2 * len(yes) > len(valid)
        turns = tuple(sorted({turn for v in yes for turn in v.turns})) if is_met else ()
        fault = next((v.fault for v in valid if v.fault), "") if not is_met else ""
        found.append(Verdict(met=is_met, turns=turns, fault=fault))
    return tuple(found)
