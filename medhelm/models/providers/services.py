"""Models that are sent requests: services, servers of one's own, and local weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from medhelm import hookimpl
from medhelm.models.access import has_key
from medhelm.models.codecs.anthropic import MESSAGES
from medhelm.models.codecs.google import GEMINI
from medhelm.models.codecs.responses import RESPONSES
from medhelm.models.codecs.responses import check_spec as check_responses
from medhelm.models.codecs.wire import CHAT, COMPLETIONS, Codec
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

if TYPE_CHECKING:
    from medhelm.models.credentials import Credentials

_THINKING = re.compile(r"(o\d|gpt-(?:[5-9]|\d\d)(?:\.\d+)?)(-|$)")


def named_openai(provider: str, model: str) -> ModelSpec:
    """Return the spec of a model without a config file, with the facts in OpenAI's names.

    The o series, and gpt-5 and later ones, think, take no temperature, and name the output budget differently.
    """
    thinks = _THINKING.match(model) is not None
    return ModelSpec(
        name=f"{provider}/{model}",
        provider=provider,
        model=model,
        reasoning=thinks,
        sampling=Sampling(temperature=None) if thinks else Sampling(),
        token_limit_field="max_completion_tokens" if thinks else "max_tokens",
    )


def over_http(
    codec: Codec,
    *,
    key_header: str = "Authorization",
    headers: Mapping[str, str] | None = None,
    login: Callable[[ModelSpec], Credentials] | None = None,
) -> Callable[[ModelSpec, Access | None], Host]:
    """Return what opens a server of a protocol. `login` makes what signs where no key is named."""

    def open_host(spec: ModelSpec, access: Access | None) -> Host:
        from medhelm.models.http_endpoint import HttpEndpoint

        assert access is not None
        return HttpEndpoint(
            access,
            spec.max_concurrency,
            codec,
            key_header=key_header,
            headers=headers,
            credentials=None if login is None or has_key(spec) else login(spec),
        )

    return open_host


def _open_hf(spec: ModelSpec, access: Access | None) -> Host:
    from medhelm.models.hf import Batcher, check_local

    check_local(spec)
    return Batcher(spec)


def _check_hf(spec: ModelSpec) -> None:
    from medhelm.models.hf import check_local

    check_local(spec)


OPENAI = Provider(
    name="openai",
    help="an OpenAI-protocol endpoint",
    open_host=over_http(CHAT),
    spec_of=partial(named_openai, "openai"),
    base_url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    path="/chat/completions",
    uses=(*SERVED, "send_seed", "token_limit_field"),
    can_serve=True,
    sends_seed=True,
    holds_schema=True,
    batches="openai",
    batch_hosts=(".together.xyz", ".together.ai", ".groq.com"),
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
    OPENAI,
    name="openai_completions",
    help="an OpenAI-protocol endpoint that goes on with plain text",
    open_host=over_http(COMPLETIONS),
    spec_of=None,
    dropped=("/completions",),
    path="/completions",
    holds_schema=False,
    candidates="texts",
    own_fields={**OPENAI.own_fields, "prompt": PROMPT, "echo": "form"},
    schema_fields=(),
    fixes=dict.fromkeys(("logprobs", "echo", "max_tokens"), NO_LOGPROBS),
)

_RESPONSES = Provider(
    name="openai_responses",
    help="OpenAI's Responses protocol",
    open_host=over_http(RESPONSES),
    check=check_responses,
    spec_of=partial(named_openai, "openai_responses"),
    base_url=OPENAI.base_url,
    key_env=OPENAI.key_env,
    dropped=("/responses",),
    path="/responses",
    uses=SERVED,
    holds_schema=True,
    batches="openai",
    own_fields={
        "model": "model.model",
        "input": PROMPT,
        "instructions": "model.system_prompt",
        "stream": WHOLE_ANSWERS,
        "background": WHOLE_ANSWERS,
        "temperature": "model.sampling.temperature",
        "top_p": "model.sampling.top_p",
        "reasoning.effort": "model.sampling.reasoning_effort",
        "max_output_tokens": BUDGET,
    },
    schema_fields=("text.format",),
    tables=("reasoning", "text"),
    fixes={
        "reasoning.effort": "set another sampling.reasoning_effort, or null",
    },
)

_ANTHROPIC = Provider(
    name="anthropic",
    help="Anthropic's service",
    open_host=over_http(
        MESSAGES, key_header="x-api-key", headers={"anthropic-version": "2023-06-01"}
    ),
    is_open=False,
    base_url="https://api.anthropic.com",
    key_env="ANTHROPIC_API_KEY",
    dropped=("/v1/messages", "/v1"),
    path="/v1/messages",
    uses=SERVED,
    holds_schema=True,
    batches="anthropic",
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

GOOGLE = Provider(
    name="google",
    help="Google's Gemini service",
    open_host=over_http(GEMINI, key_header="x-goog-api-key"),
    is_open=False,
    base_url="https://generativelanguage.googleapis.com",
    key_env="GEMINI_API_KEY",
    dropped=("/openai", "/v1beta", "/v1"),
    path="/v1beta/models/{model}:generateContent",
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
    return [OPENAI, _COMPLETIONS, _RESPONSES, _ANTHROPIC, GOOGLE, _HF]
