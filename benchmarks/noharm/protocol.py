"""The protocol of labelled actions: one request, a label for every action of the case's menu."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from medhelm.extract.reply_form import closed
from medhelm.models.tokens import request_tokens
from medhelm.prompts.messages import render_prompt
from medhelm.protocols.protocol import FinalAnswer, Forecast, Protocol, Send, Terms
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import MODEL, Request
from medhelm_benchmarks.noharm.rules.labels import APPROPRIATE, INAPPROPRIATE
from medhelm_benchmarks.noharm.rules.menu import menu_of


def menu_request(benchmark: Benchmark, instance: Instance, terms: Terms) -> Request:
    """Return what is sent for one case, zero-shot: its whole menu in one prompt.

    It carries the JSON Schema of this very menu where the model's endpoint holds answers to one.
    """
    messages = render_prompt(benchmark, instance)
    return terms.request(instance, MODEL, messages, label_schema(menu_of(instance)))


async def conduct(
    benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
) -> FinalAnswer:
    """Return the reply to the case and its menu."""
    response = await send(MODEL, menu_request(benchmark, instance, terms), step="labels")
    return FinalAnswer(text=response.text, finish=response.finish, error=response.error)


def forecast(benchmark: Benchmark, instance: Instance, terms: Terms) -> Iterator[Forecast]:
    """Yield the one request."""
    yield Forecast.of_one(MODEL, request_tokens(menu_request(benchmark, instance, terms)))


def label_schema(actions: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of a reply that labels all of these actions and nothing else."""
    label = {"type": "string", "enum": [APPROPRIATE, INAPPROPRIATE]}
    return closed({"labels": closed(dict.fromkeys(actions, label))})


ACTION_LABELS = Protocol(
    name="action_labels",
    conduct=conduct,
    forecast=forecast,
    is_one_call=True,
    sends_schema=True,
)
