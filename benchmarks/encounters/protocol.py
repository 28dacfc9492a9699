"""The protocol of an encounter: clinician, patient and surroundings, turn by turn, over clinical states.

In a turn the clinician says something and does something; words go to the patient, actions to the
surroundings, and both answers come back in its next turn. `states` decides how the case goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import msgspec

import medhelm_benchmarks.encounters.prompts as prompts
import medhelm_benchmarks.encounters.record as record
from medhelm import (
    Benchmark,
    DataError,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    Protocol,
    Request,
    Response,
    Send,
    Terms,
)
from medhelm.plugin import estimate_tokens, questions, reply_form
from medhelm_benchmarks.encounters.matches import folded
from medhelm_benchmarks.encounters.packets import Packets, packets_of
from medhelm_benchmarks.encounters.record import Encounter, Turn, as_state
from medhelm_benchmarks.encounters.replies import (
    LIMITS,
    ClinicianReply,
    ControllerReply,
    PatientReply,
    check_limits,
    diagnosis_of,
    read_markers,
)
from medhelm_benchmarks.encounters.states import Place, begin, follow, next_place

CLINICIAN, PATIENT, CONTROLLER = "clinician", "patient", "controller"
ENCOUNTER, CONSULTATION = "encounter", "consultation"
LAST_TURN, UPSTREAM = "last_turn", "upstream"
SCRIPT = "script/packet"
"""The rule that plays patient and surroundings from the structured part of their packets."""

Reply = TypeVar("Reply", ClinicianReply, PatientReply, ControllerReply)
_read_patient = partial(reply_form.read_form, form=PatientReply)
_read_controller = partial(reply_form.read_form, form=ControllerReply)


class Ended(Exception):
    """The encounter cannot go on; its argument is the answer, which says how it ends and whose failure that is."""


@dataclass
class Course:
    """An encounter on its way."""

    instance: Instance
    terms: Terms
    ask: Send
    packets: Packets
    gives_diagnosis: bool
    cap: int
    """The most turns."""
    opening: tuple[str, ...]
    """The natural changes of the first state."""
    place: Place
    messages: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """All that each role was sent, with its own replies, but for corrections."""
    talk: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """The talk since the surroundings were last asked."""
    given_facts: int = 0
    """The last state whose facts the patient's side was given."""
    turns: list[Turn] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    diagnosis: str | None = None
    repaired: dict[str, int] = field(default_factory=dict)

    def encounter(self) -> Encounter:
        """Return the encounter as far as it has come."""
        return Encounter(
            turns=tuple(self.turns),
            opening=self.opening,
            states=tuple(self.states),
            diagnosis=self.diagnosis,
        )


async def conduct(
    benchmark: Benchmark,
    instance: Instance,
    terms: Terms,
    send: Send,
    *,
    gives_diagnosis: bool = False,
) -> FinalAnswer:
    """Return the encounter of a case. `gives_diagnosis`: an action names one, and that ends it."""
    check_settings(terms)
    packets = packets_of(instance)
    states = packets.controller.states
    place, opening = begin(states), states[0].changes if states else ()
    cap: int = terms.settings["turns"]
    course = Course(instance, terms, send, packets, gives_diagnosis, cap, opening, place)
    course.states.append(place.label)
    try:
        ending = await _play(course)
    except Ended as e:
        answer: FinalAnswer = e.args[0]
        return msgspec.structs.replace(answer, state=as_state(course.encounter()))
    encounter = course.encounter()
    text = record.text_of(encounter) if course.diagnosis is None else course.diagnosis
    return FinalAnswer(text=text, ending=ending, state=as_state(encounter))


async def _play(course: Course) -> str:
    for number in range(1, course.cap + 1):
        if await _turn(course, number):
            return record.COMPLETED
    return record.CAPPED


def _form(terms: Terms) -> prompts.Form:
    form: prompts.Form = terms.settings.get("reply", "json")
    return form


def _bias(terms: Terms, role: str) -> str:
    return prompts.biases(role).get(terms.settings.get(f"{role}_bias", "none"), "")


def check_settings(terms: Terms) -> None:
    """Refuse settings that no encounter can go by; raises DataError."""
    least = {"turns": 1, "retries": 0, **dict.fromkeys(LIMITS, 1)}
    for name, low in least.items():
        if terms.settings[name] < low:
            raise DataError(f"protocol.{name} must be {low} or more")
    known: dict[str, tuple[str, ...]] = {
        LAST_TURN: (UPSTREAM, "none"),
        "reply": ("json", "markers"),
    }
    known |= {f"{role}_bias": ("none", *prompts.biases(role)) for role in (CLINICIAN, PATIENT)}
    for name, values in known.items():
        if (value := terms.settings.get(name, values[0])) not in values:
            said = (" or " if len(values) == 2 else ", ").join(values)
            raise DataError(f"protocol.{name}={value} is not known; it is {said}")


