"""Faults of the roles, found by rules of one meaning.

Copied runs of words, titles of speakers, numbers, names, lines that come again. Where a packet has a
structured part (facts, results), what was asked for is known, and volunteered is what was shown without it.
Of a packet of text alone `checkable` leaves most kinds out: there no rule can tell. Whether a line gives a
hint, contradicts another or leaves its world only a judge can tell (`judge`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from medhelm import Aggregation, Episode, Instance, Metric, Score, pooled_share
from medhelm_benchmarks.encounters.matches import (
    NGRAM,
    copied_share,
    folded,
    has_run,
    is_asked,
    words,
)
from medhelm_benchmarks.encounters.packets import Packets, packets_of
from medhelm_benchmarks.encounters.prompts import prompt_text
from medhelm_benchmarks.encounters.record import Encounter, encounter_of

Role = Literal["patient", "controller", "clinician"]
ROLES: tuple[Role, ...] = get_args(Role)
CAST: tuple[Role, ...] = ("patient", "controller")
Channel = Literal["says", "does", "feedback", "event", "status"]
JudgedKind = Literal[
    "volunteered",
    "leak",
    "invented_finding",
    "contradiction",
    "role_break",
    "hint",
    "meta_language",
    "mixed_speech",
]
FaultKind = Literal[JudgedKind, "rubric_item", "unordered_result", "loop"]
MEANING: dict[FaultKind, str] = {
    "volunteered": "hidden text of the packet, shown before it was asked for or ordered",
    "leak": "the diagnosis, or what the clinician is rated on, given away",
    "invented_finding": "a finding, value or fact that no packet holds",
    "contradiction": "against the packet, or against what was said before",
    "role_break": "somebody who does not exist, or who cannot speak, speaks; the part is left",
    "hint": "what the clinician should do, think or ask",
    "meta_language": "of a simulation, a script, a packet, or of what is not provided",
    "mixed_speech": "one role speaks for another, or counts one of another's as its own",
    "rubric_item": "an item of the rubric in its own words, which the clinician has not said or done",
    "unordered_result": "a number or words of the material, in a turn without an order, unlike all that was ordered",
    "loop": f"the same line of {NGRAM} or more words again, which was not asked for again",
}
BY_JUDGE: tuple[FaultKind, ...] = get_args(JudgedKind)
KINDS: dict[Role, tuple[FaultKind, ...]] = {
    "patient": tuple(k for k in MEANING if k != "unordered_result"),
    "controller": tuple(MEANING),
    "clinician": ("mixed_speech", "loop"),
}
"""The kinds that there can be of each role."""
ANY = "any"
"""Any of the kinds that rules look for."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a role, in the order in which it came."""

    number: int
    """From 1."""
    turn: int
    """From 1."""
    role: Role
    text: str
    asked: str = ""
    """All that the clinician said (patient) or did (controller) until then."""
    now: str = ""
    """The part of it that belongs to this turn."""
    state: int = 0
    """The state in which it was said."""
    channel: Channel = "says"
    present: tuple[str, ...] | None = None
    """Those whom the role names as present in this turn; None: not stored."""
    unsupported: tuple[str, ...] = ()
    """Actions of the turn that the role itself says have no place in the encounter."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault. Where it is can be looked up; its text is in the run alone."""

    kind: FaultKind
    role: Role
    turn: int
    line: int
    by: Literal["rule", "judge"] = "rule"
    quote: str = ""
    """Words of the line, for a reader on this machine."""


