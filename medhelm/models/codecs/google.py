"""Google's Gemini protocol as bytes: requests written, answers and refusals read. No network."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from medhelm.models.codecs.wire import (
    Answer,
    Codec,
    Failure,
    count,
    decoding,
    end_answer,
    error_of,
    parted,
)
from medhelm.schema.episode import Request, Usage
from medhelm.schema.model import ModelSpec

_DELAY = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")


class _Content(msgspec.Struct):
    parts: list[dict[str, Any]] = []


class _Candidate(msgspec.Struct):
    content: _Content | None = None
    finishReason: str | None = None


class _Answer(msgspec.Struct):
    candidates: list[_Candidate] = []
    promptFeedback: dict[str, Any] = {}
    usageMetadata: Any = None
    modelVersion: str | None = None


def _body(spec: ModelSpec, request: Request) -> dict[str, Any]:
    """Return the body of a request.

    A reasoning effort is a level, or a number: the tokens that the model may think.
    """
    config: dict[str, Any] = {
        **spec.extra_body.get("generationConfig", {}),
        "maxOutputTokens": request.max_output_tokens,
    }
    names = ("temperature", "seed", "top_p", "stop")
    config |= decoding(spec, request, *names, top_p="topP", stop="stopSequences")
    if (effort := request.sampling.reasoning_effort) is not None:
        is_number = effort.lstrip("-").isdecimal()
        thinking = {"thinkingBudget": int(effort)} if is_number else {"thinkingLevel": effort}
        config["thinkingConfig"] = {**config.get("thinkingConfig", {}), **thinking}
    if request.json_schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = request.json_schema
    system, turns = parted(request)
    body = {
        **spec.extra_body,
        "generationConfig": config,
        "contents": [
            {"role": "model" if m.role == "assistant" else "user", "parts": [{"text": m.content}]}
            for m in turns
        ],
    }
    if system:
        body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    return body


def _answer(answer: _Answer) -> Answer | Failure:
    """Return the text of the first candidate."""
    usage = _read_usage(answer.usageMetadata)
    if not answer.candidates:
        if answer.promptFeedback.get("blockReason"):
            return end_answer("", "refusal", usage, answer.modelVersion)
        return Failure("retry", "no candidates", 200, lost=True)
    candidate = answer.candidates[0]
    if candidate.content is None and not candidate.finishReason:
        return Failure("retry", "no message", 200, lost=True)
    parts = candidate.content.parts if candidate.content else []
    texts = [p["text"] for p in parts if not p.get("thought") and isinstance(p.get("text"), str)]
    return end_answer("".join(texts), candidate.finishReason or "", usage, answer.modelVersion)


def _detail(
    failure: Failure, spec: ModelSpec, payload: bytes, headers: Mapping[str, str]
) -> Failure:
    for detail in _details(payload):
        if failure.status == 400 and detail.get("reason") == "API_KEY_INVALID":
            return dataclasses.replace(failure, kind="endpoint", status=401, code="API_KEY_INVALID")
        delay = _DELAY.fullmatch(str(detail.get("retryDelay")))
        if failure.status == 429 and delay:
            return dataclasses.replace(failure, wait_s=float(delay[1]))
    return failure


def _details(payload: bytes) -> list[dict[str, Any]]:
    error = error_of(payload)
    details = error.get("details") if isinstance(error, dict) else None
    return [d for d in details if isinstance(d, dict)] if isinstance(details, list) else []


def _read_usage(usage: Any) -> Usage:
    """Return the counts. The API counts what the model thought apart from what it wrote."""
    written, thought = count(usage, "candidatesTokenCount"), count(usage, "thoughtsTokenCount")
    read = count(usage, "promptTokenCount")
    is_counted = written is not None or thought is not None
    return Usage(
        input_tokens=read,
        cached_tokens=count(usage, "cachedContentTokenCount"),
        output_tokens=(written or 0) + (thought or 0) if is_counted else None,
        reasoning_tokens=thought,
    )


GEMINI = Codec(
    _body,
    msgspec.json.Decoder(_Answer),
    _answer,
    "generationConfig.responseJsonSchema",
    detail=_detail,
)
