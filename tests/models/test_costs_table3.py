"""The costs of the MedHELM paper's table 3 (arXiv 2505.23802), by our functions."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from medhelm.models.costs import upper_bound
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import JUDGE, Party, UsageTotals
from medhelm.store.records import read_record
from medhelm.tables.format.table import Settings
from medhelm.tables.results import load_results
from medhelm.tables.spending import Spend, add_spends
from tests.build_runs import Item, write_run
from tests.published import published

DATE = "2025-05-12"

TABLE = {
    "anthropic/claude-3-5-sonnet": (778.67, 792.21, 1_570.88),
    "anthropic/claude-3-7-sonnet": (768.26, 768.38, 1_536.64),
    "google/gemini-1.5-pro": (359.33, 771.73, 1_131.06),
    "google/gemini-2.0-flash": (43.04, 771.73, 814.77),
    "openai/gpt-4o": (647.28, 765.91, 1_413.19),
    "openai/gpt-4o-mini": (38.83, 765.91, 804.74),
    "meta/llama-3.3-70b": (172.45, 767.13, 939.58),
    "deepseek/deepseek-r1": (848.21, 957.96, 1_806.17),
    "openai/o3-mini": (762.50, 959.54, 1_722.04),
}
"""Model -> benchmark cost, jury cost, total; USD as table 3 prints them."""

PRINTED_TOKENS = {
    "anthropic/claude-3-5-sonnet": (245_958_343, 45_868_483),
    "anthropic/claude-3-7-sonnet": (242_510_517, 42_326_449),
    "google/gemini-1.5-pro": (277_273_571, 42_864_352),
    "google/gemini-2.0-flash": (276_777_154, 42_864_352),
    "openai/gpt-4o": (248_731_118, 41_929_516),
    "openai/gpt-4o-mini": (248_731_118, 41_929_516),
    "meta/llama-3.3-70b": (242_895_608, 42_121_933),
    "deepseek/deepseek-r1": (334_133_126, 68_364_208),
    "openai/o3-mini": (337_967_189, 68_617_978),
}
"""Model -> tokens of the benchmarks and of the jury, as table 3 prints them."""

PRICES = {
    "anthropic/claude-3-5-sonnet": (3.00, 15.00),
    "anthropic/claude-3-7-sonnet": (3.00, 15.00),
    "google/gemini-1.5-pro": (1.25, 5.00),
    "google/gemini-2.0-flash": (0.15, 0.60),
    "openai/gpt-4o": (2.50, 10.00),
    "openai/gpt-4o-mini": (0.15, 0.60),
    "meta/llama-3.3-70b": (0.71, 0.71),
    "deepseek/deepseek-r1": (1.35, 5.40),  # what was charged; table G5 prints 1.20 and 4.84
    "openai/o3-mini": (1.20, 4.84),
}
"""USD per million input and output tokens: table G5 (appendix G)."""

TOKENS = {
    "anthropic/claude-3-5-sonnet": (242_558_189, 3_400_154, 19_850_691, 26_017_792),
    "anthropic/claude-3-7-sonnet": (239_116_251, 3_394_266, 16_402_865, 25_923_584),
    "google/gemini-1.5-pro": (273_879_219, 3_394_352, 16_940_768, 25_923_584),
    "google/gemini-2.0-flash": (273_382_888, 3_394_266, 16_940_768, 25_923_584),
    "openai/gpt-4o": (245_336_766, 3_394_352, 16_005_932, 25_923_584),
    "openai/gpt-4o-mini": (245_336_766, 3_394_352, 16_005_932, 25_923_584),
    "meta/llama-3.3-70b": (239_501_256, 3_394_352, 16_198_349, 25_923_584),
    "deepseek/deepseek-r1": (236_073_126, 98_060_000, 41_011_120, 27_353_088),
    "openai/o3-mini": (239_907_189, 98_060_000, 41_264_890, 27_353_088),
}
"""Model -> input and output tokens (at the limit) of the benchmarks, then of each judge: sums over
the 35 benchmarks of the authors' public repository (som-shahlab/medhelm, commit 51a9bec)."""

