"""The embedded baselines: rules, which are handed the instance itself."""

from __future__ import annotations

from medhelm import hookimpl
from medhelm.models.baselines import baseline_kind, open_baseline, reads_gold
from medhelm.models.provider import Provider


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the provider."""
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
        )
    ]
