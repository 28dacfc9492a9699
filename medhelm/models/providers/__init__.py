"""Providers, which serve models, by name: those of medhelm, and those of plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module

from medhelm.errors import UnknownName
from medhelm.models.provider import Provider

_OF_PLUGINS: dict[str, Provider] = {}
"""A spec names its provider, and files that hold specs are read far from any registry."""


@cache
def built_in() -> Mapping[str, Provider]:
    """Return the providers of medhelm by name."""
    made = import_module(f"{__name__}.services").medhelm_providers()
    return {provider.name: provider for provider in sorted(made, key=lambda p: p.name)}


def add_providers(providers: Iterable[Provider]) -> None:
    """Make the providers of plugins known to this process by their names."""
    _OF_PLUGINS.update((provider.name, provider) for provider in providers)


def known_providers() -> Mapping[str, Provider]:
    """Return all providers by name, those of medhelm first."""
    return {**built_in(), **_OF_PLUGINS}


def known_provider(name: str) -> Provider | None:
    """Return a provider by name; None where its plugin is not there."""
    return built_in().get(name) or _OF_PLUGINS.get(name)


def find_provider(name: str, model: str = "") -> Provider:
    """Return a provider by name; raises UnknownName. `model`: who has it, for the message."""
    found = known_provider(name)
    if found is None:
        known = known_providers()
        of_whom = f" (model {model!r})" if model else ""
        hint = f"The providers are {', '.join(known)}{of_whom}."
        raise UnknownName("provider", name, known, hint)
    return found
