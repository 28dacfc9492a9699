"""Models by provider: how they are checked, opened and shared.

Nothing that does network, and no package of an extra, is imported before a model that needs it
is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from medhelm.errors import MedhelmError, ModelError, UsageError, one_line
from medhelm.models.access import check_settings, require_packages, resolve_access
from medhelm.models.hosts import Access, Host, ServerMessage
from medhelm.models.identity import each_address, endpoint_of
from medhelm.models.provider import Provider
from medhelm.models.providers import built_in, find_provider
from medhelm.models.serving import Servers
from medhelm.schema.model import InstanceModel, Model, ModelSpec, Order

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from medhelm.models.pacing.leases import Leases


def is_instance_model(model: Model | InstanceModel) -> TypeIs[InstanceModel]:
    """Return whether a model is handed the instance itself (a baseline)."""
    return hasattr(model, "answer")


def check_model(spec: ModelSpec, environ: Mapping[str, str] | None = None) -> None:
    """Find out without a request whether a model can be opened.

    Raises `ModelError` for a missing key, package or file and a bad address, `UsageError` for a
    bad value, `UnknownName` for a provider or baseline that does not exist.
    """
    check_settings(spec)
    provider = find_provider(spec.provider, spec.name)
    for way in each_address(spec):
        access = _access(provider, way, os.environ if environ is None else environ)
        with _blaming(provider, way, access):
            if provider.check is not None:
                provider.check(way)
    require_packages(spec)
    if provider.is_embedded:
        _open_embedded(provider, spec)


class ModelPool:
    """The models of a sweep; those of one server and key, or of the same weights, share these."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        leases: Leases | None = None,
        order: Order | None = None,
        servers: str = "",
    ) -> None:
        """`leases`: of what other processes may ask, too; None where there are none. `order`, `servers`: see `Servers`."""
        self._environ = os.environ if environ is None else environ
        self.leases = leases
        self._hosts: dict[Hashable, Host] = {}
        place = None
        if servers:
            from medhelm.models.ray_servers import RayNodes

            place = RayNodes("" if servers == "ray" else servers)
        self.servers = Servers(order, place)
        self.say: Callable[[str], None] = Host.say
        self.speeds: list[str] = []
        """The speed of each set of local weights. `close` fills it."""
        self._server_messages: list[ServerMessage] = []

    def open(self, spec: ModelSpec, *, owns_host: bool = False) -> Model | InstanceModel:
        """Return the model of a spec, whose server is up. Without `owns_host` its `close` leaves what it shares to the pool's.

        The smallest `max_concurrency` of the models of an endpoint holds for all of them.
        """
        check_settings(spec)
        provider = find_provider(spec.provider, spec.name)
        if provider.is_embedded:
            return _open_embedded(provider, spec)
        ways = each_address(self._reached(spec))
        return _joined(spec, (self._open(provider, spec, way, owns_host) for way in ways))

    def _open(self, provider: Provider, spec: ModelSpec, way: ModelSpec, owns_host: bool) -> Model:
        access = _access(provider, way, self._environ)
        key = self._host_key(provider, way, access)
        with _blaming(provider, way, access):
            host = self._hosts.get(key)
            if host is None:
                require_packages(way)
                assert provider.open_host is not None
                host = self._hosts[key] = provider.open_host(way, access)
                host.say = self.say
                if self.leases is not None and access is not None and not spec.serve:
                    self.leases.join(f"{endpoint_of(way)} {way.api_key_env or ''}", host.limiter)
            if spec.serve:
                self.servers.tell(spec, way.addresses[0], host)
            host.lower(spec.max_concurrency)
            return host.open_model(way, owns_host=owns_host)

    async def served(self, spec: ModelSpec) -> Mapping[str, str]:
        """Return what a server of an open model says of its weights; empty where unknown."""
        provider = find_provider(spec.provider, spec.name)
        way = each_address(self._reached(spec))[0]
        access = _access(provider, way, self._environ)
        host = self._hosts.get(self._host_key(provider, way, access))
        return await host.served(spec.model) if host is not None else {}

    def _host_key(self, provider: Provider, spec: ModelSpec, access: Access | None) -> Hashable:
        """Return what models have in common that share a server, key and its process, or weights in memory."""
        process = self.servers.at(spec.addresses[0])
        if access is not None:
            return provider.name, access.shared_by, process
        own = msgspec.json.encode(spec.extra_body, order="sorted")
        return provider.name, spec.model.strip(), own, process

    def _reached(self, spec: ModelSpec) -> ModelSpec:
        return msgspec.structs.replace(spec, **self.servers.reached(spec)) if spec.serve else spec

    def statuses(self) -> list[str]:
        """Return what local weights are doing, a line for each."""
        hosts = (status for host in self._hosts.values() if (status := host.status()))
        return [*hosts, *self.servers.status()]

    def server_messages(self, *, is_shown: bool = False) -> list[str]:
        """Return a line for each way in which requests failed: what the server said, once closed.

        Of servers other than those of class local it only tells how to see it, unless `is_shown`:
        their words may quote the prompt into the logs of a job.
        """
        lines: dict[str, None] = {}
        for said in self._server_messages:
            is_told = is_shown or said.model.endpoint_class == "local"
            told = (
                f"the server says: {said.words}"
                if is_told
                else "show_errors=true shows the server's words"
            )
            lines[f"model {said.model.name!r}: {said.error}: {told}"] = None
        return [*lines]

    def end(self) -> None:
        """Let requests in flight finish and try none of them again."""
        for host in self._hosts.values():
            host.limiter.end()

    async def close(self) -> None:
        """Close the connections of all models, stop their servers, and free their memory."""
        if self.leases is not None:
            await self.leases.close()
        self.speeds += [speed for host in self._hosts.values() if (speed := host.speed())]
        for host in self._hosts.values():
            self._server_messages += host.server_messages()
            await host.close()
        self._hosts.clear()
        await self.servers.close()


