"""Faults that can be told by rule: text overlap, titles of speakers, numbers, words of another world.

Where a packet has a structured part (facts, results), what was asked for is known, and a leak is what
was shown without it. Of a packet of text alone, only items of the rubric can be told to leak.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from medhelm_benchmarks.encounters.data.checks import copied_share
from medhelm_benchmarks.encounters.fidelity.faults import Fault, FaultKind, Line, speakers
from medhelm_benchmarks.encounters.matches import folded, is_asked
from medhelm_benchmarks.encounters.packets import Packets

SHOWN = 0.8
"""The share of a hidden text's words in a row from which it counts as shown."""
_META = re.compile(
    r"\b(simulat\w+|role[- ]?play\w*|standardi[sz]ed patient|this (?:case|scenario|script|packet)"
    r"|(?:the|my|case|patient) (?:script|packet|rubric|checklist)|case materials?|language model"
    r"|as an ai|(?:is|are|was|were)?n[o']t (?:provided|specified|given|mentioned|included|stated)"
    r"|no (?:information|data|details?) (?:is|are|was|were)? ?(?:provided|available|given))\b",
    re.IGNORECASE,
)
_HINT = re.compile(
    r"\b((?:you|the (?:doctor|clinician|team|physician)|we) (?:should|must|need to|ought to|might want"
    r"|may want|could consider)|(?:it is|would be) (?:advisable|recommended|important) to"
    r"|(?:please )?consider \w+ing|i (?:suggest|recommend)|next,? (?:order|give|check|ask))\b"
    r"|^(?:please )?(?:order|give|start|check|obtain|administer|consider|perform|ask|call)\b(?=[^:]*$)",
    re.IGNORECASE,
)
_STAFF = re.compile(
    r"(?i)(nurse|midwife|doctor|dr\.?|physician|consultant|radiolog\w+|laboratory|lab|monitor"
    r"|technician|pharmacist|staff|paramedic|anaesthetist|anesthesiologist|surgeon)"
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,/]\d+)*(?![\w])")
_WORDY = re.compile(r"[^\W\d_]{2,}")


def faults_by_rule(lines: Sequence[Line], packets: Packets, clinician: str) -> Iterator[Fault]:
    """Yield the faults of all lines; of one kind at most one a line.

    `clinician`: its packet. Natural changes are released by code and are no fault of who plays.
    """
    changes = {folded(c) for state in packets.controller.states for c in state.changes}
    own = {folded(f.answer) for f in packets.patient.facts}
    own |= {folded(packets.patient.otherwise)}
    own |= {folded(r.text) for s in packets.controller.states for r in s.results}
    numbers = _numbers_of_packets(packets, clinician)
    for line in lines:
        numbers |= set(_NUMBER.findall(line.asked))
        if line.is_change and folded(line.text) in changes:
            continue
        whole, untitled = folded(line.text), folded(line.text.partition(": ")[2])
        is_own = whole in own or untitled in own
        found: dict[FaultKind, str] = {}
        if quote := _leaked(line, packets):
            found["leak"] = quote
        found |= _speech(line, packets, is_whole=whole in own)
        if not is_own and not is_verbatim(line, packets):
            if match := _META.search(line.text):
                found["meta_language"] = match[0]
            if match := _HINT.search(line.text):
                found["hint"] = match[0]
        if new := [n for n in _NUMBER.findall(line.text) if n not in numbers and len(n) > 1]:
            found["invented_finding"] = new[0]
        numbers |= set(_NUMBER.findall(line.text))
        for kind, quote in found.items():
            yield Fault(
                kind=kind, role=line.role, turn=line.turn, line=line.number, quote=quote[:200]
            )


def is_verbatim(line: Line, packets: Packets) -> bool:
    """Return whether a line stands in its role's packet, word by word: the source's own wording."""
    packet = packets.patient.text if line.role == "patient" else packets.controller.text
    text = folded(line.text)
    return len(text.split()) > 3 and f" {text} " in f" {folded(packet)} "


def _numbers_of_packets(packets: Packets, clinician: str) -> set[str]:
    texts = [clinician, packets.patient.text, packets.controller.text, packets.patient.otherwise]
    texts += [fact.answer for fact in packets.patient.facts]
    texts += [r.text for s in packets.controller.states for r in s.results]
    texts += [change for s in packets.controller.states for change in s.changes]
    return {number for text in texts for number in _NUMBER.findall(text)}


def _leaked(line: Line, packets: Packets) -> str:
    """Return what a line shows without being asked for it; nothing where there is none."""
    asked = line.asked
    if line.role == "patient":
        hidden = [(f.answer, f.asked_by, f.state) for f in packets.patient.facts]
    else:
        hidden = [
            (r.text, r.asked_by, n)
            for n, state in enumerate(packets.controller.states)
            for r in state.results
        ]
    shown = [h for h in hidden if copied_share(h[0], line.text) >= SHOWN]
    if shown and not any(is_asked(by, asked) and state <= line.state for _, by, state in shown):
        return shown[0][0]
    if shown or is_verbatim(line, packets):
        return ""
    for item in packets.evaluator.items:
        if copied_share(item.text, line.text) >= SHOWN and copied_share(item.text, asked) < SHOWN:
            return item.text
    return ""


def _speech(line: Line, packets: Packets, *, is_whole: bool) -> dict[FaultKind, str]:
    """Return faults of who speaks in a line. `is_whole`: what is before its colon is the packet's."""
    companions = {c.casefold() for c in packets.patient.companions}
    staff = {s.casefold() for s in packets.controller.staff}
    for title in () if is_whole else speakers(line.text):
        name = title.casefold()
        if line.role == "controller":
            if name in companions or name in ("patient", "the patient"):
                return {"mixed_speech": title}
        elif name in staff or (name not in companions and _STAFF.fullmatch(title.split()[0])):
            return {"mixed_speech": title}
        elif name not in companions and name != "patient" and packets.patient.facts:
            return {"role_break": title}
        elif name in companions:
            return {}
    mute = line.role == "patient" and not packets.patient.can_speak
    if mute and len(_WORDY.findall(line.text)) > 2 and not line.text.startswith(("(", "*", "[")):
        return {"role_break": line.text}
    return {}
