"""Columns of texts on a screen of a given width, where no number is ever cut.

What is too wide is made smaller in this order, only as far as needed:

1. names are shortened in their middle, other text is folded;
2. whole columns are left out, in an order that is given;
3. where what stays is still too wide, each row becomes a card with a line for each column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2
LEAST_TEXT = 20
"""Text columns are not made narrower than this."""
_PLAIN = str.maketrans("─…–", "-~-")
"""In place of characters that an old encoding of the output lacks."""
_MOST_WORD = 40
"""Words of text that are longer are broken."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A column as texts."""

    name: str
    """Its name in notes."""
    heading: str
    cells: tuple[str, ...]
    is_number: bool = False
    """True if its cells are printed whole, at the right. Others are shortened or folded."""
    is_key: bool = False
    """True if its cells are printed whole since a reader types them."""

    @cached_property
    def is_names(self) -> bool:
        """Return whether each cell is one word, which is shortened; other text is folded."""
        return not any(" " in cell.strip() or _is_figure(cell) for cell in self.cells)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Columns of equal length, and what may be left out of them."""

    columns: tuple[Shown, ...]
    leaving: tuple[str, ...] = ()
    """Names of columns that may be left out, the first one first."""
    groups: tuple[str, ...] = ()
    """The heading above each row, printed where it changes; none: no headings."""


def grid_of(
    columns: Mapping[str, Sequence[str]],
    *,
    numbers: Collection[str] = (),
    keys: Collection[str] = (),
    leaving: Sequence[str] = (),
) -> Grid:
    """Return columns of texts by their headings as a grid.

    `numbers` and `keys` name the columns that are never folded or shortened, `leaving` those that a
    narrow screen leaves out, the first one first.
    """
    shown = [
        Shown(
            name=name,
            heading=name,
            cells=tuple(cells),
            is_number=name in numbers,
            is_key=name in keys,
        )
        for name, cells in columns.items()
    ]
    return Grid(columns=tuple(shown), leaving=tuple(leaving))


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The form of a grid on a screen."""

    grid: Grid
    width: int
    """Of the screen."""
    widths: tuple[int, ...] = ()
    """Of the columns of a table."""
    left_out: tuple[str, ...] = ()
    is_cards: bool = False


def fit(grid: Grid, width: int) -> Fitted:
    """Return what of a grid a screen has room for."""
    columns = list(grid.columns)
    least = {c.name: _least(c) for c in columns}
    room = width - 1 - GAP * bool(grid.groups)

    def is_too_wide() -> bool:
        return sum(least[c.name] + GAP for c in columns) - GAP > room

    left_out = []
    for name in grid.leaving:
        if not is_too_wide():
            break
        columns = [c for c in columns if c.name != name]
        left_out.append(name)
    if is_too_wide():
        return Fitted(grid=grid, width=width, is_cards=True)
    kept = replace(grid, columns=tuple(columns))
    widths = _widths(columns, [least[c.name] for c in columns], room)
    return Fitted(grid=kept, width=width, widths=widths, left_out=tuple(left_out))


def lines(fitted: Fitted, *, has_rule: bool = True) -> Iterator[tuple[str, str]]:
    """Yield each line with its style, of a table or of cards."""
    grid, columns = fitted.grid, fitted.grid.columns
    margin, indent = " " * has_rule, " " * GAP * bool(grid.groups)
    widths = [len(indent) + w if not n else w for n, w in enumerate(fitted.widths)]
    if not fitted.is_cards:
        heads = [_fold(c.heading, w) for c, w in zip(columns, widths, strict=True)]
        for line in _row(columns, heads, widths):
            yield margin + line, "bold"
        if has_rule:
            yield margin + "─" * (sum(widths) + GAP * (len(widths) - 1)), ""
    for n in range(len(columns[0].cells)):
        if grid.groups and grid.groups[n] != (grid.groups[n - 1] if n else ""):
            if n:
                yield "", ""
            yield from ((line, "bold") for line in _fold(grid.groups[n], fitted.width))
        if fitted.is_cards:
            yield from _card(columns, n, fitted.width)
            continue
        cells = [_cell(c, c.cells[n], w) for c, w in zip(columns, fitted.widths, strict=True)]
        cells[0] = [indent + part for part in cells[0]]
        for line in _row(columns, cells, widths):
            yield margin + line, ""


def print_grid(grid: Grid, out: Console, *, fix: str) -> None:
    """Print a grid without rules and name what is left out; `fix` says how to see it."""
    fitted = fit(grid, out.width)
    print_lines(lines(fitted, has_rule=False), out)
    for note in no_room(fitted, fix):
        print_lines([(note, "dim")], out, is_prose=True)


def to_text(grid: Grid, width: int) -> str:
    """Return a grid as plain text for a screen of a given width."""
    return "\n".join(line for line, _ in lines(fit(grid, width), has_rule=False))


def to_html(grid: Grid) -> str:
    """Return a grid as an HTML table with every column, nothing cut."""
    import pandas as pd

    columns = [(c.heading, c.cells) for c in grid.columns]
    columns = [("", grid.groups), *columns] if grid.groups else columns
    rows = zip(*(cells for _, cells in columns), strict=True)
    frame = pd.DataFrame(rows, columns=[heading for heading, _ in columns])
    with pd.option_context("display.max_colwidth", None):
        return str(frame.to_html(index=False, border=0))


def no_room(fitted: Fitted, fix: str) -> list[str]:
    """Return the notes that name what a screen has no room for, and how to see it."""
    names = ", ".join(fitted.left_out)
    return [f"No room here for the columns {names}: {fix}"] if names else []


