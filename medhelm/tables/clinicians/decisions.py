"""Decisions of graders on criteria: who finds which criterion of an answer met, two graders matched.

A row is what one grader decided about one model's answer to one case. Rows of two graders are
matched by what they are about, never by their position in a file: answers by model and text of the
case, criteria by their text. Where both name cases by the same ids, answers of other ids are never
matched. Else answers that agree in both are matched in the order of their files. What has no partner
is counted, with the reason, and is in no figure.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Literal

import numpy as np

from medhelm.errors import DataError, UsageError
from medhelm.stats.aggregation import Floats, Ints
from medhelm.stats.two_class import Bools, confusion

Verdict = Literal["met", "unmet", "invalid", "none"]
"""`invalid`: a reply came that is not a decision. `none`: nobody decided."""

_UNSEEN = re.compile("[\u200b-\u200f\u2060\ufeff\u00ad]")
_SPACE = re.compile(r"\s+")
_LOOSE_SPACE = re.compile(r"(?<![0-9a-z]) | (?![0-9a-z])")
_NOT_OF_NAMES = re.compile(r"[^\w.+]+|_+")


@dataclass(frozen=True)
class DecisionRow:
    """The decisions of one grader about one model's answer to one case."""

    where: str
    """File and row."""
    model: str
    case: str
    """The text of the case, or its id where a file has no text."""
    decisions: Mapping[str, Verdict]
    """By the text of the criterion, or its id where a file has no text."""
    case_id: str = ""
    rater: str = ""
    group: str = ""
    """The name of a row of an answer, in a file that holds several decisions on each."""
    length: int = 0
    """Characters of a stored answer."""


@dataclass(frozen=True)
class Grader:
    """One source of decisions: a judge, or a group of experts."""

    name: str
    is_judge: bool
    rows: tuple[DecisionRow, ...]

    @property
    def raters(self) -> int:
        """Return how many people its rows name."""
        return len({row.rater for row in self.rows if row.rater})


@lru_cache(maxsize=1 << 18)
def plain(text: str) -> str:
    """Return a text by which equal ones are found: one form of each character, no case of letters,
    no spaces but those between letters or digits of Latin script, where they carry meaning."""
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
    return _LOOSE_SPACE.sub("", _SPACE.sub(" ", text).strip())


def plain_name(name: str) -> str:
    """Return a model's name without case of letters, spaces, hyphens and the like."""
    return _NOT_OF_NAMES.sub("", unicodedata.normalize("NFKC", name).casefold())


def known_models(graders: Iterable[Grader], aliases: Mapping[str, str]) -> dict[str, str]:
    """Return the name to show of each plain name of a model; those of the first grader come first.

    Raises DataError where one file spells two names that would become one: rows would seem repeated.
    """
    shown: dict[str, str] = {}
    unused = dict(aliases)
    for grader in graders:
        spelled: dict[str, str] = {}
        for row in grader.rows:
            unused.pop(row.model, None)
            name = aliases.get(row.model, row.model)
            first = spelled.setdefault(plain_name(name), row.model)
            if first != row.model:
                raise DataError(
                    f"{row.where}: {row.model!r} and {first!r} of {grader.name} would be one model; "
                    "write one name in one way, or say --alias NAME=NAME"
                )
        for key, name in spelled.items():
            shown.setdefault(key, aliases.get(name, name))
    if unused:
        raise UsageError(f"--alias {min(unused)}=...: no row is of a model of this name")
    return shown


# Two graders matched -----------------------------------------------------------------------------

_Key = tuple[str, str, str]
"""Model, text of the case, and its id where both graders name cases by the same ids."""


LOST_ROWS = ("other_model", "other_case", "surplus")
"""The reasons for which an answer of one grader has no partner, as the table of alignment counts them."""


