"""Roles played by rule, so that whole encounters need no model (`docs/encounters.md` lists them).

The script sees what a model in its role is sent, and no more. The clinicians but the first two read
packets that no clinician may see: they are shown, never ranked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medhelm import (
    Benchmark,
    DataError,
    Episode,
    Instance,
    Message,
    ModelSpec,
    Protocol,
    Provider,
    Request,
    Response,
    Terms,
    UnknownName,
)
from medhelm.plugin import RoleTerms
from medhelm_benchmarks.encounters.matches import is_asked
from medhelm_benchmarks.encounters.packets import Packets, packets_of
from medhelm_benchmarks.encounters.prompts import SWAYED, is_in_markers, prompt_text, to_json
from medhelm_benchmarks.encounters.protocol import (
    CLINICIAN,
    CONSULTATION,
    CONTROLLER,
    ENCOUNTER,
    PATIENT,
)
from medhelm_benchmarks.encounters.replies import NAMED

PROVIDER, SCRIPTS = "encounter", "script"
READ_PACKETS = frozenset({"asks_everything", "orders_everything", "oracle"})


class RuleModel:
    """A role played by rule."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.name = _name(spec)
        self.is_script = spec.provider == SCRIPTS

    def prepare(self, benchmark: Benchmark, instances: Iterator[Instance]) -> None:
        """Refuse to play from packets that are text alone; raises DataError."""
        if not self.is_script:
            return
        for instance in instances:
            packets = packets_of(instance)
            if not (packets.patient.facts and packets.controller.states):
                raise DataError(
                    f"benchmark {benchmark.name!r}: case {instance.id!r} has texts alone, from which "
                    f"{self.spec.name} cannot play; add cast.patient=MODEL cast.controller=MODEL"
                )

    def answer(
        self, benchmark: Benchmark, instance: Instance, seed: int, request: Request | None = None
    ) -> str:
        """Return what the rule says in its role. Raises DataError in a role that it cannot play."""
        messages = request.messages if request is not None else ()
        if not messages:
            return ""
        if SWAYED.partition("{")[0] in messages[0].content:
            raise DataError(f"{self.spec.name} plays by rule, and no bias sways it; name a model")
        if not self.is_script:
            return _clinician(self.name, instance, messages)
        if messages[0].content.startswith(prompt_text("patient")):
            return _patient(instance, messages)
        return _controller(messages)


def _name(spec: ModelSpec) -> str:
    return spec.model or spec.name.rpartition("/")[2]


def _sent(message: Message) -> dict[str, Any]:
    """Return the JSON object that ends a message."""
    text = message.content
    values: dict[str, Any] = json.loads(text[text.index("\n\n{") :] if "\n\n{" in text else text)
    return values


def _patient(instance: Instance, messages: Sequence[Message]) -> str:
    script = _sent(messages[0])
    facts = list(script.get("when_asked", ()))
    turns = [_sent(m) for m in messages if m.role == "user"]
    for turn in turns:
        facts = [*turn.get("when_asked_from_now_on", ()), *facts]
    asked = turns[-1]["clinician_says"]
    lines = [
        fact["says"] if fact["who"] == "Patient" else f"{fact['who']}: {fact['says']}"
        for fact in facts
        if is_asked(fact["on"], asked)
    ]
    companions = script.get("companions", ())
    if not lines:
        otherwise = packets_of(instance).patient.otherwise
        mute = not script.get("patient_can_speak", True) and companions
        lines = [f"{companions[0]}: {otherwise}" if mute else otherwise]
    named = dict.fromkeys(companions, "the script names them")
    present = {"Patient": "the script is theirs"} | named
    return to_json({"speak": list(dict.fromkeys(lines)), "actors_present": present})


def _controller(messages: Sequence[Message]) -> str:
    material = _sent(messages[0])
    orders = [_sent(m) for m in messages if m.role == "user"]
    states = [material["first_state"]] if "first_state" in material else []
    states += [order["next_state"] for order in orders[:-1] if "next_state" in order]
    now = orders[-1]
    lines = {action: _results(states, action) for action in now["actions"]}
    then = now.get("next_state")
    return to_json(
        {
            "feedback": list(dict.fromkeys(line for own in lines.values() for line in own)),
            "events": [],
            "actors_present": dict.fromkeys(material.get("staff", ()), "the material names them"),
            "action_assessments": [
                {
                    "raw": action,
                    "interpreted_action": action,
                    "status": "executed" if lines[action] else "unsupported",
                    "rationale": "",
                }
                for action in now["actions"]
            ],
            "patient_status": "",
            "progress_index": now["progress_index"] + bool(then),
            "state_label": then["label"] if then else now["state_label"],
            "should_end": now["eos"] and not then,
            "completion_reason": "",
        }
    )


def _results(states: Sequence[Mapping[str, Any]], action: str) -> list[str]:
    """Return what an action brings about: by the latest state that has something for it."""
    for state in reversed(states):
        found = [r for r in state.get("results", ()) if is_asked(r["asked_by"], action)]
        if found:
            return [f"{r['speaker']}: {r['text']}" if "speaker" in r else r["text"] for r in found]
    return []


Move = tuple[str, list[str]]
"""The words and actions of a clinician in a state."""


