"""Faults of the roles that are played beside the clinician, found by rules of one meaning.

Copied runs of words, titles of speakers, numbers, names. Where a packet has a structured part (facts,
results), what was asked for is known, and a leak is what was shown without it. Of a packet of text alone,
leaks are found of items of the rubric alone. Whether a line gives a hint, contradicts another or leaves its
world only a judge can tell (`judge`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import msgspec

from medhelm import Aggregation, Episode, Instance, Metric, Score
from medhelm.plugin import ShareExtremes
from medhelm_benchmarks.encounters.columns import share
from medhelm_benchmarks.encounters.matches import copied_share, folded, has_run, is_asked, words
from medhelm_benchmarks.encounters.packets import Packets, packets_of
from medhelm_benchmarks.encounters.record import Encounter, encounter_of

Played = Literal["patient", "controller"]
ROLES: tuple[Played, ...] = get_args(Played)
FaultKind = Literal[
    "leak",
    "contradiction",
    "invented_finding",
    "role_break",
    "hint",
    "meta_language",
    "mixed_speech",
]
MEANING: dict[FaultKind, str] = {
    "leak": "an item of the rubric, or hidden text of a packet, shown before it was asked for",
    "contradiction": "against the packet, or against what was said before",
    "invented_finding": "a finding, value or fact that no packet holds",
    "role_break": "somebody who does not exist, or who cannot speak, speaks; the part is left",
    "hint": "what the clinician should do, think or ask",
    "meta_language": "of a simulation, a script, a packet, or of what is not provided",
    "mixed_speech": "the patient's side speaks for the staff, or the surroundings for the patient",
}
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
HEADINGS: dict[FaultKind, str] = {
    "leak": "leaks",
    "contradiction": "contra.",
    "invented_finding": "invented",
    "role_break": "breaks",
    "hint": "hints",
    "meta_language": "meta",
    "mixed_speech": "mixed",
}
BY_RULE: tuple[FaultKind, ...] = ("leak", "invented_finding", "role_break", "mixed_speech")
"""The kinds that rules look for; a judge looks for all."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of patient or surroundings, in the order in which the clinician read it."""

    number: int
    """From 1."""
    turn: int
    """From 1."""
    role: Played
    text: str
    asked: str
    """All that the clinician said (patient) or did (controller) until then."""
    state: int
    """The state in which it was said."""
    is_change: bool = False
    """A natural change, which the code releases."""
    present: tuple[str, ...] | None = None
    """Those whom the role names as present in this turn; None: not stored."""
    unsupported: tuple[str, ...] = ()
    """Actions of the turn that the role itself says have no place in the encounter."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault. Where it is can be looked up; its text is in the run alone."""

    kind: FaultKind
    role: Played
    turn: int
    line: int
    by: Literal["rule", "judge"] = "rule"
    quote: str = ""
    """Words of the line, for a reader on this machine."""


def lines_of(encounter: Encounter) -> list[Line]:
    """Return the lines of the roles that are played."""
    found: list[Line] = []
    said, done = "", ""
    for n, turn in enumerate(encounter.turns, 1):
        said, done = f"{said}\n{turn.speak}", "\n".join((done, *turn.actions))
        later = max((t.state for t in encounter.turns[: n + 1]), default=turn.state)
        texts: list[tuple[Played, str, str]] = [("patient", text, said) for text in turn.heard]
        shown = (*turn.feedback, *turn.events, *filter(None, (turn.status,)))
        texts += [("controller", text, done) for text in shown]
        found += [
            Line(
                number=len(found) + place,
                turn=n,
                role=role,
                text=text,
                asked=asked,
                state=turn.state if role == "patient" else later,
                is_change=text in turn.events,
                present=turn.patient_side if role == "patient" else turn.staff,
                unsupported=turn.unsupported if role == "controller" else (),
            )
            for place, (role, text, asked) in enumerate(texts, 1)
        ]
    return found


