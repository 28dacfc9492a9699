"""The protocol, its benchmark and its metric."""

from collections.abc import Iterator, Mapping, Sequence
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

ANSWERER, QUESTIONER, REFEREE = "answerer", "questioner", "referee"
Talk = Sequence[tuple[str, str]]
"""(question, answer) of each turn."""


def _asked(instance: Instance, talk: Talk) -> tuple[Message, ...]:
    history = [m for q, a in talk for m in (Message("assistant", q), Message("user", a))]
    return (Message("user", f"[questioner] Ask about: {instance.question}"), *history)


def _answered(instance: Instance, talk: Talk, question: str) -> tuple[Message, ...]:
    history = [m for q, a in talk for m in (Message("user", q), Message("assistant", a))]
    return (
        Message("system", f"[answerer] Answer from the note.\n\n{instance.context}"),
        *history,
        Message("user", question),
    )


def _judged(talk: Talk, verdicts: Sequence[str]) -> tuple[Message, ...]:
    turns = [Message("user", f"Q: {q}\nA: {a}") for q, a in talk]
    said = [Message("assistant", verdict) for verdict in verdicts]
    history = [m for pair in zip(turns, said, strict=False) for m in pair]
    return (Message("system", "[referee] Say stop or go on."), *history, turns[-1])


async def conduct(
    benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
) -> FinalAnswer:
    """Return the answers of an interview of some turns."""
    talk: list[tuple[str, str]] = []
    verdicts: list[str] = []
    ending = "capped"
    for turn in range(1, terms.settings["turns"] + 1):
        step = f"turn/{turn}"
        question = await send(
            QUESTIONER, terms.request(instance, QUESTIONER, _asked(instance, talk)), step=step
        )
        if question.finish not in ("stop", "length"):
            return _ended(talk, "questioner_failed")
        messages = _answered(instance, talk, question.text)
        answer = await send(ANSWERER, terms.request(instance, ANSWERER, messages), step=step)
        if answer.finish != "stop":
            return FinalAnswer(finish=answer.finish, error=answer.error, ending="no_answer")
        talk.append((question.text, answer.text))
        request = terms.request(instance, REFEREE, _judged(talk, verdicts))
        verdict = await send(REFEREE, request, step=step)
        if verdict.finish not in ("stop", "length"):
            return _ended(talk, "referee_failed")
        verdicts.append(verdict.text)
        if turn >= terms.settings["least"] and verdict.text.startswith("stop"):
            ending = "stopped"
            break
    text = "\n".join(answer for _, answer in talk)
    return FinalAnswer(text=text, ending=ending, state={"turns": len(talk), "talk": talk})


def _ended(talk: Talk, ending: str) -> FinalAnswer:
    return FinalAnswer(finish="error", error=ending, ending=ending, state={"turns": len(talk)})


def forecast(benchmark: Benchmark, instance: Instance, terms: Terms) -> Iterator[Forecast]:
    """Yield what each role is expected to be sent: half as many turns again as the least."""
    least, most = terms.settings["least"], terms.settings["turns"]
    tokens = len(instance.context + instance.question) // 4
    for role in (ANSWERER, QUESTIONER, REFEREE):
        budget = terms.roles[role].max_output_tokens
        yield Forecast(
            role=role,
            calls=(least + most) / 2,
            calls_limit=most,
            input_tokens=(least + most) / 2 * (tokens + 20),
            input_tokens_limit=sum(tokens + 40 + 2 * n * budget for n in range(most)),
            output_tokens=(least + most) / 2 * 10,
        )


def proofs(benchmark: Benchmark, instance: Instance) -> Iterator[tuple[str, Episode]]:
    """Yield interviews whose score is known: all facts named, and none."""
    for name, text in (("oracle", "; ".join(instance.references)), ("silent", "I do not know.")):
        response = Response(instance_id=instance.id, text=text)
        state: Mapping[str, Any] = {"turns": 1, "talk": [["?", text]]}
        yield name, Episode(instance=instance, response=response, ending="stopped", state={**state})


def transcript(episode: Episode) -> Iterator[tuple[str, str]]:
    """Yield who said what."""
    for question, answer in episode.state.get("talk", ()):
        yield QUESTIONER, question
        yield ANSWERER, answer


INTERVIEW = Protocol(
    name="interview",
    roles=(ANSWERER, QUESTIONER, REFEREE),
    conduct=conduct,
    forecast=forecast,
    proofs=proofs,
    transcript=transcript,
    settings={"turns": 6, "least": 3},
    budgets={QUESTIONER: 60, REFEREE: 5},
)


async def _best_of_3(ask: Any, request: Request, step: str, attempt: int) -> Response:
    candidates = [
        await ask(request, step=f"{step}/candidate/{n}", attempt=attempt) for n in range(3)
    ]
    best: Response = max(candidates, key=lambda c: (c.finish == "stop", len(c.text)))
    return best


class FactsNamed(Metric):
    """The share of the note's facts that the answers name."""

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the share."""
        said = episode.text.casefold()
        named = [fact for fact in instance.references if fact.casefold() in said]
        turns = episode.state["turns"]
        return Score(
            value=len(named) / len(instance.references),
            extracted=", ".join(named),
            reason=f"{turns} turns",
        )


@hookimpl
def medhelm_protocols() -> list[Protocol]:
    """Return the protocol."""
    return [INTERVIEW]


@hookimpl
def medhelm_strategies() -> list[Strategy]:
    """Return the longest of three answers."""
    return [Strategy(name="best_of_3", calls=3, answer=_best_of_3, help="the longest of three")]


@hookimpl
def medhelm_metrics() -> list[Metric]:
    """Return the metric."""
    return [FactsNamed(name="facts_named")]


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark."""
    return [
        Benchmark(
            name="interview",
            subcategory="planning_treatments",
            dataset=FileDataset(files=(SourceFile(name="interview.jsonl"),)),
            to_instance=lambda row: Instance(
                id=row["id"],
                context=row["note"],
                question=row["question"],
                references=tuple(row["facts"]),
            ),
            protocol="interview",
            prompt="plain",
            answer="text",
            metrics=["facts_named"],
            max_output_tokens=100,
            redistributable=True,
            licence="CC0",
        )
    ]
