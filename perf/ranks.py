"""Measures by simulation how often ranks part equal models and hold the true rank.

    python perf/ranks.py [--fields 100]

Each field is nine models on B benchmarks of n instances, every second one graded in fifths, the
others right or wrong; answers to one instance correlate by 1/2. Skills are shifts on the scale of
the latent normal: `equal`; `near`, evenly from 0 to 0.2; `one better`, by 0.2; `own`, equal but for
a shift of each model on each benchmark with SD 0.1. Ranks are those of the tables, from 1,000 draws;
the true rank is that of the population's scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import Floats
from medhelm.stats.intervals import bootstrap
from medhelm.tables.format.table import RankBy, Settings
from medhelm.tables.study.ranking import Ranking

MODELS = 9
DRAWS = 1000
LEVELS = 5
SIZES = ((1, 200), (2, 200), (6, 50), (6, 200), (12, 200), (35, 50))
_GRID = np.linspace(-8, 8, 2001)
_WEIGHTS = np.exp(-(_GRID**2) / 2) / np.exp(-(_GRID**2) / 2).sum()


@cache
def _normal() -> Callable[[Floats], Floats]:
    from scipy.special import ndtr

    return lambda x: np.asarray(ndtr(x))


def _graded(latent: Floats) -> Floats:
    return np.round(_normal()(latent) * (LEVELS - 1)) / (LEVELS - 1)


def _value(latent: Floats, benchmark: int) -> Floats:
    return _graded(latent) if benchmark % 2 else (latent > 0).astype(np.float64)


def shifts(kind: str, benchmarks: int, rng: np.random.Generator) -> Floats:
    """Return the skills (M, B) of a field; a benchmark's difficulty is the same for all."""
    skill = np.zeros((MODELS, benchmarks))
    if kind == "near":
        skill += np.linspace(0, 0.2, MODELS)[:, None]
    elif kind == "one better":
        skill[0] += 0.2
    elif kind == "own":
        skill += rng.normal(0, 0.1, skill.shape)
    return skill + rng.uniform(-0.5, 1.2, benchmarks)


def truth(skill: Floats) -> Floats:
    """Return the population's scores (M, B)."""
    columns = []
    for b in range(skill.shape[1]):
        latent = skill[:, b, None] + _GRID
        value = _graded(latent) @ _WEIGHTS if b % 2 else _normal()(skill[:, b])
        columns.append(value)
    return np.stack(columns, axis=1)


def ranking(skill: Floats, n: int, rng: np.random.Generator, by: RankBy = "half") -> Ranking:
    """Return the ranking of one simulated field."""
    scores, draws = [], []
    for b in range(skill.shape[1]):
        noise = rng.normal(size=(n, 1)) + rng.normal(size=(n, MODELS))
        values = _value(skill[:, b] + noise / np.sqrt(2), b)
        scores.append(values.mean(axis=0))
        draws.append(bootstrap(values, DRAWS, int(rng.integers(1 << 40))) / n)
    return Ranking(
        models=tuple(f"m{m}" for m in range(MODELS)),
        benchmarks=tuple(f"b{b}" for b in range(skill.shape[1])),
        scores=np.stack(scores, axis=1),
        draws=np.stack(draws, axis=2),
        clusters=np.full(skill.shape[1], float(n)),
        settings=Settings(draws=DRAWS, rank_by=by),
    )


def measure(
    kind: str, benchmarks: int, n: int, fields: int, rankings: Sequence[RankBy]
) -> dict[RankBy, tuple[Floats, Floats]]:
    """Return, of the same fields ranked each way: parted equal models, rank covered, all ranks covered, width; SE too."""
    rng = np.random.default_rng([benchmarks, n, len(kind)])
    found: dict[RankBy, list[Floats]] = {by: [] for by in rankings}
    for _ in range(fields):
        skill = shifts(kind, benchmarks, rng)
        true = truth(skill)
        field = ranking(skill, n, rng)
        for by in rankings:
            merit = true.mean(axis=1) if by == "macro" else stats.win_rates(true, by)
            own = replace(field, settings=replace(field.settings, rank_by=by))
            _, low, high = own.ranks()
            held = (low <= stats.ranks(merit)) & (stats.ranks(merit) <= high)
            is_equal = np.abs(merit[:, None] - merit[None, :]) <= stats.TIE
            wrong = (own.is_better & is_equal).any()
            figures = (wrong, held.mean(), held.all(), (high - low).mean())
            found[by].append(np.array(figures, dtype=np.float64))
    values = {by: np.stack(own) for by, own in found.items()}
    return {by: (v.mean(axis=0), v.std(axis=0) / np.sqrt(fields)) for by, v in values.items()}


def main() -> None:
    """Print one line for each ranking, kind and size of field."""
    from measuring import parser  # a test imports this module from elsewhere

    fields = parser(__doc__, fields=100).parse_args().fields
    print(f"{fields} fields of {MODELS} models; +- is the simulation's standard error")
    print("by    field       B    n  equal parted   rank held    all held  width")
    for kind in ("equal", "near", "one better", "own"):
        for benchmarks, n in SIZES:
            found = measure(kind, benchmarks, n, fields, ("half", "macro"))
            for by, (mean, error) in found.items():
                shares = "  ".join(
                    f"{m:.3f}+-{e:.3f}" for m, e in zip(mean[:3], error[:3], strict=True)
                )
                print(
                    f"{by:5} {kind:10} {benchmarks:2} {n:4}  {shares}  {mean[3]:5.2f}", flush=True
                )


if __name__ == "__main__":
    main()