def _clinician(name: str, instance: Instance, messages: Sequence[Message]) -> str:
    turn = sum(m.role == "assistant" for m in messages)
    is_plain = is_in_markers(messages)
    is_named = is_plain or f"`{NAMED} NAME`" in messages[0].content
    if name == "silent":
        return "(silent)" if is_plain else _reply(("", []), eos=False)
    packets = packets_of(instance)
    last = max(len(packets.controller.states) - 1, 0)
    speak, actions = _CLINICIANS[name](packets, min(turn, last)) if turn <= last else ("", [])
    if not is_named:
        return _reply((speak, actions), eos=True)
    gold = instance.references[0] if name == "oracle" and instance.references else "not known"
    if is_plain:
        orders = [f"REQUEST TEST: {action}" for action in actions]
        text = "\n".join([speak, *orders]).strip()
        return text if text and turn == 0 else f"DIAGNOSIS READY: {gold}"
    if (speak or actions) and turn == 0:
        return _reply((speak, actions), eos=False)
    return _reply(("", [f"{NAMED} {gold}"]), eos=True)


def _reply(move: Move, *, eos: bool) -> str:
    return to_json({"speak": move[0], "actions": move[1], "eos": eos})


def _nothing(packets: Packets, state: int) -> Move:
    return "", []


def _asks(packets: Packets, state: int) -> Move:
    """Ask for all facts; where the script is text alone, for what every history has."""
    facts = [fact.asked_by[0] for fact in packets.patient.facts if fact.state == state]
    if not packets.patient.facts:
        return " ".join(prompt_text("rule_questions").splitlines()), []
    return " ".join(f"{fact}?" for fact in facts), []


def _orders(packets: Packets, state: int) -> Move:
    """Order all results; where the material is text alone, what is ordered of most patients."""
    states = packets.controller.states
    if not states:
        return "", prompt_text("rule_orders").splitlines()
    return "", [result.asked_by[0] for result in states[state].results]


def _does_all(packets: Packets, state: int) -> Move:
    deeds = [item.deed for item in packets.evaluator.items]
    due = [deed for deed in deeds if deed is not None and deed.state == state]
    said = [deed.wordings[0] for deed in due if deed.channel == "speak"]
    done = [deed.wordings[0] for deed in due if deed.channel == "actions"]
    return " ".join(f"{words}." for words in said), done


_CLINICIANS: dict[str, Callable[[Packets, int], Move]] = {
    "silent": _nothing,
    "ends_at_once": _nothing,
    "asks_everything": _asks,
    "orders_everything": _orders,
    "oracle": _does_all,
}


_RULES = {PROVIDER: tuple(_CLINICIANS), SCRIPTS: ("packet",)}
_ROLES = {PROVIDER: (CLINICIAN,), SCRIPTS: (PATIENT, CONTROLLER)}
MODELS = {
    f"{provider}/{name}": ModelSpec(
        name=f"{provider}/{name}",
        provider=provider,
        model=name,
        endpoint_class="local",
        weights="none",
    )
    for provider, names in _RULES.items()
    for name in names
}
"""The rules as models, by name."""


def check(spec: ModelSpec) -> None:
    """Refuse a rule that does not exist; raises UnknownName."""
    known = _RULES[spec.provider]
    if _name(spec) not in known:
        raise UnknownName("rule", _name(spec), known, f"The rules are {', '.join(known)}.")


PROVIDERS = [
    Provider(
        name=name,
        help=f"rules in the role {' or '.join(roles)}",
        open_model=RuleModel,
        check=check,
        is_open=False,
        is_local=True,
        reads_prompt=False,
        reads_gold=lambda spec: _name(spec) in READ_PACKETS,
        model_of=_name,
        plays=dict.fromkeys((ENCOUNTER, CONSULTATION), roles),
        uses=(),
    )
    for name, roles in _ROLES.items()
]
"""The providers of rules: of the clinician, and of the script that plays the others."""
PROOFS = {"oracle": "oracle", "empty": "silent"}
PROOFS |= {name: name for name in ("ends_at_once", "asks_everything", "orders_everything")}
"""Names of the proofs, and the rule that is the clinician."""


def with_proofs(protocol: Protocol) -> Protocol:
    """Return a protocol that brings its proofs: the encounters of a case by name, the oracle's first."""

    def proofs(benchmark: Benchmark, instance: Instance) -> Iterator[tuple[str, Episode]]:
        for name, clinician in PROOFS.items():
            yield name, _play(protocol, benchmark, instance, clinician)

    return replace(protocol, proofs=proofs)


def _play(protocol: Protocol, benchmark: Benchmark, instance: Instance, clinician: str) -> Episode:
    """Return the encounter of a case with a clinician by rule, all other roles by script."""
    players = dict.fromkeys(protocol.roles, RuleModel(MODELS[f"{SCRIPTS}/packet"]))
    players[protocol.roles[0]] = RuleModel(MODELS[f"{PROVIDER}/{clinician}"])

    async def ask(role: str, request: Request, *, step: str, attempt: int = 0) -> Response:
        text = players[role].answer(benchmark, instance, 0, request)
        return Response(instance_id=instance.id, text=text)

    roles = {role: RoleTerms(max_output_tokens=1024) for role in protocol.roles}
    terms = Terms(roles=roles, settings=protocol.settings)
    conducting = protocol.conduct(benchmark, instance, terms, ask).__await__()
    try:
        next(conducting)
    except StopIteration as end:
        answer = end.value
    else:  # rules answer at once
        raise AssertionError("an encounter by rule waits for nothing")
    response = Response(
        instance_id=instance.id, text=answer.text, finish=answer.finish, error=answer.error
    )
    return Episode(instance=instance, response=response, ending=answer.ending, state=answer.state)
