"""Experts' ratings of the actions of cases: files of one rating a row -> arrays.

A row names `case` and `action`, holds a `rating` from 1 to 9 or nothing, and names its `rater`;
without that column the name of the file is the rater's. Other columns are ignored, but a `text`
must be that of the action: ids say nothing of the version of the file that was rated. Errors name
file, row, case and action, never a text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import UNSET

from medhelm.errors import DataError, closest
from medhelm.stats.aggregation import Floats, Ints
from medhelm.tables.clinicians.ratings import check_columns, whole_number
from medhelm.tables.format.spreadsheet import guard, read_filled
from medhelm_benchmarks.noharm.rules.cases import Action, Case, Validation
from medhelm_benchmarks.noharm.rules.experts import Sheets

_NEEDED = ("case", "action", "rating")
_SCALE = range(1, 10)


class Place(NamedTuple):
    """An action of a case: the code of the one, the place of the other on the menu."""

    case: str
    number: int


@dataclass(frozen=True)
class RatedActions:
    """Actions i = 1..n that any row names, in order of codes and menus, with their ratings."""

    actions: tuple[Action, ...]
    codes: tuple[str, ...]
    """Of each action's case."""
    specialties: tuple[str, ...]
    experts: tuple[str, ...]
    """Every rater that a row names, also one without any rating."""
    ratings: Floats
    """(n, k) by expert; NaN where one did not rate."""
    asked: Ints
    """(k,): actions that rows of each expert name, rated or not."""
    unnamed: int
    """Rows that name neither a rating nor a rater."""
    validations: tuple[Validation, ...] = ()
    """Those of the cases, where their own ratings are experts'."""

    @property
    def sheets(self) -> Sheets:
        """Return the ratings by case, action and expert."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for code, action, row in zip(self.codes, self.actions, self.ratings, strict=True):
            given = zip(self.experts, row, strict=True)
            own = {e: int(r) for e, r in given if not np.isnan(r)}
            if own:
                found.setdefault(code, {})[action.id] = own
        return found

    @property
    def synthetic(self) -> Floats:
        """Return the ratings (n, k) that the file of cases holds; NaN behind those of smaller panels."""
        found = np.full((len(self.actions), max(len(a.ratings) for a in self.actions)), np.nan)
        for row, action in zip(found, self.actions, strict=True):
            row[: len(action.ratings)] = action.ratings
        return found

    @property
    def clusters(self) -> Ints:
        """Return the cases of the actions as codes 0..C-1."""
        return np.unique(self.codes, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class _Row:
    where: str
    place: Place
    rater: str
    rating: int | None


def read_action_ratings(
    paths: Sequence[Path], cases: Iterable[Case], cases_file: str
) -> RatedActions:
    """Return what experts gave to actions of these cases, read from files of ratings.

    Raises DataError for a row of a case or an action that is not there, with a rating that is no
    whole number from 1 to 9, of an expert who rated the action before, or where nothing is rated.
    """
    known = {case.code: case for case in cases}
    rows: list[_Row] = []
    owners: dict[str, Path] = {}
    for path in paths:
        lines = read_filled(path)
        if lines and "rater" not in lines[0][1]:
            owner = owners.setdefault(path.stem, path)
            if owner is not path:
                raise DataError(
                    f"{owner} and {path} have no column rater and would be one rater, "
                    f"{path.stem!r}: rename one"
                )
        rows += _rows(path, lines, known, cases_file)
    if not rows:
        names = ", ".join(p.name for p in paths)
        raise DataError(f"{names}: no row below names of columns; fill in some ratings first")
    given: dict[tuple[Place, str], _Row] = {}
    for row in rows:
        if row.rating is None:
            continue
        first = given.setdefault((row.place, row.rater), row)
        if first is not row:
            raise DataError(
                f"{row.where}: this rater rated {_name(row.place, known)} before, in "
                f"{first.where}; keep one"
            )
    if not given:
        raise DataError("no row has a rating; fill in the column rating")
    return _arrays(rows, given, known)


def _rows(
    path: Path, lines: Sequence[tuple[int, dict[str, str]]], cases: dict[str, Case], cases_file: str
) -> Iterator[_Row]:
    if lines:
        check_columns(path.name, lines[0][1], _NEEDED)
    for number, cells in lines:
        where = f"{path.name}, row {number}"
        case = cases.get(cells["case"])
        if case is None:
            what = f"{cases_file} has no case {cells['case'][:40]!r}"
            raise DataError(f"{where}: {what}{_nearest(cells['case'], cases)}")
        place = _place(case, cells["action"], where)
        if cells.get("text") and not _is_same(cells["text"], case.actions[place.number].text):
            raise DataError(
                f"{where}: the text of {case.code}, action {cells['action']}, is not that of "
                f"{cases_file}: were other cases rated? Without the column text it is not compared"
            )
        rating = whole_number(
            cells["rating"].replace(",", ".")
        )  # 8,0 as some spreadsheets write it
        if cells["rating"] and rating not in _SCALE:
            raise DataError(
                f"{where}: the rating of {case.code}, action {cells['action']}, is not a whole number "
                "from 1 to 9; leave it empty where an expert does not rate"
            )
        rater = guard(cells.get("rater", path.stem))
        if rating is not None and not rater:
            raise DataError(
                f"{where}: rater is empty; a name or a number of the rater is needed, or no column "
                "rater: then the name of the file is the rater's"
            )
        yield _Row(where, place, rater, rating)


def _place(case: Case, action: str, where: str) -> Place:
    ids = [a.id for a in case.actions]
    if action not in ids:
        what = f"case {case.code} has no action {action[:20]!r}"
        raise DataError(f"{where}: {what}{_nearest(action, ids)}")
    return Place(case.code, ids.index(action))


def _nearest(name: str, known: Collection[str]) -> str:
    nearest = closest(name, known, 1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def _is_same(cell: str, text: str) -> bool:
    """Return whether a cell holds a text, but for spaces and the mark before what looks like a
    formula."""
    a, b = (" ".join(t.split()).removeprefix("'") for t in (cell, text))
    return a == b


def _name(place: Place, cases: dict[str, Case]) -> str:
    return f"{place.case}, action {cases[place.case].actions[place.number].id},"


def _arrays(
    rows: Sequence[_Row], given: dict[tuple[Place, str], _Row], cases: dict[str, Case]
) -> RatedActions:
    places = sorted({row.place for row in rows})
    asked = {(row.place, row.rater) for row in rows if row.rater}
    experts = sorted({rater for _, rater in asked})
    column, line = ({x: i for i, x in enumerate(own)} for own in (experts, places))
    ratings = np.full((len(places), len(experts)), np.nan)
    for (place, rater), row in given.items():
        assert row.rating is not None
        ratings[line[place], column[rater]] = row.rating
    return RatedActions(
        actions=tuple(cases[p.case].actions[p.number] for p in places),
        codes=tuple(p.case for p in places),
        specialties=tuple(guard(cases[p.case].specialty) for p in places),
        experts=tuple(experts),
        ratings=ratings,
        asked=np.asarray([sum(r == expert for _, r in asked) for expert in experts]),
        unnamed=sum(not row.rater for row in rows),
        validations=_validations(cases[p.case] for p in places),
    )


def _validations(cases: Iterable[Case]) -> tuple[Validation, ...]:
    return tuple(dict.fromkeys(c.validation for c in cases if c.validation is not UNSET))
