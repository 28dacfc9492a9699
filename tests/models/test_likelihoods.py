"""Log-probabilities of candidates: local weights, and what endpoints give."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import ModelError, UsageError
from medhelm.models import open_model
from medhelm.models.access import check_likelihoods
from medhelm.models.decoding import BatchRow
from medhelm.models.likelihoods import (
    continued,
    plain_texts,
    read_likelihoods,
    shared_tokens,
)
from medhelm.models.providers import built_in
from medhelm.models.weights import Weights
from medhelm.schema.episode import Message, Request, Response
from medhelm.schema.model import ModelSpec
from tests.models.asking import ask_all, request, said_by
from tests.models.local_model import no_hub, tiny
from tests.server import FaultServer, Reply

__all__ = ["no_hub", "tiny"]
LETTERS = ("A", "B", "C", "D")
TEXTS = ("a cow", "a cow with calf", "no", "Fi\u00e8vre")


def weights_of(model: Path, **options: Any) -> Weights:
    spec = ModelSpec(name="hf/m", provider="hf", model=str(model), extra_body=options)
    weights = Weights(spec)
    weights.load()
    return weights


def rows(texts: Sequence[str], candidates: tuple[str, ...]) -> list[BatchRow]:
    return [BatchRow(request(n, text, candidates=candidates)) for n, text in enumerate(texts)]


def token_logprobs(weights: Weights, text: str) -> tuple[list[str], list[float | None], list[Any]]:
    """Return tokens, their log-probabilities and the likeliest of each place, by one plain pass."""
    import torch

    tokenizer, model = weights._tokenizer, weights._model
    ids = tokenizer(text, add_special_tokens=True)["input_ids"]
    with torch.no_grad():
        logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    own = [logprobs[n, i].item() for n, i in enumerate(ids[1:])]
    tops = [{tokenizer.decode([row.argmax().item()]): row.max().item()} for row in logprobs[:-1]]
    return [tokenizer.decode([i]) for i in ids], [None, *own], [None, *tops]


@pytest.mark.extra
@pytest.mark.parametrize(
    ("candidates", "ending"), [(LETTERS, "Answer:"), (LETTERS, "Answer:\n"), (TEXTS, "Answer: ")]
)
def test_local_weights_rate_each_candidate_behind_plain_text(
    tiny: Path, candidates: tuple[str, ...], ending: str
) -> None:
    weights = weights_of(tiny, chat_template=False)
    assert weights.fingerprint == "float32, plain text"
    texts = ["word " * n + ending for n in (3, 40, 9, 50, 1, 22, 30, 5)]
    together = weights.generate(rows(texts, candidates))
    assert {found.finish for found in together} == {"stop"} and not any(f.text for f in together)
    gap = "\n" if ending.endswith("\n") else " "
    for n, text in enumerate(texts):
        (alone,) = weights.generate(rows([text], candidates))
        assert together[n].usage.input_tokens == len(text.rstrip())  # a byte a token
        for candidate, one, of_batch in zip(
            candidates, alone.likelihoods, together[n].likelihoods, strict=True
        ):
            assert of_batch.logprob == pytest.approx(one.logprob, abs=1e-4)
            assert (of_batch.tokens, of_batch.is_greedy) == (one.tokens, one.is_greedy)
            if n > 2:
                continue
            end = len((gap + candidate).encode())
            tokens, logprobs, tops = token_logprobs(weights, text.rstrip() + gap + candidate)
            expected = math.fsum(logprob or 0.0 for logprob in logprobs[-end:])
            assert one.tokens == end == len(tokens[-end:])
            assert one.logprob == pytest.approx(expected, abs=1e-4)
            best = all(
                abs(logprob - max(top.values())) < 1e-6
                for logprob, top in zip(logprobs[-end:], tops[-end:], strict=True)
            )
            assert one.is_greedy == best


@pytest.mark.extra
def test_behind_a_chat_template_nothing_is_put_before_a_candidate(tiny: Path) -> None:
    weights = weights_of(tiny)
    (found,) = weights.generate(rows(["Which?"], LETTERS))
    _, logprobs, _ = token_logprobs(weights, "<user>Which?\n<assistant>A")
    assert found.likelihoods[0].tokens == 1
    assert found.likelihoods[0].logprob == pytest.approx(logprobs[-1], abs=1e-5)


@pytest.mark.extra
def test_a_prompt_that_does_not_fit_is_oversize_and_the_others_of_its_batch_are_rated(
    tiny: Path,
) -> None:
    weights = weights_of(tiny)
    short, long = weights.generate(rows(["short", "word " * 1000], LETTERS))
    assert len(short.likelihoods) == 4
    assert (long.finish, long.likelihoods) == ("oversize", ())
    assert "the window of 4096" in long.error
    written, rated = weights.generate([BatchRow(request(1, "short")), *rows(["short"], LETTERS)])
    assert written.usage.output_tokens and not written.likelihoods
    assert [own.logprob for own in rated.likelihoods] == pytest.approx(
        [own.logprob for own in short.likelihoods], abs=1e-5
    )


@pytest.mark.extra
def test_rating_ends_at_the_time_limit_and_where_nobody_waits(tiny: Path) -> None:
    weights = weights_of(tiny)
    asked = request(1, "short", candidates=LETTERS)
    late, dropped = weights.generate(
        [BatchRow(asked, timeout_s=0.0), BatchRow(asked, is_dropped=lambda: True)]
    )
    assert (late.finish, late.error) == ("error", "timeout")
    assert (dropped.finish, dropped.error) == ("error", "stopped")


def converse(server: FaultServer, asked: Request, **spec: Any) -> Response:
    async def run() -> Response:
        async with server:
            return (await said_by(server.model("m/m", **spec), [asked], {}))[0]

    return asyncio.run(run())


def chat(top: Mapping[str, float] | None, text: str = "A", ending: str = "length") -> Reply:
    """Return a chat answer with these likeliest first tokens."""
    first = [{"token": token, "logprob": value} for token, value in (top or {}).items()]
    logprobs = {"content": [{"token": text, "logprob": 0.0, "top_logprobs": first}]}
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": ending}
    choice |= {"logprobs": logprobs if top is not None else None}
    usage = {"prompt_tokens": 20, "completion_tokens": 1}
    return Reply(body={"model": "m", "choices": [choice], "usage": usage})


def test_a_chat_endpoint_is_asked_for_the_first_token_and_its_letters_are_read() -> None:
    top = {"B": -0.5, "A": -1.5, " A": -2.0, "C": -4.0, "D": -6.0, "The": -3.0}
    server = FaultServer(by_body=lambda body: chat(top))
    found = converse(server, request("q", candidates=LETTERS, max_output_tokens=300))
    (body,) = server.bodies
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 20, 1)
    assert (found.finish, found.text, found.error) == ("stop", "", "")
    either = math.log(math.exp(-1.5) + math.exp(-2.0))
    assert [own.logprob for own in found.likelihoods] == pytest.approx([either, -0.5, -4.0, -6.0])
    assert [own.is_greedy for own in found.likelihoods] == [False, True, False, False]
    assert found.usage.output_tokens == 1


@pytest.mark.parametrize("missing", [{}, {"D": -9999.0}])
def test_a_letter_without_a_number_leaves_the_question_without_an_answer(
    missing: dict[str, float],
) -> None:
    top = {"B": -0.5, "A": -1.5, "C": -4.0} | missing
    found = converse(FaultServer(by_body=lambda body: chat(top)), request("q", candidates=LETTERS))
    assert (found.finish, found.likelihoods, found.text) == ("stop", (), "")
    assert "1 of 4 options" in found.error


def of(*listed: tuple[str, float | None]) -> Any:
    """Return what a chat endpoint lists of its first token."""
    return {"content": [{"top_logprobs": [{"token": t, "logprob": v} for t, v in listed]}]}


def echoes(*last: float | None) -> Any:
    """Return echoes of a prompt, and of it with each of A and B, whose last token has this number."""
    whole = [([], []), *((["A"], [last[0]]), (["B"], [last[1]]))]
    return [{"tokens": ["x", *t], "token_logprobs": [None, *v]} for t, v in whole]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (of(("A", -0.1), ("B", None)), "1 of 2 options"),
        (of(("A", -0.1), ("B", None), (" B", -3.0)), "1 of 2 options"),
        (of(("A", -0.1), ("The", None)), "1 of 2 options"),
        (of(("A", None), ("B", None)), "2 of 2 options"),
        (of(("A", 12.5), ("B", 11.0)), "above 0"),
        (echoes(-1.0, None), "has no log-probability"),
        (echoes(-1.0, -9999.0), "has no log-probability"),
        (echoes(-1.0, 3.0), "above 0"),
        (echoes(-1.0, -2.0)[:2], "2 of 3 texts"),
    ],
)
def test_numbers_that_lack_or_are_none_leave_a_question_without_any(given: Any, why: str) -> None:
    found, said = read_likelihoods(["A", "B"], given)
    assert not found and why in said


def test_a_token_that_is_listed_twice_counts_once() -> None:
    found, _ = read_likelihoods(["A", "B"], of(("A", -0.9), ("B", -0.8), ("A", -0.9)))
    assert [own.logprob for own in found] == [-0.9, -0.8]


def test_one_answer_without_any_among_others_does_not_end_a_run() -> None:
    answers = iter([chat({"A": -0.5, "B": -1.5, "C": -4.0, "D": -5.0}), chat(None)])
    server = FaultServer(by_body=lambda body: next(answers))

    async def run() -> list[Response]:
        async with server:
            model = open_model(server.model("m", endpoint_class="local"), environ={})
            asked = [request(n, f"q{n}", candidates=LETTERS) for n in range(2)]
            try:
                return [(await ask_all(model, [one]))[0] for one in asked]  # type: ignore[arg-type]
            finally:
                await model.close()  # type: ignore[union-attr]

    first, second = asyncio.run(run())
    assert len(first.likelihoods) == 4
    assert (second.finish, second.likelihoods, second.error) == ("stop", (), "no log-probabilities")


@pytest.mark.parametrize("top", [None, {}])
def test_an_endpoint_without_log_probabilities_ends_the_run_in_one_line(
    top: dict[str, float] | None,
) -> None:
    server = FaultServer(by_body=lambda body: chat(top))
    with pytest.raises(ModelError, match="without log-probabilities.*form=line") as caught:
        converse(server, request("q", candidates=LETTERS))
    assert "\n" not in str(caught.value)
    error = {"message": "logprobs are not supported", "param": "logprobs", "code": "bad"}
    refusing = FaultServer(by_body=lambda body: Reply(status=400, body={"error": error}))
    with pytest.raises(ModelError, match="does not take 'logprobs'.*form=line"):
        converse(refusing, request("q", candidates=LETTERS))


def test_a_refusal_stays_a_refusal() -> None:
    server = FaultServer(by_body=lambda body: chat(None, "", "content_filter"))
    assert converse(server, request("q", candidates=LETTERS)).finish == "refusal"


def echo(weights: Weights) -> Callable[[Mapping[str, Any]], Reply]:
    """Return the rule of a server that echoes prompts with the log-probabilities of these weights."""

    def answer(body: Mapping[str, Any]) -> Reply:
        choices: list[dict[str, Any]] = []
        for prompt in body["prompt"]:
            tokens, logprobs, tops = token_logprobs(weights, prompt)
            own = {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops}
            choices.insert(0, {"index": len(choices), "text": prompt, "logprobs": own})
        read = sum(len(choice["logprobs"]["tokens"]) for choice in choices)
        usage = {"prompt_tokens": read, "completion_tokens": 0}
        return Reply(body={"model": "m", "choices": choices, "usage": usage})

    return answer


@pytest.mark.extra
@pytest.mark.parametrize("candidates", [LETTERS, TEXTS[:3]])
def test_a_server_that_echoes_gives_what_the_same_weights_give_here(
    tiny: Path, candidates: tuple[str, ...]
) -> None:
    weights = weights_of(tiny, chat_template=False)
    asked = request("q", "Which of the animals? " * 12 + "Answer:", candidates=candidates)
    (local,) = weights.generate([BatchRow(asked)])
    server = FaultServer(by_body=echo(weights))
    found = converse(server, asked, provider="openai_completions", context_window=320)
    (body,) = server.bodies
    assert (body["echo"], body["logprobs"], body["max_tokens"]) == (True, 1, 0)
    assert len(body["prompt"]) == len(candidates) + 1 and found.finish == "stop"
    for here, there in zip(local.likelihoods, found.likelihoods, strict=True):
        assert there.logprob == pytest.approx(here.logprob, abs=1e-4)
        assert (there.tokens, there.is_greedy) == (here.tokens, here.is_greedy)


def test_a_server_that_does_not_echo_gives_none() -> None:
    own = {"tokens": [" the"], "token_logprobs": [-1.0], "top_logprobs": [{" the": -1.0}]}
    choices = [{"index": n, "text": " the", "logprobs": own} for n in range(5)]
    server = FaultServer(by_body=lambda body: Reply(body={"choices": choices}))
    with pytest.raises(ModelError, match="without log-probabilities"):
        converse(server, request("q", candidates=LETTERS), provider="openai_completions")


def test_weights_behind_a_completions_endpoint_also_write() -> None:
    choice = {"index": 0, "text": " vitamin C", "finish_reason": "stop"}
    server = FaultServer(by_body=lambda body: Reply(body={"choices": [choice]}))
    found = converse(server, request("q", "Which?"), provider="openai_completions")
    assert (found.text, server.bodies[0]["prompt"]) == (" vitamin C", "Which?\n")
    assert "messages" not in server.bodies[0] and "echo" not in server.bodies[0]


def test_white_space_before_a_candidate_belongs_to_it() -> None:
    assert continued("Answer:", ["A"], " ") == ["Answer:", "Answer: A"]
    assert continued("Answer: ", ["A"], " ") == ["Answer:", "Answer: A"]
    assert continued("<assistant>\n", ["A"]) == ["<assistant>", "<assistant>\nA"]
    assert continued("<assistant>", ["A"]) == ["<assistant>", "<assistant>A"]


def test_worked_examples_in_plain_text_end_as_the_candidates_do() -> None:
    turns = (("user", "1?\nAnswer:"), ("assistant", "B"), ("user", "2?\nAnswer:"))
    messages = tuple(Message(role, text) for role, text in turns)  # type: ignore[arg-type]
    asked = Request(instance_id="q", messages=messages, max_output_tokens=1, candidates=("A",))
    assert plain_texts(asked)[1] == "1?\nAnswer: B\n\n2?\nAnswer: A"


def test_a_token_that_spans_prompt_and_candidate_is_part_of_every_candidate() -> None:
    assert shared_tokens([["x", ":"], ["x", ":A"], ["x", ":", "B"]]) == 1
    given = [
        {"tokens": ["x", ":"], "token_logprobs": [None, -1.0]},
        {"tokens": ["x", ":A"], "token_logprobs": [None, -2.0]},
        {"tokens": ["x", ":", "B"], "token_logprobs": [None, -1.0, -0.5]},
    ]
    found, why = read_likelihoods(["A", "B"], given)
    assert ([own.logprob for own in found], why) == ([-2.0, -1.5], "")


@pytest.mark.parametrize(
    "given",
    [None, [], [{}], {"content": None}, {"content": [{"top_logprobs": "x"}]}, "x", {"content": []}],
)
def test_what_is_no_list_of_log_probabilities_is_none(given: Any) -> None:
    assert read_likelihoods(["A", "B"], json.loads(json.dumps(given))) == (
        (),
        "no log-probabilities",
    )


def test_who_gives_no_log_probabilities_is_refused_before_anything_is_sent() -> None:
    able = {name for name, provider in built_in().items() if provider.candidates}
    assert able == {"azure", "openai", "openai_completions", "hf", "vertex_openai"}
    check_likelihoods(ModelSpec(name="m", provider="openai"), are_letters=True)
    check_likelihoods(ModelSpec(name="m", provider="hf"), are_letters=False)
    for provider, more, words in (
        (
            "anthropic",
            {},
            "azure, hf, openai, openai_completions, vertex_openai do",
        ),
        ("openai", {"reasoning": True}, "it thinks"),
        ("openai", {"strategy": "best_of_5"}, "its strategy chooses"),
    ):
        spec = ModelSpec(name="m", provider=provider, **more)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=words) as caught:
            check_likelihoods(spec, are_letters=True)
        assert "set form=line" in str(caught.value)
    with pytest.raises(UsageError, match="hf, openai_completions do"):
        check_likelihoods(ModelSpec(name="m", provider="openai"), are_letters=False)


def test_a_prompt_of_several_messages_is_one_plain_text() -> None:
    server = FaultServer(by_body=lambda body: Reply(body={"choices": [{"text": "A"}]}))
    messages = (Message("system", "Be brief."), Message("user", "Which?"))
    asked = Request(instance_id="q", messages=messages, max_output_tokens=5)
    converse(server, asked, provider="openai_completions")
    assert server.bodies[0]["prompt"] == "Be brief.\n\nWhich?\n"
