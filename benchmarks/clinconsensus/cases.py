"""A case of ClinConsensus: its form, its checks, and the instance that it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from medhelm import Criterion, DataError, Instance, Row, RowFinding
from medhelm.plugin import closest, explain


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A theme, specialty or difficulty: its other names, and the family or group that it is of."""

    aliases: tuple[str, ...] = ()
    group: str = ""


class Labels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All labels, as `labels.yaml` has them."""

    themes: dict[str, Label]
    groups: dict[str, str]
    specialties: dict[str, Label]
    difficulties: dict[str, Label]
    professional_words: tuple[str, ...]
    lay_words: tuple[str, ...]


@cache
def labels() -> Labels:
    """Return the table of labels."""
    return msgspec.yaml.decode(Path(__file__).with_name("labels.yaml").read_bytes(), type=Labels)


def _plain(label: str) -> str:
    return " ".join(label.replace("_", " ").casefold().split())


@cache
def _known(kind: str) -> dict[str, str]:
    own = labels()
    of = {"theme": own.themes, "specialty": own.specialties, "difficulty": own.difficulties}[kind]
    return {_plain(said): name for name, one in of.items() for said in (name, *one.aliases)}


def label_of(kind: str, label: str) -> str | None:
    """Return the theme, specialty or difficulty of a raw label; None where the table has none."""
    return _known(kind).get(_plain(label))


def _nearest(kind: str, label: str) -> str:
    """Return ", did you mean ..." of the themes or specialties; empty where none is like the label."""
    known = _known(kind)
    found = closest(_plain(label), known, 1)
    return f"; did you mean {known[found[0]]!r}?" if found else ""


def register_of(role: str) -> str:
    """Return "professional" or "lay" of who asks.

    Professional is a role with one of the words of those who work in health care, and with none
    of those for patients and their families: "the doctor's patient" is a lay person.
    """
    own = labels()
    if _has_any(role, own.lay_words):
        return "lay"
    return "professional" if _has_any(role, own.professional_words) else "lay"


def _has_any(role: str, words: Sequence[str]) -> bool:
    """Return whether a role has one of the words; a Latin one whole, so that no person is a son."""
    said = set(re.findall(r"[a-z]+", role.casefold()))
    return any(word in said if word.isascii() else word in role for word in words)


CRITERIA = 30
THRESHOLD = 10
"""k of CACS@k, calibrated on physicians' answers (see `calibrate`)."""
TIER = "tier"
"""Column that the name of a public file gives its rows: the difficulty of all of them."""
JOIN = " | "
"""Parts the labels of a case that has several."""
LONG = 100_000
"""Characters of a context that somebody should look at."""


class CaseCriterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One binary criterion."""

    criterion_id: str
    criterion: str
    expectation_id: str = ""
    """The expectation that it comes from."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a good answer does, and the element of the case that asks for it."""

    expectation_id: str
    element: str
    expectation: str


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case, as one JSON object a line."""

    case_id: str
    difficulty: str
    task: str = ""
    task_labels: tuple[str, ...]
    subject: str = ""
    subject_labels: tuple[str, ...]
    user_role: str
    clinical_context: str = ""
    user_request: str
    rubrics: tuple[CaseCriterion, ...]
    language: str = ""
    """"zh" or "en"; empty: by the text."""
    reference_answer: str = ""
    expectations: tuple[Expectation, ...] = ()


_REQUIRED = Case.__struct_fields__[:10]
"""Fields of a public row: all but those behind the criteria."""
_FORBIDDEN = re.compile(
    r"source_file|prompt_id|row|provenance|physician|doctor|qc|repair|internal", re.IGNORECASE
)
"""Names of fields that a public file must not have, nor `reference_answer`."""
_CONTACTS = {
    # One character before the sign: a run of them is tried from each of its places, which is quadratic.
    "an e-mail address": re.compile(r"[\w.+-]@[\w-]+\.\w"),
    "a mobile number": re.compile(r"(?<!\d)1[3-9]\d{9}(?!\d)"),
    "an identity number": re.compile(r"(?<!\d)\d{17}[\dXx](?!\d)"),
}


def public_findings(row: Row) -> Iterator[RowFinding]:
    """Yield what the checks of the data's maker, and ours, find in a row of the public file."""
    for name in _REQUIRED:
        if name not in row:
            yield RowFinding("missing_field", f"there is no field {name}")
    for name in row:
        if name == "reference_answer" or _FORBIDDEN.search(name):
            yield RowFinding("forbidden_field", f"a public row has no field {name}")
    yield from case_findings(row)


