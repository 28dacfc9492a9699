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
from medhelm_benchmarks.encounters.fidelity.judge import Judged
from medhelm_benchmarks.encounters.grading.cast_fidelity import (
    ANY,
    BY_JUDGE,
    CAST,
    Fault,
    JudgedKind,
    Role,
)
from medhelm_benchmarks.encounters.grading.script_words import content, passages
from medhelm_benchmarks.encounters.matches import has_run, words
from medhelm_benchmarks.encounters.packets import Packets
from medhelm_benchmarks.encounters.record import Turn
from medhelm_benchmarks.encounters.tables.cast import Tally

_PREFIX = "control/"
SHARE, LEAST = 0.05, 10
FOUND_AS: dict[JudgedKind, tuple[JudgedKind, ...]] = {
    "volunteered": ("volunteered", "leak"),
    "leak": ("leak", "hint", "volunteered"),
    "invented_finding": ("invented_finding", "contradiction"),
    "contradiction": ("contradiction", "invented_finding"),
}
"""The planted kinds, and the names under which each counts as found."""
_NUMBER = re.compile("[0-9]")
_NINES = str.maketrans("0123456789", "9876543210")
Saying = tuple[str, str]
"""Words or a deed of the clinician, and the line that comes of it."""


def controls_of(encounters: Sequence[Instance], count: int | None) -> Iterator[Instance]:
    """Yield controls of a seeded sample of the encounters of a benchmark; None: 5 %, and at least 10."""
    count = max(LEAST, round(SHARE * len(encounters))) if count is None else count
    cases = sorted({one.context: one for one in encounters}.items())
    order = sorted(encounters, key=lambda one: intervals.seed_of(0, one.id))
    for n, instance in enumerate(order[:count]):
        rng = random.Random(intervals.seed_of(1, instance.id))
        others = [_judged(one).packets for context, one in cases if context != instance.context]
        judged, role = _judged(instance), CAST[n % len(CAST)]
        planted = _planted(judged, role, others, instance.references[:1], rng)
        turns = judged.encounter.turns
        added = tuple(_turn(role, saying, turns[-1].state) for _, saying in planted)
        longer = msgspec.structs.replace(judged.encounter, turns=turns + added)
        control = Judged(encounter=longer, packets=judged.packets)
        lines = (line for line in control.lines if line.turn > len(turns))
        marks = tuple((line.number, planted[line.turn - len(turns) - 1][0]) for line in lines)
        payload = msgspec.to_builtins(msgspec.structs.replace(control, planted=marks))
        if marks:
            yield msgspec.structs.replace(instance, id=f"{_PREFIX}{instance.id}", payload=payload)


def _judged(instance: Instance) -> Judged:
    return msgspec.convert(instance.payload, Judged)


def _planted(
    judged: Judged, role: Role, others: Sequence[Packets], gold: Sequence[str], rng: random.Random
) -> list[tuple[JudgedKind | None, Saying]]:
    """Return a line of each kind, and as many clean ones, each with what the clinician asks before."""
    packets, turns = judged.packets, judged.encounter.turns
    own, nothing = _sayings(role, packets), "Good day." if role == "patient" else "wash hands"
    rng.shuffle(own)
    asked = "\n".join(text for turn in turns for text in (turn.speak, *turn.actions))
    said = content("\n".join(line.text for line in judged.lines))
    known = content(packets.patient.text) | content(packets.controller.text)
    items = [item.text for item in packets.evaluator.items if len(item.text.split()) > 2]
    untold = [s for s in own if not content(" ".join(s)) & content(asked) and _is_new(s[1], said)]
    foreign = [s for other in others for s in _sayings(role, other) if _is_new(s[1], known)]
    plans: list[tuple[JudgedKind, list[Saying]]] = [
        ("volunteered", [(nothing, line) for _, line in untold]),
        ("leak", [(nothing, text) for text in gold or items if not has_run(asked, text)]),
        ("invented_finding", foreign),
        ("contradiction", [(q, line.translate(_NINES)) for q, line in own if _NUMBER.search(line)]),
    ]
    found: list[tuple[JudgedKind | None, Saying]] = []
    for kind, sayings in plans:
        if sayings:
            found.append((kind, saying := rng.choice(sayings)))
            own = [s for s in own if saying[1] not in (s[1], s[1].translate(_NINES))]
    found += [(None, saying) for saying in own[: len(found)]]
    first = [one for one in found if one[0] == "volunteered"]  # else a later question asks for it
    rest = [one for one in found if one[0] != "volunteered"]
    return first + rng.sample(rest, k=len(rest))


def _is_new(line: str, known: frozenset[str]) -> bool:
    return 2 * len(content(line) & known) < len(content(line))


def _sayings(role: Role, packets: Packets) -> list[Saying]:
    """Return the packet's answers to its own questions; of text alone passages, asked for in their words."""
    if role == "patient":
        text = packets.patient.text
        found = [(f.asked_by[0], f.speaker, f.answer) for f in packets.patient.facts if not f.state]
    else:
        text, states = packets.controller.text, packets.controller.states
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


def control_tallies(benchmark: str, episodes: Iterable[Episode]) -> Iterator[Tally]:
    """Yield of each control its planted and missed lines, its clean and wrong ones by kind, or `unread`."""
    for episode in episodes:
        if not episode.instance_id.startswith(_PREFIX):
            continue
        sums, faults = Counter[str](), episode.state.get("faults")
        sums["unread"] += faults is None
        found = msgspec.convert(faults or (), tuple[Fault, ...])
        for line, kind in _judged(episode.instance).planted if faults is not None else ():
            said = {fault.kind for fault in found if fault.line == line}
            if kind is None:
                sums.update(f"clean_lines/{name}" for name in (*BY_JUDGE, ANY))
                sums.update(f"wrong/{name}" for name in (*said, *[ANY] * bool(said)))
            else:
                sums.update((f"planted/{kind}", f"planted/{ANY}"))
                sums[f"missed/{kind}"] += not said & {*FOUND_AS[kind]}
                sums[f"missed/{ANY}"] += not said
        yield Tally("control", benchmark, {}, episode.instance_id, episode.instance_id, sums)
