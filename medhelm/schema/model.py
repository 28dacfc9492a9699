"""Models: what a config says of one, and what the core asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol

import msgspec

from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Request, Response, Sampling

EndpointClass = Literal["local", "contracted", "external"]
"""The place where a model runs: this machine, a party under contract, or anyone else."""
Order = Literal["runs", "roles"]
"""Judges' servers are up beside a model's (`runs`), or once all models have answered (`roles`)."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """USD per million tokens at a date."""

    input: float
    output: float
    cached: float | None = None
    batch: float = 0.5
    """The part of all three that a request in a batch costs."""
    date: str


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model config. `name` is the id in tables, `model` the name that the endpoint gets."""

    name: str
    provider: str = "openai"
    model: str = ""
    base_url: str | tuple[str, ...] | None = None
    """Its address; of several, which all serve the same weights, the first stands for the model."""
    serve: str = ""
    """Command that starts its server, with `{port}` and, where it names the weights, `{model}`."""
    replicas: int = 1
    """Servers that `serve` starts, each at an address of its own."""
    gpus: int = 0
    """GPUs of this machine that each of them sees, and no other; 0: those that medhelm sees."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; never the key."""
    headers: dict[str, str] = {}
    """Further headers: name -> `$VARIABLE` that holds the value; never the value."""
    endpoint_class: EndpointClass = "external"
    weights: Literal["open", "closed", "none"] = "closed"
    reasoning: bool = False
    """True if the model thinks before it answers and gets the benchmark's reasoning budget."""
    max_output_tokens: int | None = None
    """The budget in place of the benchmark's. With it, a run is not comparable with others."""
    context_window: int | None = None
    system_prompt: str | None = None
    sampling: Sampling = Sampling()
    token_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    send_seed: bool | Literal["always"] = True
    """True: a seed is sent where sampling is random. "always": at temperature 0, too."""
    json_schema: bool = False
    """True if the endpoint holds answers to a JSON Schema that a request carries."""
    extra_body: dict[str, Any] = {}
    """Further fields of the request's JSON body (chat template options and the like)."""
    timeout_s: float = 120.0
    max_concurrency: int | None = None
    """The most requests in flight at one address; None: as many as raise the throughput, up to 512."""
    max_attempts: int = 6
    batch: bool = False
    """True if requests go to the service in batches: for less, and within hours."""
    price: Price | None = None
    family: str = ""
    """Family, where its name does not tell; a judge of the model's own family is flagged."""
    strategy: str = ""
    """Strategy by which the model answers a protocol; empty: none."""
    training_cutoff: str = ""
    """End of its training data, as its maker states it: YYYY, YYYY-MM or YYYY-MM-DD; empty: not stated."""
    note: str = ""
    """Note shown by `medhelm list models` (`unverified`, `retired 2026-10-23`)."""

    @property
    def addresses(self) -> tuple[str | None, ...]:
        """Return where it is asked; None: at its provider's own address."""
        own = self.base_url
        return (*own,) if isinstance(own, tuple | list) else (own,)

    @property
    def address(self) -> str | None:
        """Return the address that stands for the model."""
        return next(iter(self.addresses), None)

    def seed_of(self, request: Request) -> int | None:
        """Return the seed that a request carries; None: it carries none."""
        if self.send_seed == "always":
            return request.seed or 0
        is_random = (request.sampling.temperature or 0) > 0
        return request.seed if self.send_seed and is_random else None


class Model(Protocol):
    """A model that answers requests. It raises nothing but `ModelError`: every failure of
    one request is a `Response` with finish 'error' or 'oversize'."""

    spec: ModelSpec

    async def acquire(self, place: int = 0) -> None:
        """Wait for a slot among the endpoint's requests in flight: the lowest place goes first."""
        return None

    def release(self) -> None:
        """Give the slot back."""
        return None

    async def respond(self, request: Request) -> Response:
        """Send one request, with the endpoint's retries, and return what came."""

    async def close(self) -> None:
        """Close connections."""
        return None


class InstanceModel(Protocol):
    """A baseline, which is handed the instance with its gold; never a contestant by itself."""

    spec: ModelSpec

    def prepare(self, benchmark: Benchmark, instances: Iterator[Instance]) -> None:
        """Read what is needed of all instances (a label distribution)."""

    def answer(
        self, benchmark: Benchmark, instance: Instance, seed: int, request: Request | None = None
    ) -> str:
        """Return the completion for one instance. `request`: what its role is sent in an episode."""
