"""The providers of medhelm: `providers.toml` has what they are, this file what of them is a function."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.errors import UsageError
from medhelm.models.access import has_key
from medhelm.models.baselines import baseline_kind, open_baseline, reads_gold
from medhelm.models.codecs.anthropic import MESSAGES
from medhelm.models.codecs.bedrock import CONVERSE, check_converse, region_of
from medhelm.models.codecs.google import GEMINI
from medhelm.models.codecs.responses import RESPONSES, check_responses
from medhelm.models.codecs.wire import CHAT, COMPLETIONS
from medhelm.models.hosts import Access, Host
from medhelm.models.human import human_spec, open_human
from medhelm.models.provider import NO_LOGPROBS, Provider
from medhelm.schema.episode import Sampling
from medhelm.schema.model import Model, ModelSpec

if TYPE_CHECKING:
    from medhelm.models.credentials import Credentials

_THINKING = re.compile(r"(o\d|gpt-(?:[5-9]|\d\d)(?:\.\d+)?)(-|$)")
_CODECS = {
    "chat": CHAT,
    "completions": COMPLETIONS,
    "converse": CONVERSE,
    "gemini": GEMINI,
    "messages": MESSAGES,
    "responses": RESPONSES,
}


def named_openai(provider: str, model: str) -> ModelSpec:
    """Return the spec of a model without a config file, with the facts in OpenAI's names.

    The o series, and gpt-5 and later ones, think, take no temperature, and name the output budget differently.
    """
    thinks = _THINKING.match(model) is not None
    return ModelSpec(
        name=f"{provider}/{model}",
        provider=provider,
        model=model,
        reasoning=thinks,
        sampling=Sampling(temperature=None) if thinks else Sampling(),
        token_limit_field="max_completion_tokens" if thinks else "max_tokens",
    )


def _open_http(http: Mapping[str, Any], spec: ModelSpec, access: Access | None) -> Host:
    from medhelm.models.http_endpoint import HttpEndpoint

    assert access is not None
    login = _LOGINS.get(http.get("login", ""))
    return HttpEndpoint(
        access,
        spec.max_concurrency,
        _CODECS[http["codec"]],
        key_header=http.get("key_header", "Authorization"),
        headers=http.get("headers"),
        credentials=None if login is None or has_key(spec) else login(spec),
    )


def _aws_login(spec: ModelSpec) -> Credentials:
    from medhelm.models.credentials import AwsCredentials

    return AwsCredentials(region_of(spec))


def _google_login(spec: ModelSpec) -> Credentials:
    from medhelm.models.credentials import GoogleCredentials

    return GoogleCredentials()


def _check_azure(spec: ModelSpec) -> None:
    if "/deployments" in (spec.address or ""):
        raise UsageError(
            f"model {spec.name!r}: base_url ends before /openai/deployments, as in "
            "https://{RESOURCE}.openai.azure.com; the deployment's name is model.model"
        )


def _check_hf(spec: ModelSpec) -> None:
    from medhelm.models.hf import check_local

    check_local(spec)


def _open_hf(spec: ModelSpec, access: Access | None) -> Host:
    from medhelm.models.hf import Batcher

    _check_hf(spec)
    return Batcher(spec)


def _open_scripted(spec: ModelSpec) -> Model:
    from medhelm.models.scripted import open_scripted

    return open_scripted(spec)


_LOGINS: Mapping[str, Callable[[ModelSpec], Credentials]] = {
    "aws": _aws_login,
    "google": _google_login,
}
"""Make what signs requests where no key is named."""
_FUNCTIONS: Mapping[str, dict[str, Any]] = {
    "azure": {"check": _check_azure},
    "baseline": {
        "open_model": open_baseline,
        "reads_gold": reads_gold,
        "model_of": baseline_kind,
    },
    "bedrock": {"check": check_converse},
    "hf": {"open_host": _open_hf, "check": _check_hf},
    "human": {"open_model": open_human, "spec_of": human_spec},
    "openai_responses": {"check": check_responses},
    "scripted": {"open_model": _open_scripted, "model_of": lambda spec: spec.model or spec.name},
}


@cache
def _rows() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("providers.toml").read_text("utf-8"))


def _fields(name: str) -> dict[str, Any]:
    """Return the fields of a row behind those of the one that it is like."""
    row = dict(_rows()[name])
    above = _fields(row.pop("like")) if "like" in row else {}
    own_fields = above.get("own_fields", {}) | row.get("own_fields", {})
    return above | row | {"own_fields": own_fields}


def _provider(name: str) -> Provider:
    row, words = _fields(name), _rows()["words"] | {"no_logprobs": NO_LOGPROBS}
    ours = ("codec", "key_header", "headers", "login")
    http: dict[str, Any] = {key: row.pop(key) for key in ours if key in row}
    for field in ("own_fields", "fixes"):
        row[field] = {key: words.get(said, said) for key, said in row.get(field, {}).items()}
    row["uses"] = [one for said in row["uses"] for one in words.get(said, [said])]
    if row.pop("has_openai_names", False):
        row["spec_of"] = partial(named_openai, name)
    if http:
        row["open_host"] = partial(_open_http, http)
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
    return Provider(name=name, origin=__file__, **values | _FUNCTIONS.get(name, {}))


def medhelm_providers() -> list[Provider]:
    """Return the providers of medhelm."""
    return [_provider(name) for name in _rows() if name != "words"]
