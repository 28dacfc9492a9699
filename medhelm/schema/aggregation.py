"""Aggregations make the value of a run of the scores of instances: functions of named sums.

A score brings summands by name. They are summed over instances, or over those that a bootstrap
draws, and one function makes the value of the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # numpy waits: `medhelm list` needs this module
    import numpy as np
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float64]"
Sums: TypeAlias = "Mapping[str, NDArray[np.float64]]"
"""Sums by name: arrays of one shape, () for a run, (draws,) for the draws of a bootstrap."""

EACH = "*"
"""Last character of a name that means one sum of each label: `tp/*` is tp/E11.9, tp/I10 and so on."""


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """A rule that turns the sums of a run's scores into its value.

    `of` takes the sums by name and returns an array of their shape, by plain arithmetic: what is
    divided by 0 is undefined, and so is what is not finite.
    """

    name: str
    """Kept in the records of runs; one name, one aggregation."""
    sums: tuple[str, ...]
    """Names of the sums in every score. All of them end in `/*`, or none."""
    of: Callable[[Sums], Floats]
    extremes: Callable[[Sums, float, float], tuple[Sums, Sums]] | None = None
    """Returns the sums of the lowest and of the highest cluster that there can be, of the sums
    (C,) of the clusters seen and of the metric's range. None: one instance has no bound."""

    @property
    def is_by_label(self) -> bool:
        """Return whether there is one sum of each label."""
        return self.sums[0].endswith(EACH)

    def is_full(self, names: tuple[str, ...]) -> bool:
        """Return whether these are all the sums, of at least one label."""
        if not self.is_by_label:
            return set(names) == set(self.sums)
        heads = [name.removesuffix(EACH) for name in self.sums]
        labels = [{n.removeprefix(h) for n in names if n.startswith(h)} for h in heads]
        is_same = all(own == labels[0] for own in labels)
        return bool(names) and is_same and len(labels[0]) * len(heads) == len(names)


@dataclass(frozen=True)
class Share:
    """Returns part / whole of two sums. A value, and no lambda, so that processes can share it."""

    part: str
    whole: str

    def __call__(self, sums: Sums) -> Floats:
        """Return the share."""
        return sums[self.part] / sums[self.whole]


@dataclass(frozen=True)
class ShareExtremes:
    """Returns the extremes of sums that lie between minimum and maximum times another sum."""

    shares: tuple[tuple[str, str], ...]
    """Names of the sum and of the other one; they may end in `/*`."""
    unused: tuple[str, ...] = ()
    """Names of sums that are 0 in the extremes, since the value does not use them."""

    def __call__(self, seen: Sums, minimum: float, maximum: float) -> tuple[Sums, Sums]:
        """Return the sums of a cluster as large as the largest seen, at its lowest and highest."""
        low: dict[str, Floats] = {name: 0.0 * seen[name].max(0) for name in self.unused}
        high = dict(low)
        for part, whole in self._pairs(seen):
            size = seen[whole].max(0)
            low |= {part: minimum * size, whole: size}
            high |= {part: maximum * size, whole: size}
        return low, high

    def _pairs(self, seen: Sums) -> Iterator[tuple[str, str]]:
        for part, whole in self.shares:
            if not part.endswith(EACH):
                yield part, whole
                continue
            heads = part.removesuffix(EACH), whole.removesuffix(EACH)
            own = [name for name in seen if name.startswith(heads[0])]
            yield from ((name, heads[1] + name.removeprefix(heads[0])) for name in own)


def pooled_share(name: str, part: str, whole: str, *unused: str) -> Aggregation:
    """Return the aggregation part / whole of two sums; further sums are for tables."""
    return Aggregation(
        name=name,
        sums=(part, whole, *unused),
        of=Share(part, whole),
        extremes=ShareExtremes(((part, whole),), unused),
    )


MEAN = pooled_share("mean", "sum", "count")
"""The mean of the values. Their scores bring no sums: a value counts once."""
