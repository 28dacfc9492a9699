"""Table 1 of the MedHELM paper (arXiv 2505.23802) from its authors' published scores."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import Floats, WinDefinition
from tests.published import published

TABLE = {
    "DeepSeek R1": (0.66, 0.10, 0.75, 0.22),
    "o3-mini (2025-01-31)": (0.64, 0.16, 0.77, 0.18),
    "Claude 3.7 Sonnet (20250219)": (0.64, 0.13, 0.73, 0.21),
    "Claude 3.5 Sonnet (20241022)": (0.63, 0.14, 0.73, 0.21),
    "GPT-4o (2024-05-13)": (0.57, 0.17, 0.73, 0.18),
    "Gemini 2.0 Flash": (0.42, 0.17, 0.70, 0.21),
    "GPT-4o mini (2024-07-18)": (0.39, 0.18, 0.71, 0.20),
    "Llama 3.3 Instruct (70B)": (0.30, 0.13, 0.69, 0.22),
    "Gemini 1.5 Pro (001)": (0.24, 0.08, 0.67, 0.21),
}
"""Model -> win rate, its SD, macro-average, its SD, as printed."""


def scores() -> tuple[list[str], Floats]:
    """Return models and normalised scores (9, 35); jury scores become (x - 1) / 4."""
    rows = published("scores.csv")
    names = [n for n in rows[0] if n not in ("Model", "Mean win rate")]
    kept = [n for n in names if not n.startswith(("MedQA ", "MedMCQA "))]
    assert (len(rows), len(kept)) == (9, 35)
    found = np.array([[float(row[n]) for n in kept] for row in rows])
    jury = np.array([n.endswith("Jury Score") for n in kept])
    found[:, jury] = stats.normalise(found[:, jury], 1, 5)
    return [row["Model"] for row in rows], found


def misprinted(models: list[str], values: Floats, column: int) -> set[str]:
    """Return the models whose value, rounded half up to two digits, is not the printed one."""
    cents = [Decimal(f"{v:.12f}").quantize(Decimal("0.01"), ROUND_HALF_UP) for v in values]
    return {m for m, c in zip(models, cents, strict=True) if float(c) != TABLE[m][column]}


def test_macro_averages_and_their_sds_are_those_of_table_1() -> None:
    models, values = scores()
    assert not misprinted(models, values.mean(axis=1), 2)
    sds = np.array([stats.sample_sd(row, stats.MACRO_SD_DDOF) for row in values])
    assert not misprinted(models, sds, 3)


@pytest.mark.parametrize(("definition", "printed"), [("half", 8), ("literal", 3)])
def test_table_1_counts_a_tie_as_one_half(definition: WinDefinition, printed: int) -> None:
    models, values = scores()
    rates = stats.win_rates(values, definition)
    wrong = misprinted(models, rates, 0)
    assert len(models) - len(wrong) == printed
    if definition == "half":  # two models of one win rate, 178 of 280, print as 0.64 and 0.63
        assert wrong == {"Claude 3.5 Sonnet (20241022)"}
        equal = [r for m, r in zip(models, rates, strict=True) if m.startswith("Claude")]
        assert equal == [178 / 280, 178 / 280]


def test_win_sds_of_table_1_are_over_rivals() -> None:
    models, values = scores()
    found = stats.win_sd(values, "half")
    wrong = misprinted(models, found, 1)  # 0.153 is printed as 0.16, 0.136 as 0.13
    assert wrong == {"o3-mini (2025-01-31)", "Claude 3.7 Sonnet (20250219)"}
    printed = [TABLE[m][1] for m in models]
    assert found == pytest.approx(printed, abs=0.01)
    per_benchmark = [stats.win_rates(values[:, [b]], "half") for b in range(35)]
    assert (np.std(per_benchmark, axis=0) > 0.2).all()  # over benchmarks they are far larger
