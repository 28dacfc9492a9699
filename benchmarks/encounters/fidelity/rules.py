"""Find faults by rule: text overlap, titles of speakers, numbers, words of another world.

Where a packet has a structured part (facts, results), what was asked for is known, and a leak is what
was shown without it. Of a packet of text alone, leaks are found of items of the rubric alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from medhelm_benchmarks.encounters.data.checks import copied_share
from medhelm_benchmarks.encounters.fault_kinds import FaultKind
from medhelm_benchmarks.encounters.fidelity.company import faults_of_company
from medhelm_benchmarks.encounters.fidelity.faults import Fault, Line, speakers
from medhelm_benchmarks.encounters.matches import folded, is_asked
from medhelm_benchmarks.encounters.packets import Packets

SHOWN = 0.8
"""The share of a hidden text's words in a row from which it counts as shown."""
_META = re.compile(
    r"\b(simulat\w+|role[- ]?play\w*|standardi[sz]ed patient|this (?:scenario|script|packet)"
    r"|(?<!in )this case (?:is|was|has|does|holds|contains|gives|states)"
    r"|(?:the|my|case|patient|current) (?:script|packet|rubric|checklist|scenario|case (?:notes|file))"
    r"|my character|case materials?|language model|as an ai"
    r"|(?:(?:is|are|was|were) ?)?n[o']t (?:provided|specified)|(?:is|are) ?n[o']t (?:mentioned|stated|included)"
    r"|no (?:information|data|details?|results?)\b.{0,30}\b(?:provided|in the case)"
    r"|no (?:information|data|details?) (?:is |are )?available)\b",
    re.IGNORECASE,
)
_CARE = (
    r"(?:order|give|start|stop|check|get|obtain|perform|ask|call|activate|consider|avoid|treat|lower"
    r"|examine|monitor|measure|administer|arrange|refer|intubate|hold|repeat|insert|place|transfuse"
    r"|do (?:an?|another|the)|rule out|look (?:at|for))"
)
_DONE = (
    r"(?:ordered|given|started|stopped|checked|obtained|performed|done|called|activated|considered"
    r"|avoided|treated|lowered|monitored|measured|administered|arranged|repeated|excluded|ruled out)"
)
_HINT = re.compile(
    r"\b(?:(?:you|the (?:doctor|clinician|team|physician)|we) (?:should|must|need to|ought to|might want"
    rf" to|may want to|could)(?: probably| really| now| also| first)* {_CARE}"
    rf"|should(?:n[o']t| not)? (?:you|we)(?: not)? {_CARE}"
    rf"|(?:should|must|needs? to|ought to) (?:now |also |first )?be {_DONE}"
    r"|(?:it is|it's|would be) (?:advisable|recommended|important|best|wise|prudent) to (?!me\b|us\b|him\b|her\b)"
    r"|(?:please )?consider (?:an?|the|\w+ing)|(?:i|we) (?:suggest|recommend)|recommend \w+ing"
    rf"|next,? {_CARE}|next step)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"^(?:please )?(?:order|give|start|check|obtain|administer|consider|perform|ask|call) "
    r"(?!of\b|for\b|bell\b|is\b|was\b|has\b|placed\b|received\b|complete)(?=[^:]*$)"
    r"|(?:^|[:;.] )(?:avoid|do not (?:delay|give|wait)|don't (?:delay|give|wait)) ?\w*"
    r"|\b(?:do you want|would you like) (?:me|us) to\b",
    re.IGNORECASE,
)
"""Of the surroundings alone: the patient's side may ask for things, and offer them."""
_STAFF = re.compile(
    r"(?i)(nurse|midwife|doctor|dr\.?|physician|consultant|\w+ologist|radiolog\w+|laboratory|lab|monitor"
    r"|technician|pharmacist|staff|paramedic|an(?:a)?esthetist|surgeon|registrar|resident|therapist)"
)
_COURTESY = re.compile(r"(?:mr|mrs|ms|miss)\.? \w+", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![\w.:])\d+(?:[.,/]\d+)*(?![\w:])(?!-lead| ?(?:min(?:ute)?s?|hours?|hrs?|days?|weeks?|o'clock|mg|mcg|units?)\b(?!/))"
)
"""Matches numbers that may be a finding: no time of day, no span of time, no dose, no lead of an ECG."""
_TELEPHONE = re.compile(r"(?i)\b(?:call(?:ed|ing)?|dial(?:l?ed)?|rang|phoned) \d{3}\b")
_TENS = {
    w: 10 * n
    for n, w in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2
    )
}
_TEENS = {
    w: n
    for n, w in enumerate(
        [
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
        ],
        10,
    )
}
_ONES = {
    w: n
    for n, w in enumerate(
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"], 1
    )
}
_SPELT = re.compile(
    rf"(?i)\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(_ONES)}))?|({'|'.join(_TEENS)}))\b"
)
_WORDY = re.compile(r"[^\W\d_]{2,}")


