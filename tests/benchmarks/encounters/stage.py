"""A case with a canary in every packet, and encounters that are played without a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm import Instance, Message, ModelSpec
from medhelm.protocols.protocol import FinalAnswer, Protocol, RoleTerms, Terms
from medhelm.schema.episode import Call, Episode, Request, Response, request_key
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000 as BENCHMARK
from medhelm_benchmarks.encounters.packets import (
    ControllerPacket,
    Deed,
    EvaluatorPacket,
    Fact,
    Packets,
    PatientPacket,
    Result,
    RubricItem,
    State,
    case_instance,
)
from medhelm_benchmarks.encounters.protocol import ENCOUNTERS
from medhelm_benchmarks.encounters.rules import RuleModel

PLUGIN = Path(__file__).with_name("stage_plugin.py")
PACKETS = Packets(
    patient=PatientPacket(
        text="CANARY_PATIENT You are Mia, two years old, too young to answer.",
        facts=(
            Fact(asked_by=("how long", "begin"), answer="Since last night.", speaker="Mother"),
            Fact(asked_by=("drink", "fluids"), answer="Hardly anything.", speaker="Mother"),
            Fact(
                asked_by=("now", "better"),
                answer="CANARY_LATER She sleeps.",
                speaker="Mother",
                state=1,
            ),
        ),
        can_speak=False,
        companions=("Mother",),
        otherwise="I do not know.",
    ),
    controller=ControllerPacket(
        text="CANARY_CONTROLLER A children's ward at night.",
        staff=("Nurse",),
        states=(
            State(
                label="arrival",
                changes=("The child cries without tears.",),
                results=(
                    Result(
                        asked_by=("vital signs", "heart rate"), text="Heart rate 160 per minute."
                    ),
                    Result(
                        asked_by=("fluids", "infusion"),
                        text="The drip is running.",
                        speaker="Nurse",
                    ),
                ),
            ),
            State(
                label="after_fluids",
                changes=("The heart rate falls to 120 per minute.",),
                results=(Result(asked_by=("sodium",), text="CANARY_RESULT Sodium 139 mmol/L."),),
            ),
        ),
    ),
    evaluator=EvaluatorPacket(
        items=(
            RubricItem(
                competency="PC",
                text="CANARY_RUBRIC Asks since when the child has been ill",
                deed=Deed(channel="speak", wordings=("how long",)),
            ),
            RubricItem(
                competency="PC",
                text="Orders an infusion",
                deed=Deed(channel="actions", wordings=("infusion",)),
            ),
            RubricItem(
                competency="MK",
                text="Checks the sodium after the fluids",
                deed=Deed(channel="actions", wordings=("sodium",), state=1),
            ),
            RubricItem(competency="PROF", text="Treats the mother with respect"),
        ),
        text="CANARY_EVALUATOR",
    ),
)
CASE = case_instance(
    "art1/scenario1",
    "CANARY_CLINICIAN A child of two is brought at night.",
    PACKETS,
    cluster="art1",
    metadata={"specialty": "Pediatrics"},
)
TEXT_CASE = case_instance(
    "art2/scenario1",
    "A man of 60 has chest pain.",
    Packets(
        patient=PatientPacket(text="You have chest pain."),
        controller=ControllerPacket(text="State one: pain. State two: collapse."),
    ),
)
Say = Callable[[Sequence[Message]], str | Response]
"""What a role answers to its messages."""


def plugin_of(folder: Path, *, is_private: bool = False) -> Path:
    """Write the plugin of the staged case into a folder, where it may be of private data."""
    text = PLUGIN.read_text().replace("Path(__file__).parent", f"Path({str(PLUGIN.parent)!r})")
    if is_private:
        text = text.replace("redistributable=True", 'data_class="private"')
    path = folder / "own_plugin.py"
    path.write_text(text)
    return path


def says(speak: str = "", *actions: str, eos: bool = False) -> str:
    """Return a reply of the clinician."""
    return json.dumps({"speak": speak, "actions": list(actions), "eos": eos})


def answers(*lines: str, present: Sequence[str] = ("Patient", "Mother")) -> str:
    """Return a reply of the patient's side."""
    return json.dumps({"speak": lines, "actors_present": dict.fromkeys(present, "here")})


def shows(*feedback: str, staff: Sequence[str] = (), unsupported: str = "", **more: object) -> str:
    """Return a reply of the surroundings; `more`: what it claims besides."""
    words = {"interpreted_action": "", "status": "unsupported", "rationale": ""}
    values = {
        "feedback": feedback,
        "events": [],
        "actors_present": dict.fromkeys(staff, "here"),
        "action_assessments": [{"raw": unsupported, **words}] if unsupported else [],
        "patient_status": "",
        "completion_reason": "",
        "progress_index": 0,
        "state_label": "arrival",
        "should_end": False,
    }
    return json.dumps(values | more)


def in_turn(*replies: str | Response) -> Say:
    """Return a role that gives these replies one after the other, then the last one again."""
    left = list(replies)
    return lambda messages: left.pop(0) if len(left) > 1 else left[0]


def rule(case: Instance, name: str, provider: str = "encounter") -> Say:
    """Return a role that is played by rule."""
    model = RuleModel(ModelSpec(name=f"{provider}/{name}", provider=provider, model=name))

    def answer(messages: Sequence[Message]) -> str:
        request = Request(instance_id=case.id, messages=tuple(messages), max_output_tokens=9)
        return model.answer(BENCHMARK, case, 0, request)

    return answer


def play(
    case: Instance,
    clinician: Say,
    *,
    patient: Say | None = None,
    controller: Say | None = None,
    protocol: Protocol = ENCOUNTERS,
    **settings: Any,
) -> Episode:
    """Return the episode of a case with these roles, its calls in order."""
    by_rule = rule(case, "packet", "script")
    roles: Mapping[str, Say] = {
        "clinician": clinician,
        "patient": patient or by_rule,
        "controller": controller or by_rule,
    }
    calls: list[Call] = []

    async def ask(role: str, request: Request, *, step: str, attempt: int = 0) -> Response:
        said = roles[role](request.messages)
        response = said if isinstance(said, Response) else Response(instance_id=case.id, text=said)
        assert (role, step, attempt) not in [(c.role, c.step, c.attempt) for c in calls]
        sent, messages = request_key(request), request.messages
        own: dict[str, Any] = {"role": role, "step": step, "attempt": attempt, "sent": sent}
        calls.append(Call(**own, messages=messages, response=response))
        return response

    terms = Terms(
        roles={role: RoleTerms(max_output_tokens=500) for role in protocol.roles},
        settings={**protocol.settings, **settings},
    )

    async def conduct() -> FinalAnswer:
        return await protocol.conduct(BENCHMARK, case, terms, ask)

    end = asyncio.run(conduct())
    response = Response(instance_id=case.id, text=end.text, finish=end.finish, error=end.error)
    own: dict[str, Any] = {"calls": tuple(calls), "ending": end.ending, "state": end.state}
    return Episode(instance=case, response=response, **own)
