"""Packages that only some providers need, and how they are installed."""

from __future__ import annotations

from importlib.util import find_spec

from medhelm.errors import ModelError
from medhelm.models.providers import find_provider
from medhelm.schema.model import ModelSpec

GGUF = {"gguf": "gguf"}


def require_packages(spec: ModelSpec, also: dict[str, str] | None = None) -> None:
    """Refuse a model whose provider needs a package that is not installed; imports none.

    Raises ModelError.
    """
    provider = find_provider(spec.provider, spec.name)
    for module, package in {**provider.packages, **(also or {})}.items():
        if not _is_there(module):
            how = f"run: pip install {package}"
            if provider.extra:
                how = f"run in the checkout: pip install '.[{provider.extra}]'"
            raise ModelError(
                f"model {spec.name!r} needs the package {package}, which is not installed; {how}"
            )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there either
        return False
