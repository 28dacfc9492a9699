"""Any server that speaks the OpenAI chat protocol: OpenAI's own unless `base_url` is set."""

from __future__ import annotations

import re

from medhelm import hookimpl
from medhelm.models.hosts import Access, Host
from medhelm.models.provider import BUDGET, PROMPT, SERVED, WHOLE_ANSWERS, Provider
from medhelm.schema.episode import Sampling
from medhelm.schema.model import ModelSpec

_THINKING = re.compile(r"(o\d|gpt-(?:[5-9]|\d\d)(?:\.\d+)?)(-|$)")


def spec_of(model: str) -> ModelSpec:
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


def open_host(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to a server."""
    from medhelm.models.openai import OpenAIEndpoint

    assert access is not None
    return OpenAIEndpoint(access, spec.max_concurrency)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the provider."""
    return [
        Provider(
            name="openai",
            help="an OpenAI-protocol endpoint",
            open_host=open_host,
            spec_of=spec_of,
            base_url="https://api.openai.com/v1",
            key_env="OPENAI_API_KEY",
            path="/chat/completions",
            uses=(*SERVED, "send_seed", "token_limit_field"),
            sends_seed=True,
            holds_schema=True,
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
        )
    ]
