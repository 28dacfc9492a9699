"""Files of decisions: annotation exports, filled sheets, and judge files of the exchange format.

A table (.csv, .tsv, .xlsx) holds one decision a row: `model`, `case` or `case_id`, `criterion` or
`criterion_id`, `met`, and `rater` where there are several; a filled sheet names a `unit` of its key.
JSON (.jsonl, .json) holds one answer an object, with the list of its decisions. Errors name file
and row, never a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from medhelm.data.readers import read_file
from medhelm.data.weighted_rubrics import LABELS, labelled_instance, labels_of
from medhelm.errors import DataError, UsageError
from medhelm.files.durable import os_errors_as
from medhelm.files.folders import entries
from medhelm.tables.clinicians.decisions import DecisionRow, Grader, Verdict
from medhelm.tables.clinicians.ratings import YES_NO, check_columns, read_ratings
from medhelm.tables.format.spreadsheet import read_filled, unguarded, write_whole

JUDGE_SUFFIX = "_judge.json"
"""Suffix of a file of the exchange format; before it comes the model that answered."""

GIVEN = "baseline/oracle"
"""The model that gives an instance's own answer, and so the one that people labelled."""

_LISTS = ("criteria", "criteria_results", "rubric_results", "rubric_judgments")
_TABLES = (".csv", ".tsv", ".xlsx")


@dataclass(frozen=True)
class CaseCriteria:
    """A case as files that hold its id alone need it: its text, and its criteria in order."""

    text: str
    criteria: Mapping[str, str]
    """Text by id."""


Cases = Mapping[str, CaseCriteria]


def read_graders(name: str, paths: Sequence[Path], cases: Cases, *, is_judge: bool) -> list[Grader]:
    """Return the decisions of files and folders, as one group or, of several labels a row, one for each place.

    `cases`: the texts of files that hold ids alone.
    """
    files = [file for path in paths for file in _files(path)]
    rows = [row for file in files for row in _read_decisions(file, cases, is_judge)]
    if all({*row.decisions.values()} <= {"none"} for row in rows):
        raise DataError(f"{', '.join(map(str, paths))}: no row holds a decision of {name}")
    groups: dict[str, list[DecisionRow]] = {}
    for row in rows:
        groups.setdefault(f"{name} {row.group}".strip(), []).append(row)
    return [Grader(own, is_judge, tuple(found)) for own, found in groups.items()]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = entries(path, ends=(JUDGE_SUFFIX,))
    if not found:
        raise DataError(f"{path} is a folder without files MODEL{JUDGE_SUFFIX}; name a file")
    return found


def _read_decisions(path: Path, cases: Cases, is_judge: bool) -> Iterator[DecisionRow]:
    reader = _Reader(cases, is_judge)
    with os_errors_as(DataError, f"cannot read {path}"):
        if path.suffix in _TABLES:
            yield from reader.of_table(path)
            return
        for number, row in read_file(path):
            where = f"{path.name}, row {number}"
            if LABELS in row and not is_judge:
                yield from _of_labels(row, where)
            else:
                yield reader.of_object(row, where, path)


