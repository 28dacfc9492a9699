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


@pytest.mark.parametrize(("command", "option", "values"), TYPES)
def test_the_choices_are_those_of_the_type(command: str, option: str, values: Any) -> None:
    parser = command_parser(known_commands().commands[(command,)])
    (found,) = (a.choices for a in parser._actions if option in a.option_strings)
    assert isinstance(found, Collection)
    assert {*found} == {*get_args(values)} - NEVER.get((command, option), set())
