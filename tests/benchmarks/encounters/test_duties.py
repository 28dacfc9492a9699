"""Every duty of a role is a line of its prompt, and the docs name the check of each."""

from __future__ import annotations

import re
from pathlib import Path

from medhelm_benchmarks.encounters.grading.evaluator import items_of, messages
from medhelm_benchmarks.encounters.prompts import prompt_text
from medhelm_benchmarks.encounters.record import encounter_of
from tests.benchmarks.encounters.players import MOVES
from tests.benchmarks.encounters.stage import CASE, in_turn, play

DOCS = Path(__file__).parents[3] / "docs" / "encounters.md"
HEAD = "| check | clinician | patient | controller | evaluator |"


def test_each_duty_is_sent_to_its_role_and_listed_with_its_check() -> None:
    episode = play(CASE, in_turn(*MOVES))
    sent = {c.role: c.messages[0].content for c in reversed(episode.calls)}
    sent["evaluator"] = messages(encounter_of(episode), items_of(CASE))[0].content
    _, _, rest = DOCS.read_text("utf-8").partition(HEAD)
    rows = [line.split("|")[1:-1] for line in rest.partition("\n\n")[0].splitlines()[2:]]
    for place, role in enumerate(("clinician", "patient", "controller", "evaluator"), 1):
        duties = prompt_text(role).splitlines()
        listed = sorted(int(n) for row in rows for n in re.findall(r"\d+", row[place]))
        assert listed == [*range(1, len(duties) + 1)], role
        assert "\n".join(duties) in sent[role]
