"""Two graders' decisions, matched: answers by model and text of the case, criteria by their text.

Where both name cases by the same ids, answers of other ids are never matched. Else answers that agree
in both are matched in the order of their files. What has no partner is counted,
with the reason, and is in no figure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    lost_of_reference: Lost
    lost_of_grader: Lost

    @property
    def answer_of(self) -> Ints:
        """Return the number (n,) of each decision's answer."""
        return np.repeat(np.arange(len(self.answers)), [len(a.criteria) for a in self.answers])

    @property
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
    """Return what both graders decided; `aliases` maps a file's name of a model to another."""
    has_ids = _share_ids(reference, grader)
    rows, others = (_by_key(g, aliases or {}, has_ids) for g in (reference, grader))
    answers: list[Matched] = []
    kept: list[_Pair] = []
    lost = [Counter[str](), Counter[str]()]
    for key, own in rows.items():
        for row, other in zip(own, others.get(key, ()), strict=False):
            found = list(_pairs(row, other, reference.is_judge, grader.is_judge, lost))
            if found:
                names = tuple(pair.criterion for pair in found)
                answers.append(Matched(key[0], row.case, row.case_id, names, len(kept)))
                kept += found
    met, invalid = (
        np.asarray([pair.found in verdicts for pair in kept], dtype=np.bool_)
        for verdicts in (("met",), ("invalid", "none", None))
    )
    return Aligned(
        reference,
        grader,
        tuple(answers),
        np.asarray([pair.expected == "met" for pair in kept], dtype=np.bool_),
        met,
        invalid,
        np.asarray([pair.found in (None, "none") for pair in kept], dtype=np.bool_),
        _lost(rows, others, lost[0]),
        _lost(others, rows, lost[1]),
    )


class _Pair(NamedTuple):
    """Two decisions on one criterion; None where a judge's row does not name it."""

    criterion: str
    expected: Verdict
    found: Verdict | None


def _pairs(
    row: DecisionRow,
    other: DecisionRow,
    is_reference_judge: bool,
    is_judge: bool,
    lost: Sequence[Counter[str]],
) -> Iterator[_Pair]:
    """Yield the decisions on criteria of both rows. A judge that is silent has failed, an expert
    who is silent was not asked or did not say: such a decision is lost."""
    said = {plain(d.criterion): d.verdict for d in other.decisions}
    for decision in row.decisions:
        found = said.pop(plain(decision.criterion), None)
        if decision.verdict == "none" and not is_reference_judge:
            lost[0]["undecided"] += 1
        elif found is None and not is_judge:
            lost[0]["criteria"] += 1
        elif found == "none" and not is_judge:
            lost[1]["undecided"] += 1
        else:
            yield _Pair(decision.criterion, decision.verdict, found)
    lost[1]["criteria"] += len(said)


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
    decisions: Mapping[str, int],
) -> Lost:
    """Return which rows have no partner among the others, and why."""
    models = {model for model, *_ in others}
    return Lost(
        other_model=sum(len(own) for key, own in rows.items() if key[0] not in models),
        other_case=sum(
            len(own) for key, own in rows.items() if key[0] in models and key not in others
        ),
        surplus=sum(
            max(0, len(own) - len(others[key])) for key, own in rows.items() if key in others
        ),
        criteria=decisions["criteria"],
        undecided=decisions["undecided"],
    )