def lines_of(encounter: Encounter, packets: Packets) -> list[Line]:
    """Return the lines of all roles, without natural changes, which the code releases.

    The clinician has one line in each turn: its words, or its actions where it says nothing.
    """
    changes = {folded(c) for state in packets.controller.states for c in state.changes}
    found: list[Line] = []
    said, done = "", ""
    for n, turn in enumerate(encounter.turns, 1):
        now = "\n".join(turn.actions)
        said, done = f"{said}\n{turn.speak}", f"{done}\n{now}"
        later = max((t.state for t in encounter.turns[: n + 1]), default=turn.state)
        heard: dict[str, Any] = {"role": "patient", "asked": said, "now": turn.speak}
        heard |= {"state": turn.state, "present": turn.patient_side}
        shown: dict[str, Any] = {"role": "controller", "asked": done, "now": now, "state": later}
        shown |= {"present": turn.staff, "unsupported": turn.unsupported}
        events = [event for event in turn.events if folded(event) not in changes]
        own: list[tuple[dict[str, Any], Sequence[str], Channel]] = [
            ({"role": "clinician"}, [turn.speak or now], "says" if turn.speak else "does"),
            (heard, turn.heard, "says"),
            (shown, turn.feedback, "feedback"),
            (shown, events, "event"),
            (shown, [turn.status], "status"),
        ]
        texts = ((of, channel, text) for of, all_, channel in own for text in all_ if text)
        found += [
            Line(number=number, turn=n, text=text, channel=channel, **of)
            for number, (of, channel, text) in enumerate(texts, len(found) + 1)
        ]
    return found


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
    nothing = frozenset[str]()
    script = nothing.union(*told, *(own for own, _ in facts)) - content(clinician)
    script = script if heard else nothing
    shown = asked = unasked = nothing
    for line, questions in heard:
        said = content(questions)
        due = [own for own in told if own & said]
        due += [own for own, asked_by in facts if is_asked(asked_by, questions)]
        asked = script & said.union(*due)
        new = (script & content(line)) - shown
        shown, unasked = shown | new, unasked | new - asked
    return dict(zip(SCRIPT, map(float, map(len, (script, shown, asked, unasked))), strict=True))


SHOWN = 0.8
"""The share of a hidden text's words in a row from which it counts as shown."""
_NUMBER = re.compile(r"\d+(?:[.,/]\d+)*")
_FINDING = re.compile(
    rf"(?<![\w.:]){_NUMBER.pattern}(?![\w:])"
    r"(?!-lead| ?(?:min(?:ute)?s?|hours?|hrs?|days?|weeks?|mg|mcg|units?)\b(?!/))"
)
"""Matches numbers that may be a finding: no time of day, no span of time, no dose, no lead of an ECG."""
_NAMES = """ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
twenty thirty forty fifty sixty seventy eighty ninety
one two three four five six seven eight nine"""
_TEENS, _TENS, _ONES = (line.split() for line in _NAMES.splitlines())
_SPELT = dict(zip(_TEENS, range(10, 20), strict=True))
for _n, _ten in enumerate(_TENS, 2):
    _SPELT |= {_ten: 10 * _n} | {f"{_ten} {one}": 10 * _n + m for m, one in enumerate(_ONES, 1)}
_PLAIN = frozenset({"a", "an", "and", "the", "of", "on", "in", "patient"})
"""Words of titles that name nobody."""
_CLINICIAN = {"clinician", "doctor"}


def faults_by_rule(lines: Sequence[Line], packets: Packets, clinician: str) -> Iterator[Fault]:
    """Yield the faults of all lines; of one kind at most one a line.

    `clinician`: its packet. Faults of those present in a turn are those of the role's first line in it.
    """
    texts = _texts(packets, clinician)
    numbers = {number for text in texts for number in _numbers(text)}
    named = words(" ".join((*texts, *packets.patient.companions, *packets.controller.staff)))
    titles = titles_of(lines, packets)
    seen: set[tuple[int, Role]] = set()
    asked: dict[tuple[Role, str], frozenset[str]] = {}
    for line in lines:
        numbers |= _numbers(line.asked)
        found: dict[FaultKind, str] = {}
        if line.role == "clinician":
            for title in map(speaker_of, line.text.splitlines() if line.channel == "says" else ()):
                if any(title.casefold() in own for own in titles.values()):
                    found["mixed_speech"] = title
            numbers |= _numbers(line.text)
        else:
            if (line.turn, line.role) not in seen:
                seen.add((line.turn, line.role))
                found |= _present(line, packets, named)
            found |= _word_faults(line, packets, titles)
            said = _FINDING.findall(line.text)
            if new := [n for n in said if n not in numbers and len(n) > 1]:
                found["invented_finding"] = new[0]
            numbers |= set(said)
        own = folded(line.text.removeprefix(f"{speaker_of(line.text)}:"))
        if line.channel != "status" and len(own.split()) >= NGRAM:
            key, now = (line.role, own), content(line.now)
            if key in asked and not now & asked[key]:
                found["loop"] = line.text
            asked[key] = asked.get(key, frozenset()) | now
        for kind, quote in found.items():
            yield Fault(
                kind=kind, role=line.role, turn=line.turn, line=line.number, quote=quote[:200]
            )


