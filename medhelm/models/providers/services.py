"""Models that are sent requests: services, servers of one's own, and local weights."""

from __future__ import annotations

import re
from dataclasses import replace

from medhelm import hookimpl
from medhelm.models.hosts import Access, Host
from medhelm.models.provider import (
    BUDGET,
    NO_LOGPROBS,
    PROMPT,
    SERVED,
    WHOLE_ANSWERS,
    Provider,
)
from medhelm.schema.episode import Sampling
from medhelm.schema.model import ModelSpec

_THINKING = re.compile(r"(o\d|gpt-(?:[5-9]|\d\d)(?:\.\d+)?)(-|$)")


def _openai_spec(model: str) -> ModelSpec:
    """Return the spec of a model without a config file, with the facts in OpenAI's names.

    The o series, and gpt-5 and later ones, think, take no temperature, and name the output budget differently.
    """
    thinks = _THINKING.match(model) is not None
    return ModelSpec(
        name=f"openai/{model}",
        model=model,
        reasoning=thinks,
        sampling=Sampling(temperature=None) if thinks else Sampling(),
        token_limit_field="max_completion_tokens" if thinks else "max_tokens",
    )


def _open_openai(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to a server."""
    from medhelm.models.openai import OpenAIEndpoint

    assert access is not None
    return OpenAIEndpoint(access, spec.max_concurrency)


def _open_completions(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to a server that goes on with plain text."""
    from medhelm.models.openai import OpenAIEndpoint
    from medhelm.models.wire import encode_completion

    assert access is not None
    return OpenAIEndpoint(access, spec.max_concurrency, encode_completion)


def _open_anthropic(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to the service."""
    from medhelm.models.anthropic import AnthropicEndpoint

    assert access is not None
    return AnthropicEndpoint(access, spec.max_concurrency)


def _open_google(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to the service."""
    from medhelm.models.google import GoogleEndpoint

    assert access is not None
    return GoogleEndpoint(access, spec.max_concurrency)


def _open_hf(spec: ModelSpec, access: Access | None) -> Host:
    """Return the weights and the requests that wait for them."""
    from medhelm.models.hf import Batcher, check_local

    check_local(spec)
    return Batcher(spec)


def _check_hf(spec: ModelSpec) -> None:
    """Refuse weights that are not there and options that are not any."""
    from medhelm.models.hf import check_local

    check_local(spec)


_OPENAI = Provider(
    name="openai",
    help="an OpenAI-protocol endpoint",
    open_host=_open_openai,
    spec_of=_openai_spec,
    base_url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    path="/chat/completions",
    uses=(*SERVED, "send_seed", "token_limit_field"),
    sends_seed=True,
    holds_schema=True,
    candidates="letters",
    own_fields={
        "model": "model.model",
        "messages": PROMPT,
        "stream": WHOLE_ANSWERS,
        "n": "repeats",
        "temperature": "model.sampling.temperature",
        "top_p": "model.sampling.top_p",
        "stop": "model.sampling.stop",
        "reasoning_effort": "model.sampling.reasoning_effort",
        "seed": "seed",
        "max_tokens": BUDGET,
        "max_completion_tokens": BUDGET,
    },
    schema_fields=("response_format",),
    fixes=dict.fromkeys(("logprobs", "top_logprobs"), NO_LOGPROBS),
)

_COMPLETIONS = replace(
    _OPENAI,
    name="openai_completions",
    help="an OpenAI-protocol endpoint that goes on with plain text",
    open_host=_open_completions,
    spec_of=None,
    dropped=("/completions",),
    path="/completions",
    holds_schema=False,
    candidates="texts",
    own_fields={**_OPENAI.own_fields, "prompt": PROMPT, "echo": "form"},
    schema_fields=(),
    fixes=dict.fromkeys(("logprobs", "echo", "max_tokens"), NO_LOGPROBS),
)

_ANTHROPIC = Provider(
    name="anthropic",
    help="Anthropic's service",
    open_host=_open_anthropic,
    is_open=False,
    base_url="https://api.anthropic.com",
    key_env="ANTHROPIC_API_KEY",
    dropped=("/v1",),
    packages={"anthropic": "anthropic"},
    extra="anthropic",
    uses=SERVED,
    holds_schema=True,
    own_fields={
        "model": "model.model",
        "messages": PROMPT,
        "system": "model.system_prompt",
        "stream": WHOLE_ANSWERS,
        "temperature": "model.sampling.temperature",
        "top_p": "model.sampling.top_p",
        "stop_sequences": "model.sampling.stop",
        "max_tokens": BUDGET,
    },
    schema_fields=("output_config.format",),
    tables=("output_config",),
    fixes={
        "output_config": "set model.json_schema=false, or json_schema: false or "
        "sampling.reasoning_effort: null"
    },
)

_GOOGLE = Provider(
    name="google",
    help="Google's Gemini service",
    open_host=_open_google,
    is_open=False,
    base_url="https://generativelanguage.googleapis.com",
    key_env="GEMINI_API_KEY",
    dropped=("/openai", "/v1beta", "/v1"),
    packages={"google.genai": "google-genai"},
    extra="google",
    uses=(*SERVED, "send_seed"),
    sends_seed=True,
    holds_schema=True,
    own_fields={
        "model": "model.model",
        "contents": PROMPT,
        "systemInstruction": "model.system_prompt",
        "generationConfig.temperature": "model.sampling.temperature",
        "generationConfig.topP": "model.sampling.top_p",
        "generationConfig.stopSequences": "model.sampling.stop",
        "generationConfig.seed": "seed",
        "generationConfig.candidateCount": "repeats",
        "generationConfig.maxOutputTokens": BUDGET,
    },
    schema_fields=(
        "generationConfig.responseMimeType",
        "generationConfig.responseSchema",
        "generationConfig.responseJsonSchema",
    ),
    tables=("generationConfig",),
)

_HF = Provider(
    name="hf",
    help="local weights",
    open_host=_open_hf,
    check=_check_hf,
    is_open=False,
    packages={
        "torch": "torch",
        "transformers": "transformers",
        "accelerate": "accelerate",
    },
    extra="hf",
    is_local=True,
    candidates="texts",
    uses=(
        "reasoning",
        "system_prompt",
        "sampling",
        "send_seed",
        "extra_body",
        "context_window",
    ),
)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the providers."""
    return [_OPENAI, _COMPLETIONS, _ANTHROPIC, _GOOGLE, _HF]
