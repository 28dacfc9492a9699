"""The schema of cases: what is wrong is named with case and field."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from medhelm.errors import DataError
from medhelm_benchmarks.noharm.rules.cases import hidden_character, to_case
from tests.benchmarks.noharm.making import case
from tests.cases import cases

GOOD = msgspec.to_builtins(case({"a1": 8, "a2": 2, "a3": 7}, alternatives=[["a1", "a3"]]))


@pytest.mark.parametrize(("change", "said"), cases(__file__, "what_is_wrong_with_a_case_is_named"))
def test_what_is_wrong_with_a_case_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as caught:
        to_case({**GOOD, **change}, "cases.jsonl:3")
    message = str(caught.value)
    assert said in message and message.startswith("cases.jsonl:3") and "\n" not in message
    if "code" not in change:
        assert "NOHARM-CARD-ACS-001" in message


@pytest.mark.parametrize(
    ("field", "value", "said"), cases(__file__, "what_is_wrong_with_an_action_is_named")
)
def test_what_is_wrong_with_an_action_is_named(field: str, value: Any, said: str) -> None:
    actions = [dict(a) for a in GOOD["actions"]]
    actions[1][field] = value
    with pytest.raises(DataError) as caught:
        to_case({**GOOD, "actions": actions}, "f")
    assert said in str(caught.value)


@pytest.mark.parametrize("text", cases(__file__, "what_has_an_honest_use_is_no_fault"))
def test_what_has_an_honest_use_is_no_fault(text: str) -> None:
    assert to_case({**GOOD, "vignette": text}, "f").vignette == text


HIDDEN = [
    *[0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x200B, 0x200E, 0x200F, 0x3164, 0xFEFF, 0xFFA0],
    *range(0x180B, 0x1810),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFDD0, 0xFDF0),
    *range(0xFE00, 0xFE10),
    *range(0xFFF0, 0x10000),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
    *[plane << 16 | end for plane in range(17) for end in (0xFFFE, 0xFFFF)],
]
"""Default_Ignorable_Code_Point of Unicode without soft hyphen and joiners, and noncharacters."""


def test_every_character_that_cannot_be_seen_is_found() -> None:
    said = {c: hidden_character(f"a{chr(c)}b") for c in HIDDEN}
    assert said == {c: f"U+{c:04X} at character 2" for c in HIDDEN}


@pytest.mark.parametrize(
    ("text", "said"), cases(__file__, "a_selector_that_changes_no_symbol_is_hidden")
)
def test_a_selector_that_changes_no_symbol_is_hidden(text: str, said: str) -> None:
    assert hidden_character(text) == said
    with pytest.raises(DataError, match=f"field vignette: {re.escape(said)}"):
        to_case({**GOOD, "vignette": text}, "f")


def test_specifics_of_one_broad_action_may_hold_others() -> None:
    made = case({"a1": 8, "a2": 8, "a3": 7}, broad={"a1": ["a2", "a3"], "a2": ["a3"]})
    assert len(made.broad) == 2
