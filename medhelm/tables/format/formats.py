"""Tables as text and files: terminal, CSV, Parquet, JSON, Excel, Markdown, LaTeX.

Data formats (CSV, Parquet, JSON, Excel) hold every column at full precision; text formats hold the
columns with a heading, rounded, with intervals behind their values. Names come from users and
from models' outputs: control characters are taken out and every format is escaped.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from medhelm.errors import RecordError, UsageError
from medhelm.files.durable import os_errors_as
from medhelm.tables.format.column_kinds import read_tables
from medhelm.tables.format.console import UNCUT, open_console
from medhelm.tables.format.grid import Grid, Shown, fit, lines, no_room, print_lines
from medhelm.tables.format.grid import to_html as grid_html
from medhelm.tables.format.spreadsheet import csv_text, guard
from medhelm.tables.format.table import Column, Table, Value, to_document

if TYPE_CHECKING:
    from rich.console import Console

FORMATS = ("terminal", "csv", "json", "markdown", "latex", "parquet", "excel")

MOST_ROWS = 1000
"""Rows of a grid that a terminal shows. The tables of pairs and ranks have some half a million
and a million of a thousand models."""

_WORDS: Mapping[str, str] = read_tables(__file__)["words"]
"""Meanings of short headings, which text formats print below the table."""

_P = frozenset({"p", "p_holm"})
"""Columns whose smallest values are shown as below their last digit, since 0 they are not."""

_EQUAL = 12
"""Numbers are rounded to so many digits first: sums of the same values in another order differ in
the last bits, and would else be shown as 0.57 and 0.58."""

_SHOW_ALL = "widen the terminal, set COLUMNS, or take another --format."

_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "–": "--"},
}
_MARKDOWN = {c: f"\\{c}" for c in "\\|`*_[]#~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_ESCAPED_LATEX = str.maketrans(_LATEX)
_ESCAPED_MARKDOWN = str.maketrans(_MARKDOWN)


def clean(text: str, kept: str = "") -> str:
    """Return text on one line, without control and bidirectional characters but those that are kept."""
    return "".join(c if c.isprintable() or c in kept else " " for c in text)


def cell_text(column: Column, row: Mapping[str, Value]) -> str:
    """Return a cell as people read it: rounded, with its interval or its whole."""
    value = row[column.name]
    if value is None:
        return column.absent
    text = _value_text(column, value)
    if column.of:
        whole = row[column.of]
        return text if whole is None else f"{text}/{_value_text(column, whole)}"
    if column.interval is not None:
        low, high = (row[name] for name in column.interval)
        if low is not None and high is not None:
            return f"{text} [{_value_text(column, low)}, {_value_text(column, high)}]"
    return text


def _value_text(column: Column, value: str | int | float | bool) -> str:
    if column.marks:
        return "".join(column.marks[word] for word in str(value).split())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.type == "number":
        value = round(float(value), _EQUAL)
    if column.is_percent:
        return f"{round(100 * float(value), _EQUAL):.{column.digits}f} %"
    if column.name in _P and float(value) < (least := 10**-column.digits):
        return f"<{least:.{column.digits}f}"
    if column.type == "number":
        return f"{float(value):,.{column.digits}f}"
    return f"{value:,}" if column.type == "integer" else clean(str(value))


def to_json(*tables: Table) -> str:
    """Return the published form: one document, or an array of them where there are several."""
    documents = [to_document(t) for t in tables]
    value = documents[0] if len(documents) == 1 else documents
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"


def to_csv(table: Table) -> str:
    """Return every column at full precision; missing is empty. Notes are not in it.

    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    names = [c.name for c in table.columns]
    return csv_text(names, ([_csv_value(row[n]) for n in names] for row in table.rows))


def _csv_value(value: Value) -> Value:
    if isinstance(value, str):
        return clean(value, "\n\r\t")
    return str(value).lower() if isinstance(value, bool) else value


