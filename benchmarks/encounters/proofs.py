"""Encounters by rule that `medhelm validate` scores: an oracle, and clinicians that do too little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from medhelm import Benchmark, Episode, Instance, ModelSpec, Request, Response, Terms
from medhelm.protocols.protocol import Protocol, RoleTerms
from medhelm_benchmarks.encounters.rules import PROVIDER, SCRIPTS, RuleModel

CLINICIANS = {
    "oracle": "oracle",
    "empty": "silent",
    "ends_at_once": "ends_at_once",
    "asks_everything": "asks_everything",
    "orders_everything": "orders_everything",
}
"""Names of the proofs, and the rule that is the clinician."""


def play(protocol: Protocol, benchmark: Benchmark, instance: Instance, clinician: str) -> Episode:
    """Return the encounter of a case with a clinician by rule, all other roles by script."""
    script = _rule(SCRIPTS, "packet")
    players = dict.fromkeys(protocol.roles, script)
    players[protocol.roles[0]] = _rule(PROVIDER, clinician)

    async def ask(role: str, request: Request, *, step: str, attempt: int = 0) -> Response:
        text = players[role].answer(benchmark, instance, 0, request)
        return Response(instance_id=instance.id, text=text)

    terms = Terms(
        roles={role: RoleTerms(max_output_tokens=1024) for role in protocol.roles},
        settings=protocol.settings,
    )
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


def _rule(provider: str, name: str) -> RuleModel:
    return RuleModel(ModelSpec(name=f"{provider}/{name}", provider=provider, model=name))


def proofs_of(
    protocol: Protocol, benchmark: Benchmark, instance: Instance
) -> Iterator[tuple[str, Episode]]:
    """Yield the encounters of a case by name, the oracle's first."""
    for name, clinician in CLINICIANS.items():
        yield name, play(protocol, benchmark, instance, clinician)


def with_proofs(protocol: Protocol) -> Protocol:
    """Return a protocol that brings its proofs."""
    return replace(protocol, proofs=partial(proofs_of, protocol))
