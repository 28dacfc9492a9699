"""Every duty of a role is a line of its prompt and of the docs, which name the check of each."""

from __future__ import annotations

import re
from pathlib import Path

from medhelm_benchmarks.encounters.grading.evaluator import items_of, messages
from medhelm_benchmarks.encounters.record import encounter_of
from tests.benchmarks.encounters.players import MOVES
from tests.benchmarks.encounters.stage import CASE, in_turn, play

DOCS = Path(__file__).parents[3] / "docs" / "encounters.md"
DUTY = re.compile(r"\| ([CPEV]\d+) \| (\w+) \| (.+) \| ([^|]+) \|")


def test_each_duty_is_sent_to_its_role_and_listed_with_its_check() -> None:
    episode = play(CASE, in_turn(*MOVES))
    sent = {c.role: c.messages[0].content for c in reversed(episode.calls)}
    sent["evaluator"] = messages(encounter_of(episode), items_of(CASE))[0].content
    listed: dict[str, list[str]] = {}
    for key, role, sentence, _ in map(
        re.Match.groups, filter(None, map(DUTY.fullmatch, DOCS.read_text("utf-8").splitlines()))
    ):
        listed.setdefault(role, []).append(sentence)
        assert key.endswith(str(len(listed[role])))
    assert {role: len(own) for role, own in listed.items()} == {
        "clinician": 9,
        "patient": 15,
        "controller": 23,
        "evaluator": 6,
    }
    for role, sentences in listed.items():
        assert "\n".join(sentences) in sent[role]
