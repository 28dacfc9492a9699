"""The costs of the MedHELM paper's table 3 (arXiv 2505.23802), by our functions."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from medhelm.costs import upper_bound
from medhelm.records import read_record
from medhelm.schema import JudgeTotals, ModelSpec, Price, UsageTotals
from medhelm.tables.results import load_results
from medhelm.tables.spending import Spend, add_spends
from medhelm.tables.table import Settings
from tests.build_runs import Item, write_run

DATE = "2025-05-12"

TABLE = {
    "anthropic/claude-3-5-sonnet": (245_958_343, 45_868_483, 778.67, 792.21, 1_570.88),
    "anthropic/claude-3-7-sonnet": (242_510_517, 42_326_449, 768.26, 768.38, 1_536.64),
    "google/gemini-1.5-pro": (277_273_571, 42_864_352, 359.33, 771.73, 1_131.06),
    "google/gemini-2.0-flash": (276_777_154, 42_864_352, 43.04, 771.73, 814.77),
    "openai/gpt-4o": (248_731_118, 41_929_516, 647.28, 765.91, 1_413.19),
    "openai/gpt-4o-mini": (248_731_118, 41_929_516, 38.83, 765.91, 804.74),
    "meta/llama-3.3-70b": (242_895_608, 42_121_933, 172.45, 767.13, 939.58),
    "deepseek/deepseek-r1": (334_133_126, 68_364_208, 848.21, 957.96, 1_806.17),
    "openai/o3-mini": (337_967_189, 68_617_978, 762.50, 959.54, 1_722.04),
}
"""Model -> benchmark tokens, jury tokens, benchmark cost, jury cost, total; USD as printed."""

GRAND_TOTAL = 11_739.07
LLAMA = Price(input=0.71, output=0.71, date=DATE)


def test_rows_and_the_grand_total_add_up_to_the_cent() -> None:
    sums = []
    for _, _, benchmark, jury, total in TABLE.values():
        both = add_spends([Spend(None, benchmark), Spend(None, jury)])
        assert both.upper is not None and round(both.upper, 2) == total
        assert both.actual is None  # the paper gives upper bounds only
        sums.append(both)
    assert round(add_spends(sums).upper or 0.0, 2) == GRAND_TOTAL


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_row_of_equal_prices_can_be_computed_and_is_a_cent_off(share: float) -> None:
    # 242,895,608 x 0.71 / 10^6 = 172.45588..., whatever is input and what is output
    tokens, _, printed, _, _ = TABLE["meta/llama-3.3-70b"]
    output = round(share * tokens)
    cost = upper_bound(tokens - output, output, LLAMA)
    assert cost == pytest.approx(172.45588168)
    assert (round(cost or 0.0, 2), printed) == (172.46, 172.45)


def blended(tokens: int, usd: float) -> Price:
    """Return a price at which so many tokens cost so much: the paper splits neither."""
    return Price(input=usd / tokens * 1e6, output=usd / tokens * 1e6, date=DATE)


def test_the_cost_table_gives_the_papers_totals(tmp_path: Path) -> None:
    for name, (tokens, judged, benchmark, jury, _) in TABLE.items():
        model = ModelSpec(name=name, price=blended(tokens, benchmark))
        folder = write_run(
            tmp_path, "suite", model, [Item(id="i", value=1.0)], usage=at_limit(tokens)
        )
        judge = ModelSpec(name="the jury", price=blended(judged, jury))
        totals = JudgeTotals(
            judge=judge, judgements={"scored": 1}, usage=at_limit(judged), served_models={}
        )
        record = msgspec.structs.replace(read_record(folder), judges=(totals,))
        (folder / "summary.json").write_bytes(msgspec.json.encode(record))
    *rows, every = load_results(tmp_path).typed("cost", Settings(draws=10)).rows
    assert len(rows) == 9 and every["level"] == "all"
    for row in rows:
        tokens, judged, benchmark, jury, total = TABLE[str(row["model"])]
        assert cents(row["cost_upper_usd"]) == benchmark
        assert cents(row["jury_cost_upper_usd"]) == jury
        assert cents(row["total_cost_upper_usd"]) == total
        assert row["input_tokens"] + row["output_limit_tokens"] == tokens  # type: ignore[operator]
    assert cents(every["total_cost_upper_usd"]) == GRAND_TOTAL
    assert every["jury_input_tokens"] + every["jury_output_limit_tokens"] == sum(  # type: ignore[operator]
        row[1] for row in TABLE.values()
    )


def at_limit(tokens: int) -> UsageTotals:
    """Return a usage of so many tokens if every answer had used its budget, a tenth of them."""
    return UsageTotals(
        requests=1, input_tokens=tokens - tokens // 10, output_limit_tokens=tokens // 10
    )


def cents(value: object) -> float:
    assert isinstance(value, float)
    return round(value, 2)
