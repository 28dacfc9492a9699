"""The settings of a model that decide its answers: those that its provider uses, in one form.

Two specs with one identity are the same model: what one was asked, the other is not asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from medhelm.models.access import SERVICES, service_address
from medhelm.models.baselines import baseline_kind
from medhelm.schema.model import ModelSpec

_ALWAYS = ("provider", "model")
_DECODING = ("reasoning", "system_prompt", "sampling", "send_seed", "extra_body", "context_window")

USES: Mapping[str, tuple[str, ...]] = {
    **{name: service.uses for name, service in SERVICES.items()},
    "hf": _DECODING,
    "baseline": (),
    "scripted": _DECODING,  # it represents any model, and its requests are stored
}
"""Provider -> the settings besides provider and model that can change what it answers."""

READS_PROMPT = frozenset(USES) - {"baseline"}
"""Providers that are sent a prompt. A baseline is handed the instance and has no budget either."""

DECIDING = (
    *_ALWAYS,
    "base_url",
    "reasoning",
    "system_prompt",
    "sampling",
    "token_limit_field",
    "send_seed",
    "extra_body",
    "context_window",
)
"""All settings that can decide an answer: names, prices and limits are not among them. Whether an
answer is held to a JSON Schema is up to the requests, which few protocols give one."""

_BLANK = ModelSpec(name="")


def without_unused(spec: ModelSpec) -> ModelSpec:
    """Return a spec whose settings that its provider does not use are at their defaults.

    So what one model of a sweep is given (`model.sampling.temperature=1`) is neither recorded nor
    hashed for another one that cannot obey it.
    """
    used = {*_ALWAYS, *USES.get(spec.provider, DECIDING)}
    dropped = [name for name in DECIDING if name not in used]
    if spec.provider not in READS_PROMPT:
        dropped.append("max_output_tokens")
    return msgspec.structs.replace(spec, **{name: getattr(_BLANK, name) for name in dropped})


def identity(spec: ModelSpec) -> dict[str, Any]:
    """Return what of a model decides its answers, equal for equal models however they are spelt."""
    plain = without_unused(spec)
    found = {name: getattr(plain, name) for name in DECIDING}
    if spec.provider == "baseline":
        found["model"] = baseline_kind(spec)
    elif spec.provider == "scripted":
        found["model"] = spec.model or spec.name
    elif spec.provider in SERVICES:
        found["base_url"] = service_address(spec.provider, spec.base_url)
    return found


def endpoint_of(spec: ModelSpec) -> str:
    """Return the address that a model is asked at, in one spelling; empty where it is asked here."""
    if spec.provider not in SERVICES:
        return ""
    return service_address(spec.provider, spec.base_url) or SERVICES[spec.provider].base_url


def as_spelt(spec: ModelSpec) -> dict[str, Any]:
    """Return the settings as an earlier medhelm hashed them: all of them, letter by letter."""
    return {name: getattr(spec, name) for name in DECIDING}
