"""Options in data files: where they choose among values of a type, these are all of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, get_args

import pytest

from medhelm.cli import command_parser, known_commands
from medhelm.schema.data import DataClass
from medhelm.schema.score import Outcome, Unread
from medhelm.tables.format.table import MdeScale, RankBy
from medhelm.tables.gate import Decision

NO_ESTIMATE = ("estimate", "probe", "score")
"""A probe is a few words; `score` asks judges again of runs, whose estimate is `medhelm estimate`."""
TYPES = [
    ("score", "--ask-again", Unread),
    ("show", "--outcome", Outcome),
    ("tables", "--rank-by", RankBy),
    ("tables", "--mde", MdeScale),
    ("gate", "--decision", Decision),
    ("fidelity", "--data-class", DataClass),
    ("curate", "--source-class", DataClass),
]
NEVER = {("score", "--ask-again"): {"empty"}}  # an empty verdict is asked again by the next run


def test_commands_that_ask_models_have_an_estimate_caps_and_a_file_of_keys() -> None:
    commands = [c for c in known_commands().commands.values() if c.options is not None]
    takes = {c.name: {*command_parser(c)._option_string_actions} for c in commands}
    asking = {c.name for c in commands if c.asks}
    assert {name for name in takes if "--budget-usd" in takes[name]} <= asking
    for name in asking - {*NO_ESTIMATE}:
        assert {"--estimate", "--budget-usd", "--budget-tokens", "--env-file"} <= takes[name], name


@pytest.mark.parametrize(("command", "option", "values"), TYPES)
def test_the_choices_are_those_of_the_type(command: str, option: str, values: Any) -> None:
    parser = command_parser(known_commands().commands[(command,)])
    (found,) = (a.choices for a in parser._actions if option in a.option_strings)
    assert isinstance(found, Collection)
    assert {*found} == {*get_args(values)} - NEVER.get((command, option), set())
