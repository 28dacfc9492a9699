"""Anthropic's service, through its SDK."""

from __future__ import annotations

from medhelm import hookimpl
from medhelm.models.hosts import Access, Host
from medhelm.models.provider import BUDGET, PROMPT, SERVED, WHOLE_ANSWERS, Provider
from medhelm.schema.model import ModelSpec


def open_host(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to the service."""
    from medhelm.models.anthropic import AnthropicEndpoint

    assert access is not None
    return AnthropicEndpoint(access, spec.max_concurrency)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the provider."""
    return [
        Provider(
            name="anthropic",
            help="Anthropic's service",
            open_host=open_host,
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
    ]
