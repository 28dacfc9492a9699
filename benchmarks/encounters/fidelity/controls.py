"""Lines with a planted fault, and clean ones, at the end of copies of encounters: what a judge misses and makes up.

Controls are instances of the judge's own run. They are in none of its counts.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from medhelm import Episode, Instance
from medhelm.plugin import intervals
from medhelm_benchmarks.encounters.fidelity.judge import Judged, Planted
from medhelm_benchmarks.encounters.grading.cast_fidelity import (
    ANY,
    BY_JUDGE,
    CAST,
    Fault,
    JudgedKind,
    Role,
)
from medhelm_benchmarks.encounters.grading.script_words import content, passages
from medhelm_benchmarks.encounters.matches import words
from medhelm_benchmarks.encounters.packets import Packets
from medhelm_benchmarks.encounters.record import Turn, as_state

_PREFIX = "control/"
SHARE, LEAST = 0.05, 10
FOUND_AS: dict[JudgedKind, tuple[JudgedKind, ...]] = {
    "volunteered": ("volunteered", "leak"),
    "leak": ("leak", "hint", "volunteered"),
    "invented_finding": ("invented_finding", "contradiction"),
    "contradiction": ("contradiction", "invented_finding"),
}
"""The planted kinds, and the names under which each counts as found."""
_OTHERWISE: dict[Role, str] = {"patient": "Good day.", "controller": "wash hands"}
"""Words of the clinician that ask for nothing."""
_NINES = str.maketrans("0123456789", "9876543210")
Saying = tuple[str, str]
"""What the clinician says or does, and the line that comes of it."""


def controls_of(encounters: Sequence[Instance], count: int | None) -> Iterator[Instance]:
    """Yield controls of a seeded sample of the encounters of a benchmark; None: 5 %, and at least 10."""
    if count is None:
        count = max(LEAST, round(SHARE * len(encounters)))
    by_case = {one.context: one for one in encounters}
    order = sorted(encounters, key=lambda one: intervals.seed_of(0, one.id))
    for n, instance in enumerate(order[:count]):
        rng = random.Random(intervals.seed_of(1, instance.id))
        others = [one for context, one in sorted(by_case.items()) if context != instance.context]
        other = rng.choice(others) if others else None
        judged = msgspec.convert(instance.payload, Judged)
        role = CAST[n % len(CAST)]
        planted = _planted(role, judged.packets, other, instance.references, rng)
        turns, end = list(judged.encounter.turns), len(judged.encounter.turns)
        state = turns[-1].state
        turns += [_turn(role, saying, state) for _, saying in planted]
        encounter = msgspec.structs.replace(judged.encounter, turns=tuple(turns))
        whole = Judged(encounter=encounter, packets=judged.packets)
        kinds = [kind for kind, _ in planted]
        marked = [
            Planted(ln.number, kinds[ln.turn - end - 1]) for ln in whole.lines if ln.turn > end
        ]
        if marked:
            payload = {"encounter": as_state(encounter), "planted": msgspec.to_builtins(marked)}
            name = f"{_PREFIX}{instance.id}"
            payload["packets"] = instance.payload["packets"]
            yield msgspec.structs.replace(instance, id=name, payload=payload)


def _planted(
    role: Role,
    packets: Packets,
    other: Instance | None,
    golds: Sequence[str],
    rng: random.Random,
) -> list[tuple[JudgedKind | None, Saying]]:
    """Return lines of each kind, and as many clean ones, with what comes before them, in a random order."""
    own = rng.sample(_sayings(role, packets), k=len(_sayings(role, packets)))
    known = content(packets.patient.text) | content(packets.controller.text)
    hidden = [*golds[:1], *(i.text for i in packets.evaluator.items if len(i.text.split()) > 2)]
    found: list[tuple[JudgedKind | None, Saying]] = []
    if own:
        found.append(("volunteered", (_OTHERWISE[role], own.pop()[1])))
    if hidden:
        found.append(("leak", (_OTHERWISE[role], hidden[0] if golds else rng.choice(hidden))))
    if other is not None:
        foreign = _sayings(role, msgspec.convert(other.payload["packets"], Packets))
        new = [s for s in foreign if 2 * len(content(s[1]) & known) < len(content(s[1]))]
        found += [("invented_finding", s) for s in rng.sample(new, k=min(1, len(new)))]
    if numbered := [s for s in own if re.search(r"\d", s[1])]:
        asked, line = numbered[0]
        own.remove(numbered[0])
        found.append(("contradiction", (asked, line.translate(_NINES))))
    found += [(None, saying) for saying in own[: len(found)]]
    return rng.sample(found, k=len(found))


def _sayings(role: Role, packets: Packets) -> list[Saying]:
    """Return the packet's answers to its own questions; of text alone passages, asked for in their words."""
    if role == "patient":
        text = packets.patient.text
        found = [(f.asked_by[0], f.speaker, f.answer) for f in packets.patient.facts if not f.state]
    else:
        text = packets.controller.text
        states = packets.controller.states
        found = [(r.asked_by[0], r.speaker, r.text) for s in states for r in s.results]
    if found:
        return [(asked, f"{who}: {said}" if who else said) for asked, who, said in found]
    own = (p.lstrip("#-* ") for p in passages(text))
    # "You have a cough" is an instruction to who plays, and no line
    own = (p for p in own if len(content(p)) > 2 and not words(p) & {"you", "your"})
    return [(" ".join(w for w in p.split() if content(w)) + "?", p) for p in own]


def _turn(role: Role, saying: Saying, state: int) -> Turn:
    if role == "patient":
        return Turn(state=state, speak=saying[0], heard=(saying[1],))
    return Turn(state=state, actions=(saying[0],), feedback=(saying[1],))


def control_rates(episodes: Iterable[Episode]) -> Counter[tuple[str, str]]:
    """Return counts by what and kind: planted and missed lines, clean lines and wrong ones, unread controls."""
    sums: Counter[tuple[str, str]] = Counter()
    for episode in episodes:
        if not episode.instance_id.startswith(_PREFIX):
            continue
        faults = episode.state.get("faults")
        sums["controls", ANY] += 1
        if faults is None:
            sums["unread", ANY] += 1
            continue
        found = msgspec.convert(faults, tuple[Fault, ...])
        for one in msgspec.convert(episode.instance.payload, Judged).planted:
            said = {fault.kind for fault in found if fault.line == one.line}
            if one.kind is None:
                sums.update({("clean", kind): 1 for kind in (*BY_JUDGE, ANY)})
                sums.update({("wrong", kind): 1 for kind in said})
                sums["wrong", ANY] += bool(said)
            else:
                sums.update({("planted", one.kind): 1, ("planted", ANY): 1})
                sums["missed", one.kind] += not said & {*FOUND_AS[one.kind]}
                sums["missed", ANY] += not said
    return sums
