"""Check the provider of a plugin before anything is asked of it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from medhelm.errors import PluginError, closest
from medhelm.models.provider import DECIDING, Provider

_NAME = re.compile(r"[a-z][a-z0-9_-]*")


def check_provider(provider: Provider) -> None:
    """Refuse a provider that could not be used or could be handed the gold; raises PluginError."""
    for problem in _problems(provider):
        raise PluginError(f"plugin {provider.origin}: provider {provider.name!r}: {problem}")


def _problems(provider: Provider) -> list[str]:
    found = []
    if not _NAME.fullmatch(provider.name):
        found.append("a name has small letters, digits, '_' and '-', and begins with a letter")
    if (provider.open_host is None) == (provider.open_model is None):
        found.append("give one of open_host (what models share) and open_model (embedded)")
    if not provider.plays and (not provider.reads_prompt or provider.reads_gold is not None):
        found.append(
            "a plugin's models are handed requests, never the gold; leave out reads_prompt, or "
            "name in `plays` the protocols whose roles they play by rule"
        )
    if provider.plays and (provider.reads_prompt or provider.open_model is None):
        found.append("what `plays` roles by rule is embedded: give reads_prompt=False, open_model")
    if provider.base_url and urlsplit(provider.base_url).scheme not in ("http", "https"):
        found.append(f"base_url {provider.base_url!r} is not an http or https address")
    for name in provider.uses:
        if name not in DECIDING[2:]:
            near = closest(name, DECIDING[2:], n=1)
            did = (
                f"did you mean {near[0]!r}?" if near else f"settings are {', '.join(DECIDING[2:])}"
            )
            found.append(f"uses names {name!r}, which is not a setting; {did}")
    return found