def print_lines(found: Iterable[tuple[str, str]], out: Console, *, is_prose: bool = False) -> None:
    """Print lines with their styles. Only prose is folded, and no line is cut."""
    from rich.text import Text

    for style, some in groupby(found, key=lambda line: line[1]):
        text = "\n".join(line for line, _ in some)
        if not out.encoding.lower().startswith("utf"):
            text = text.translate(_PLAIN).encode(out.encoding, "replace").decode(out.encoding)
        out.print(Text(text, style=style), soft_wrap=not is_prose)


def shorten(name: str, width: int) -> str:
    """Return a name with its middle left out where it is wider than so many characters."""
    from rich.cells import cell_len

    if cell_len(name) <= width:
        return name
    head, tail = list(name), [name[-1]]
    while cell_len("".join(tail)) < (width - 1) // 2:
        tail.insert(0, name[-len(tail) - 1])
    while head and cell_len("".join(head)) + 1 + cell_len("".join(tail)) > width:
        head.pop()
    return "".join(head) + "…" + "".join(tail)


def _least(column: Shown) -> int:
    """Return the least width of a column: numbers are whole, names stay apart when shortened."""
    heading = _heading(column.heading)
    longest = max(map(_width, column.cells), default=0)
    if column.is_number or column.is_key or longest <= LEAST_TEXT:
        return max(heading, longest)
    if column.is_names:
        least = next(w for w in range(LEAST_TEXT, longest + 1) if _is_apart(column.cells, w))
    else:
        words = (_width(word) for cell in column.cells for word in cell.split())
        least = max(LEAST_TEXT, min(max(words), _MOST_WORD))
    return max(heading, least)


def _heading(heading: str) -> int:
    """Return the least width at which a heading has at most two lines."""
    words = heading.split()
    halves = [(" ".join(words[:n]), " ".join(words[n:])) for n in range(len(words))]
    return min((max(map(_width, both)) for both in halves), default=0)


def _widths(columns: Sequence[Shown], least: list[int], room: int) -> tuple[int, ...]:
    """Return the widths of columns that fit: what is to spare goes to headings, then to text."""
    widths = [*least]
    spare = room - sum(widths) - GAP * (len(widths) - 1)
    whole = [max(map(_width, (c.heading, *c.cells))) for c in columns]
    for n, column in enumerate(columns):
        if column.is_number:
            more = min(spare, whole[n] - widths[n])
            widths[n] += more
            spare -= more
    while spare > 0 and (open_ := [n for n in range(len(columns)) if widths[n] < whole[n]]):
        narrow = min(open_, key=lambda n: widths[n])
        widths[narrow] += 1
        spare -= 1
    for n, column in enumerate(columns):
        if widths[n] < whole[n] and not column.is_number and column.is_names:
            fit_in = range(widths[n], least[n] - 1, -1)
            widths[n] = next((w for w in fit_in if _is_apart(column.cells, w)), least[n])
    return tuple(widths)


def _is_figure(word: str) -> bool:
    return any(c.isdigit() for c in word) and not any(c.isalpha() for c in word)


def _is_apart(cells: Sequence[str], width: int) -> bool:
    """Return whether names that differ still differ when they are shortened."""
    names = set(cells)
    return len({shorten(name, width) for name in names}) == len(names)


def _cell(column: Shown, cell: str, width: int) -> list[str]:
    if column.is_number or _width(cell) <= width:
        return [cell]
    return [shorten(cell, width)] if column.is_names else _fold(cell, width)


def _row(
    columns: Sequence[Shown], cells: Sequence[list[str]], widths: Sequence[int]
) -> Iterator[str]:
    for n in range(max(map(len, cells))):
        parts = []
        for column, cell, width in zip(columns, cells, widths, strict=True):
            text = cell[n] if n < len(cell) else ""
            space = " " * (width - _width(text))
            parts.append(space + text if column.is_number else text + space)
        yield (" " * GAP).join(parts).rstrip()


def _card(columns: Sequence[Shown], n: int, width: int) -> Iterator[tuple[str, str]]:
    """Yield the lines of one row: its first name, then the others behind their headings."""
    name = next((c for c in columns if not c.is_number), columns[0])
    title = f"{name.heading} {name.cells[n]}"
    if name.is_number or name.is_key:
        yield title if _width(title) <= width else name.cells[n], "bold"
    else:
        folded = [shorten(title, width)] if name.is_names else _fold(title, width)
        yield from ((line, "bold") for line in folded)
    others = [c for c in columns if c is not name and c.cells[n]]
    label = max((_width(c.heading) for c in others), default=0)
    for column in others:
        cell = column.cells[n]
        head = " " * GAP + column.heading
        if GAP + label + GAP + _width(cell) <= width:
            yield head + " " * (label - _width(column.heading) + GAP) + cell, ""
        else:
            yield head, ""
            is_whole = column.is_number or _is_figure(cell)
            room = max(width - 2 * GAP, 1)
            for part in [cell] if is_whole else _cell(column, cell, room):
                yield " " * 2 * GAP + part, ""


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _fold(text: str, width: int) -> list[str]:
    """Return text in lines of at most so many characters, broken at spaces where there are some."""
    from rich.cells import chop_cells

    found: list[str] = []
    for word in text.split():
        if found and _width(f"{found[-1]} {word}") <= width:
            found[-1] += f" {word}"
        else:
            found += chop_cells(word, width)
    return found or [""]
