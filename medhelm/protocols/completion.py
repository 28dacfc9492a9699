"""The completion protocol: one request, one response."""

from __future__ import annotations

import asyncio
import time

from medhelm.errors import BudgetReached, MedhelmError
from medhelm.models.costs import Ledger, Reservation, request_tokens
from medhelm.prompts.messages import render_prompt
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Episode, Request, Response
from medhelm.schema.model import InstanceModel, Model, ModelSpec
from medhelm.schema.run import RunSpec

_RETRY_S = 0.05


def build_request(benchmark: Benchmark, spec: RunSpec, instance: Instance, repeat: int) -> Request:
    """Return what is sent for one instance. The gold takes no part in it.

    Repeat k is asked with the run's seed + k, so repeats differ and can be made again.
    """
    return Request(
        instance_id=instance.id,
        repeat=repeat,
        messages=render_prompt(benchmark, instance, system_prompt=spec.model.system_prompt),
        max_output_tokens=spec.max_output_tokens,
        sampling=spec.model.sampling,
        seed=spec.seed + repeat,
    )


async def conduct(
    model: Model, instance: Instance, request: Request, reservation: Reservation
) -> Episode:
    """Return the episode of one instance and book what it used."""
    try:
        response = await model.respond(request)
    except MedhelmError:
        reservation.cancel()
        raise
    except BaseException:
        reservation.cancel(lost=1)  # sent, perhaps billed, never answered
        raise
    reservation.settle_response(response)
    return Episode(instance=instance, messages=request.messages, response=response)


async def reserve(ledger: Ledger, model: ModelSpec, request: Request) -> Reservation:
    """Set the request's upper bound aside; what is in flight may yet cost less than feared.

    Call it without holding a place at the endpoint: requests in flight need places to end.
    Raises BudgetReached once nothing is in flight and the request still does not fit.
    """
    tokens = request_tokens(request)
    while True:
        try:
            return ledger.reserve(model.price, tokens, request.max_output_tokens)
        except BudgetReached:
            if not ledger.open:
                raise
        await asyncio.sleep(_RETRY_S)


def conduct_baseline(
    model: InstanceModel, benchmark: Benchmark, spec: RunSpec, instance: Instance, repeat: int
) -> Episode:
    """Return the episode of a baseline, which is handed the instance itself."""
    text = model.answer(benchmark, instance, spec.seed + repeat)
    response = Response(
        instance_id=instance.id,
        repeat=repeat,
        text=text,
        served_model=spec.model.name,
        finished_at=time.time(),
    )
    return Episode(instance=instance, response=response)
