"""Describe what serves models: the address and key of a server, and what its models share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from medhelm.schema.model import Model, ModelSpec

if TYPE_CHECKING:
    from medhelm.models.pacing.limits import AdaptiveLimiter

KEY_NAME = re.compile(
    r"(?:^|[._-])(?:api[_-]?key|(?<!cache[_-])key|token|secret|password|authorization)$",
    re.IGNORECASE,
)
"""Names whose value is a key: 'api_key', 'x-api-key', 'auth.token'; `prompt_cache_key` is none."""


@dataclass(frozen=True)
class Access:
    """The address of a server and the key, which no printed text ever shows."""

    url: str
    key: str | None = field(repr=False)
    key_env: str | None
    shared_by: Hashable = field(repr=False)
    """Address, key and headers: models with the same share connections and limits."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The user's own headers with their values."""

    @property
    def secrets(self) -> list[str]:
        """Return the key and the values of headers, which no printed text may show."""
        held = [value.rpartition(" ")[2] for value in self.headers.values()]
        return [secret for secret in (self.key, *held) if secret]

    @property
    def parts(self) -> SplitResult:
        """Return the parts of the URL."""
        return urlsplit(self.url)

    @property
    def host(self) -> str:
        """Return host and port, for messages."""
        return self.parts.netloc


def is_loopback(host: str) -> bool:
    """Return whether a name or number means this machine itself."""
    return host in ("localhost", "::1") or host.startswith("127.")


LOADING = "loading weights"
"""Of the status of what cannot answer yet."""


@dataclass(frozen=True)
class ServerMessage:
    """The server's message on the first request of a model that failed in one way."""

    model: ModelSpec
    error: str
    words: str


class Host(ABC):
    """Hold what models share that are served by one thing: its slots, and how it is closed."""

    limiter: AdaptiveLimiter
    fatal: str = ""
    """The reason, once nothing more is sent."""
    say: Callable[[str], None] = staticmethod(lambda text: None)
    """Shows a line while others are asked."""

    def lower(self, max_concurrency: int | None) -> None:
        """Keep to a smaller number at once from now on (another model asks for it)."""
        if max_concurrency is not None:
            self.limiter.lower(max_concurrency)

    def status(self) -> str:
        """Return what is happening that finished answers do not show; empty for a server."""
        return ""

    def speed(self) -> str:
        """Return how fast weights on this machine wrote; empty for a server."""
        return ""

    def server_messages(self) -> Sequence[ServerMessage]:
        """Return what the server said of failed requests; empty where it said nothing."""
        return ()

    async def served(self, model: str) -> Mapping[str, str]:
        """Return what tells the weights behind a model's name from others; empty where it is unknown."""
        return {}

    @abstractmethod
    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> Model:
        """Return a model served here; with `owns_host` its `close` closes this."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections, or free the memory."""