def titles_of(lines: Sequence[Line], packets: Packets) -> dict[Role, set[str]]:
    """Return whom packets and roles name on the patient's side, and as staff."""
    side = {c.casefold() for c in packets.patient.companions} | {"patient", "the patient"}
    staff = {s.casefold() for s in packets.controller.staff}
    named: dict[Role, set[str]] = {"patient": set(), "controller": set()}
    for line in lines:
        if line.role != "clinician":
            named[line.role] |= {_title(t).casefold() for t in line.present or ()} - side - staff
    both = named["patient"] & named["controller"]
    return {
        "patient": side | named["patient"] - both,
        "controller": staff | named["controller"] - both - {"clinician"},
    }


def checkable(role: Role, lines: Sequence[Line], packets: Packets) -> set[str]:
    """Return the kinds of which rules can tell whether a role's lines have them."""
    found = {"loop", "mixed_speech"}
    if role == "clinician":
        return found | {ANY}
    if role == "patient" and not titles_of(lines, packets)["controller"]:
        found.remove("mixed_speech")  # nobody's title is known whom it could speak for
    if role == "controller":
        found.add("unordered_result")
    if packets.evaluator.items:
        found.add("rubric_item")
    results = any(state.results for state in packets.controller.states)
    if packets.patient.facts if role == "patient" else results:
        found |= {"volunteered", "role_break", ANY}
    return found


def sums_of(
    lines: Sequence[Line], faults: Sequence[Fault], countable: Mapping[Role, Collection[str]]
) -> dict[str, float]:
    """Return of each kind and role the lines with it, and under `/lines` those of which it can be told."""
    sums: Counter[str] = Counter(dict.fromkeys(BY_ROLE, 0))
    kinds = {(f.role, f.line, kind) for f in faults for kind in (f.kind, ANY)}
    sums.update(f"{role}/{kind}" for role, _, kind in kinds)
    for role, n in Counter(line.role for line in lines).items():
        sums.update(
            {f"{role}/{kind}/lines": n for kind in countable.get(role, ())} | {f"{role}/lines": n}
        )
    return {name: float(n) for name, n in sums.items()}


class Counted(NamedTuple):
    """The lines of an encounter, and what rules find in them."""

    lines: tuple[Line, ...]
    faults: tuple[Fault, ...]
    sums: dict[str, float]
    """By kind and role, and of the script."""


def counted(instance: Instance, episode: Episode) -> Counted:
    """Return the lines of an encounter, their faults by rule, and the sums of both."""
    packets = packets_of(instance)
    lines = lines_of(encounter_of(episode), packets)
    faults = tuple(faults_by_rule(lines, packets, instance.context))
    sums = sums_of(lines, faults, {role: checkable(role, lines, packets) for role in ROLES})
    heard = [(line.text, line.asked) for line in lines if line.role == "patient"]
    sums |= script_sums(heard, packets, instance.context)
    return Counted(tuple(lines), faults, sums)


def seen_roles(sums: Mapping[str, float]) -> list[Role]:
    """Return those of the cast whose lines rules can call clean."""
    return [role for role in CAST if sums.get(f"{role}/{ANY}/lines")]


def _texts(packets: Packets, clinician: str) -> list[str]:
    """Return all that anybody may name: the packets, and the items, since a target is not a finding."""
    return [
        clinician,
        packets.patient.text,
        packets.controller.text,
        packets.patient.otherwise,
        *(hidden.text for role in CAST for hidden in packets.hidden(role)),
        *(change for state in packets.controller.states for change in state.changes),
        *(item.text for item in packets.evaluator.items),
    ]


@lru_cache(maxsize=1 << 10)
def _numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text, those from 10 to 99 that it spells out among them."""
    within = f" {folded(text)} "
    spelt = (str(n) for name, n in _SPELT.items() if f" {name} " in within)
    return frozenset((*_NUMBER.findall(text), *spelt))


def _word_faults(
    line: Line, packets: Packets, titles: Mapping[Role, set[str]]
) -> dict[FaultKind, str]:
    """Return the faults of a line's words and of who says them."""
    found = _speaker(line, packets, titles)
    found |= _shown(line, packets)
    if line.channel == "feedback" and not line.now and not content(line.text) & content(line.asked):
        is_finding = _FINDING.search(line.text) or copied_share(line.text, packets.controller.text)
        if is_finding and speaker_of(line.text).casefold() not in titles["controller"]:
            found["unordered_result"] = line.text
    for action in line.unsupported:
        if copied_share(action, line.text) >= SHOWN:
            found["invented_finding"] = action
    return found