EXTRA = ("MedQA", "MedMCQA")
"""Benchmarks of the repository that are not among the paper's 35."""

COLUMNS = [f"Total {kind} Tokens" for kind in ("Input", "Output", "Judge Input", "Judge Output")]

JUDGES = ("openai/gpt-4o", "anthropic/claude-3-7-sonnet", "meta/llama-3.3-70b")

GRAND_TOTAL = 11_739.07


def price(model: str) -> Price:
    given, out = PRICES[model]
    return Price(input=given, output=out, date=DATE)


def at_limit(given: int, out: int) -> UsageTotals:
    """Return the usage of answers that had all used their budget."""
    return UsageTotals(requests=1, input_tokens=given, output_limit_tokens=out)


def test_the_tokens_are_the_published_ones_and_add_up_to_the_printed_ones() -> None:
    for model, (given, out, judged, verdicts) in TOKENS.items():
        assert (given + out, judged + verdicts) == PRINTED_TOKENS[model]
    sums = [[0, 0, 0, 0] for _ in TOKENS]
    rows = [r for r in published("tokens_and_costs.csv") if r["Benchmark"] not in EXTRA]
    models = sorted({r["Model"] for r in rows})
    for row in rows:
        for place, column in enumerate(COLUMNS):
            sums[models.index(row["Model"])][place] += int(row[column].replace(",", ""))
    assert sorted(map(tuple, sums)) == sorted(TOKENS.values())
    costs = dict.fromkeys(models, 0.0)
    for row in rows:
        costs[row["Model"]] += float(row["Cost Input Tokens"]) + float(row["Cost Output Tokens"])
    printed = sorted(cost for cost, _, _ in TABLE.values())
    assert sorted(costs.values()) == pytest.approx(printed, abs=1e-6)


@pytest.mark.parametrize("model", TABLE)
def test_the_cost_table_gives_the_papers_costs(tmp_path: Path, model: str) -> None:
    """From tokens and prices alone. The paper adds up costs that are rounded to the cent for each
    benchmark and kind of token, which makes at most 5 cents."""
    given, out, judged, verdicts = TOKENS[model]
    spec = ModelSpec(name=model, price=price(model))
    folder = write_run(
        tmp_path, "suite", spec, [Item(id="i", value=1.0)], usage=at_limit(given, out)
    )
    jury = tuple(
        Party(
            role=JUDGE,
            model=ModelSpec(name=judge, price=price(judge)),
            usage=at_limit(judged, verdicts),
            served_models={},
            is_grader=True,
            ends={"scored": 1},
        )
        for judge in JUDGES
    )
    record = read_record(folder)
    record = msgspec.structs.replace(record, parties=(record.own, *jury))
    (folder / "summary.json").write_bytes(msgspec.json.encode(record))
    (row,) = load_results(tmp_path).typed("cost", Settings(draws=10)).rows
    found = [row[f"{name}cost_upper_usd"] for name in ("", "jury_", "total_")]
    assert found == pytest.approx(TABLE[model], abs=0.05)
    assert row["input_tokens"] == given and row["output_limit_tokens"] == out


def test_deepseek_r1_was_not_charged_at_the_prices_of_appendix_g() -> None:
    given, out, _, _ = TOKENS["deepseek/deepseek-r1"]
    cost = upper_bound(given, out, Price(input=1.20, output=4.84, date=DATE))
    assert cost == pytest.approx(757.90, abs=0.01)  # 848.21 is printed


def test_rows_and_the_grand_total_add_up_to_the_cent() -> None:
    sums = []
    for benchmark, jury, total in TABLE.values():
        both = add_spends([Spend(None, benchmark), Spend(None, jury)])
        assert both.upper is not None and round(both.upper, 2) == total
        assert both.actual is None  # the paper gives upper bounds only
        sums.append(both)
    assert round(add_spends(sums).upper or 0.0, 2) == GRAND_TOTAL
