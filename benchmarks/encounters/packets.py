"""Packets of a case: what each role of an encounter is given, and how an instance carries them.

A packet has a text, which models read, and may have a structured part besides, by which rules play the
role and fidelity is checked. Real cases have texts only. The clinician's packet is the context of
the instance; the others are its payload, which no request to the clinician carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

from medhelm import DataError, Instance

Competency = Literal["PC", "MK", "SBP", "ICS", "PBLI", "PROF"]
"""The six competencies of the ACGME."""
COMPETENCIES: tuple[Competency, ...] = get_args(Competency)
COMPETENCY_NAMES: Mapping[Competency, str] = {
    "PC": "patient care",
    "MK": "medical knowledge",
    "SBP": "systems-based practice",
    "ICS": "interpersonal and communication skills",
    "PBLI": "practice-based learning and improvement",
    "PROF": "professionalism",
}

Channel = Literal["speak", "actions"]
"""The channel of what the clinician does: in words to the patient, or as an action."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Words = Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
"""Wordings of one request, any of which will do. All words of a wording are looked for, whatever
their order and case (`matches.is_asked`)."""


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of a packet."""


class Fact(_Part, frozen=True, kw_only=True):
    """Something that the patient's side says when it is asked for it, and not before."""

    asked_by: _Words
    answer: _Text
    speaker: str = ""
    """The companion who says it; empty: the patient."""
    state: int = 0
    """The first clinical state in which it is so."""


class Result(_Part, frozen=True, kw_only=True):
    """Holds the result of an action. It is not shown before that is ordered."""

    asked_by: _Words
    text: _Text
    speaker: str = ""
    """The member of the staff who says it; empty: a finding, a reading or an event."""


class State(_Part, frozen=True, kw_only=True):
    """One clinical state. Results of earlier states can still be had, unless this one replaces them."""

    label: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_]{1,60}$")]
    changes: tuple[_Text, ...] = ()
    """Natural changes, by disease or time: released when the state begins, unasked."""
    results: tuple[Result, ...] = ()


class PatientPacket(_Part, frozen=True, kw_only=True):
    """The script of the patient's side."""

    text: _Text
    facts: tuple[Fact, ...] = ()
    can_speak: bool = True
    """False where a companion answers for the patient."""
    companions: tuple[_Text, ...] = ()
    """Titles of those with the patient ("Mother")."""
    otherwise: str = "I do not know."
    """The reply by rule to a question that no fact answers."""


class ControllerPacket(_Part, frozen=True, kw_only=True):
    """Holds the material of the surroundings: findings, results, staff, and how the case goes on."""

    text: _Text
    states: tuple[State, ...] = ()
    """In their order; empty: in the text alone, and the controller says whether there is a next one."""
    staff: tuple[_Text, ...] = ()
    """Titles of those who may speak for the surroundings ("Nurse")."""


class Deed(_Part, frozen=True, kw_only=True):
    """Describes a deed that fulfils an item, so that a rule can do it and recognise it."""

    channel: Channel
    wordings: _Words
    """Any of them. The oracle does the first."""
    state: int = 0
    """The state in which the oracle does it; earlier does not count."""


class RubricItem(_Part, frozen=True, kw_only=True):
    """One item of a frozen rubric."""

    competency: Competency
    text: _Text
    """Verbatim as in the source."""
    deed: Deed | None = None
    """None: only a reader can tell."""
    weight: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    """Its marks, where items count unequally."""
    harmful: bool = False
    """To meet it costs its weight, and it is in no denominator."""
    critical: bool = False
    """A case is not passed without it; one that is harmful, too: not passed with it."""


class EvaluatorPacket(_Part, frozen=True, kw_only=True):
    """The frozen rubric. Nobody sees it but the grader."""

    items: tuple[RubricItem, ...] = ()
    text: str = ""
    """The source's own material for raters; never sent."""
    rubric_version: str = "v1"


class Hidden(NamedTuple):
    """Something that a packet holds back until it is asked for or ordered."""

    text: str
    asked_by: tuple[str, ...]
    speaker: str
    state: int


class Packets(_Part, frozen=True, kw_only=True):
    """The packets of a case but the clinician's, which is the context of its instance."""

    patient: PatientPacket
    controller: ControllerPacket
    evaluator: EvaluatorPacket = EvaluatorPacket()

    def hidden(self, role: str) -> list[Hidden]:
        """Return the facts of the patient, or the results of the controller."""
        if role == "patient":
            return [Hidden(f.answer, f.asked_by, f.speaker, f.state) for f in self.patient.facts]
        states = enumerate(self.controller.states)
        return [Hidden(r.text, r.asked_by, r.speaker, n) for n, s in states for r in s.results]


def case_instance(
    case: str,
    clinician: str,
    packets: Packets,
    *,
    references: Iterable[str] = (),
    cluster: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Instance:
    """Return the instance of a case. `cluster`: its source article. Raises DataError (`check_packets`)."""
    check_packets(case, packets)
    payload: dict[str, Any] = msgspec.to_builtins(packets)
    return Instance(
        id=case,
        context=clinician,
        references=tuple(references),
        cluster=cluster,
        metadata=dict(metadata or {}),
        payload=payload,
    )


def packets_of(instance: Instance) -> Packets:
    """Return the packets that an instance carries; raises DataError where it has none."""
    try:
        return msgspec.convert(instance.payload, Packets)
    except msgspec.ValidationError as e:
        raise DataError(f"case {instance.id!r}: its packets cannot be read: {e}") from None


def check_packets(case: str, packets: Packets) -> None:
    """Refuse packets that contradict themselves; raises DataError with the case and the place."""
    controller, patient = packets.controller, packets.patient
    labels = [state.label for state in controller.states]
    _refuse_repeated(case, "state label", labels)
    _refuse_repeated(
        case, "item of a competency", [f"{i.competency}: {i.text}" for i in packets.evaluator.items]
    )
    for role, title, titles in (
        ("patient", "companion", patient.companions),
        ("controller", "staff", controller.staff),
    ):
        speakers = [hidden.speaker for hidden in packets.hidden(role)]
        for speaker in speakers:
            if speaker and speaker not in titles:
                raise DataError(
                    f"case {case!r}: {speaker!r} speaks and is not in the packet's list of {title}; "
                    f"the list has {', '.join(titles) or 'nobody'}"
                )
    last = max(len(labels) - 1, 0)
    places = [fact.state for fact in patient.facts]
    places += [item.deed.state for item in packets.evaluator.items if item.deed is not None]
    for place in places:
        if not 0 <= place <= last:
            raise DataError(f"case {case!r}: state {place} is named; the states are 0 to {last}")


def _refuse_repeated(case: str, kind: str, names: list[str]) -> None:
    for n, name in enumerate(names):
        if name in names[:n]:
            raise DataError(f"case {case!r}: the {kind} {name[:80]!r} is there twice; keep one")
