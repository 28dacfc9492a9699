"""Every duty of a role is a sentence of its prompt and a line of the docs, with a check that exists."""

from __future__ import annotations

from pathlib import Path

from medhelm_benchmarks.encounters import obligations
from medhelm_benchmarks.encounters.grading.evaluator import items_of, messages
from medhelm_benchmarks.encounters.record import encounter_of
from tests.benchmarks.encounters.players import MOVES
from tests.benchmarks.encounters.stage import CASE, in_turn, play

DOCS = Path(__file__).parents[3] / "docs" / "encounters.md"
ROLES = {
    "clinician": obligations.CLINICIAN,
    "patient": obligations.PATIENT,
    "controller": obligations.CONTROLLER,
    "evaluator": obligations.EVALUATOR,
}


def test_each_duty_is_sent_to_its_role_and_listed_with_its_check() -> None:
    episode = play(CASE, in_turn(*MOVES))
    sent = {c.role: c.messages[0].content for c in reversed(episode.calls)}
    sent["evaluator"] = messages(encounter_of(episode), items_of(CASE))[0].content
    lines = DOCS.read_text("utf-8").splitlines()
    keys = []
    for role, duties in ROLES.items():
        for duty in duties:
            assert duty.sentence in sent[role]
            assert f"| {duty.key} | {role} | {duty.sentence} | {duty.check} |" in lines
            keys.append(duty.key)
    assert len(keys) == len(set(keys)) == 53
    assert keys[0] == "C1" and keys[-1] == "V6"
