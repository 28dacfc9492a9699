"""Credentials that end while a run goes on: fetched by the cloud's own library, renewed when they end.

They are neither stored nor shown. A fetch may take seconds and has a thread.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from medhelm.models.codecs.wire import Failure

_SOON_S = 60
"""Credentials that end so soon are fetched anew before they are used."""
_FETCH_S = 30.0
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class CredentialsLost(Exception):
    """Credentials could not be fetched."""

    def __init__(self, error: Exception, *, is_transient: bool) -> None:
        self.failure = Failure("endpoint", "none that are valid", 401, code=type(error).__name__)
        if is_transient:
            self.failure = Failure("retry", "credentials not renewed")


class Credentials(ABC):
    """Holds the credentials of one endpoint, which all its requests share."""

    def __init__(self) -> None:
        self._source: Any = None
        self._held: Any = None
        self._lock = asyncio.Lock()

    async def sign(self, url: str, body: bytes) -> tuple[dict[str, str], Any]:
        """Return the headers of one request, and the credentials that they are made of."""
        async with self._lock:
            if self._held is None or self.is_over():
                self._held = await asyncio.to_thread(self.fetch)
            return self.headers(url, body), self._held

    async def renew(self, used: Any) -> bool:
        """Fetch others once for all requests that `used` was refused to; False: there are no others."""
        async with self._lock:
            if self._held is used:
                self._held = await asyncio.to_thread(self.fetch)
            return bool(self._held != used)

    def secrets(self) -> list[str]:
        """Return what no printed text may show."""
        held = [self._held] if isinstance(self._held, str) else self._held or ()
        return [secret for secret in held if secret]

    @abstractmethod
    def fetch(self) -> Any:
        """Return valid credentials, a text or several; raises CredentialsLost."""

    @abstractmethod
    def is_over(self) -> bool:
        """Return whether the credentials are known to end now."""

    @abstractmethod
    def headers(self, url: str, body: bytes) -> dict[str, str]:
        """Return the headers that sign a request."""


class GoogleCredentials(Credentials):
    """Holds an access token of google-auth's application default credentials."""

    def fetch(self) -> str:
        """Return a new token."""
        import google.auth
        from google.auth import exceptions
        from google.auth.transport.requests import Request

        try:
            if self._source is None:
                self._source, _ = google.auth.default(scopes=[_SCOPE])
            self._source.refresh(partial(Request(), timeout=_FETCH_S))
        except (exceptions.GoogleAuthError, OSError, ValueError) as error:
            is_transient = isinstance(error, exceptions.TransportError)
            is_transient = is_transient or getattr(error, "retryable", False)
            raise CredentialsLost(error, is_transient=is_transient) from None
        return str(self._source.token)

    def is_over(self) -> bool:
        """Return whether the token is near its end."""
        return not self._source.valid

    def headers(self, url: str, body: bytes) -> dict[str, str]:
        """Return the headers with the token, and with the project that pays where one is set."""
        headers: dict[str, str] = {}
        self._source.apply(headers)
        return headers


class AwsCredentials(Credentials):
    """Signs by SigV4 with the keys that botocore finds: environment, profile, SSO, machine's role."""

    def __init__(self, region: str) -> None:
        super().__init__()
        self._region = region

    def fetch(self) -> Any:
        """Return the keys that are found now, also in files that another tool has renewed."""
        from botocore import exceptions
        from botocore.session import Session

        try:
            self._source = Session().get_credentials()
            if self._source is None:
                raise exceptions.NoCredentialsError
            return self._source.get_frozen_credentials()
        except (
            exceptions.BotoCoreError,
            exceptions.ClientError,
            OSError,
            RuntimeError,  # of keys that have ended as they are fetched
            ValueError,
        ) as error:
            is_transient = isinstance(error, exceptions.HTTPClientError)
            raise CredentialsLost(error, is_transient=is_transient) from None

    def is_over(self) -> bool:
        """Return whether the keys are near their end, where that is known."""
        needs = getattr(self._source, "refresh_needed", None)
        return needs is not None and bool(needs(_SOON_S))

    def headers(self, url: str, body: bytes) -> dict[str, str]:
        """Return the headers of a signed POST."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest("POST", url, {"Content-Type": "application/json"}, body)
        SigV4Auth(self._held, "bedrock", self._region).add_auth(request)
        return dict(request.headers.items())