@dataclass(frozen=True)
class _Reader:
    cases: Cases
    is_judge: bool

    def of_table(self, path: Path) -> Iterator[DecisionRow]:
        """Yield the answers of a table with one decision a row.

        A criterion that comes again is of the next answer of the model to the case.
        """
        found: dict[tuple[str, str, str, str], list[tuple[str, dict[str, Verdict]]]] = {}
        for where, cells in _lines(path):
            if not cells["model"]:
                raise DataError(f"{where}: model is empty")
            case_id = cells.get("case_id", "")
            case = self._case(unguarded(cells.get("case", "")), case_id, where)
            text = unguarded(cells.get("criterion", ""))
            criterion = text or self._criterion(cells.get("criterion_id", ""), case_id, where)
            met = YES_NO.read(cells["met"])
            if met is None and cells["met"] and not self.is_judge:
                raise DataError(f"{where}: met is neither true nor false, nor empty")
            verdict: Verdict = "met" if met else "unmet"
            if met is None:
                verdict = "invalid" if cells["met"] else "none"
            answers = found.setdefault((cells["model"], case, case_id, cells.get("rater", "")), [])
            own = next((d for _, d in answers if criterion not in d), None)
            if own is None:
                answers.append((where, own := {}))
            own[criterion] = verdict
        for place, answers in found.items():
            for where, own in answers:
                yield self._row(where, own, *place)

    def of_object(self, row: Mapping[str, Any], where: str, path: Path) -> DecisionRow:
        """Return the answer of an object with the list of its decisions."""
        case_id = _text(row.get("case_id", row.get("id")), "case_id", where)
        model = _text(row.get("model"), "model", where)
        if not model:
            if not path.name.endswith(JUDGE_SUFFIX):
                raise DataError(f"{where}: no model; only the name MODEL{JUDGE_SUFFIX} gives one")
            model = path.name.removesuffix(JUDGE_SUFFIX)
        case = self._case(_asked(row, where), case_id, where)
        given = next((row[name] for name in _LISTS if name in row), None)
        if not isinstance(given, list) or not all(isinstance(d, dict) for d in given):
            raise DataError(f"{where}: no list of objects of the name {' or '.join(_LISTS)}")
        decisions: dict[str, Verdict] = {}
        for text, own in zip(self._criteria(given, case_id, where), given, strict=True):
            verdict = self._verdict(own, where)
            if text in decisions and not self.is_judge:
                raise DataError(f"{where}: a criterion is decided twice")
            decisions[text] = "invalid" if text in decisions else verdict
        rater = _text(row.get("rater"), "rater", where)
        return self._row(where, decisions, model, case, case_id, rater)

    def _row(
        self,
        where: str,
        decided: dict[str, Verdict],
        model: str,
        case: str,
        case_id: str,
        rater: str,
    ) -> DecisionRow:
        """Return an answer; criteria on which a judge is silent count: the frozen list is complete."""
        if self.is_judge and case_id in self.cases:
            for text in self.cases[case_id].criteria.values():
                decided.setdefault(text, "none")
        return DecisionRow(where, model, case, decided, case_id, rater)

    def _case(self, text: str, case_id: str, where: str) -> str:
        if text.strip():
            return text
        if not case_id:
            raise DataError(
                f"{where}: neither the text nor the id of its case; a row is not matched by its position"
            )
        if self.cases and case_id not in self.cases:
            raise DataError(f"{where}: the file of cases has no case {case_id[:40]!r}")
        return self.cases[case_id].text if self.cases else case_id

    def _criteria(
        self, given: Sequence[Mapping[str, Any]], case_id: str, where: str
    ) -> Sequence[str]:
        """Return the text of each decision's criterion: its own, that of its id, or of its place."""
        named = [own.get("criterion") or own.get("criterion_id") for own in given]
        if all(isinstance(name, str) for name in named):
            return [
                _text(own.get("criterion"), "criterion", where)
                or self._criterion(str(own.get("criterion_id")), case_id, where)
                for own in given
            ]
        if any(named):
            raise DataError(f"{where}: some decisions name their criterion and some do not")
        if case_id not in self.cases:
            raise DataError(
                f"{where}: decisions without criteria; --cases FILE has those of the case"
            )
        own = self.cases[case_id].criteria
        if len(given) != len(own):
            raise DataError(
                f"{where}: {len(given)} decisions without criteria, of a case of {len(own)}: "
                "nobody can say which is about which"
            )
        return [*own.values()]

    def _criterion(self, name: str, case_id: str, where: str) -> str:
        if not name:
            raise DataError(f"{where}: a decision names no criterion")
        if case_id not in self.cases:
            return name
        own = self.cases[case_id].criteria
        if name not in own:
            first, *_, last = (*own, *own)
            raise DataError(
                f"{where}: its case has no criterion {name[:40]!r}, it has {first} to {last}; write the "
                "text as `criterion`, or give --cases FILE with the ids that the file uses"
            )
        return own[name]

    def _verdict(self, own: Mapping[str, Any], where: str) -> Verdict:
        met = own.get("criteria_met", own.get("met"))
        if isinstance(met, bool):
            return "met" if met else "unmet"
        if self.is_judge:  # also where it is null: the judge was asked, and did not decide
            return "invalid"
        if met is not None:
            raise DataError(f"{where}: a decision of an expert is neither true, false nor null")
        return "none"


