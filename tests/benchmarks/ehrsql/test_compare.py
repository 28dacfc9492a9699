"""Rows and queries compared: what counts as the same."""

from __future__ import annotations

import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm_benchmarks.ehrsql.compare import canonical_sql, is_ordered, same_query, same_rows
from tests.cases import cases

SCHEMA = (
    "CREATE TABLE patient (uniquepid VARCHAR(10) NOT NULL, stay INT, age INT, gender TEXT) ;\n"
    "CREATE TABLE lab (stay INT, labname TEXT, labresult NUMERIC(11,4), taken TIMESTAMP(0)) ;"
)
Rows = list[tuple[object, ...]]


@pytest.mark.parametrize(("one", "other", "unordered", "ordered"), cases(__file__, "rows"))
def test_rows(one: Rows, other: Rows, unordered: bool, ordered: bool) -> None:
    for a, b in ((one, other), (other, one)):
        assert same_rows(a, b, ordered=False) == unordered
        assert same_rows(a, b, ordered=True) == ordered


cells = st.none() | st.integers(-(10**12), 10**12) | st.text("ab1", max_size=3)
tables = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.tuples(*[cells] * width), min_size=1, max_size=8)
)


@pytest.mark.slow
@given(tables, st.randoms())
def test_any_order_of_the_same_rows_is_the_same(rows: Rows, random: object) -> None:
    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert same_rows(rows, mixed, ordered=False)
    assert not same_rows(rows, [*mixed, mixed[0]], ordered=False)


@pytest.mark.parametrize(("sql", "expected"), cases(__file__, "only_an_order_of_its_own_counts"))
def test_only_an_order_of_its_own_counts(sql: str, expected: bool) -> None:
    assert is_ordered(sql) == expected


GOLD = "select patient.age from patient where patient.uniquepid = '1' and patient.gender = 'f'"


@pytest.mark.parametrize("sql", cases(__file__, "the_same_query_in_other_words"))
def test_the_same_query_in_other_words(sql: str) -> None:
    assert same_query(GOLD, sql, SCHEMA)
    assert same_query(sql, GOLD, SCHEMA)


@pytest.mark.parametrize("sql", cases(__file__, "another_query"))
def test_another_query(sql: str) -> None:
    assert not same_query(GOLD, sql, SCHEMA)


def test_tables_of_inner_parts_keep_apart() -> None:
    gold = (
        "select a.age from patient a where a.stay in (select b.stay from lab b where b.stay = {})"
    )
    one, other = gold.format("a.stay"), gold.format("b.stay")
    assert not same_query(one, other, SCHEMA)
    renamed = one.replace("a.", "x.").replace("patient a", "patient x")
    assert same_query(one, renamed, SCHEMA)


@pytest.mark.slow
def test_what_cannot_be_parsed_is_none_at_once_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = time.process_time()
    with caplog.at_level(logging.DEBUG):
        for sql in (
            "select " + "(" * 4_000 + "1" + ")" * 4_000,
            "select " + "not " * 2_000 + "1",
            "select 1" + "+1" * 4_000,
            "select 'unclosed",
            "vacuum secret",
            "x" * 200_000,
            "\0",
        ):
            form = canonical_sql(sql, SCHEMA)
            assert form is None or "unclosed" not in form
    assert time.process_time() - started < 20
    assert not [r for r in caplog.records if r.name.startswith("sqlglot")]
