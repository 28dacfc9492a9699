"""Protocols in small: parallel calls, a defect beside them, no call at all, an ending that is an error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from medhelm import (
    Benchmark,
    Episode,
    FileDataset,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    Metric,
    Protocol,
    Request,
    Response,
    Score,
    Send,
    SourceFile,
    Strategy,
    Terms,
    hookimpl,
)

ITEMS = 5
"""Calls to the helper."""


async def _item(instance: Instance, terms: Terms, send: Send, n: int) -> str:
    """Return the reply to one of several calls that differ by their step alone."""
    messages = (Message("user", f"[helper] {instance.question}"),)
    reply = await send("helper", terms.request(instance, "helper", messages), step=f"item/{n}")
    if terms.settings["way"] == "defect" and n == 0:
        raise ValueError(reply.text)
    return reply.text if reply.finish == "stop" else "?"


async def conduct(
    benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
) -> FinalAnswer:
    """Return an answer in the way that the setting chooses."""
    way = terms.settings["way"]
    if way == "silent":
        return FinalAnswer(text="nothing to ask", ending="silent", state={"items": ["n/a"]})
    messages = (Message("user", f"[model] {terms.settings['words']} {instance.question}"),)
    turns = []
    for turn in range(terms.settings["turns"]):
        said = await send("model", terms.request(instance, "model", messages), step=f"turn/{turn}")
        turns.append(said)
        messages = (*messages, Message("assistant", said.text), Message("user", "Go on."))
    if turns[-1].finish != "stop":
        return FinalAnswer(finish=turns[-1].finish, error=turns[-1].error)
    items = await asyncio.gather(*(_item(instance, terms, send, n) for n in range(ITEMS)))
    if "?" in items or way == "unread":
        return FinalAnswer(finish="error", error="helper failed", ending="failed")
    return FinalAnswer(text=turns[-1].text, ending="whole", state={"items": items})


def forecast(benchmark: Benchmark, instance: Instance, terms: Terms) -> Iterator[Forecast]:
    """Yield the calls of an episode, each of some 20 tokens."""
    turns = terms.settings["turns"]
    for role, calls in (("model", turns), ("helper", ITEMS)):
        yield Forecast(
            role=role,
            calls=calls,
            calls_limit=calls,
            input_tokens=20 * calls,
            input_tokens_limit=20 * calls,
        )


class Items(Metric):
    """The share of items that were answered."""

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the share."""
        items = episode.state["items"]
        return Score(value=sum(bool(item) for item in items) / len(items))


async def _twice(ask: Any, request: Request, step: str, attempt: int) -> Response:
    first = await ask(request, step=f"{step}/candidate/0", attempt=attempt)
    second = await ask(request, step=f"{step}/candidate/1", attempt=attempt)
    best: Response = max(first, second, key=lambda reply: len(reply.text))
    return best


@hookimpl
def medhelm_protocols() -> list[Protocol]:
    """Return the protocol."""
    return [
        Protocol(
            name="toys",
            roles=("model", "helper"),
            conduct=conduct,
            forecast=forecast,
            settings={"way": "whole", "words": "Say something.", "turns": 1},
            budgets={"helper": 10},
        )
    ]


@hookimpl
def medhelm_strategies() -> list[Strategy]:
    """Return the longer of two answers."""
    return [Strategy(name="longer_of_2", calls=2, answer=_twice, help="the longer of two")]


@hookimpl
def medhelm_metrics() -> list[Metric]:
    """Return the metric."""
    return [Items(name="items")]


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark."""
    return [
        Benchmark(
            name="toys",
            subcategory="planning_treatments",
            dataset=FileDataset(files=(SourceFile(name="toys.jsonl"),)),
            to_instance=lambda row: Instance(
                id=row["id"], question=row["question"], references=(row["gold"],)
            ),
            protocol="toys",
            prompt="plain",
            answer="text",
            metrics=["items"],
            max_output_tokens=20,
            redistributable=True,
            licence="CC0",
        )
    ]
