"""Sums that do not depend on the order, against `math.fsum` and fractions."""

from __future__ import annotations

import functools
import math
import operator
import random
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from medhelm.stats.aggregation import ExactSum


def total(values: list[float]) -> float:
    found = ExactSum()
    for value in values:
        found.add(value)
    return found.rounded()


@given(st.lists(st.floats(-1e300, 1e300, allow_nan=False)))
def test_the_sum_is_the_exact_one_rounded_once(values: list[float]) -> None:
    exact = sum(map(Fraction, values), Fraction())
    assert total(values) == float(exact) == math.fsum(values)


def test_the_order_changes_no_bit() -> None:
    rng = random.Random(3)
    values = [rng.random() / 3 for _ in range(5000)]
    plain = set()
    found = set()
    for _ in range(5):
        rng.shuffle(values)
        found.add(total(values))
        plain.add(functools.reduce(operator.add, values))  # `sum` is compensated since 3.12
    assert len(found) == 1 and len(plain) > 1


def test_the_ends_of_the_range() -> None:
    least = 5e-324
    assert total([least, least]) == 2 * least
    assert total([1e308, 1e308, -1e308]) == 1e308
    assert total([1e308, 1e308]) == math.inf and total([-1e308, -1e308]) == -math.inf
    assert total([]) == 0.0
