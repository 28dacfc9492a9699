"""Tables of many models: memory grows with the models, and the terminal names what it cuts."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from medhelm.stats.aggregation import Floats, Pooling
from medhelm.stats.intervals import PERMUTATIONS, permutation_p, swap_differences
from medhelm.tables import pairs
from medhelm.tables.format import formats
from medhelm.tables.format.table import Column, Settings, make_table
from medhelm.tables.loading import load_results
from medhelm.tables.study.ranking import Ranking
from medhelm.tables.study.study import _shared
from tests.build_runs import write_suite


@pytest.mark.slow
def test_a_ranking_needs_memory_for_its_models_and_not_for_their_square() -> None:
    """The differences of all pairs in all draws would be 200 x 79,800 numbers, 122 MiB."""
    rng = np.random.default_rng(0)
    draws = rng.random((200, 400, 2))
    ranking = Ranking(
        models=tuple(f"m{m}" for m in range(400)),
        benchmarks=("a", "b"),
        scores=draws.mean(axis=0),
        draws=draws,
        clusters=np.array([50.0, 50.0]),
        settings=Settings(draws=200),
    )
    tracemalloc.start()
    rank, low, high = ranking.ranks()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 2**20
    assert ((low <= rank) & (rank <= high)).all()


def _by_hand(sums: list[list[Floats]], kinds: list[Pooling], seeds: list[int]) -> Floats:
    """Return the p of every two models from swaps of that pair alone."""
    found = []
    for a, b in itertools.combinations(range(len(sums[0])), 2):
        gaps = [
            swap_differences(own[a], own[b], kind, permutations=PERMUTATIONS, seed=seed)
            for own, kind, seed in zip(sums, kinds, seeds, strict=True)
        ]
        real = [
            float(k(own[a].sum(0)) - k(own[b].sum(0))) for own, k in zip(sums, kinds, strict=True)
        ]
        found.append(permutation_p(float(np.mean(real)), np.mean(gaps, axis=0)))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [200_000, 130])
def test_p_of_all_pairs_at_once_are_those_of_each_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: int
) -> None:
    """A mean, a jury from 1 to 5, a mean in clusters and a pooled F1."""
    monkeypatch.setattr(pairs, "_NUMBERS", numbers)
    write_suite(tmp_path, 4, 4, 30)
    study = load_results(tmp_path).study(Settings(draws=20))
    macro = study.ranking.scores.mean(axis=1)
    gaps = np.array([a - b for a, b in itertools.combinations(macro, 2)])
    own = [pairs._benchmark(study, b) for b in study.ranking.benchmarks]
    assert [b.is_linear for b in own] == [True, True, True, False]
    scaled = [
        [np.concatenate([s[:, :1] / b.span, s[:, 1:]], axis=1) if b.is_linear else s for s in sums]
        for b in own
        for sums in [list(np.moveaxis(b.sums, 2, 0))]
    ]
    kinds, seeds = [b.pooling for b in own], [b.seed for b in own]
    wanted = _by_hand(scaled, kinds, seeds)
    assert pairs.permutation_ps(study, gaps).tolist() == wanted.tolist()
    table = load_results(tmp_path).typed("pairs", Settings(draws=20))
    assert [row["p"] for row in table.rows] == wanted.tolist()


def test_a_long_table_is_cut_on_the_terminal_and_whole_in_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = [Column(name="model", type="string", description="name", heading="model")]
    rows = [{"model": f"m{i}"} for i in range(1_200)]
    table = make_table("pairs", "All pairs", columns, rows, [], {})
    formats.print_tables([table])
    shown = capsys.readouterr().out
    assert "m999\n" in shown and "m1000" not in shown
    assert "1,000 of the 1,200" in " ".join(shown.split())
    for form in ("terminal", "csv", "json", "markdown"):
        text = formats.render([table], form).decode()
        assert "m1199" in text and "Printed are" not in text


def test_a_benchmark_is_shared_where_more_than_half_of_the_models_fit_it() -> None:
    """Else one newcomer with benchmarks of its own would leave all others unranked."""
    fits = {"a": {"x", "y"}, "b": {"x", "z"}, "c": {"x", "z"}, "d": {"w"}, "none": set()}
    assert _shared("wxyz", fits) == ("x",)
    assert _shared("wxyz", {m: fits[m] for m in "abc"}) == ("x", "z")