def _lines(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the rows of a table with their places; of a filled sheet with what its key says."""
    lines = read_filled(path)
    if not lines:
        raise DataError(f"{path.name}: no row below names of columns")
    if "unit" in lines[0][1]:
        for row in read_ratings([path]):
            answer = row.answer
            named = {"model": answer.model, "case_id": answer.instance, "rater": row.rater}
            criterion = {"criterion": row.cells.get("text", ""), "criterion_id": row.cells["item"]}
            yield row.where, {**named, **criterion, "met": row.cells["value"]}
        return
    check_columns(path.name, lines[0][1], ("model", "met"))
    for name in ("case", "criterion"):
        if not {name, f"{name}_id"} & lines[0][1].keys():
            raise DataError(f"{path.name}: no column {name!r}, and no {name}_id either")
    for number, cells in lines:
        yield f"{path.name}, row {number}", cells


def _of_labels(row: Mapping[str, Any], where: str) -> Iterator[DecisionRow]:
    """Yield a row for each label of one criterion of an answer, which `baseline/oracle` gives as it is."""
    try:
        instance, labels = labelled_instance(row), labels_of(row)
    except DataError as e:
        raise DataError(f"{where}: {e}") from None
    asked = "\n\n".join(turn.content for turn in instance.turns)
    for place, is_met in enumerate(labels, 1):
        decided: dict[str, Verdict] = {instance.criteria[0].text: "met" if is_met else "unmet"}
        yield DecisionRow(where, GIVEN, asked, decided, instance.id, group=str(place))


def _asked(row: Mapping[str, Any], where: str) -> str:
    if "case" in row:
        return _text(row["case"], "case", where)
    parts = (_text(row.get(name), name, where) for name in ("clinical_context", "user_request"))
    return "\n\n".join(part for part in parts if part.strip())


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str | None):
        raise DataError(f"{where}: {name} is not a text")
    return value or ""


# Cases, and what goes out ------------------------------------------------------------------------


def read_case_criteria(path: Path) -> dict[str, CaseCriteria]:
    """Return the cases of a file by id, with the text that models were sent; raises DataError."""
    found: dict[str, CaseCriteria] = {}
    with os_errors_as(DataError, f"cannot read {path}"):
        for number, row in read_file(path):
            where = f"{path.name}, row {number}"
            case_id = _text(row.get("case_id", row.get("id")), "case_id", where)
            given = row.get("criteria", row.get("rubrics"))
            if not case_id or case_id in found:
                raise DataError(f"{where}: case_id is {'there twice' if case_id else 'missing'}")
            if not isinstance(given, list) or not all(isinstance(c, dict) for c in given):
                raise DataError(f"{where}: no list of criteria")
            criteria = {
                _text(c.get("criterion_id", c.get("id")), "criterion_id", where)
                or str(place): _text(c.get("criterion", c.get("text")), "criterion", where)
                for place, c in enumerate(given, 1)
            }
            if len(criteria) != len(given) or not all(criteria.values()):
                raise DataError(f"{where}: an id of a criterion is there twice, or a text is empty")
            found[case_id] = CaseCriteria(_asked(row, where), criteria)
    return found


def write_judge_files(grader: Grader, folder: Path, cases: Cases) -> list[Path]:
    """Write a file of the exchange format for each model of a judge; returns them.

    Rows are in the order of the cases. What was no decision is null, so that it is not lost.
    """
    by_model: dict[str, dict[str, DecisionRow]] = {}
    for row in grader.rows:
        own = by_model.setdefault(row.model, {})
        if row.case_id not in cases:
            raise UsageError(f"{row.where}: no case of the file of cases has its case_id")
        if row.case_id in own:
            raise UsageError(f"{row.where}: {row.model} has two answers to {row.case_id}")
        own[row.case_id] = row
    paths = [folder / f"{model.replace('/', '__')}{JUDGE_SUFFIX}" for model in by_model]
    if len({*paths}) < len(paths):
        raise UsageError("two models would be one file; rename one")
    for path, own in zip(paths, by_model.values(), strict=True):
        lines = [_to_object(own[case_id], case_id, cases) for case_id in cases if case_id in own]
        write_whole(path, msgspec.json.format(msgspec.json.encode(lines), indent=1))
    return paths


def _to_object(row: DecisionRow, case_id: str, cases: Cases) -> dict[str, object]:
    known: Mapping[Verdict, bool] = {"met": True, "unmet": False}
    results = [
        {"criterion_id": name, "criteria_met": known.get(row.decisions.get(text, "none"))}
        for name, text in cases[case_id].criteria.items()
    ]
    if lost := row.decisions.keys() - {*cases[case_id].criteria.values()}:
        raise UsageError(f"{row.where}: {len(lost)} decisions are of criteria that its case lacks")
    return {"case_id": case_id, "model": row.model, "criteria_results": results}


def named_paths(given: Iterable[str], option: str) -> dict[str, list[Path]]:
    """Return the files of each name from words NAME=FILE, or FILE, whose stem is then the name."""
    found: dict[str, list[Path]] = {}
    for word in given:
        name, sign, path = word.partition("=")
        if not sign:
            name, path = Path(word).stem, word
        if not name or not path:
            raise UsageError(f"{option} {word}: write NAME=FILE")
        found.setdefault(name, []).append(Path(path))
    return found
