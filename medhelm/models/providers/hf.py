"""Local weights, through Transformers: a hub id, a folder or a GGUF file."""

from __future__ import annotations

from medhelm import hookimpl
from medhelm.models.hosts import Access, Host
from medhelm.models.provider import Provider
from medhelm.schema.model import ModelSpec


def open_host(spec: ModelSpec, access: Access | None) -> Host:
    """Return the weights and the requests that wait for them."""
    from medhelm.models.hf import Batcher, check_local

    check_local(spec)
    return Batcher(spec)


def check(spec: ModelSpec) -> None:
    """Refuse weights that are not there and options that are not any."""
    from medhelm.models.hf import check_local

    check_local(spec)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the provider."""
    return [
        Provider(
            name="hf",
            help="local weights",
            open_host=open_host,
            check=check,
            is_open=False,
            packages={
                "torch": "torch",
                "transformers": "transformers",
                "accelerate": "accelerate",
            },
            extra="hf",
            is_local=True,
            uses=(
                "reasoning",
                "system_prompt",
                "sampling",
                "send_seed",
                "extra_body",
                "context_window",
            ),
        )
    ]
