"""The protocol of labelled actions: one request, a label for every action of the case's menu."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from medhelm import Benchmark, FinalAnswer, Forecast, Instance, Protocol, Request, Send, Terms
from medhelm.plugin import render_prompt, reply_form, tokens
from medhelm_benchmarks.noharm.rules.labels import APPROPRIATE, INAPPROPRIATE
from medhelm_benchmarks.noharm.rules.menu import menu_of

_ROLE = "model"


def menu_request(benchmark: Benchmark, instance: Instance, terms: Terms) -> Request:
    """Return what is sent for one case, zero-shot: its whole menu in one prompt.

    It carries the JSON Schema of this very menu where the model's endpoint holds answers to one.
    """
    messages = render_prompt(benchmark, instance)
    return terms.request(instance, _ROLE, messages, label_schema(menu_of(instance)))


async def conduct(
    benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
) -> FinalAnswer:
    """Return the reply to the case and its menu."""
    response = await send(_ROLE, menu_request(benchmark, instance, terms), step="labels")
    return FinalAnswer(text=response.text, finish=response.finish, error=response.error)


def forecast(benchmark: Benchmark, instance: Instance, terms: Terms) -> Iterator[Forecast]:
    """Yield the one request."""
    yield Forecast.of_one(_ROLE, tokens.request_tokens(menu_request(benchmark, instance, terms)))


def label_schema(actions: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of a reply that labels all of these actions and nothing else."""
    label = {"type": "string", "enum": [APPROPRIATE, INAPPROPRIATE]}
    return reply_form.closed({"labels": reply_form.closed(dict.fromkeys(actions, label))})


ACTION_LABELS = Protocol(
    name="action_labels",
    conduct=conduct,
    forecast=forecast,
    is_one_call=True,
    sends_schema=True,
)
