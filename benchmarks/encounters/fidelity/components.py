"""Components of the variance of scores: cases, runs of patient or clinician, evaluators.

A fully crossed design without interactions: the value is a mean plus one random effect for each factor
plus a rest. The estimates are those of the analysis of variance for balanced data (mean squares); an
estimate below 0 is shown as it is, since it says that the factor is too small to be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Cellkey = tuple[str, ...]
REST = "rest"


@dataclass(frozen=True)
class Component:
    """The variance of one factor."""

    factor: str
    levels: int
    variance: float | None
    """None where the factor has one level, or nothing is left over to compare with."""


def balanced(
    values: Mapping[Cellkey, float], factors: Sequence[str]
) -> tuple[NDArray[np.float64], list[list[str]]] | None:
    """Return values as an array over the levels of the factors, the first cut to what is complete.

    The first factor is the case: one that lacks a value at any combination of the others is left out.
    None where no case is complete.
    """
    levels = [sorted({key[n] for key in values}) for n in range(len(factors))]
    others = list(product(*levels[1:]))
    cases = [c for c in levels[0] if all((c, *other) in values for other in others)]
    if not cases:
        return None
    shape = (len(cases), *(len(level) for level in levels[1:]))
    flat = [values[(c, *other)] for c in cases for other in others]
    return np.array(flat, dtype=np.float64).reshape(shape), [cases, *levels[1:]]


def components(values: Mapping[Cellkey, float], factors: Sequence[str]) -> list[Component]:
    """Return the variance of each factor and of the rest; nothing where no case is complete."""
    found = balanced(values, factors)
    if found is None:
        return []
    array, levels = found
    mean = array.mean()
    effects: list[NDArray[np.float64]] = []
    for axis in range(array.ndim):
        others = tuple(a for a in range(array.ndim) if a != axis)
        effects.append(array.mean(axis=others) - mean)
    fitted = np.full(array.shape, mean)
    for axis, effect in enumerate(effects):
        shape = [1] * array.ndim
        shape[axis] = -1
        fitted = fitted + effect.reshape(shape)
    used = 1 + sum(len(level) - 1 for level in levels)
    left = array.size - used
    rest = float(((array - fitted) ** 2).sum() / left) if left > 0 else None
    result = []
    for factor, level, effect in zip(factors, levels, effects, strict=True):
        per_level = array.size / len(level)
        variance = None
        if len(level) > 1 and rest is not None:
            square = per_level * float((effect**2).sum()) / (len(level) - 1)
            variance = (square - rest) / per_level
        result.append(Component(factor, len(level), variance))
    return [*result, Component(REST, left, rest)]
