"""The settings of a model that decide its answers: those that its provider uses, in one form.

Two specs with one identity are the same model: what one was asked, the other is not asked again.
Of a provider whose plugin is not there every setting counts, as it was recorded.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from medhelm.models.access import is_key_header, server_address
from medhelm.models.hosts import is_loopback
from medhelm.models.provider import DECIDING
from medhelm.models.providers import known_provider
from medhelm.models.serving import plain_command
from medhelm.schema.model import ModelSpec

_BLANK = ModelSpec(name="")
_FAMILIES = re.compile("gpt|claude|gemini|gemma|llama|qwen|qwq|mistral|mixtral|deepseek")
_ALSO = {"gemma": "gemini", "qwq": "qwen", "mixtral": "mistral"}
"""Word of a model's name -> the family that it is of."""


def is_echoed(spec: ModelSpec) -> bool:
    """Return whether a model is sent its prompt once more with each candidate."""
    provider = known_provider(spec.provider)
    return provider is not None and provider.candidates == "texts" and not provider.is_local


def reads_prompt(spec: ModelSpec) -> bool:
    """Return whether a model is sent a prompt. A rule is handed the instance and has no budget."""
    provider = known_provider(spec.provider)
    return provider is None or provider.reads_prompt


def reads_gold(spec: ModelSpec) -> bool:
    """Return whether a model reads the gold of the test set, whatever its name is."""
    provider = known_provider(spec.provider)
    return provider is not None and provider.reads_gold is not None and provider.reads_gold(spec)


def is_rankable(spec: ModelSpec) -> bool:
    """Return whether a model may be ranked: it is one, and reads no gold."""
    provider = known_provider(spec.provider)
    return not reads_gold(spec) and (provider is None or provider.is_ranked)


def without_unused(spec: ModelSpec) -> ModelSpec:
    """Return a spec whose settings that its provider does not use are at their defaults.

    So what one model of a sweep is given (`model.sampling.temperature=1`) is neither recorded nor
    hashed for another one that cannot obey it.
    """
    provider = known_provider(spec.provider)
    if spec.serve:  # its port is another one each time
        spec = msgspec.structs.replace(spec, serve=plain_command(spec.serve), base_url=None)
    if provider is None:
        return spec
    dropped = [name for name in DECIDING[2:] if name not in provider.uses]
    if not provider.base_url:
        dropped.append("headers")
    if not provider.reads_prompt:
        dropped.append("max_output_tokens")
    return msgspec.structs.replace(spec, **{name: getattr(_BLANK, name) for name in dropped})


def identity(spec: ModelSpec) -> dict[str, Any]:
    """Return what of a model decides its answers, equal for equal models however they are spelt."""
    plain = without_unused(spec)
    found = {name: getattr(plain, name) for name in DECIDING}
    provider = known_provider(spec.provider)
    if provider is not None and provider.model_of is not None:
        found["model"] = provider.model_of(spec)
    found["base_url"] = plain.address
    if provider is not None and provider.base_url:
        found["base_url"] = server_address(provider, plain.address)
    # Only where there are any: a setting that is added later renames no run.
    if headers := {n.lower(): v for n, v in plain.headers.items() if not is_key_header(n)}:
        found["headers"] = dict(sorted(headers.items()))
    if spec.serve:
        found["serve"] = plain.serve
    return found


def in_batches(spec: ModelSpec) -> ModelSpec:
    """Return a model that is asked in batches; the same one where its service is not known to take any."""
    provider = known_provider(spec.provider)
    if provider is None or not provider.batches or spec.serve or len(spec.addresses) > 1:
        return spec
    host = urlsplit(endpoint_of(spec)).hostname or ""
    is_known = endpoint_of(spec) == provider.base_url or host.endswith(
        provider.batch_hosts or ("/",)
    )
    return msgspec.structs.replace(spec, batch=True) if is_known else spec


def families_of(spec: ModelSpec) -> frozenset[str]:
    """Return the families of a model: the stated one, else those in the name that its endpoint is sent.

    A distilled model is of several. Where no known one is in a name it is of its first word.
    """
    if spec.family:
        return frozenset({spec.family.lower()})
    name = re.sub(r"^o(?=\d)", "gpt-o", (spec.model or spec.name).rpartition("/")[2].lower())
    found = _FAMILIES.findall(name) or re.findall(r"^[a-z]{3,}", name)
    return frozenset(_ALSO.get(word, word) for word in found)


def endpoint_of(spec: ModelSpec) -> str:
    """Return the address that a model is asked at, in one spelling; empty where it is asked here.

    Of a server that a sweep starts it is the command, as its port is another one each time.
    """
    if spec.serve:
        return plain_command(spec.serve)
    provider = known_provider(spec.provider)
    if provider is None or not provider.base_url:
        return ""
    return server_address(provider, spec.address) or provider.base_url


def each_address(spec: ModelSpec) -> list[ModelSpec]:
    """Return a model at each of its addresses alone, once however these are spelt."""
    if len(spec.addresses) == 1:
        return [spec]
    ways = (msgspec.structs.replace(spec, base_url=address) for address in spec.addresses)
    return [*{endpoint_of(way): way for way in ways}.values()]


def is_served_here(spec: ModelSpec) -> bool:
    """Return whether a server of the user's answers: it is declared local, or at this machine's address."""
    endpoint = endpoint_of(spec)
    if not endpoint or spec.serve or spec.endpoint_class == "local":
        return bool(endpoint)
    return is_loopback(urlsplit(endpoint).hostname or "")
