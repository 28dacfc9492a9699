"""Answers of people, from a file."""

from __future__ import annotations

from medhelm import hookimpl
from medhelm.models.provider import Provider
from medhelm.schema.model import Model, ModelSpec


def spec_of(file: str) -> ModelSpec:
    """Return the spec of a file of answers."""
    from medhelm.models import human

    return human.spec_of(file)


def open_model(spec: ModelSpec) -> Model:
    """Return the model that gives these answers."""
    from medhelm.models.human import open_human

    return open_human(spec)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the provider."""
    return [
        Provider(
            name="human",
            help="answers that people wrote, a JSON Lines file",
            open_model=open_model,
            spec_of=spec_of,
            is_local=True,
            is_ranked=False,
            uses=("extra_body",),
        )
    ]
