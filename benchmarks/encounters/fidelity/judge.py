"""Faults that only a reader can tell, from a judge that sees packets and transcript, never the rubric.

Each stored encounter is an instance of a run of its own, whose only role is the judge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from medhelm import (
    Benchmark,
    Episode,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    ModelSpec,
    Protocol,
    Send,
    Terms,
)
from medhelm.plugin import own_runs, questions, reply_form, tokens
from medhelm_benchmarks.encounters.grading.cast_fidelity import (
    BY_JUDGE,
    CAST,
    MEANING,
    Fault,
    JudgedKind,
    Line,
    lines_of,
)
from medhelm_benchmarks.encounters.matches import folded
from medhelm_benchmarks.encounters.packets import Packets
from medhelm_benchmarks.encounters.prompts import prompt_text
from medhelm_benchmarks.encounters.record import Encounter
from medhelm_benchmarks.encounters.replies import rejected

JUDGE = "judge"
REPAIRS = 2
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


def to_judge(place: str, episode: Episode) -> Instance:
    """Return an encounter as an instance of the judge's run. `place`: the run that it is of."""
    return Instance(
        id=f"{place}/{episode.instance.id}/{episode.repeat}",
        context=episode.instance.context,
        references=episode.instance.references,
        payload={"encounter": dict(episode.state), "packets": episode.instance.payload},
    )


def has_lines(instance: Instance) -> bool:
    """Return whether there is anything to judge: whether anybody said something."""
    return bool(msgspec.convert(instance.payload, Judged).lines)


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


async def conduct(benchmark: Benchmark, instance: Instance, terms: Terms, ask: Send) -> FinalAnswer:
    """Return the faults that the judge finds in an encounter; none at all where it cannot be read."""
    judged = msgspec.convert(instance.payload, Judged)
    lines = judged.lines
    by_number = {line.number: line for line in lines}

    def read(text: str) -> tuple[Fault, ...]:
        report, _ = reply_form.read_form(text, Report)
        if wrong := report_faults(report, lines, judged.packets):
            raise reply_form.BadReply("\n".join(wrong))
        return tuple(_fault(found, by_number[found.line]) for found in report.faults)

    found = await questions.send_until_read(
        partial(ask, JUDGE, step="fidelity"),
        partial(terms.request, instance, JUDGE, json_schema=reply_form.schema_of(Report)),
        judge_messages(judged.encounter, lines, judged.packets),
        read,
        rejected,
        REPAIRS,
    )
    return found.answer({"faults": msgspec.to_builtins(found.value)}, "judged")


def _fault(found: Found, line: Line) -> Fault:
    return Fault(
        kind=found.kind,
        role=line.role,
        turn=line.turn,
        line=line.number,
        by="judge",
        quote=found.quote[:200],
    )


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


def forecast(benchmark: Benchmark, instance: Instance, terms: Terms) -> Iterator[Forecast]:
    """Yield the one call to the judge, and its repairs at most."""
    judged = msgspec.convert(instance.payload, Judged)
    messages = judge_messages(judged.encounter, judged.lines, judged.packets)
    asked = tokens.request_tokens(terms.request(instance, JUDGE, messages))
    yield questions.one_call(terms, JUDGE, asked, 200, 500, REPAIRS)


FIDELITY = Protocol(
    name="encounter_fidelity",
    version="2",
    roles=(JUDGE,),
    conduct=conduct,
    forecast=forecast,
    sends_schema=True,
)
