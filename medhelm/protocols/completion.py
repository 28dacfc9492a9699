"""The completion protocol: one request, one response."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from medhelm.models.tokens import request_tokens
from medhelm.prompts.askings import reply_schema
from medhelm.prompts.messages import option_labels, render_prompt
from medhelm.protocols.protocol import FinalAnswer, Forecast, Protocol, Send, Terms
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import MODEL, Request


def prompt_request(benchmark: Benchmark, instance: Instance, terms: Terms) -> Request:
    """Return what is sent for one instance. The gold takes no part in it."""
    messages = render_prompt(benchmark, instance)
    asking = benchmark.asked.asking if benchmark.asked else Asking()
    schema = reply_schema(benchmark, instance) if asking.form == "schema" else None
    request = terms.request(instance, MODEL, messages, schema)
    if asking.form != "logprobs":
        return request
    are_texts = asking.candidates == "texts"
    candidates = instance.choices if are_texts else option_labels(instance)
    return msgspec.structs.replace(request, candidates=candidates)


async def conduct(
    benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
) -> FinalAnswer:
    """Return the answer to the benchmark's prompt."""
    response = await send(MODEL, prompt_request(benchmark, instance, terms), step="answer")
    return FinalAnswer(text=response.text, finish=response.finish, error=response.error)


def forecast(benchmark: Benchmark, instance: Instance, terms: Terms) -> Iterator[Forecast]:
    """Yield the one request."""
    request = prompt_request(benchmark, instance, terms)
    tokens = request_tokens(request, is_echoed=terms.roles[MODEL].is_echoed)
    yield Forecast.of_one(MODEL, tokens)


COMPLETION = Protocol(name="completion", conduct=conduct, forecast=forecast, is_one_call=True)