def to_parquet(table: Table) -> bytes:
    """Return a Parquet file. Its `medhelm.tables.format.table` metadata is the JSON form without the rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool"}
    about = msgspec.structs.replace(to_document(table), rows=())
    schema = pa.schema(
        [(c.name, pa.type_for_alias(kinds[c.type])) for c in table.columns],
        metadata={"medhelm.tables.format.table": msgspec.json.encode(about)},
    )
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([*table.rows], schema), out)
    return out.getvalue()


def to_excel(tables: Sequence[Table]) -> bytes:
    """Return a workbook with a sheet of each table: every column at full precision, as in CSV."""
    import pandas as pd

    out = io.BytesIO()
    with pd.ExcelWriter(out, engine="openpyxl") as book:
        for table in tables:
            frame = table.frame()
            texts = frame.select_dtypes("object").columns
            frame[texts] = frame[texts].map(lambda text: guard(clean(text)), na_action="ignore")
            frame.to_excel(book, sheet_name=table.name[:31], index=False)
    return out.getvalue()


def to_markdown(table: Table) -> str:
    """Return a pipe table under its title, with the notes as a list; without rows those alone."""
    lines = []
    for grid in table.grids():
        lines += [f"### {_markdown(grid.title)}", ""]
        if grid.rows:
            columns = grid.shown()
            rules = ["---" if c.type == "string" else "---:" for c in columns]
            cells = [[c.heading for c in columns], *_cells(grid, columns)]
            head, *rows = [[_markdown(cell) for cell in row] for row in cells]
            lines += [f"| {' | '.join(row)} |" for row in (head, rules, *rows)] + [""]
    lines += [f"- {_markdown(note)}" for note in _notes_below(table)]
    return "\n".join(lines).rstrip() + "\n"


def _cells(grid: Table, columns: Sequence[Column]) -> list[list[str]]:
    return [[cell_text(c, row) for c in columns] for row in grid.rows]


def _markdown(text: str) -> str:
    return clean(text).translate(_ESCAPED_MARKDOWN)


def to_latex(table: Table) -> str:
    """Return a `table` environment for each grid that needs no package, the notes in the last."""
    found = []
    for grid in table.grids():
        lines = [r"\begin{table}", rf"\caption{{{_latex(grid.title)}}}"]
        if grid.rows:
            columns = grid.shown()
            sides = "".join("l" if c.type == "string" else "r" for c in columns)
            # Braces keep a cell that begins with [ from being read as the option of the \\ before it.
            rows = [[f"{{{_latex(cell)}}}" for cell in row] for row in _cells(grid, columns)]
            lines += [rf"\begin{{tabular}}{{{sides}}}", r"\hline"]
            lines += [" & ".join(_latex(c.heading) for c in columns) + r" \\", r"\hline"]
            lines += [" & ".join(row) + r" \\" for row in rows]
            lines += [r"\hline", r"\end{tabular}"]
        found.append(lines)
    found[-1] += [rf"\par\footnotesize {_latex(note)}" for note in _notes_below(table)]
    return "".join("\n".join([*lines, r"\end{table}"]) + "\n" for lines in found)


def _latex(text: str) -> str:
    return clean(text).translate(_ESCAPED_LATEX)


def _all_notes(table: Table) -> list[str]:
    """Return the notes and one line of the settings that decide the numbers."""
    s = table.settings
    if "draws" not in s:
        return list(table.notes)
    runs = [f"{name}={s[name]}" for name in ("scoring", "data") if name in s]
    line = (
        f"{float(s['confidence'] or 0):.0%} intervals from {s['draws']:,} bootstrap draws, "
        f"seed {s['bootstrap_seed']}{'; ' * bool(runs)}{', '.join(runs)}."
    )
    return [*table.notes, line]


def _notes_below(table: Table) -> list[str]:
    """Return the notes of a table, before them that on its short headings."""
    shown = (c.heading for grid in table.grids() for c in grid.shown())
    return [*_explained(shown), *_all_notes(table)]


def _explained(headings: Iterable[str]) -> list[str]:
    """Return the note on the short headings of a table; none where there is none."""
    words = [f"{h}: {_WORDS[h]}" for h in dict.fromkeys(headings) if h in _WORDS]
    return [f"Columns. {'; '.join(words)}."] if words else []


def print_tables(
    tables: Sequence[Table],
    console: Console | None = None,
    most: int | None = MOST_ROWS,
    *,
    fix: str = _SHOW_ALL,
) -> None:
    """Print tables with their notes on a terminal. A note of several tables is printed once.

    `most`: rows of a grid after which it is cut, with a note that gives their number.
    `fix` says how to see what a terminal has no room for.
    """
    out = console or open_console()
    say = partial(print_lines, out=out, is_prose=True)
    said: set[str] = set()
    known: set[str] = set()
    for table in tables:
        notes = _all_notes(table)
        grids = table.grids()
        for grid in grids:
            part, said_of_cut = _cut(grid, most)
            notes = [*said_of_cut, *notes]
            if not part.rows:
                say([(clean(part.title), "italic")])
                continue
            fitted = fit(_grid(part), out.width)
            headings = [c.heading for c in fitted.grid.columns if c.heading not in known]
            notes = [*_explained(headings), *notes]
            known |= {*headings}
            say([(clean(part.title), "italic"), ("", "")])
            print_lines([*lines(fitted), ("", "")], out)
            missing = [(note, "dim") for note in no_room(fitted, fix)]
            say([*missing, *[("", "")] * bool(missing and grid is not grids[-1])])
        say([(clean(note), "dim") for note in dict.fromkeys(notes) if note not in said])
        said |= {*notes}
        out.print()


def _grid(table: Table) -> Grid:
    """Return the texts of a table for a screen, and what may be left out of them."""
    heads = {c.name: c for c in table.columns}
    columns = [c for c in table.shown() if c.name not in table.group]
    return Grid(
        columns=tuple(
            Shown(
                name=c.name,
                heading=c.heading,
                cells=tuple(cell_text(c, row) for row in table.rows),
                is_number=c.type != "string",
            )
            for c in columns
        ),
        leaving=tuple(_leaving(columns)),
        groups=tuple(
            " / ".join(cell_text(heads[name], row) for name in table.group) for row in table.rows
        )
        if table.group
        else (),
    )


def _leaving(columns: Sequence[Column]) -> list[str]:
    """Return which columns a narrow terminal leaves out: numbers from the right.

    Names stay, and what the table is for, or else its first number.
    """
    numbers = [c for c in columns if c.type != "string"]
    mains = [c for c in numbers if c.is_main] or numbers[:1]
    return [c.name for c in reversed(numbers) if c not in mains]


def _cut(table: Table, most: int | None) -> tuple[Table, list[str]]:
    """Return the first rows of a grid, and the note on those that are not printed."""
    if most is None or len(table.rows) <= most:
        return table, []
    note = (
        f"Printed are the first {most:,} of the {len(table.rows):,} rows of {table.title!r}: "
        "--out FILE writes all of them."
    )
    return replace(table, rows=table.rows[:most]), [note]


def to_terminal(tables: Sequence[Table], width: int = UNCUT, *, fix: str = _SHOW_ALL) -> str:
    """Return tables as plain text of a given width; `fix` as for `print_tables`."""
    out = io.StringIO()
    form: dict[str, Any] = {"color_system": None, "legacy_windows": False, "force_jupyter": False}
    plain = open_console(file=out, width=width, **form)
    print_tables(tables, plain, most=None, fix=fix)
    return out.getvalue()


_TEXT: dict[str, Callable[[Table], str]] = {"markdown": to_markdown, "latex": to_latex}


def to_html(table: Table, notes_above: set[str] | None = None) -> str:
    """Return a table as HTML, with its notes: what its text formats hold, nothing cut.

    `notes_above`: notes that a reader has read above, to which those of the table are added.
    """
    parts = []
    for grid in table.grids():
        parts.append(f"<p><i>{escape(clean(grid.title))}</i></p>")
        parts += [grid_html(_grid(grid))] if grid.rows else []
    notes_above = set() if notes_above is None else notes_above
    own = [note for note in _notes_below(table) if note not in notes_above]
    notes_above.update(own)
    notes = "".join(f"<li>{escape(clean(note))}</li>" for note in own)
    return f'{"".join(parts)}<ul style="font-size:smaller">{notes}</ul>'


def render(tables: Sequence[Table], form: str, width: int = UNCUT) -> bytes:
    """Return tables in one of `FORMATS`; raises UsageError where a format holds one table only."""
    if form == "terminal":
        return to_terminal(tables, width).encode()
    if form == "json":
        return to_json(*tables).encode()
    if form == "excel":
        return to_excel(tables)
    if form in _TEXT:
        return "\n".join(_TEXT[form](t) for t in tables).encode()
    if len(tables) != 1:
        names = ", ".join(t.name for t in tables)
        raise UsageError(f"--format {form} holds one table: name it with --table ({names})")
    return to_parquet(tables[0]) if form == "parquet" else to_csv(tables[0]).encode()


def write(path: Path, content: bytes) -> None:
    """Write a rendered table; raises RecordError where it cannot be written."""
    with os_errors_as(RecordError, f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