@dataclass(frozen=True)
class Matched:
    """One answer that both graders have."""

    model: str
    case: str
    case_id: str
    criteria: Sequence[str]
    places: slice
    """Of its decisions."""
    length: int
    """Of the grader's row."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Decisions i = 1..n of two graders on the same criteria of the same answers."""

    cases: Sequence[str]
    """The case of each answer."""
    sizes: Sequence[int]
    """The number of decisions on each answer."""
    expected: Bools
    """(n,): what the reference decides."""
    found: Bools
    """(n,): what the grader decides; an invalid one is unmet."""
    invalid: Bools
    """(n,): whether a reply of the grader was no decision, or there was none."""
    absent: Bools
    """(n,): those of the invalid that the grader's file does not hold."""

    @cached_property
    def answer_of(self) -> Ints:
        """Return the number (n,) of each decision's answer."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def clusters(self) -> Ints:
        """Return the case (n,) of each decision as a code; answers to one case are one cluster."""
        codes: dict[str, int] = {}
        each = [codes.setdefault(plain(case), len(codes)) for case in self.cases]
        return np.asarray(each, dtype=np.int64)[self.answer_of]

    def counts(self, *, is_invalid_wrong: bool = False) -> Floats:
        """Return (n, 4) of `confusion`; the invalid are unmet, or wrong whatever the label is."""
        wrong = np.where(self.invalid, ~self.expected, self.found)
        return confusion(self.expected, wrong if is_invalid_wrong else self.found)


@dataclass(frozen=True, kw_only=True)
class Aligned(Compared):
    """The decisions of two graders, matched, and what has no partner."""

    reference: Grader
    grader: Grader
    answers: tuple[Matched, ...]
    lost_of_reference: Mapping[str, int]
    """Rows and decisions without a partner, by the columns of the table of alignment."""
    lost_of_grader: Mapping[str, int]
    by_model: Mapping[str, Sequence[tuple[bool, str, float]]]
    """All decisions of the grader on the answers of a model, each with its case, and the decision of the
    reference: 1, 0, or NaN where it has none."""


def align(reference: Grader, grader: Grader, aliases: Mapping[str, str] | None = None) -> Aligned:
    """Return what both graders decided; `aliases` maps a file's name of a model to another.

    A judge that is silent on a criterion has failed. An expert who is silent was not asked or
    cannot say: such a decision is lost.
    """
    has_ids = _share_ids(reference, grader)
    rows, others = (_by_key(g, aliases or {}, has_ids) for g in (reference, grader))
    answers: list[Matched] = []
    kept: list[tuple[Verdict, Verdict | None]] = []
    graded: dict[str, list[tuple[bool, str, float]]] = defaultdict(list)
    lost = Counter[str]()
    for key in (*rows, *(key for key in others if key not in rows)):
        model, case, _ = key
        for row, other in zip_longest(rows.get(key, ()), others.get(key, ())):
            if other is None:
                continue
            found = {plain(text): verdict for text, verdict in other.decisions.items()}
            names = []
            for criterion, verdict in row.decisions.items() if row is not None else ():
                own = found.pop(plain(criterion), None)
                if verdict == "none" and not reference.is_judge:
                    lost["undecided"] += 1
                elif own is None and not grader.is_judge:
                    lost["criteria"] += 1
                elif own == "none" and not grader.is_judge:
                    lost["undecided of grader"] += 1
                else:
                    names.append(criterion)
                    kept.append((verdict, own))
                    graded[model].append((own == "met", case, float(verdict == "met")))
                    continue
                if own is not None:
                    graded[model].append((own == "met", case, np.nan))
            graded[model] += [(own == "met", case, np.nan) for own in found.values()]
            if row is not None:
                lost["criteria of grader"] += len(found)
                if names:
                    at = slice(len(kept) - len(names), len(kept))
                    answers.append(Matched(model, row.case, row.case_id, names, at, other.length))
    decided = [own for _, own in kept]
    return Aligned(
        reference=reference,
        grader=grader,
        answers=tuple(answers),
        cases=[answer.case for answer in answers],
        sizes=[len(answer.criteria) for answer in answers],
        expected=np.asarray([verdict == "met" for verdict, _ in kept], dtype=np.bool_),
        found=np.asarray([own == "met" for own in decided], dtype=np.bool_),
        invalid=np.asarray([own not in ("met", "unmet") for own in decided], dtype=np.bool_),
        absent=np.asarray([own in ("none", None) for own in decided], dtype=np.bool_),
        lost_of_reference=_lost(rows, others, lost["criteria"], lost["undecided"]),
        lost_of_grader=_lost(others, rows, lost["criteria of grader"], lost["undecided of grader"]),
        by_model={model: own for model, own in graded.items() if own},
    )


def _share_ids(one: Grader, other: Grader) -> bool:
    """Return whether two graders name cases by the same ids: those of both are of one text."""
    texts = [{row.case_id: plain(row.case) for row in grader.rows} for grader in (one, other)]
    shared = texts[0].keys() & texts[1].keys()
    has_all = not any("" in own for own in texts)
    return has_all and bool(shared) and all(texts[0][i] == texts[1][i] for i in shared)


def _by_key(
    grader: Grader, aliases: Mapping[str, str], has_ids: bool
) -> dict[_Key, list[DecisionRow]]:
    found: dict[_Key, list[DecisionRow]] = defaultdict(list)
    for row in grader.rows:
        model = plain_name(aliases.get(row.model, row.model))
        found[model, plain(row.case), row.case_id if has_ids else ""].append(row)
    return found


def _lost(
    rows: Mapping[_Key, Sequence[DecisionRow]],
    others: Mapping[_Key, Sequence[DecisionRow]],
    criteria: int,
    undecided: int,
) -> dict[str, int]:
    """Return how many rows have no partner among the others, by the reason; and the decisions lost."""
    models = {model for model, *_ in others}
    counts = dict.fromkeys(LOST_ROWS, 0)
    for key, own in rows.items():
        reason = "surplus" if key in others else "other_case" if key[0] in models else "other_model"
        counts[reason] += max(0, len(own) - len(others.get(key, ())))
    return counts | {"criteria": criteria, "undecided": undecided}
