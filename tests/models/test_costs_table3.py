"""The costs of the MedHELM paper's table 3 (arXiv 2505.23802), by our functions."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm.models.costs import upper_bound
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import JUDGE, Party, UsageTotals
from medhelm.store.records import read_record
from medhelm.tables.format.table import Settings
from medhelm.tables.loading import load_results
from medhelm.tables.spending import Spend, add_spends
from tests.build_runs import Item, write_run
from tests.published import published

DATE = "2025-05-12"

with Path(__file__).with_name("table3.csv").open(encoding="utf-8") as file:
    ROWS = {
        row.pop("model"): {name: float(v) for name, v in row.items()}
        for row in csv.DictReader(file)
    }
"""Model -> what table 3 prints (tokens of benchmarks and jury, costs in USD), USD per million tokens
of table G5 (appendix G; of deepseek-r1 what was charged, 1.20 and 4.84 are printed), and input and
output tokens (at the limit) of the benchmarks, then of each judge: sums over the 35 benchmarks of the
authors' public repository (som-shahlab/medhelm, commit 51a9bec)."""


def of_rows(convert: type[int] | type[float], *names: str) -> dict[str, tuple[Any, ...]]:
    return {model: tuple(convert(row[n]) for n in names) for model, row in ROWS.items()}


TABLE = of_rows(float, "benchmarks_usd", "jury_usd", "total_usd")
PRINTED_TOKENS = of_rows(int, "benchmarks_printed", "jury_printed")
PRICES = of_rows(float, "price_input", "price_output")
TOKENS = of_rows(int, "input", "output", "judge_input", "judge_output")

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