SHOWN = 0.8
"""The share of a hidden text's words in a row from which it counts as shown."""
_NUMBER = re.compile(r"\d+(?:[.,/]\d+)*")
_FINDING = re.compile(
    rf"(?<![\w.:]){_NUMBER.pattern}(?![\w:])"
    r"(?!-lead| ?(?:min(?:ute)?s?|hours?|hrs?|days?|weeks?|mg|mcg|units?)\b(?!/))"
)
"""Matches numbers that may be a finding: no time of day, no span of time, no dose, no lead of an ECG."""
_TEENS = [
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_SPELT = dict(zip(_TEENS, range(10, 20), strict=True))
for _n, _ten in enumerate(_TENS, 2):
    _SPELT |= {_ten: 10 * _n} | {f"{_ten} {one}": 10 * _n + m for m, one in enumerate(_ONES, 1)}
_PLAIN = frozenset({"a", "an", "and", "the", "of", "on", "in", "patient"})
"""Words of titles that name nobody."""


def faults_by_rule(lines: Sequence[Line], packets: Packets, clinician: str) -> Iterator[Fault]:
    """Yield the faults of all lines; of one kind at most one a line.

    `clinician`: its packet. Natural changes are released by code and are not a fault of who plays. Faults
    of those present in a turn are those of the role's first line in it.
    """
    changes = {folded(c) for state in packets.controller.states for c in state.changes}
    texts = _texts(packets, clinician)
    numbers = {number for text in texts for number in _numbers(text)}
    named = words(" ".join((*texts, *packets.patient.companions, *packets.controller.staff)))
    seen: set[tuple[int, Played]] = set()
    for line in lines:
        numbers |= _numbers(line.asked)
        found: dict[FaultKind, str] = {}
        if (line.turn, line.role) not in seen:
            seen.add((line.turn, line.role))
            found |= _present(line, packets, named)
        if not (line.is_change and folded(line.text) in changes):
            found |= _said(line, packets)
            said = _FINDING.findall(line.text)
            if new := [n for n in said if n not in numbers and len(n) > 1]:
                found["invented_finding"] = new[0]
            numbers |= set(said)
        for kind, quote in found.items():
            yield Fault(
                kind=kind, role=line.role, turn=line.turn, line=line.number, quote=quote[:200]
            )


def _texts(packets: Packets, clinician: str) -> list[str]:
    """Return all that anybody may name: the packets, and the items, since a target is not a finding."""
    states = packets.controller.states
    return [
        clinician,
        packets.patient.text,
        packets.controller.text,
        packets.patient.otherwise,
        *(fact.answer for fact in packets.patient.facts),
        *(text for s in states for text in (*s.changes, *(r.text for r in s.results))),
        *(item.text for item in packets.evaluator.items),
    ]


@lru_cache(maxsize=1 << 10)
def _numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text, those from 10 to 99 that it spells out among them."""
    within = f" {folded(text)} "
    spelt = (str(n) for name, n in _SPELT.items() if f" {name} " in within)
    return frozenset((*_NUMBER.findall(text), *spelt))


def _said(line: Line, packets: Packets) -> dict[FaultKind, str]:
    """Return the faults of a line's words and of who says them."""
    found = _speaker(line, packets)
    if quote := _leaked(line, packets):
        found["leak"] = quote
    for action in line.unsupported:
        if copied_share(action, line.text) >= SHOWN:
            found["invented_finding"] = action
    return found


def _leaked(line: Line, packets: Packets) -> str:
    """Return what a line shows without being asked for it; nothing where there is none."""
    if line.role == "patient":
        own = packets.patient.text
        hidden = [(f.answer, f.asked_by, f.state) for f in packets.patient.facts]
    else:
        own = packets.controller.text
        hidden = [
            (r.text, r.asked_by, n)
            for n, state in enumerate(packets.controller.states)
            for r in state.results
        ]
    shown = [h for h in hidden if copied_share(h[0], line.text) >= SHOWN]
    if shown and not any(is_asked(by, line.asked) and at <= line.state for _, by, at in shown):
        return shown[0][0]
    if shown or (len(folded(line.text).split()) > 3 and has_run(own, line.text)):
        return ""
    for item in packets.evaluator.items:
        if copied_share(item.text, line.text) >= SHOWN > copied_share(item.text, line.asked):
            return item.text
    return ""


def _speaker(line: Line, packets: Packets) -> dict[FaultKind, str]:
    """Return the fault of who speaks in a line."""
    patient = packets.patient
    answers = (*(f.answer for f in patient.facts), patient.otherwise)
    results = (r.text for state in packets.controller.states for r in state.results)
    if folded(line.text) in map(folded, (*answers, *results)):
        return {}  # the packet's own words; what is before a colon in them need not be a speaker
    title = speaker_of(line.text)
    name = title.casefold()
    companions = {c.casefold() for c in patient.companions}
    staff = {s.casefold() for s in packets.controller.staff}
    own = companions if line.role == "patient" else staff
    present = None if line.present is None else {_title(t).casefold() for t in line.present}
    if name in own:
        return {} if present is None or name in present else {"role_break": title}
    if line.role == "controller":
        is_other = name in companions | {"patient", "the patient"}
        return {"mixed_speech": title} if is_other else {}
    if name in staff:
        return {"mixed_speech": title}
    if title and name != "patient" and patient.facts:
        return {"role_break": title}
    is_spoken = len(words(line.text)) > 2 and not line.text.startswith(("(", "*", "["))
    return {"role_break": line.text} if is_spoken and not patient.can_speak else {}


def _present(line: Line, packets: Packets, named: frozenset[str]) -> dict[FaultKind, str]:
    """Return the faults of those whom a role names as present in a turn."""
    found: dict[FaultKind, str] = {}
    others = {c.casefold() for c in (*packets.patient.companions, "patient", "clinician")}
    known = named | _PLAIN | (words(line.asked) if line.role == "controller" else frozenset())
    for title in map(_title, line.present or ()):
        if line.role == "controller" and title.casefold().removeprefix("the ") in others:
            found.setdefault("mixed_speech", title)
        elif not words(title) <= known:
            found.setdefault("role_break", title)
    return found


def speaker_of(text: str) -> str:
    """Return the title before a line's colon, as in "Mother: ..."; empty where there is none."""
    before, colon, rest = text.partition(":")
    title = _title(before)  # "Mother (anxious): ..."
    parts = title.split()
    is_title = bool(colon) and rest[:1] in (" ", "") and 0 < len(parts) <= 3
    has_digit = any(c.isdigit() for c in title)
    return " ".join(parts) if is_title and parts[0][:1].isupper() and not has_digit else ""


def _title(text: str) -> str:
    return text.partition("(")[0].strip()


FIDELITY = "simulation_fidelity"
AGGREGATION = Aggregation(
    name=FIDELITY,
    sums=(
        "clean",
        "lines",
        *(f"{role}/{name}" for role in ROLES for name in ("clean", "lines", *BY_RULE)),
    ),
    of=share("clean", "lines"),
    extremes=ShareExtremes(
        (
            ("clean", "lines"),
            *(
                (f"{role}/{name}", f"{role}/lines")
                for role in ROLES
                for name in ("clean", *BY_RULE)
            ),
        )
    ),
)


@dataclass(frozen=True, kw_only=True)
class SimulationFidelity(Metric):
    """The share of lines of patient and surroundings in which no rule finds a fault: it measures the cast.

    An encounter in which nobody answered has none. What the clinician could not be read in is in no
    mean: it says nothing of the cast.
    """

    name: str = FIDELITY
    version: str = "2"
    source: str = "medhelm: roles that are measured"
    floor: float | None = None
    aggregation: Aggregation = AGGREGATION

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the share of clean lines, and the faults of each role by kind."""
        lines = lines_of(encounter_of(episode))
        if not lines:
            return Score(value=None, outcome="uninformative", reason="nobody answered")
        faults = tuple(faults_by_rule(lines, packets_of(instance), instance.context))
        faulty = {fault.line for fault in faults}
        sums: Counter[str] = Counter(dict.fromkeys(self.aggregation.sums, 0))
        sums.update(f"{fault.role}/{fault.kind}" for fault in faults)
        for line in lines:
            clean = line.number not in faulty
            sums.update({"lines": 1, f"{line.role}/lines": 1})
            sums.update({"clean": clean, f"{line.role}/clean": clean})
        value = sums["clean"] / sums["lines"]
        kinds = Counter(fault.kind for fault in faults)
        said = "; ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in sorted(kinds.items()))
        return Score(value=value, reason=said, sums={name: float(n) for name, n in sums.items()})