def _shown(line: Line, packets: Packets) -> dict[FaultKind, str]:
    """Return what a line shows without being asked for it."""
    packet = packets.patient if line.role == "patient" else packets.controller
    shown = [h for h in packets.hidden(line.role) if copied_share(h.text, line.text) >= SHOWN]
    if shown and not any(is_asked(h.asked_by, line.asked) and h.state <= line.state for h in shown):
        return {"volunteered": shown[0].text}
    if shown or (len(folded(line.text).split()) > 3 and has_run(packet.text, line.text)):
        return {}
    for item in packets.evaluator.items:
        if copied_share(item.text, line.text) >= SHOWN > copied_share(item.text, line.asked):
            return {"rubric_item": item.text}
    return {}


def _speaker(line: Line, packets: Packets, titles: Mapping[Role, set[str]]) -> dict[FaultKind, str]:
    """Return the fault of who speaks in a line."""
    patient = packets.patient
    own_words = (h.text for role in CAST for h in packets.hidden(role))
    if folded(line.text) in map(folded, (*own_words, patient.otherwise)):
        return {}  # the packet's own words; what is before a colon in them need not be a speaker
    title = speaker_of(line.text)
    name = title.casefold()
    listed = patient.companions if line.role == "patient" else packets.controller.staff
    own = {t.casefold() for t in listed}
    present = None if line.present is None else {_title(t).casefold() for t in line.present}
    if name in own:
        return {} if present is None or name in present else {"role_break": title}
    if name in titles["patient" if line.role == "controller" else "controller"] | _CLINICIAN:
        return {"mixed_speech": title}
    if line.role == "controller":
        return {}
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


FIDELITY, CONDUCT = "simulation_fidelity", "role_conduct"
_KINDS_AND_ANY = tuple((role, kind) for role in ROLES for kind in (*KINDS[role], ANY))
BY_ROLE = tuple(f"{role}/lines" for role in ROLES) + tuple(
    f"{role}/{kind}{of}" for role, kind in _KINDS_AND_ANY for of in ("", "/lines")
)


@dataclass(frozen=True, kw_only=True)
class SimulationFidelity(Metric):
    """The share of lines of patient and surroundings in which no rule finds a fault: it measures the cast.

    Lines of a role whose packet is text alone are not in it: no rule could find most faults there. What the
    clinician could not be read in is in no mean: it says nothing of the cast.
    """

    name: str = FIDELITY
    version: str = "3"
    source: str = "medhelm: roles that are measured"
    floor: float | None = None
    aggregation: Aggregation = pooled_share(FIDELITY, "clean", "lines")

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the share of clean lines, and the faults by kind."""
        found = counted(instance, episode)
        if not (seen := seen_roles(found.sums)):
            is_heard = any(found.sums[f"{role}/lines"] for role in CAST)
            why = "not checkable: packets of text alone" if is_heard else "nobody answered"
            return Score(value=None, outcome="uninformative", reason=why)
        lines, faulty = (sum(found.sums[f"{r}/{name}"] for r in seen) for name in ("lines", ANY))
        kinds = Counter(fault.kind for fault in found.faults if fault.role in seen)
        said = "; ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in sorted(kinds.items()))
        sums = {"clean": lines - faulty, "lines": lines}
        return Score(value=sums["clean"] / lines, reason=said, sums=sums)


@dataclass(frozen=True, kw_only=True)
class RoleConduct(Metric):
    """The share of lines, the clinician's too, that repeat none and are not spoken for another role."""

    name: str = CONDUCT
    version: str = "3"
    source: str = "medhelm: roles that are measured"
    floor: float | None = None
    aggregation: Aggregation = pooled_share(CONDUCT, "sound", "lines", *BY_ROLE, *SCRIPT)

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the share of sound lines, and all counts by rule."""
        lines, faults, sums = counted(instance, episode)
        if not lines:
            return Score(value=None, outcome="uninformative", reason="nobody said or did anything")
        unsound = {fault.line for fault in faults if fault.kind in KINDS["clinician"]}
        sums |= {"sound": float(len(lines) - len(unsound)), "lines": float(len(lines))}
        return Score(value=sums["sound"] / len(lines), sums=sums)
