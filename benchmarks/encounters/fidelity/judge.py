"""Faults that only a reader can tell, from a judge that sees packets and transcript, never the rubric.

Each stored encounter is an instance of a run of its own, whose only role is the judge.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from medhelm import (
    Benchmark,
    Episode,
    FinalAnswer,
    Instance,
    Message,
    ModelSpec,
)
from medhelm.plugin import intervals, own_runs, questions, reply_form
from medhelm_benchmarks.encounters.grading.cast_fidelity import (
    ANY,
    BY_JUDGE,
    CAST,
    MEANING,
    Fault,
    JudgedKind,
    Line,
    Role,
    content,
    lines_of,
    passages,
)
from medhelm_benchmarks.encounters.matches import folded, has_run, words
from medhelm_benchmarks.encounters.packets import Packets
from medhelm_benchmarks.encounters.prompts import prompt_text
from medhelm_benchmarks.encounters.record import Encounter, Turn
from medhelm_benchmarks.encounters.replies import rejected
from medhelm_benchmarks.encounters.tables.cast import Tally

JUDGE = "judge"
BUDGET, REASONING_BUDGET = 4_096, 16_384


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault as the judge reports it."""

    line: int
    kind: JudgedKind
    quote: str
    against: str


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The judge's reply."""

    faults: list[Found]


class Judged(msgspec.Struct, frozen=True):
    """An encounter to be judged, as its instance carries it."""

    encounter: Encounter
    packets: Packets
    planted: tuple[tuple[int, JudgedKind | None], ...] = ()
    """Of a control the lines whose fault is known; None: there is none."""

    @property
    def lines(self) -> list[Line]:
        """Return the lines of patient and surroundings."""
        return [ln for ln in lines_of(self.encounter, self.packets) if ln.role in CAST]


def to_judge(place: str, episode: Episode) -> Instance | None:
    """Return an encounter as an instance of the judge's run; None where nobody says anything.

    `place`: the run that it is of.
    """
    instance = Instance(
        id=f"{place}/{episode.instance.id}/{episode.repeat}",
        context=episode.instance.context,
        references=episode.instance.references,
        payload={"encounter": dict(episode.state), "packets": episode.instance.payload},
    )
    return instance if _judged(instance).lines else None


def judge_folder(results: Path, benchmark: str, judge: ModelSpec) -> Path:
    """Return where a results folder keeps what a judge says of the encounters of a benchmark."""
    asked = msgspec.json.encode([FIDELITY.version, own_runs.identity(judge)], order="sorted")
    return results / "fidelity" / benchmark / hashlib.sha256(asked).hexdigest()[:16]


def judged_faults(folder: Path) -> dict[str, tuple[Fault, ...]]:
    """Return what the judge found in each encounter that it could be read on."""
    found = {e.instance_id: e.state.get("faults") for e in own_runs.stored_episodes(folder)}
    return {
        name: msgspec.convert(faults, tuple[Fault, ...])
        for name, faults in found.items()
        if faults is not None
    }


def _questions(
    benchmark: Benchmark, instance: Instance
) -> Iterator[questions.Question[tuple[Fault, ...]]]:
    judged = _judged(instance)
    lines = judged.lines
    by_number = {line.number: line for line in lines}

    def read(text: str) -> tuple[Fault, ...]:
        report, _ = reply_form.read_form(text, Report)
        if wrong := report_faults(report, lines, judged.packets):
            raise reply_form.BadReply("\n".join(wrong))
        return tuple(_fault(found, by_number[found.line]) for found in report.faults)

    yield questions.Question(
        step="fidelity",
        messages=judge_messages(judged.encounter, lines, judged.packets),
        schema=Report,
        read=read,
        repair=rejected,
        expected=200,
        again=500,
    )


def _answer(instance: Instance, found: questions.Readout[tuple[Fault, ...]]) -> FinalAnswer:
    """Return the faults that the judge finds in an encounter; none at all where it cannot be read."""
    return found.answer({"faults": msgspec.to_builtins(found.value)}, "judged")


FIDELITY = questions.asking("encounter_fidelity", JUDGE, _questions, _answer, version="2")


def _fault(found: Found, line: Line) -> Fault:
    quote, where = found.quote[:200], {"turn": line.turn, "line": line.number}
    return Fault(kind=found.kind, role=line.role, by="judge", quote=quote, **where)


def report_faults(report: Report, lines: Sequence[Line], packets: Packets) -> list[str]:
    """Return what is wrong with a report: lines that are not there, words that nobody said."""
    texts = {line.number: folded(line.text) for line in lines}
    material = folded(f"{packets.patient.text}\n{packets.controller.text}")
    faults: list[str] = []
    for found in report.faults:
        if found.line not in texts:
            faults.append(f"there is no line {found.line}")
        elif not folded(found.quote) or folded(found.quote) not in texts[found.line]:
            faults.append(f"the quote of line {found.line} is not in it")
        if found.kind == "contradiction":
            own = folded(found.against)
            if not own or (own not in material and all(own not in t for t in texts.values())):
                faults.append(f"line {found.line}: `against` is neither in the material nor said")
    return faults


def judge_messages(
    encounter: Encounter, lines: Sequence[Line], packets: Packets
) -> tuple[Message, ...]:
    """Return what the judge is sent: both packets, and the encounter turn by turn."""
    parts = [
        f"Material of the patient's side:\n{packets.patient.text}",
        f"Material of the surroundings:\n{packets.controller.text}",
        "The encounter:",
    ]
    for n, turn in enumerate(encounter.turns, 1):
        parts.append(f"Turn {n}. The clinician says: {turn.speak or '(nothing)'}")
        parts += [f"The clinician does: {action}" for action in turn.actions]
        own = [line for line in lines if line.turn == n]
        parts += [f"[{line.number}] {line.role}: {line.text}" for line in own]
        released = (event for event in turn.events if all(event != line.text for line in own))
        parts += [f"It comes about: {event}" for event in released]
    kinds = "\n".join(f"- {kind}: {MEANING[kind]}" for kind in BY_JUDGE)
    task = prompt_text("fidelity").replace("{kinds}", kinds)
    return Message("system", task), Message("user", "\n\n".join(parts))


# Controls: copies of encounters with planted and clean lines at their end, by which it is known what a judge misses
# and makes up. They are instances of its run, and in none of its counts.

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
    text = (packets.patient if role == "patient" else packets.controller).text
    found = [
        (hidden.asked_by[0], hidden.speaker, hidden.text)
        for hidden in packets.hidden(role)
        if role == "controller" or not hidden.state
    ]
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
