"""Models by provider: an OpenAI-protocol endpoint, an embedded baseline, a script for tests.

Nothing that does network is imported before a model that needs it is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from medhelm.errors import UnknownName
from medhelm.models.access import check_settings, resolve_access
from medhelm.models.baselines import open_baseline
from medhelm.models.scripted import open_scripted
from medhelm.schema import InstanceModel, Model, ModelSpec

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from medhelm.models.openai import Endpoint

PROVIDERS = ("openai", "baseline", "scripted")


def is_instance_model(model: Model | InstanceModel) -> TypeIs[InstanceModel]:
    """Return whether a model is handed the instance itself (a baseline)."""
    return hasattr(model, "answer")


def check_model(spec: ModelSpec, environ: Mapping[str, str] | None = None) -> None:
    """Find out without a request whether a model can be opened.

    Raises `ModelError` for a missing key or a bad address, `UsageError` for a bad value,
    `UnknownName` for a provider or baseline that does not exist.
    """
    check_settings(spec)
    if spec.provider == "openai":
        resolve_access(spec, os.environ if environ is None else environ)
    else:
        _open_local(spec)


class ModelPool:
    """The models of a sweep; those with the same address and key share connections and limits."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._endpoints: dict[tuple[str, str | None], Endpoint] = {}

    def open(self, spec: ModelSpec) -> Model | InstanceModel:
        """Return the model of a spec. Its own `close` leaves what it shares to the pool's.

        The smallest `max_concurrency` of the models of an endpoint holds for all of them.
        """
        check_settings(spec)
        if spec.provider != "openai":
            return _open_local(spec)
        from medhelm.models.openai import Endpoint, OpenAIModel

        access = resolve_access(spec, self._environ)
        endpoint = self._endpoints.get(access.shared_by)
        if endpoint is None:
            endpoint = self._endpoints[access.shared_by] = Endpoint(access, spec.max_concurrency)
        endpoint.limiter.lower(spec.max_concurrency)
        return OpenAIModel(spec, endpoint, owns_endpoint=False)

    async def close(self) -> None:
        """Close the connections of all models."""
        for endpoint in self._endpoints.values():
            await endpoint.close()
        self._endpoints.clear()


def open_model(
    spec: ModelSpec, *, environ: Mapping[str, str] | None = None
) -> Model | InstanceModel:
    """Return one model with connections of its own, which its `close` closes."""
    check_settings(spec)
    if spec.provider != "openai":
        return _open_local(spec)
    from medhelm.models.openai import Endpoint, OpenAIModel

    access = resolve_access(spec, os.environ if environ is None else environ)
    return OpenAIModel(spec, Endpoint(access, spec.max_concurrency), owns_endpoint=True)


def _open_local(spec: ModelSpec) -> Model | InstanceModel:
    if spec.provider == "baseline":
        return open_baseline(spec)
    if spec.provider == "scripted":
        return open_scripted(spec)
    raise UnknownName("provider", spec.provider, PROVIDERS, f"(model {spec.name!r})")
