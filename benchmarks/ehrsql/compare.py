"""SQL queries and their results, compared: the same rows, the same query in other words."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from math import isclose
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.schema import MappingSchema

Row = Sequence[Any]

_HIDDEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LONGEST = 10_000
"""Characters of a query that is parsed. The parser is in Python."""


def is_ordered(sql: str) -> bool:
    """Return whether a query has an ORDER BY of its own, not one of a part in parentheses."""
    code = _HIDDEN.sub("''", sql)
    depth = 0
    for match in re.finditer(r"[()]|\border\s+by\b", code, re.IGNORECASE):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0 and match[0] not in "()":
            return True
    return False


def same_rows(gold: Sequence[Row], found: Sequence[Row], *, ordered: bool) -> bool:
    """Return whether two results hold the same rows, each as often.

    Numbers are equal within a millionth of their size, a text that is a number equals the
    number where the other side has numbers. Names of columns do not matter, their number does.
    """
    if len(gold) != len(found) or len({len(row) for row in (*gold, *found)}) > 1:
        return False
    mixed = [_is_mixed(column) for column in zip(*gold, *found, strict=True)]
    pairs = [
        [tuple(_number(c) if m else c for c, m in zip(row, mixed, strict=True)) for row in rows]
        for rows in (gold, found)
    ]
    left, right = pairs if ordered else [sorted(rows, key=_key) for rows in pairs]
    return all(
        _is_same(a, b)
        for one, other in zip(left, right, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def _is_mixed(column: Row) -> bool:
    return any(isinstance(c, str) for c in column) and any(_is_number(c) for c in column)


def _number(cell: Any) -> Any:
    is_text = isinstance(cell, str) and re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", cell)
    return float(cell) if is_text else cell


def _is_number(cell: object) -> TypeGuard[int | float]:
    return isinstance(cell, int | float)


def _key(row: Row) -> tuple[Any, ...]:
    """Put texts before numbers, so that numbers that differ by rounding part no pair."""
    texts = [(n, type(c).__name__, str(c)) for n, c in enumerate(row) if not _is_number(c)]
    return (texts, [float(f"{c:.6g}") for c in row if _is_number(c)])


def _is_same(a: object, b: object) -> bool:
    if _is_number(a) and _is_number(b):
        return isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    return type(a) is type(b) and a == b


def same_query(one: str, other: str, schema: str) -> bool:
    """Return whether two SQLite queries are the same in canonical form (see `canonical_sql`).

    Queries over other tables, or with other texts, are distinguished without being parsed.
    """
    if one == other:
        return True
    if _marks(one, schema) != _marks(other, schema):
        return False
    form = canonical_sql(one, schema)
    return form is not None and form == canonical_sql(other, schema)


def _marks(sql: str, schema: str) -> set[str]:
    """Return the tables and the texts that a query names."""
    texts = {m[0] for m in _HIDDEN.finditer(sql) if m[0].startswith("'")}
    code = _HIDDEN.sub(lambda m: m[0] if m[0].startswith('"') else " ", sql)
    words = set(re.findall(r"\w+", code.lower()))
    return texts | (words & _tables(schema).mapping.keys())


@lru_cache(maxsize=4096)
def canonical_sql(sql: str, schema: str) -> str | None:
    """Return the canonical form of a SQLite query, None where it cannot be parsed.

    The form evens out case, quotes, comments, aliases, left-out table names and the order of
    conditions. `schema` holds the CREATE TABLE statements.
    """
    if len(sql) > _LONGEST:
        return None
    from sqlglot import errors, exp, parse_one
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.simplify import simplify

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # its warnings quote the query
    try:
        tree = parse_one(sql, read="sqlite")
        if not isinstance(tree, exp.Query):
            return None
        tree = qualify(
            tree,
            schema=_tables(schema),
            dialect="sqlite",
            quote_identifiers=False,
            identify=False,
            validate_qualify_columns=False,
        )
        _number_tables(tree)
        for name in tree.find_all(exp.Identifier):
            name.set("quoted", False)
        if isinstance(tree, exp.Select):
            tree.set("expressions", [e.unalias() for e in tree.expressions])
        return str(simplify(tree, dialect="sqlite").sql(dialect="sqlite", comments=False))
    except (errors.SqlglotError, RecursionError, ValueError, KeyError, AttributeError, TypeError):
        return None  # the parser takes much for SQL, and its optimizer trips over some of it


def _number_tables(tree: exp.Query) -> None:
    """Name the tables of every part t0, t1, ... in place of their aliases."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    sources = [
        (node, [column for column in scope.columns if column.table == alias])
        for scope in traverse_scope(tree)
        for alias, (node, _) in scope.selected_sources.items()
    ]
    for n, (node, columns) in enumerate(sources):
        node.set("alias", exp.TableAlias(this=exp.to_identifier(f"t{n}")))
        for column in columns:
            column.set("table", exp.to_identifier(f"t{n}"))


@lru_cache(maxsize=8)
def _tables(schema: str) -> MappingSchema:
    from sqlglot import exp, parse
    from sqlglot.schema import MappingSchema

    columns: dict[str, object] = {
        statement.this.this.name: {
            c.name: c.args["kind"].sql() for c in statement.this.find_all(exp.ColumnDef)
        }
        for statement in parse(schema, read="sqlite")
        if isinstance(statement, exp.Create)
    }
    return MappingSchema(columns, dialect="sqlite")
