"""Models by provider: endpoints of three protocols, local weights, embedded rules, a script.

Nothing that does network, and no package of an extra, is imported before a model that needs it
is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

from medhelm.errors import UnknownName
from medhelm.models.access import SERVICES, check_settings, resolve_access
from medhelm.models.baselines import open_baseline
from medhelm.models.extras import require_packages
from medhelm.models.identity import USES, endpoint_of
from medhelm.models.scripted import open_scripted
from medhelm.schema.model import InstanceModel, Model, ModelSpec

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from medhelm.models.endpoint import Endpoint, Host

PROVIDERS = tuple(USES)


def is_instance_model(model: Model | InstanceModel) -> TypeIs[InstanceModel]:
    """Return whether a model is handed the instance itself (a baseline)."""
    return hasattr(model, "answer")


def check_model(spec: ModelSpec, environ: Mapping[str, str] | None = None) -> None:
    """Find out without a request whether a model can be opened.

    Raises `ModelError` for a missing key, package or file and a bad address, `UsageError` for a
    bad value, `UnknownName` for a provider or baseline that does not exist.
    """
    check_settings(spec)
    if spec.provider in SERVICES:
        resolve_access(spec, os.environ if environ is None else environ)
        require_packages(spec)
    elif spec.provider == "hf":
        from medhelm.models.hf import check_local

        check_local(spec)
    else:
        _open_embedded(spec)


class ModelPool:
    """The models of a sweep; those of one server and key, or of the same weights, share these."""

    def __init__(
        self, environ: Mapping[str, str] | None = None, at_once: Mapping[str, int] | None = None
    ) -> None:
        """`at_once`: how many pools in other processes share each endpoint's `max_concurrency`."""
        self._environ = os.environ if environ is None else environ
        self._at_once = at_once or {}
        self._hosts: dict[Hashable, Host] = {}
        self.speeds: list[str] = []
        """Holds the speed of each set of local weights. `close` fills it."""

    def open(self, spec: ModelSpec) -> Model | InstanceModel:
        """Return the model of a spec. Its own `close` leaves what it shares to the pool's.

        The smallest `max_concurrency` of the models of an endpoint holds for all of them.
        """
        check_settings(spec)
        if not _is_hosted(spec):
            return _open_embedded(spec)
        key, open_host = _find_host(spec, self._environ)
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = open_host()
        host.lower(self._share(spec))
        return host.open_model(spec, owns_host=False)

    def _share(self, spec: ModelSpec) -> int | None:
        """Return how many requests this pool may have in flight at an endpoint; None: no bound set."""
        pools = self._at_once.get(endpoint_of(spec), 1)
        if pools == 1:
            return spec.max_concurrency
        from medhelm.models.limits import CEILING

        return max(1, (spec.max_concurrency or CEILING) // pools)

    def statuses(self) -> list[str]:
        """Return what local weights are doing, a line for each."""
        return [status for host in self._hosts.values() if (status := host.status())]

    def end(self) -> None:
        """Let requests in flight finish and try none of them again."""
        for host in self._hosts.values():
            host.limiter.end()

    async def close(self) -> None:
        """Close the connections of all models, and free their memory."""
        self.speeds += [speed for host in self._hosts.values() if (speed := host.speed())]
        for host in self._hosts.values():
            await host.close()
        self._hosts.clear()


def open_model(
    spec: ModelSpec, *, environ: Mapping[str, str] | None = None
) -> Model | InstanceModel:
    """Return one model with connections of its own, which its `close` closes."""
    check_settings(spec)
    if not _is_hosted(spec):
        return _open_embedded(spec)
    _, open_host = _find_host(spec, os.environ if environ is None else environ)
    return open_host().open_model(spec, owns_host=True)


def _is_hosted(spec: ModelSpec) -> bool:
    return spec.provider in SERVICES or spec.provider == "hf"


def _find_host(spec: ModelSpec, environ: Mapping[str, str]) -> tuple[Hashable, Callable[[], Host]]:
    """Return what models with the same host have in common, and how that host is opened."""
    if spec.provider == "hf":
        from medhelm.models.hf import Batcher, check_local, weights_of

        check_local(spec)
        return ("hf", *weights_of(spec)), lambda: Batcher(spec)
    access = resolve_access(spec, environ)
    require_packages(spec)
    endpoint: type[Endpoint]
    if spec.provider == "anthropic":
        from medhelm.models.anthropic import AnthropicEndpoint as endpoint
    elif spec.provider == "google":
        from medhelm.models.google import GoogleEndpoint as endpoint
    else:
        from medhelm.models.openai import OpenAIEndpoint as endpoint
    return (spec.provider, *access.shared_by), lambda: endpoint(access, spec.max_concurrency)


def _open_embedded(spec: ModelSpec) -> Model | InstanceModel:
    if spec.provider == "baseline":
        return open_baseline(spec)
    if spec.provider == "scripted":
        return open_scripted(spec)
    hint = f"The providers are {', '.join(PROVIDERS)} (model {spec.name!r})."
    raise UnknownName("provider", spec.provider, PROVIDERS, hint)