def faults_by_rule(lines: Sequence[Line], packets: Packets, clinician: str) -> Iterator[Fault]:
    """Yield the faults of all lines; of one kind at most one a line.

    `clinician`: its packet. Natural changes are released by code and are not a fault of who plays.
    """
    changes = {folded(c) for state in packets.controller.states for c in state.changes}
    own = {folded(f.answer) for f in packets.patient.facts}
    own |= {folded(packets.patient.otherwise)}
    own |= {folded(r.text) for s in packets.controller.states for r in s.results}
    numbers = _numbers_of_packets(packets, clinician)
    company: dict[int, dict[FaultKind, str]] = {}
    for place, kind, quote in faults_of_company(lines, packets, clinician):
        company.setdefault(place, {}).setdefault(kind, quote)
    for line in lines:
        numbers |= _numbers(line.asked)
        if line.is_change and folded(line.text) in changes:
            continue
        whole, untitled = folded(line.text), folded(line.text.partition(": ")[2])
        is_own = whole in own or untitled in own
        found: dict[FaultKind, str] = {}
        if quote := _leaked(line, packets):
            found["leak"] = quote
        found |= company.get(line.number, {}) | _speech(line, packets, is_whole=whole in own)
        if not is_own and not is_verbatim(line, packets):
            if match := _META.search(line.text):
                found["meta_language"] = match[0]
            if match := _hint(line):
                found["hint"] = match[0]
        said = _NUMBER.findall(_TELEPHONE.sub("", line.text))
        if new := [n for n in said if n not in numbers and len(n) > 1]:
            found["invented_finding"] = new[0]
        numbers |= set(said)
        for kind, quote in found.items():
            yield Fault(
                kind=kind, role=line.role, turn=line.turn, line=line.number, quote=quote[:200]
            )


def is_verbatim(line: Line, packets: Packets) -> bool:
    """Return whether a line is in its role's packet, word by word: the source's own wording."""
    packet = packets.patient.text if line.role == "patient" else packets.controller.text
    text = folded(line.text)
    return len(text.split()) > 3 and f" {text} " in f" {folded(packet)} "


def _numbers_of_packets(packets: Packets, clinician: str) -> set[str]:
    texts = [clinician, packets.patient.text, packets.controller.text, packets.patient.otherwise]
    texts += [fact.answer for fact in packets.patient.facts]
    texts += [r.text for s in packets.controller.states for r in s.results]
    texts += [change for s in packets.controller.states for change in s.changes]
    texts += [item.text for item in packets.evaluator.items]  # a target is not a finding
    return {number for text in texts for number in _numbers(text)}


def _numbers(text: str) -> set[str]:
    """Return the numbers of a text, those below 100 that it spells out among them."""
    found = set(re.findall(r"\d+(?:[.,/]\d+)*", text))
    for ten, one, teen in _SPELT.findall(text):
        value = _TEENS[teen.casefold()] if teen else _TENS[ten.casefold()]
        found.add(str(value + _ONES.get(one.casefold(), 0)))
    return found


def _hint(line: Line) -> re.Match[str] | None:
    found = _HINT.search(line.text)
    if found is None and line.role == "controller":
        _, _, untitled = (
            line.text.rpartition(": ") if ":" not in line.text[:20] else line.text.partition(": ")
        )
        found = _ORDER.search(line.text) or _ORDER.search(untitled)
    return found


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
            if name not in staff and _COURTESY.fullmatch(title):
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
