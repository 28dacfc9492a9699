"""Models that ask nobody: rules, which are handed the instance itself, and answers from a file."""

from __future__ import annotations

from medhelm import hookimpl
from medhelm.models.baselines import baseline_kind, open_baseline, reads_gold
from medhelm.models.provider import Provider
from medhelm.schema.model import Model, ModelSpec


def _human_spec(file: str) -> ModelSpec:
    """Return the spec of a file of answers."""
    from medhelm.models import human

    return human.spec_of(file)


def _open_human(spec: ModelSpec) -> Model:
    """Return the model that gives these answers."""
    from medhelm.models.human import open_human

    return open_human(spec)


def _scripted_model(spec: ModelSpec) -> str:
    """Return the name under which answers are prepared."""
    return spec.model or spec.name


def _open_scripted(spec: ModelSpec) -> Model:
    """Return the model that a spec describes."""
    from medhelm.models.scripted import open_scripted

    return open_scripted(spec)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the providers."""
    return [
        Provider(
            name="baseline",
            help="medhelm's rules",
            open_model=open_baseline,
            is_open=False,
            is_local=True,
            reads_prompt=False,
            reads_gold=reads_gold,
            model_of=baseline_kind,
            uses=(),
        ),
        Provider(
            name="human",
            help="answers that people wrote, a JSON Lines file",
            open_model=_open_human,
            spec_of=_human_spec,
            is_local=True,
            is_ranked=False,
            uses=("extra_body",),
        ),
        Provider(
            name="scripted",
            help="prepared answers",
            open_model=_open_scripted,
            is_open=False,
            is_local=True,
            model_of=_scripted_model,
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
        ),
    ]
