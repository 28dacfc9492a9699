"""Counts of tokens that cannot be are unknown: no server sets a price by what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medhelm
from medhelm.schema.model import Price
from tests.server import Reply, serve_in_thread

PRICE = Price(input=1.0, output=1.0, date="2026-01-01")


@pytest.mark.parametrize(
    ("usage", "is_known"),
    [
        ({"prompt_tokens": 150, "completion_tokens": 3}, True),
        ({"prompt_tokens": 10**30, "completion_tokens": 3}, False),
        ({"prompt_tokens": 150, "completion_tokens": 10**30}, False),
        (
            {
                "prompt_tokens": 150,
                "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 10**9},
            },
            False,
        ),
        ({"prompt_tokens": 150, "completion_tokens": 3, "total_tokens": 10**12}, False),
    ],
)
def test_a_count_that_cannot_be_is_unknown_and_flagged(
    usage: dict[str, Any], is_known: bool, tmp_path: Path
) -> None:
    with serve_in_thread(lambda _: Reply("A", usage=usage)) as server:
        spec = server.model("w/a", endpoint_class="local", price=PRICE)
        results = medhelm.evaluate(spec, "headqa", data="sample", results_dir=tmp_path)
    (row,) = results.typed("cost").rows
    assert row["usage_unknown"] == (0 if is_known else 8)
    known = row["input_tokens"] + row["output_tokens"]
    assert known == (8 * 153 if is_known else known) and known <= 8 * 153
    (score,) = results.typed("benchmarks").rows
    assert ("usage" in score["flags"].split()) is not is_known
