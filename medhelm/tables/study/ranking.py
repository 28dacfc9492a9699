"""The ranked models on the common benchmarks: scores, win rates, ranks and what is sure of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import TIE, Floats, Ints, WinDefinition
from medhelm.stats.intervals import Interval, bootstrap, percentile, seed_of
from medhelm.stats.rank_sets import clearly_better, macro_errors, rank_sets
from medhelm.tables.format.table import Settings


@dataclass(frozen=True)
class Ranking:
    """The ranked models on the common benchmarks; arrays follow the order of these two tuples."""

    models: tuple[str, ...]
    benchmarks: tuple[str, ...]
    scores: Floats
    """Normalised scores (M, B)."""
    draws: Floats
    """Their bootstrap draws (D, M, B), models paired within each benchmark."""
    clusters: Floats
    """Effective clusters (B,) of the compared instances."""
    settings: Settings

    @property
    def is_defined(self) -> bool:
        """Return whether there is anything to rank: two models on one benchmark."""
        return len(self.models) > 1 and len(self.benchmarks) > 0

    @cached_property
    def rate_draws(self) -> Mapping[WinDefinition, Floats]:
        """Draws (D, M) of both win rates, instances resampled within each benchmark."""
        definitions: tuple[WinDefinition, ...] = get_args(WinDefinition)
        won, tied = stats.wins_and_ties(self.draws)
        return {d: stats.rate_of_wins(won, tied, len(self.benchmarks), d) for d in definitions}

    @cached_property
    def merit(self) -> Floats:
        """Return the values (M,) that models are ranked by: a win rate or the macro-average."""
        by = self.settings.rank_by
        return self.scores.mean(axis=1) if by == "macro" else stats.win_rates(self.scores, by)

    @cached_property
    def merit_draws(self) -> Floats:
        """Draws (D, M) of what ranks."""
        by = self.settings.rank_by
        return self.draws.mean(axis=2) if by == "macro" else self.rate_draws[by]

    @cached_property
    def is_better(self) -> NDArray[np.bool_]:
        """Return whether row is clearly better than column (M, M), over all pairs at once.

        The draws of a win rate do not lie round the win rate itself, since ties and near ties come
        apart in them; round their mean they are wide enough, but for few benchmarks.
        """
        confidence = self.settings.confidence
        macro = clearly_better(
            self.scores.mean(axis=1),
            self.draws.mean(axis=2),
            confidence,
            macro_errors(self.scores, self.draws, self.clusters),
        )
        if self.settings.rank_by == "macro":
            return macro
        rate = clearly_better(self.merit_draws.mean(axis=0), self.merit_draws, confidence)
        return macro & rate & (self.merit[:, None] - self.merit[None, :] > TIE)

    def ranks(self) -> tuple[Ints, Ints, Ints]:
        """Return ranks (M,) and the ends of their simultaneous confidence sets."""
        return stats.ranks(self.merit), *rank_sets(self.is_better)

    def groups(self) -> Ints:
        """Return the tie group (M,) of each model."""
        return stats.tie_groups(self.merit, self.is_better)

    def suite_intervals(self) -> list[Interval]:
        """Return each model's interval of the win rate (a tie counts half) over resampled benchmarks.

        This is the uncertainty if the suite were drawn from a population of benchmarks; the
        scores are taken as they are.
        """
        wins = np.stack(
            [stats.win_rates(self.scores[:, [b]], "half") for b in range(len(self.benchmarks))]
        )
        if len(wins) < 2:
            return [Interval(None, None, "none (one benchmark)")] * len(self.models)
        seed = seed_of(self.settings.bootstrap_seed, "benchmarks")
        drawn = bootstrap(wins, self.settings.draws, seed) / len(wins)
        return [percentile(d, self.settings.confidence, len(wins)) for d in drawn.T]
