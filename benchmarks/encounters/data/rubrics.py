"""Frozen rubrics: six lists of items, from JSON lines, or from Markdown with a heading for each.

In Markdown an item is an entry of the outermost list below the heading of a competency, with all
that belongs to it, letter by letter but for its bullet and its box.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from medhelm import DataError
from medhelm.plugin import readers
from medhelm_benchmarks.encounters.data.layout import plain_name
from medhelm_benchmarks.encounters.packets import (
    COMPETENCIES,
    COMPETENCY_NAMES,
    Competency,
    RubricItem,
)

_HEADING = re.compile(r"(#{1,6})[ \t]+(.+?)[ \t#]*")
_ENTRY = re.compile(r"([ \t]*)(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX]?\][ \t]+)?(\S.*)")
_BY_NAME: Mapping[str, Competency] = {
    **{plain_name(code): code for code in COMPETENCIES},
    **{plain_name(name): code for code, name in COMPETENCY_NAMES.items()},
    plain_name("patient care & procedural skills"): "PC",
    plain_name("patient care and procedural skills"): "PC",
    plain_name("interpersonal & communication skills"): "ICS",
    plain_name("practice-based learning & improvement"): "PBLI",
}


@dataclass(frozen=True)
class FrozenRubric:
    """The rubric of one scenario, as it was frozen before any model was asked."""

    case: str
    scenario: str
    version: str
    items: tuple[RubricItem, ...]

    @property
    def id(self) -> str:
        """Return `case/scenario`."""
        return f"{self.case}/{self.scenario}"


def read_rubrics(path: Path, *, is_whole: bool = True) -> dict[str, FrozenRubric]:
    """Return the rubrics of a file of JSON lines by `case/scenario`; raises DataError with the row.

    `is_whole`: each has a version and a list of every competency.
    """
    found: dict[str, FrozenRubric] = {}
    for number, row in readers.read_jsonl(path):
        place = f"{path.name}, row {number}"
        rubric = _rubric_of(row, place, is_whole=is_whole)
        if rubric.id in found:
            raise DataError(f"{place}: {rubric.id} has a rubric already; keep one of them")
        found[rubric.id] = rubric
    return found


def _rubric_of(row: Mapping[str, Any], place: str, *, is_whole: bool) -> FrozenRubric:
    names = ("case_id", "scenario", "rubric_version")
    for name in names if is_whole else names[:2]:
        if not isinstance(row.get(name), str) or not row[name]:
            raise DataError(f"{place}: {name!r} is not a text")
    for name, value in row.items():  # else they would be in no score
        if isinstance(value, list) and name not in COMPETENCIES:
            known = ", ".join(COMPETENCIES)
            raise DataError(f"{place}: {name!r} is not a competency; they are {known}")
    items: list[RubricItem] = []
    for code in COMPETENCIES:
        if is_whole and code not in row:
            raise DataError(f"{place}: there is no {code!r}; write [] where it has no item")
        entries = row.get(code, [])
        own = [_item(code, e) for e in entries] if isinstance(entries, list) else [None]
        found = [*filter(None, own)]
        if len(found) < len(own):
            raise DataError(f"{place}: {code!r} is not a list of texts, or of items")
        texts = [item.text for item in found]
        if repeated := [text for n, text in enumerate(texts) if text in texts[:n]]:
            raise DataError(f"{place}: an item is there twice, {repeated[0][:60]!r}; keep one")
        items += found
    version = str(row.get("rubric_version", ""))
    return FrozenRubric(row["case_id"], row["scenario"], version, tuple(items))


def _item(competency: Competency, entry: object) -> RubricItem | None:
    """Return the item of a text, or of an object with its text and weight; None where it is neither."""
    fields = {"text": entry} if isinstance(entry, str) else entry
    if not isinstance(fields, dict):
        return None
    try:
        item = msgspec.convert({**fields, "competency": competency}, RubricItem)
    except msgspec.ValidationError:
        return None
    return item if item.text.strip() else None


def rubric_record(rubric: FrozenRubric) -> dict[str, Any]:
    """Return the record of a rubric, which `read_rubrics` reads."""
    lists = {c: [i.text for i in rubric.items if i.competency == c] for c in COMPETENCIES}
    head = {"case_id": rubric.case, "scenario": rubric.scenario, "rubric_version": rubric.version}
    return head | lists


def items_of_markdown(text: str) -> tuple[RubricItem, ...]:
    """Return the items below the headings of competencies; none where no heading names one.

    A heading below that of a competency belongs to it; one that is as high or higher ends it.
    """
    items: list[RubricItem] = []
    competency: Competency | None = None
    depth = 0
    section: list[str] = []

    def close() -> None:
        if competency is not None:
            items.extend(RubricItem(competency=competency, text=t) for t in _entries(section))
        section.clear()

    for line in text.splitlines():
        heading = _HEADING.fullmatch(line.strip())
        if heading is None:
            section.append(line)
            continue
        close()
        level, named = len(heading[1]), _competency(heading[2])
        if named is not None or level <= depth:
            competency, depth = named, level
    close()
    return tuple(dict.fromkeys(items))


def _competency(heading: str) -> Competency | None:
    """Return the competency that a heading names by its code, its name, or both ("PC: patient care")."""
    parts = [heading, *re.split(r"[:(–—-]", heading, maxsplit=1)[:1]]
    return next((c for part in parts if (c := _BY_NAME.get(plain_name(part)))), None)


def _entries(lines: Iterable[str]) -> list[str]:
    """Return the entries of the outermost list, each with the deeper lines that follow it."""
    found: list[list[str]] = []
    outermost: int | None = None  # the indent of the list that is open; prose is not an item
    for line in lines:
        entry = _ENTRY.fullmatch(line.rstrip())
        indent = len(line) - len(line.lstrip())
        if entry is not None and (outermost is None or indent <= outermost):
            outermost = indent
            found.append([entry[2]])
        elif outermost is not None and (not line.strip() or indent > outermost):
            found[-1].append(line.rstrip())
        elif line.strip():
            outermost = None
    return ["\n".join(part).strip() for part in found]


_MARKUP = re.compile(r"[*_\\]+|^[\s\d.)|•–—-]+")
_WHO = (
    r"(?:(?:the|this|each)\s+)?(?:doctor|physician|resident|intern|fellow|student|learner|examinee|candidate|"
    r"participant|trainee|presenter|clinician|provider|team|interview(?:er)?|mdm?|you)\b(?:/\w+)?\s+"
)
_FAILS = (
    r"fail(?:s|ed|ure|ing)?\s+to|neglect(?:s|ed)?|forg[eo]t(?:s|ten)?\s+to|ignor(?:es|ed|ing)|"
    r"dismiss(?:es|ed|ive)|interrupt(?:s|ed)|miss(?:es|ed)\s+(?:an|\d+)\s+opportunit\w+|never\s+asked|not\s+\w+ing"
)
_NOT = r"(?:(?:frequently|often)\s+)?(?:does|did)(?:\s+not|n't)\s+"
_HARM = (
    r"interrupt|rush|argue|alarm|scare|blame|judge|accus|repeat|contaminat|mix\s+up|miss\b|avoid|keep\s+things|"
    r"fals|unnecessar|inappropriat|discomfort|bored|confus|come\s+between|have\s+to\s+ask"
)
"""Deeds that it is good not to do."""
_FAILURE = re.compile(
    rf"(?:poor|absent|deficiency|unsatisfactory|not\s+competent)\s*[:–—-]"  # anchors of a scale
    rf"|(?:{_WHO})?(?:(?:{_FAILS})\b|{_NOT}(?!(?:\w+\W+){{0,6}}?(?:{_HARM})))",
    re.IGNORECASE,
)


def is_failure(text: str) -> bool:
    """Return whether an item describes a failure of the clinician ("Fails to ...", "Does not ask ...").

    Its first words decide. "Does not interrupt" is a good deed, and so is to obey "Do not ...".
    """
    plain = _MARKUP.sub("", " ".join(text.replace("\u2019", "'").split()))
    return _FAILURE.match(plain.lstrip()) is not None