async def _turn(course: Course, number: int) -> bool:
    """Conduct a turn; return whether the encounter is over."""
    course.repaired = {}
    step = f"turn/{number}"
    reply = await _clinician(course, step)
    actions, eos = _lines(reply.actions), reply.eos
    if course.gives_diagnosis:
        course.diagnosis = diagnosis_of(actions)
        eos = course.diagnosis is not None
    turn = Turn(
        state=course.place.index,
        speak=reply.speak.strip(),
        actions=actions,
        eos=eos,
        repaired=course.repaired,
    )
    course.turns.append(turn)
    if course.diagnosis is not None:
        return True
    if turn.speak:
        turn = course.turns[-1] = await _patient(course, turn, step)
        course.talk.append((turn.speak, turn.heard))
    if turn.actions or turn.eos:
        course.turns[-1] = await _controller(course, turn, step)
    return course.place.is_over


def _lines(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(line.strip() for line in texts if line.strip())


async def _clinician(course: Course, step: str) -> ClinicianReply:
    form = _form(course.terms)
    if course.turns:
        now = Message("user", prompts.answered_text(course.turns[-1], form))
    else:
        now = prompts.clinician_opening(
            course.instance.context,
            course.opening,
            course.cap,
            course.terms.settings,
            form,
            gives_diagnosis=course.gives_diagnosis,
            bias=_bias(course.terms, CLINICIAN),
        )
    if course.terms.settings.get(LAST_TURN) == UPSTREAM:
        counted = prompts.turn_text(len(course.turns) + 1, course.cap)
        now = Message("user", f"{now.content}\n\n{counted}")

    def read(text: str) -> tuple[ClinicianReply, str]:
        reply = (
            read_markers(text) if form == "markers" else reply_form.read_form(text, ClinicianReply)
        )
        check_limits(reply[0], course.terms.settings)
        return reply

    return await _ask(course, CLINICIAN, now, read, step, form)


async def _patient(course: Course, turn: Turn, step: str) -> Turn:
    packet = course.packets.patient
    new = range(course.given_facts + 1, course.place.index + 1)
    course.given_facts = max(course.given_facts, course.place.index)
    if PATIENT not in course.messages:
        course.messages[PATIENT] = (prompts.patient_opening(packet, _bias(course.terms, PATIENT)),)
    facts = [fact for fact in packet.facts if fact.state in new]
    message = Message("user", prompts.said_text(turn.speak, facts))
    reply = await _ask(course, PATIENT, message, _read_patient, step)
    return msgspec.structs.replace(
        turn, heard=_lines(reply.speak), patient_side=tuple(reply.actors_present)
    )


async def _controller(course: Course, turn: Turn, step: str) -> Turn:
    states = course.packets.controller.states
    then = next_place(states, course.place, eos=turn.eos)
    begins = states[then.index] if states and then.index > course.place.index else None
    if CONTROLLER not in course.messages:
        course.messages[CONTROLLER] = (prompts.controller_opening(course.packets.controller),)
    order = prompts.order_text(
        course.talk, turn.actions, course.place, eos=turn.eos, next_state=begins
    )
    course.talk = []
    reply = await _ask(course, CONTROLLER, Message("user", order), _read_controller, step)
    claim = Place(reply.progress_index, reply.state_label.strip(), reply.should_end)
    place, overruled = follow(states, course.place, claim, eos=turn.eos)
    events = _lines(reply.events)
    if place.index > course.place.index:
        course.states.append(place.label)
        if begins is not None:
            changes = {folded(change) for change in begins.changes}
            kept = tuple(line for line in events if folded(line) not in changes)
            events = kept + begins.changes
    course.place = place
    return msgspec.structs.replace(
        turn,
        feedback=_lines(reply.feedback),
        events=events,
        status=reply.patient_status.strip(),
        unsupported=tuple(a.raw for a in reply.action_assessments if a.status == "unsupported"),
        overruled=overruled,
        staff=tuple(reply.actors_present),
    )


async def _ask(
    course: Course,
    role: str,
    now: Message,
    read: Callable[[str], tuple[Reply, str]],
    step: str,
    form: prompts.Form = "json",
) -> Reply:
    """Return a role's reply to a message, after corrections where it cannot be read; raises Ended."""
    terms = course.terms
    seed = terms.seed + terms.settings.get(f"{role}_seed", 0)
    messages: tuple[Message, ...] = (*course.messages.get(role, ()), now)

    async def send(request: Request, attempt: int) -> Response:
        if attempt:
            course.repaired[role] = attempt
        return await course.ask(role, request, step=step, attempt=attempt)

    found = await questions.send_until_read(
        send,
        partial(terms.request, course.instance, role, seed=seed),
        messages,
        read,
        lambda _, text, fault: messages + prompts.correction(text, fault, form),
        terms.settings["retries"],
    )
    if found.value is not None:
        reply, shown = found.value
        course.messages[role] = (*messages, Message("assistant", shown))
        return reply
    response, has_failed = found.response, found.end in ("error", "oversize", "refused")
    if role != CLINICIAN:
        ending = record.PATIENT_FAILED if role == PATIENT else record.CONTROLLER_FAILED
        why = response.error or response.finish if has_failed else "no reply of the form asked for"
        raise Ended(FinalAnswer(ending=ending, finish="error", error=f"{role}: {why}"))
    ending = record.CLINICIAN_FAILED if has_failed else record.UNREADABLE
    raise Ended(
        FinalAnswer(
            text=response.text,
            finish=response.finish,
            error=response.error,
            ending=record.OVERSIZE if response.finish == "oversize" else ending,
        )
    )


_TURN_TOKENS = 160
"""Tokens that a turn is expected to add to what each role is sent."""
_REPLY_TOKENS = {CLINICIAN: 80, PATIENT: 60, CONTROLLER: 250}
"""Tokens that a reply is expected to have. The controller repeats and assesses what is ordered."""


def forecast(
    benchmark: Benchmark, instance: Instance, terms: Terms, *, gives_diagnosis: bool = False
) -> Iterator[Forecast]:
    """Yield what each role is expected to be sent: two thirds of the most turns, and their history."""
    packets = packets_of(instance)
    cap: int = terms.settings["turns"]
    turns = (2 * cap + 2) / 3
    place, form = begin(packets.controller.states), _form(terms)
    first = {
        CLINICIAN: (
            prompts.clinician_opening(
                instance.context, (), cap, terms.settings, form, gives_diagnosis=gives_diagnosis
            ),
        ),
        PATIENT: (prompts.patient_opening(packets.patient), Message("user", prompts.said_text(""))),
        CONTROLLER: (
            prompts.controller_opening(packets.controller),
            Message("user", prompts.order_text((), (), place, eos=False)),
        ),
    }
    later = sum(len(msgspec.json.encode(state)) for state in packets.controller.states[1:]) // 3
    tries: int = terms.settings["retries"] + 1
    budgets = sum(role.max_output_tokens for role in terms.roles.values())
    for role, messages in first.items():
        base = estimate_tokens(terms.request(instance, role, messages))
        grown = turns * (turns - 1) / 2 * _TURN_TOKENS
        most = cap * (base + later + 200) + cap * (cap + 1) // 2 * (budgets + 200)
        yield Forecast(
            role=role,
            calls=turns,
            calls_limit=cap * tries,
            input_tokens=turns * base + grown,
            input_tokens_limit=tries * most,
            output_tokens=turns * _REPLY_TOKENS[role],
        )


_SETTINGS = {"retries": 2, "patient_seed": 0, "controller_seed": 0, **LIMITS}
"""Corrective retries of one reply; what is added to the run's seed in a role's requests."""

_BIASES = {f"{role}_bias": "none" for role in (CLINICIAN, PATIENT)}

ENCOUNTERS = Protocol(
    name=ENCOUNTER,
    version="4",
    roles=(CLINICIAN, PATIENT, CONTROLLER),
    conduct=conduct,
    forecast=forecast,
    transcript=record.transcript,
    cast={PATIENT: SCRIPT, CONTROLLER: SCRIPT},
    settings={"turns": 12, **_SETTINGS},
    seeds={f"{role}_seed": role for role in (PATIENT, CONTROLLER)},
    budgets={PATIENT: 1024, CONTROLLER: 4096},
)
CONSULTATIONS = replace(
    ENCOUNTERS,
    name=CONSULTATION,
    conduct=partial(conduct, gives_diagnosis=True),
    forecast=partial(forecast, gives_diagnosis=True),
    settings={"turns": 20, "reply": "json", LAST_TURN: UPSTREAM, **_BIASES, **_SETTINGS},
)
"""An encounter of one state whose clinician names a diagnosis (AgentClinic)."""