def open_model(
    spec: ModelSpec, *, environ: Mapping[str, str] | None = None
) -> Model | InstanceModel:
    """Return one model with connections of its own, which its `close` closes."""
    return ModelPool(environ).open(spec, owns_host=True)


def _joined(spec: ModelSpec, opened: Iterable[Model]) -> Model:
    """Return one model of those that are open at each address; raises UsageError where it cannot be."""
    first, *others = opened
    if not others:
        first.spec = spec
    else:
        from medhelm.models.endpoint import EndpointModel

        ways = [way for way in (first, *others) if isinstance(way, EndpointModel)]
        if len(ways) <= len(others):
            raise UsageError(
                f"model {spec.name!r}: give one base_url, {spec.provider!r} takes no list"
            )
        ways[0].join(spec, ways[1:])
    return first


def _access(provider: Provider, spec: ModelSpec, environ: Mapping[str, str]) -> Access | None:
    return resolve_access(spec, environ) if provider.base_url else None


def _open_embedded(provider: Provider, spec: ModelSpec) -> Model | InstanceModel:
    assert provider.open_model is not None
    with _blaming(provider, spec, None):
        model = provider.open_model(spec)
    if provider.reads_prompt and is_instance_model(model):
        raise ModelError(
            f"model {spec.name!r}: provider {provider.name!r} ({provider.origin}) opens a model that "
            "is handed the gold; a plugin's models are handed requests"
        )
    return model


@contextmanager
def _blaming(provider: Provider, spec: ModelSpec, access: Access | None) -> Iterator[None]:
    """Name the plugin whose provider raises; the key is taken out of what it raises."""
    try:
        yield
    except MedhelmError:
        raise
    except Exception as error:  # the boundary to plugins
        if provider.name in built_in():
            raise
        text = one_line(error)
        for secret in access.secrets if access is not None else ():
            text = text.replace(secret, "***")
        raise ModelError(
            f"model {spec.name!r}: provider {provider.name!r} of {provider.origin} cannot open it: "
            f"{type(error).__name__}{f': {text}' if text else ''}; mend the plugin"
        ) from None