def case_findings(row: Row) -> Iterator[RowFinding]:
    """Yield what is found in a case of anybody; no text of it is in a finding."""
    criteria = row.get("rubrics")
    if isinstance(criteria, list):
        yield from _criteria_findings(criteria)
    for kind, field, check in (
        ("theme", "task_labels", "unknown_task"),
        ("specialty", "subject_labels", "unknown_specialty"),
    ):
        for name in _texts(row, field):
            if label_of(kind, name) is None:
                said = f"no {kind} has the label {name!r}{_nearest(kind, name)}"
                yield RowFinding(check, said, False)
    given = str(row.get("difficulty", ""))
    if (difficulty := label_of("difficulty", given)) is None:
        said = f"the difficulty is {given!r}, not low, medium or high"
        yield RowFinding("unknown_difficulty", said)
    elif (tier := row.get(TIER)) not in (None, difficulty):
        said = f"the difficulty is {given!r} in the file of the difficulty {tier}"
        yield RowFinding("other_difficulty", said)
    if (language := row.get("language", "")) not in ("", "zh", "en"):
        said = f"the language is {language!r}; give zh or en, or leave it out to go by the text"
        yield RowFinding("unknown_language", said)
    text = f"{row.get('clinical_context', '')}\n{row.get('user_request', '')}"
    for what, pattern in _CONTACTS.items():
        if pattern.search(text):
            yield RowFinding("contact", f"the text has {what}; review it", False)
    if len(text) > LONG:
        yield RowFinding("long_context", f"the case has {len(text):,} characters", False)
    languages = {_language(str(c.get("criterion", ""))) for c in _objects(criteria)}
    if len(languages | {_language(text)}) > 1:
        yield RowFinding("mixed_languages", "case and criteria are in different languages", False)


def _criteria_findings(criteria: list[Any]) -> Iterator[RowFinding]:
    if len(criteria) != CRITERIA:
        yield RowFinding("criteria_count", f"{len(criteria)} criteria, there must be {CRITERIA}")
    seen: dict[str, int] = {}
    for number, item in enumerate(criteria, 1):
        text = item.get("criterion") if isinstance(item, dict) else None
        if not isinstance(text, str) or not text.strip():
            yield RowFinding("empty_criterion", f"criterion {number} has no text")
            continue
        plain = " ".join(text.casefold().split())
        if plain in seen:
            yield RowFinding(
                "duplicate_criterion", f"criterion {number} repeats criterion {seen[plain]}"
            )
        seen.setdefault(plain, number)


def _objects(items: Any) -> list[dict[str, Any]]:
    return [i for i in items if isinstance(i, dict)] if isinstance(items, list) else []


def _texts(row: Row, name: str) -> list[str]:
    found = row.get(name)
    return [t for t in found if isinstance(t, str)] if isinstance(found, list) else []


def _language(text: str) -> str:
    """Return zh where at least a fifth of the letters are Chinese."""
    letters = [c for c in text if c.isalpha()]
    return "zh" if letters and 5 * sum("一" <= c <= "鿿" for c in letters) >= len(letters) else "en"


def read_case(row: Row) -> Case:
    """Return the case of a row; raises DataError for one that cannot be asked or graded."""
    try:
        case = msgspec.convert({k: v for k, v in row.items() if k != TIER}, Case)
    except msgspec.ValidationError as e:
        raise DataError(f"not a case: {explain(e, Case)}") from None
    failures = [f for f in case_findings(row) if f.is_failure]
    if failures:
        raise DataError(f"{failures[0].check}: {failures[0].text}")
    if not case.user_request.strip():
        raise DataError("the user's request is empty")
    names = [c.criterion_id for c in case.rubrics]
    for number, name in enumerate(names, 1):
        # Verdicts are stored as c01, c02, ... by place: experts' c02 is to be no other criterion.
        if re.fullmatch(r"c\d\d", name) and name != f"c{number:02}":
            raise DataError(
                f"criterion {number} has the id {name!r}, by which medhelm calls another one: sort the "
                "criteria by id, or give them other ids, as r01"
            )
    if twice := [n for n in names if names.count(n) > 1]:
        raise DataError(f"the criterion id {twice[0]!r} is there twice")
    return case


def to_instance(row: Row) -> Instance:
    """Return the instance of a row: context and request as they are, its criteria in order."""
    case = read_case(row)
    return Instance(
        id=case.case_id,
        context=case.clinical_context,
        question=case.user_request,
        references=(case.reference_answer,) if case.reference_answer.strip() else (),
        answer_key={"threshold": f"{THRESHOLD}/{CRITERIA}"},
        metadata=_metadata(case),
        criteria=tuple(
            Criterion(name=f"c{number:02}", text=c.criterion)
            for number, c in enumerate(case.rubrics, 1)
        ),
    )


def _metadata(case: Case) -> dict[str, str]:
    """Return the axes of a case; what the tables do not know is kept as it is written."""
    own = labels()
    themes = [label_of("theme", label) or label for label in case.task_labels]
    known = [label_of("specialty", label) for label in case.subject_labels]
    specialties = [name or label for name, label in zip(known, case.subject_labels, strict=True)]
    first = known[0] if known else None
    families = [own.themes[t].group for t in themes if t in own.themes]
    return {
        "difficulty": label_of("difficulty", case.difficulty) or case.difficulty,
        "register": register_of(case.user_role),
        "language": case.language or _language(case.clinical_context + case.user_request),
        "themes": JOIN.join(dict.fromkeys(themes)),
        "families": JOIN.join(dict.fromkeys(families)),
        "specialties": JOIN.join(dict.fromkeys(specialties)),
        "group": own.specialties[first].group if first else "unmapped",
        "role": case.user_role,
        "raw_labels": JOIN.join((*case.task_labels, *case.subject_labels)),
    }
