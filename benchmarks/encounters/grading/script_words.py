"""Counts of the words of a script that a patient says, and of those that the clinician had asked for.

A word is asked for where a passage that holds it is: the clinician has said another of the passage's words,
or one of the wordings of a fact. An answer to a question in quite other words counts as unasked, so that
only a large share speaks of the patient.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from medhelm_benchmarks.encounters.matches import is_asked, words
from medhelm_benchmarks.encounters.packets import Packets
from medhelm_benchmarks.encounters.prompts import prompt_text

SCRIPT = ("script/words", "script/shown", "script/asked", "script/unasked")
_LONG = 12
"""The most words of a line that is one passage."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def content(text: str) -> frozenset[str]:
    """Return the words of four or more letters that are not common ones."""
    found = words(text) - words(prompt_text("common_words"))
    return frozenset(word for word in found if len(word) > 3)


def passages(text: str) -> list[str]:
    """Return the lines of a text; of a long one each sentence."""
    lines = (line.strip() for line in text.splitlines())
    parts = (_SENTENCE.split(ln) if len(ln.split()) > _LONG else [ln] for ln in lines)
    return [part for own in parts for part in own if part]


def script_sums(
    heard: Sequence[tuple[str, str]], packets: Packets, clinician: str
) -> dict[str, float]:
    """Return how many words the script has, and how many were shown, asked for, and shown unasked.

    `heard`: each line of the patient with all that the clinician had said; without one there is nothing to
    count. `clinician`: its packet, whose words everybody knows.
    """
    told = [content(passage) for passage in passages(packets.patient.text)]
    facts = [(content(fact.answer), fact.asked_by) for fact in packets.patient.facts]
    script = _union((*told, *(own for own, _ in facts))) - content(clinician)
    script = script if heard else _union(())
    shown = asked = unasked = _union(())
    for line, questions in heard:
        said = content(questions)
        due = [own for own in told if own & said]
        due += [own for own, asked_by in facts if is_asked(asked_by, questions)]
        asked = script & _union((said, *due))
        new = (script & content(line)) - shown
        shown, unasked = shown | new, unasked | new - asked
    return dict(zip(SCRIPT, map(float, map(len, (script, shown, asked, unasked))), strict=True))


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
