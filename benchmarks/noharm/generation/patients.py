"""The patients of a series, so that no two of its cases are of one and the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from medhelm_benchmarks.noharm.generation.guideline import words

MOST_ALIKE = 0.5
"""Largest share of runs of three words that two vignettes may have in common, as `medhelm qc` has
it for cases."""
_RUN = 3

_Runs = frozenset[tuple[str, ...]]


class Patients:
    """The accepted vignettes of a series. A case is compared with those of lower numbers only.

    So the same replies make the same cases, in whatever order they come.
    """

    def __init__(self) -> None:
        self._settled: dict[int, asyncio.Future[_Runs]] = {}

    def settle(self, number: int, vignette: str) -> None:
        """Keep the accepted vignette of a case; an empty one for a case that has none."""
        future = self._of(number)
        if not future.done():
            future.set_result(_runs(vignette))

    async def wait_for_lower(self, number: int) -> None:
        """Wait until all cases of lower numbers have a vignette, or have ended without one."""
        await asyncio.gather(*(self._of(n) for n in range(1, number)))

    def copies(self, number: int, vignette: str) -> Iterator[str]:
        """Yield as a fault that a vignette is of a patient of a lower number."""
        own = _runs(vignette)
        for lower in range(1, number):
            known = self._of(lower).result()
            shared = len(own & known)
            if shared and shared > MOST_ALIKE * (len(own) + len(known) - shared):
                yield (
                    "it is the patient of another case of this series: invent another one, with "
                    "another age, history and findings"
                )
                return

    def _of(self, number: int) -> asyncio.Future[_Runs]:
        if number not in self._settled:
            self._settled[number] = asyncio.get_running_loop().create_future()
        return self._settled[number]


def _runs(text: str) -> _Runs:
    own = words(text)
    return frozenset(tuple(own[i : i + _RUN]) for i in range(max(0, len(own) - _RUN + 1)))
