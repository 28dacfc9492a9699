"""A case and its actions, as a JSONL file holds them; nothing that follows from them by rule.

A panel of three or more gives each action 1 to 9: 1-3 inappropriate, 4-6 uncertain, 7-9 appropriate. What a rating
means for the score is derived (`derive`), never stored.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from medhelm import DataError
from medhelm.plugin import durable, readers

SCHEMA: Literal["medhelm.noharm/1"] = "medhelm.noharm/1"

Category = Literal[
    "medication",
    "diagnostic",
    "procedure",
    "monitoring",
    "referral",
    "counselling",
    "escalation",
    "follow-up",
    "disposition",
    "lifestyle",
    "other",
]

CATEGORIES: tuple[Category, ...] = get_args(Category)

Status = Literal["present", "absent", "unknown"]

FORM = "a file of cases holds one JSON object a line"
LEAST_RATERS = 3
_CODE = re.compile(r"NOHARM-[A-Z]{2,6}-[A-Z0-9]{2,8}-\d{3}")
_ACTION = re.compile(r"[A-Za-z]\w{0,15}")
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b"
    "\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
    + "".join(
        f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
    )
    + "]"
)
"""Control characters, noncharacters, and what Unicode draws as nothing (Default_Ignorable_Code_Point),
which hides or turns round the text beside it; a tab and a line break are text, a soft hyphen and the
joiners of some scripts are."""
_MARKS = "‼⁉〰〽ℹ"
"""Emoji that Unicode does not class as symbols."""


def _meta(description: str, **rules: Any) -> msgspec.Meta:
    """Return what the JSON Schema says of a field; `faults` checks it, in words of its own."""
    return msgspec.Meta(description=description, extra_json_schema=rules or None)


_Rating = Annotated[int, _meta("1 to 9", minimum=1, maximum=9)]
_Id = Annotated[str, _meta("id of an action of this case", pattern=f"^{_ACTION.pattern}$")]
_Group = Annotated[tuple[_Id, ...], _meta("different actions", minItems=2, uniqueItems=True)]
_Best = Annotated[tuple[_Id, ...], _meta("of one alternative group", minItems=1, uniqueItems=True)]
_Text = Annotated[str, _meta("not empty", minLength=1)]


class RedFlag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A high-stakes feature, and whether the case has it."""

    text: str
    status: Status


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One next step of the menu."""

    id: Annotated[str, _meta("a letter, then letters, digits, _", pattern=f"^{_ACTION.pattern}$")]
    text: Annotated[str, _meta("one line of neutral words", minLength=1)]
    """In neutral words, on one line: nothing that reveals whether it is right."""
    category: Category
    ratings: Annotated[tuple[_Rating, ...], _meta("of three raters or more", minItems=LEAST_RATERS)]
    """Of a panel, 1 to 9. Generated ones are of two specialists and one generalist."""
    references: tuple[str, ...] = ()
    is_implausible: bool = msgspec.field(default=False, name="implausible")
    """True if no clinician would consider it."""


class Broad(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A broad action and the specific ones that it holds."""

    broad: _Id
    specific: Annotated[tuple[_Id, ...], _meta("what it holds", minItems=1, uniqueItems=True)]


class Validation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names those who vouch for the ratings of a case, and since when."""

    by: Annotated[str, _meta("who validated the ratings; it is published", minLength=1)]
    date: Annotated[str, _meta("day of the validation", format="date")]

    def __str__(self) -> str:
        return f"validated by {self.by}, {self.date}"


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One consultation with its menu of actions."""

    schema: Literal["medhelm.noharm/1"] = SCHEMA
    code: Annotated[str, _meta("stable", pattern=f"^{_CODE.pattern}$")]
    """`NOHARM-CARD-ACS-001`; stable."""
    specialty: _Text
    vignette: _Text
    question: _Text
    knowns: tuple[str, ...] = ()
    unknowns: tuple[str, ...] = ()
    red_flags: tuple[RedFlag, ...] = ()
    actions: Annotated[tuple[Action, ...], _meta("the menu", minItems=1)]
    alternatives: tuple[_Group, ...] = ()
    """Groups of actions of which one is enough."""
    best_alternatives: tuple[_Best, ...] = ()
    """Members of such groups that are the best choice; no effect on any score."""
    broad: tuple[Broad, ...] = ()
    references: tuple[str, ...] = ()
    """Guidelines, by name and year."""
    made_by: tuple[str, ...] = ()
    """Models that wrote or rated the case. A score of theirs on it says little."""
    validation: Validation | UnsetType = UNSET
    """Experts whose ratings the actions hold. Without it the ratings are synthetic."""


def lists_of(patient: Any) -> dict[str, Sequence[str]]:
    """Return what is known, not known and flagged of a case, or of a scene, under its headings."""
    flags = [f"{flag.text} ({flag.status})" for flag in patient.red_flags]
    return {"Known": patient.knowns, "Not known": patient.unknowns, "Red flags": flags}


