"""The columns of a table that users bring: the declared ones, or those of the published file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from medhelm.errors import DataError, closest


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """The columns of a table, and their names in the published table."""

    columns: Collection[str]
    """The declared columns."""
    optional: Collection[str] = ()
    """Those that a table may lack."""
    filled: Collection[str] = ()
    """Those in which no cell may be empty."""
    published: Mapping[str, str] = field(default_factory=dict)
    """The declared column -> its name in the published table, for each column that it has."""

    def read(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return the cells of a row as text by the declared columns that it has.

        A table in the declared form has these columns alone. One in the published form may lack
        what the published table lacks, such as a key, and has others that are passed over.
        Raises DataError naming the column, never a cell.
        """
        if self.is_published(row):
            names = {name: self.published.get(name, name) for name in self.columns}
            self._refuse_near_misses(row, names)
        else:
            names = {name: name for name in self.columns}
            self._refuse_other_columns(row)
        cells = {
            name: "" if row[there] is None else str(row[there])
            for name, there in names.items()
            if there in row
        }
        for name in self.filled:
            if not cells.get(name, "-").strip():
                raise DataError(f"column {names[name]!r} is empty")
        return cells

    def is_published(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has the published columns and not the declared ones."""
        has_all = bool(self.published) and all(name in row for name in self.published.values())
        return has_all and not all(name in row for name in self._required())

    def _required(self) -> list[str]:
        return [name for name in self.columns if name not in self.optional]

    def _refuse_near_misses(self, row: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """Raise DataError for a misspelt column, such as the patient's key, that would be lost."""
        absent = [name for name, there in names.items() if there not in row]
        for name in row:
            if name not in names.values() and (meant := closest(name, absent, 1)):
                raise DataError(
                    f"unknown column {name[:40]!r}; name it {meant[0]!r} if it is that, else leave "
                    "it out"
                )

    def _refuse_other_columns(self, row: Mapping[str, Any]) -> None:
        known = f"the columns are {', '.join(self.columns)}"
        if self.published:
            known += f" (in the published file {', '.join(self.published.values())})"
        for name in self._required():
            if name not in row:  # the header may be missing: the names it has are not repeated
                found = ", ".join(c for c in self.columns if c in row) or "none of them"
                more = sum(c not in self.columns for c in row)
                raise DataError(
                    f"there is no column {name!r}; {known}; the file has {found}"
                    + (f" and {more} other{'s' * (more > 1)}" if more else "")
                )
        for name in row:
            if name not in self.columns:
                raise DataError(f"unknown column {name[:40]!r}; {known}")
