"""Sums of floats without rounding between, so that they do not depend on the order."""

from __future__ import annotations

import math

_PLACES = 1074
"""Binary places behind the point of the smallest float: every float is a whole number of these."""


class ExactSum:
    """A sum of finite floats that is rounded once, when it is read."""

    def __init__(self) -> None:
        self._units = 0

    def add(self, value: float) -> None:
        """Add a value exactly."""
        above, below = value.as_integer_ratio()
        self._units += above << (_PLACES + 1 - below.bit_length())

    def rounded(self) -> float:
        """Return the float that is nearest to the sum; infinity beyond the largest one."""
        try:
            return self._units / (1 << _PLACES)
        except OverflowError:
            return math.inf if self._units > 0 else -math.inf