def listed(heading: str, items: Sequence[str]) -> str:
    """Return a list as models read it."""
    return f"{heading}:\n" + "\n".join(f"- {item}" for item in items)


def to_case(value: Any, where: str) -> Case:
    """Return a case from plain values; raises DataError naming the case, the field and what is wrong."""
    case, said = check_case(value, where)
    if case is None or said:
        raise DataError(said[0])
    return case


def read_case(raw: bytes, where: str) -> tuple[Case | None, list[str]]:
    """Return the case of a line of JSON, and all that is wrong with it, by case and field.

    None where it is not JSON or has a field of a wrong type, whose first fault alone is found.
    """
    try:
        value = msgspec.json.decode(raw)
        repeated = readers.repeated_key(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        return None, [f"{where}: not readable JSON ({e}); {FORM}"]
    except RecursionError:
        return None, [f"{where}: not readable JSON (nested too deep)"]
    case, said = check_case(value, where)
    if repeated is None:
        return case, said
    key, of = repeated
    name = of.get("id", of.get("broad"))
    own = f"action {name!r}: " if isinstance(name, str) and _ACTION.fullmatch(name) else ""
    return case, [f"{_place(value, where)}: {own}key {key[:40]!r} stands twice; keep one", *said]


def check_case(value: Any, where: str) -> tuple[Case | None, list[str]]:
    """Return the case that plain values make, and all that is wrong with it; None for wrong types."""
    own = _place(value, where)
    try:
        case = msgspec.convert(value, Case)
    except msgspec.ValidationError as e:
        return None, [f"{own}: {_plain(str(e), value)}"]
    return case, [*dict.fromkeys(f"{own}: {fault}" for fault in faults(case))]


def _place(value: Any, where: str) -> str:
    """Return the place of a case, with its code where it has one."""
    code = value.get("code") if isinstance(value, dict) else None
    named = isinstance(code, str) and _CODE.fullmatch(code)
    return f"{where}: case {code}" if named else where


def _plain(message: str, value: Any) -> str:
    """Return msgspec's message with the action's id in place of its number."""
    what, _, path = message.partition(" - at ")
    found = re.match(r"`\$\.actions\[(\d+)\]", path)
    if found is None:
        return message.replace("$.", "")
    action = value["actions"][int(found[1])]
    own = action.get("id") if isinstance(action, dict) else None
    name = repr(own) if isinstance(own, str) and _ACTION.fullmatch(own) else f"number {found[1]}"
    field = path.strip("`").partition("]")[2].lstrip(".")
    return f"action {name}{f', field {field}' if field else ''}: {what}"


def faults(case: Case) -> Iterator[str]:
    """Yield what is wrong with a case beyond the types of its fields."""
    if not _CODE.fullmatch(case.code):
        yield f"field code: {case.code[:40]!r} is not of the form NOHARM-CARD-ACS-001"
    for name in ("specialty", "vignette", "question"):
        if not getattr(case, name).strip():
            yield f"field {name} is empty"
    if not case.actions:
        yield "field actions is empty"
    ids = {action.id for action in case.actions}
    for repeated, n in Counter(action.id for action in case.actions).items():
        if n > 1:
            yield f"action {repeated!r} stands {n} times"
    for action in case.actions:
        if not _ACTION.fullmatch(action.id):
            yield f"action {action.id[:20]!r}, field id: a letter, then letters, digits or _"
        if not action.text.strip():
            yield f"action {action.id!r}, field text is empty"
        elif len(action.text.splitlines()) > 1:  # it would read as another line of the menu
            yield f"action {action.id!r}, field text has a line break"
        if len(action.ratings) < LEAST_RATERS:
            n = len(action.ratings)
            yield f"action {action.id!r}, field ratings: {n}, and {LEAST_RATERS} are the least"
        for rating in action.ratings:
            if not 1 <= rating <= 9:
                yield f"action {action.id!r}, field ratings: {rating} is not from 1 to 9"
    yield from _hidden_faults(case)
    if case.validation is not UNSET:
        yield from _validation_faults(case.validation)
    for field, groups in (
        ("alternatives", case.alternatives),
        ("best_alternatives", case.best_alternatives),
        ("broad", [(link.broad, *link.specific) for link in case.broad]),
    ):
        yield from _group_faults(field, groups, ids)
    yield from _relation_faults(case)


def hidden_character(text: str) -> str:
    """Return the first character of a text that cannot be seen, and its place; empty for none."""
    for found in _HIDDEN.finditer(text):
        if not _presents_symbol(text, found.start()):
            return f"U+{ord(found[0]):04X} at character {found.start() + 1}"
    return ""


def _presents_symbol(text: str, place: int) -> bool:
    """Return whether a character makes the symbol before it text or emoji.

    Keyboards put U+FE0F after a warning sign or an arrow by themselves, so one there is ordinary
    text. After a letter it does nothing, and a row of selectors can spell a message: both are faults.
    """
    before = text[place - 1 : place]
    if text[place] not in "\ufe0e\ufe0f" or not before:
        return False
    if text[place + 1 : place + 2] == "\u20e3":  # the frame of a keycap
        return before in "0123456789#*"
    return before in _MARKS or unicodedata.category(before).startswith("S")


def _hidden_faults(case: Case) -> Iterator[str]:
    """Yield the characters of a case that people cannot see and models read."""
    texts: list[tuple[str, Sequence[str]]] = [
        (f"field {name}", (getattr(case, name),)) for name in ("specialty", "vignette", "question")
    ]
    texts += [
        (f"field {name}", getattr(case, name))
        for name in ("knowns", "unknowns", "references", "made_by")
    ]
    texts.append(("field red_flags", [flag.text for flag in case.red_flags]))
    if case.validation is not UNSET:
        texts.append(("field validation", (case.validation.by,)))
    for action in case.actions:
        texts.append((f"action {action.id[:20]!r}, field text", (action.text,)))
        texts.append((f"action {action.id[:20]!r}, field references", action.references))
    for where, parts in texts:
        for found in filter(None, map(hidden_character, parts)):
            yield f"{where}: {found} is not text that can be seen; take it out"


def circle(links: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """Return broad actions of which each holds the next, and the last the first; empty for none."""
    try:
        TopologicalSorter({broad: specific for broad, specific in links}).prepare()
    except CycleError as e:
        return tuple(e.args[1][:-1])
    return ()


def _validation_faults(validation: Validation) -> Iterator[str]:
    if not validation.by.strip() or len(validation.by.splitlines()) > 1:
        yield "field validation: by is empty or has a line break"
    try:
        date.fromisoformat(validation.date)
    except ValueError:
        yield f"field validation: date {validation.date[:20]!r} is not a day as in 2026-11-01"


def _group_faults(field: str, groups: Iterable[tuple[str, ...]], ids: set[str]) -> Iterator[str]:
    for group in groups:
        for unknown in [i for i in group if i not in ids]:
            yield f"field {field}: there is no action {unknown[:20]!r}"
        if len(set(group)) < len(group):
            yield f"field {field}: an action stands twice in {', '.join(group)}"
        if len(group) < (1 if field == "best_alternatives" else 2):
            yield f"field {field}: a group needs two actions, {', '.join(group) or 'one'} is not"


def _relation_faults(case: Case) -> Iterator[str]:
    counted = Counter(i for group in case.alternatives for i in group)
    for action, n in counted.items():
        if n > 1:
            yield f"field alternatives: action {action!r} is in {n} groups; it may be in one"
    for best in case.best_alternatives:
        if not any(set(best) <= set(group) for group in case.alternatives):
            yield f"field best_alternatives: {', '.join(best)} are not in one alternative group"
    for broad, n in Counter(link.broad for link in case.broad).items():
        if n > 1:
            yield f"field broad: action {broad!r} stands {n} times; list its specifics together"
    links = [(link.broad, link.specific) for link in case.broad if link.broad not in link.specific]
    if held := circle(links):
        yield f"field broad: {' and '.join(held)} hold each other in a circle; take one link out"


def read_cases(path: Path) -> tuple[Case, ...]:
    """Return the cases of a file in its order, at least one; raises DataError for its first fault."""
    cases, said = scan_cases(path)
    if said:
        raise DataError(said[0])
    return cases


def scan_cases(path: Path, content: bytes | None = None) -> tuple[tuple[Case, ...], list[str]]:
    """Return the cases of a file, and every fault as a line that names file, line, case and field.

    Lines that are blank, a byte order mark and Windows' ends of lines are passed over. No text of a
    case is in a fault. Raises DataError where the file cannot be read at all. `content`: what it holds,
    where that was read already.
    """
    with durable.os_errors_as(DataError, f"cannot read {path}"):
        raw = path.read_bytes() if content is None else content
    lines = raw.removeprefix(codecs.BOM_UTF8).splitlines()
    found: dict[str, tuple[int, Case]] = {}
    said: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path.name}, line {number}"
        case, own = read_case(line, where)
        said += own
        if case is not None and not own:
            first, _ = found.setdefault(case.code, (number, case))
            if first != number:
                said.append(f"{where}: case {case.code} stands in line {first} already")
    if not found and not said:
        said.append(f"{path.name}: no case in it; {FORM}")
    return tuple(case for _, case in found.values()), said


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    """Write cases, one JSON object a line: whole or not at all, the same cases the same bytes.

    Raises DataError for cases that `read_cases` would refuse, RecordError where the file cannot be
    written.
    """
    if not cases:
        raise DataError(f"{path.name}: no case to write")
    for code, n in Counter(case.code for case in cases).items():
        if n > 1:
            raise DataError(f"{path.name}: case {code} stands {n} times")
    for case in cases:
        for fault in faults(case):
            raise DataError(f"{path.name}: case {case.code[:40]}: {fault}")
    durable.write_lines(path, cases)
