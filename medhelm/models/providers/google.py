"""Google's Gemini service, through its SDK."""

from __future__ import annotations

from medhelm import hookimpl
from medhelm.models.hosts import Access, Host
from medhelm.models.provider import BUDGET, PROMPT, SERVED, Provider
from medhelm.schema.model import ModelSpec


def open_host(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to the service."""
    from medhelm.models.google import GoogleEndpoint

    assert access is not None
    return GoogleEndpoint(access, spec.max_concurrency)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the provider."""
    return [
        Provider(
            name="google",
            help="Google's Gemini service",
            open_host=open_host,
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
    ]
