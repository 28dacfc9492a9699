"""Packages that only some providers need, and how they are installed."""

from __future__ import annotations

from importlib.util import find_spec

from medhelm.errors import ModelError
from medhelm.schema.model import ModelSpec

_PACKAGES = {
    "anthropic": {"anthropic": "anthropic"},
    "google": {"google.genai": "google-genai"},
    "hf": {"torch": "torch", "transformers": "transformers", "accelerate": "accelerate"},
}
"""Provider, which is also the name of the extra -> its modules and the packages that have them."""
GGUF = {"gguf": "gguf"}


def require_packages(spec: ModelSpec, also: dict[str, str] | None = None) -> None:
    """Refuse a model whose provider needs a package that is not installed; imports none.

    Raises ModelError.
    """
    for module, package in {**_PACKAGES.get(spec.provider, {}), **(also or {})}.items():
        if not _is_there(module):
            raise ModelError(
                f"model {spec.name!r} needs the package {package}, which is not installed;"
                f" run in the checkout: pip install '.[{spec.provider}]'"
            )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there either
        return False
