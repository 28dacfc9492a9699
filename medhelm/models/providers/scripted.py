"""Prepared answers, for tests and for trying a pipeline out."""

from __future__ import annotations

from medhelm import hookimpl
from medhelm.models.provider import Provider
from medhelm.schema.model import Model, ModelSpec


def model_of(spec: ModelSpec) -> str:
    """Return the name under which answers are prepared."""
    return spec.model or spec.name


def open_model(spec: ModelSpec) -> Model:
    """Return the model that a spec describes."""
    from medhelm.models.scripted import open_scripted

    return open_scripted(spec)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the provider."""
    return [
        Provider(
            name="scripted",
            help="prepared answers",
            open_model=open_model,
            is_open=False,
            is_local=True,
            model_of=model_of,
            uses=(  # it represents any model, and its requests are stored
                "reasoning",
                "system_prompt",
                "sampling",
                "send_seed",
                "extra_body",
                "context_window",
            ),
            sends_seed=True,
            holds_schema=True,
        )
    ]
