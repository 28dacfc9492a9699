"""Two graders' decisions, matched: answers by model and text of the case, criteria by their text.

Where both name cases by the same ids, answers of other ids are never matched. Else answers that agree
in both are matched in the order of their files. What has no partner is counted,
with the reason, and is in no figure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np

from medhelm.stats.aggregation import Floats, Ints
from medhelm.stats.two_class import Bools, confusion
from medhelm.tables.clinicians.decisions import DecisionRow, Grader, Verdict, plain, plain_name

_Key = tuple[str, str, str]
"""Model, text of the case, and its id where both graders name cases by the same ids."""


@dataclass(frozen=True)
class Lost:
    """Rows and decisions of one grader that have no partner."""

    other_model: int = 0
    """Rows of models that the other grader has no row of."""
    other_case: int = 0
    """Rows of cases that the other has not for that model."""
    surplus: int = 0
    """Rows beyond those that the other has of the same model and case."""
    criteria: int = 0
    """Decisions in matched rows whose criterion the other does not name."""
    undecided: int = 0
    """Decisions of experts that were left empty."""

    @property
    def rows(self) -> int:
        """Return all rows that are lost."""
        return self.other_model + self.other_case + self.surplus


@dataclass(frozen=True)
class Matched:
    """One answer that both graders have, by the places of its decisions."""

    model: str
    case: str
    case_id: str
    criteria: tuple[str, ...]
    start: int
    """Place of its first decision."""

    @property
    def places(self) -> slice:
        """Return where its decisions lie."""
        return slice(self.start, self.start + len(self.criteria))


@dataclass(frozen=True)
class Graded:
    """All decisions i = 1..n of a grader on the answers of one model, beside the reference's."""

    met: Bools
    cases: Sequence[str]
    human: Floats
    """Decisions of the reference, 1 or 0; NaN where it has none."""


@dataclass(frozen=True)
class Aligned:
    """Decisions i = 1..n of two graders on the same criteria of the same answers."""

    reference: Grader
    grader: Grader
    answers: tuple[Matched, ...]
    expected: Bools
    """(n,): what the reference decides."""
    found: Bools
    """(n,): what the grader decides; an invalid one is unmet."""
    invalid: Bools
    """(n,): whether a reply of the grader was no decision, or there was none."""
    absent: Bools
    """(n,): those of the invalid that the grader's file does not hold."""
    lost_of_reference: Lost = Lost()
    lost_of_grader: Lost = Lost()
    by_model: Mapping[str, Graded] | None = None

    @cached_property
    def answer_of(self) -> Ints:
        """Return the number (n,) of each decision's answer."""
        return np.repeat(np.arange(len(self.answers)), [len(a.criteria) for a in self.answers])

    @cached_property
    def clusters(self) -> Ints:
        """Return the case (n,) of each decision as a code; answers to one case are one cluster."""
        codes: dict[str, int] = {}
        each = [codes.setdefault(plain(a.case), len(codes)) for a in self.answers]
        return np.asarray(each, dtype=np.int64)[self.answer_of]

    def counts(self, *, is_invalid_wrong: bool = False) -> Floats:
        """Return (n, 4) of `confusion`; the invalid are unmet, or wrong whatever the label is."""
        wrong = np.where(self.invalid, ~self.expected, self.found)
        return confusion(self.expected, wrong if is_invalid_wrong else self.found)


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
            found = {plain(d.criterion): d.verdict for d in other.decisions}
            names = []
            for criterion, verdict in _decisions(row):
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
                    start = len(kept) - len(names)
                    answers.append(Matched(model, row.case, row.case_id, tuple(names), start))
    return Aligned(
        reference,
        grader,
        tuple(answers),
        np.asarray([verdict == "met" for verdict, _ in kept], dtype=np.bool_),
        np.asarray([own == "met" for _, own in kept], dtype=np.bool_),
        np.asarray([own in ("invalid", "none", None) for _, own in kept], dtype=np.bool_),
        np.asarray([own in ("none", None) for _, own in kept], dtype=np.bool_),
        _lost(rows, others, lost["criteria"], lost["undecided"]),
        _lost(others, rows, lost["criteria of grader"], lost["undecided of grader"]),
        {model: _graded(own) for model, own in graded.items() if own},
    )


def _decisions(row: DecisionRow | None) -> list[tuple[str, Verdict]]:
    return [(d.criterion, d.verdict) for d in row.decisions] if row is not None else []


def _graded(rows: Sequence[tuple[bool, str, float]]) -> Graded:
    met, cases, human = zip(*rows, strict=True)
    return Graded(np.asarray(met), cases, np.asarray(human))


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
) -> Lost:
    """Return which rows have no partner among the others, and why."""
    models = {model for model, *_ in others}
    counts = Counter[str]()
    for key, own in rows.items():
        reason = "surplus" if key in others else "other_case" if key[0] in models else "other_model"
        counts[reason] += max(0, len(own) - len(others.get(key, ())))
    return Lost(**counts, criteria=criteria, undecided=undecided)
