"""Models that ask nobody: rules, which are handed the instance itself, and answers from a file."""

from __future__ import annotations

from medhelm import hookimpl
from medhelm.models.baselines import baseline_kind, open_baseline, reads_gold
from medhelm.models.human import open_human, spec_of
from medhelm.models.provider import Provider
from medhelm.schema.model import Model, ModelSpec


def _open_scripted(spec: ModelSpec) -> Model:
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
            open_model=open_human,
            spec_of=spec_of,
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
            model_of=lambda spec: spec.model or spec.name,
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
