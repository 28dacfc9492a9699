"""Log-probabilities of candidates: the texts that are sent for them, and what an endpoint says of these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from medhelm.schema.episode import Likelihood, Message, Request

FIRST_TOKENS = 20
"""Most likely first tokens that a chat endpoint is asked for: services give no more."""
NONE_GIVEN = "no log-probabilities"
"""A failure of an endpoint that answers without them."""
_ABOVE_0 = "a log-probability is above 0"
_ROUNDING = 0.01
"""The most by which rounding lifts a log-probability above 0; logits and probabilities are far more."""
_TOO_UNLIKELY = -9999.0
"""Written by OpenAI in place of a number."""
_SPACES = " \t\r\n\u2581\u0120"
"""White space around a letter, also as tokenizers write it."""


class _Token(msgspec.Struct):
    token: str
    logprob: float | None


class _First(msgspec.Struct):
    top_logprobs: list[_Token]


class _Chat(msgspec.Struct):
    content: list[_First]


class _Echo(msgspec.Struct):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float | None] | None] = []


_T = TypeVar("_T")


def plain_text(messages: Sequence[Message], before_reply: str = "\n\n") -> str:
    """Return messages as one text, for weights without a chat template; a reply may stand on its question's line."""
    gaps = [before_reply if m.role == "assistant" else "\n\n" for m in messages[1:]]
    parts = zip(["", *gaps], messages, strict=True)
    return "".join(gap + m.content for gap, m in parts)


def plain_texts(request: Request) -> list[str]:
    """Return what is sent of a request to weights without a chat template: its prompt, or `continued` texts."""
    if request.candidates:
        return continued(
            plain_text(request.messages, before_reply=" "), request.candidates, gap=" "
        )
    return [plain_text(request.messages) + "\n"]


def continued(prompt: str, candidates: Sequence[str], gap: str = "") -> list[str]:
    """Return the prompt without white space at its end, then the whole texts: the prompt with each candidate.

    As in lm-evaluation-harness that white space belongs to what follows, since tokens join the two. Where
    there is none, `gap` stands between.
    """
    context = prompt.rstrip()
    between = prompt[len(context) :] or gap
    return [context, *(context + between + candidate for candidate in candidates)]


def shared_tokens(texts: Sequence[Sequence[object]]) -> int:
    """Return with how many equal tokens all texts begin."""
    least = min(map(len, texts))
    places = zip(*(text[:least] for text in texts), strict=True)
    return next((n for n, tokens in enumerate(places) if len({*tokens}) > 1), least)


def read_likelihoods(candidates: Sequence[str], given: Any) -> tuple[tuple[Likelihood, ...], str]:
    """Return the log-probabilities of candidates by what an endpoint gave, or none and why.

    `given`: of a chat answer the object `logprobs`; of completions that echo the context and then each whole
    text, the list of theirs. The reason is `NONE_GIVEN` where it holds none at all.
    """
    if isinstance(given, list):
        return _of_echoes(candidates, given)
    chat = _as(given, _Chat)
    tokens = chat.content[0].top_logprobs if chat is not None and chat.content else []
    if not tokens:
        return (), NONE_GIVEN
    # A letter's tokens with and without white space are ways in which an answer begins with it.
    ways: dict[str, list[float]] = {}
    # a token that is listed twice counts once
    listed = dict.fromkeys((own.token, own.logprob) for own in tokens)
    unknown = {token.strip(_SPACES) for token, value in listed if value is None}
    known = [(token.strip(_SPACES), value) for token, value in listed if value is not None]
    for token, value in known:
        if value > _ROUNDING:
            return (), _ABOVE_0
        if value > _TOO_UNLIKELY:
            ways.setdefault(token, []).append(value)
    first = max(known, key=lambda own: own[1], default=("", 0.0))[0]
    if lacking := sum(candidate not in ways or candidate in unknown for candidate in candidates):
        return (
            (),
            f"{lacking} of {len(candidates)} options are not among the likeliest first tokens with a number",
        )
    return tuple(
        Likelihood(logprob=_either(ways[c]), tokens=1, is_greedy=c == first) for c in candidates
    ), ""


def _either(logprobs: Sequence[float]) -> float:
    """Return the log-probability of any of some tokens."""
    most = max(logprobs)
    return min(0.0, most + math.log(sum(math.exp(own - most) for own in logprobs)))


def _of_echoes(
    candidates: Sequence[str], given: Sequence[Any]
) -> tuple[tuple[Likelihood, ...], str]:
    echoes = [echo for one in given if (echo := _as(one, _Echo)) is not None]
    if not echoes:
        return (), NONE_GIVEN
    if len(echoes) != len(candidates) + 1:
        return (), f"log-probabilities came for {len(echoes)} of {len(candidates) + 1} texts"
    start = shared_tokens([echo.tokens for echo in echoes])
    found = []
    for candidate, own in zip(candidates, echoes[1:], strict=True):
        text = "".join(own.tokens[start:]).replace("\u2581", " ").replace("\u0120", " ")
        if candidate.isascii() and not text.endswith(candidate):
            return (), NONE_GIVEN  # it echoes something else
        logprobs = [
            one for one in own.token_logprobs[start:] if one is not None and one > _TOO_UNLIKELY
        ]
        if not logprobs or len(logprobs) != len(own.tokens) - start:
            return (), "a token of an option has no log-probability"
        if max(logprobs) > _ROUNDING:
            return (), _ABOVE_0
        best = [
            max((one for one in ways.values() if one is not None), default=0.0)
            for ways in own.top_logprobs[start:]
            if ways
        ]
        is_greedy = len(best) == len(logprobs) and all(map(float.__ge__, logprobs, best))
        found.append(
            Likelihood(logprob=math.fsum(logprobs), tokens=len(logprobs), is_greedy=is_greedy)
        )
    return tuple(found), ""


def _as(value: Any, kind: type[_T]) -> _T | None:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
