"""Any endpoint that speaks the OpenAI chat protocol, through aiohttp."""

from __future__ import annotations

import dataclasses
import os
import random
import ssl
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import aiohttp
from yarl import URL

from medhelm.costs import estimate_tokens
from medhelm.errors import ModelError
from medhelm.models.access import Access, explain
from medhelm.models.limits import RETRY_AFTER_CAP_S, AdaptiveLimiter, backoff, retry_after
from medhelm.models.wire import (
    Answer,
    Failure,
    Kind,
    encode_body,
    is_cut,
    read_answer,
    read_failure,
)
from medhelm.schema import Finish, ModelSpec, Request, Response

CONNECT_S = 10.0
FIRST_CONNECT_S = 8.0
FIRST_CONNECT_TRIES = 4
"""A server that never answered is given up after so many tries or so many seconds."""
DEAD_AFTER = 20
"""Failed tries, or given-up requests, in a row after which an endpoint counts as dead."""
PATIENCE_S = 60.0
"""A row of failed tries must last this long, so that a restart of a server is sat out."""
OUTAGE_PAUSE_CAP_S = 10.0
"""The longest pause between two tries while an endpoint is out."""
# Servers close idle connections after 5 s at the earliest; a request on a closing one is lost.
_KEEP_ALIVE_S = 4.0
_OTHERS_CA = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_BACKOFF_BASE_S = 0.5
_THROTTLE_BASE_S = 1.0


class Endpoint:
    """One server and key: the connections, the limiter and the health that its models share."""

    def __init__(self, access: Access, max_concurrency: int) -> None:
        self.access = access
        self.limiter = AdaptiveLimiter(max_concurrency)
        self.fatal = ""
        """Why nothing more is sent, once that is so."""
        self.rng = random.Random()
        self._session: aiohttp.ClientSession | None = None
        self._proxy: URL | None = None
        self._url = URL(access.url, encoded=True)
        self._has_answered = False
        self._first_try: float | None = None
        self._failed_tries = 0
        self._failing_since = 0.0
        self._given_up = 0

    async def exchange(
        self, body: bytes, timeout: aiohttp.ClientTimeout, fields: tuple[str, ...] = ()
    ) -> Answer | Failure:
        """Send one body once and return what came of it."""
        session = self._session or self._open()
        if self._first_try is None:
            self._first_try = time.monotonic()
        try:
            async with session.post(
                self._url, data=body, timeout=timeout, proxy=self._proxy, allow_redirects=False
            ) as response:
                payload = await response.read()
        except aiohttp.ClientConnectorCertificateError:
            return Failure("endpoint", "bad certificate")
        except aiohttp.ClientHttpProxyError as error:
            kind: Kind = "endpoint" if error.status == 407 else "retry"
            return Failure(kind, f"proxy http {error.status}", error.status)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return Failure("retry", "no connection")
        except TimeoutError:
            return Failure("retry", "timeout", lost=True)
        except aiohttp.ClientPayloadError:
            return Failure("retry", "truncated body", lost=True)
        except (aiohttp.ClientError, OSError):
            return Failure("retry", "connection dropped", lost=True)
        self._has_answered = True
        if 200 <= response.status < 300:
            return read_answer(payload)
        failure = read_failure(response.status, payload, fields)
        return dataclasses.replace(failure, wait_s=retry_after(response.headers))

    def answered(self) -> None:
        """Note that the endpoint works."""
        self.spoke()
        self.limiter.succeeded()

    def spoke(self) -> None:
        """Note that the endpoint is there, though it did not take this request."""
        self._failed_tries = self._given_up = 0

    def failed(self, failure: Failure, sent_in_round: int, attempt: int, timeout_s: float) -> None:
        """Note a failed try; declare the endpoint dead when nothing else has come for long."""
        if failure.wait_s is not None and failure.wait_s <= RETRY_AFTER_CAP_S:
            self.limiter.pause(failure.wait_s)
        outage = self.limiter.failed(sent_in_round, is_load=failure.is_load)
        if outage:
            self.limiter.pause(backoff(outage, self.rng, _BACKOFF_BASE_S, OUTAGE_PAUSE_CAP_S))
        now = time.monotonic()
        if failure.is_unreachable and not self._has_answered:
            waited = now - (self._first_try or now)
            if max(attempt, outage) >= FIRST_CONNECT_TRIES or waited >= FIRST_CONNECT_S:
                self._declare_dead(failure)
        if failure.wait_s is None:
            if self._failed_tries == 0:
                self._failing_since = now
            self._failed_tries += 1
            patience_s = max(PATIENCE_S, 2 * timeout_s) if failure.is_load else PATIENCE_S
            if self._failed_tries >= DEAD_AFTER and now - self._failing_since >= patience_s:
                self._declare_dead(failure)

    def gave_up(self, failure: Failure) -> None:
        """Note a request whose tries all failed; too many in a row, and the endpoint is dead."""
        self._given_up += 1
        if self._given_up >= DEAD_AFTER:
            self._declare_dead(failure)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _declare_dead(self, failure: Failure) -> None:
        wait = f", it asks to wait {failure.wait_s:.0f} s" if failure.wait_s else ""
        self.fatal = (
            f"the server at {self.access.host} does not answer ({failure.error}{wait}):"
            " see that it runs and that model.base_url is right, then run the same command again"
        )
        raise ModelError(self.fatal)

    def _open(self) -> aiohttp.ClientSession:
        headers = {"Content-Type": "application/json", "User-Agent": "medhelm"}
        if self.access.key is not None:
            headers["Authorization"] = f"Bearer {self.access.key}"
        is_tls = self.access.parts.scheme == "https"
        self._proxy = _proxy(self.access)
        # The limiter is the only bound on connections. Proxies are looked up here and not per
        # request (`trust_env`), which would also replace our key by one of a .netrc file.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                use_dns_cache=True,
                ttl_dns_cache=300,
                keepalive_timeout=_KEEP_ALIVE_S,
                ssl=_tls_context(os.environ) if is_tls else True,
            ),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self._session


class OpenAIModel:
    """A model behind the OpenAI chat protocol."""

    def __init__(self, spec: ModelSpec, endpoint: Endpoint, *, owns_endpoint: bool) -> None:
        self.spec = spec
        self._endpoint = endpoint
        self._owns_endpoint = owns_endpoint
        # The connection gets less than the whole, so that a dead host is told from a slow answer.
        connect_s = min(CONNECT_S, spec.timeout_s / 2)
        self._timeout = aiohttp.ClientTimeout(total=spec.timeout_s, sock_connect=connect_s)
        self._fatal = ""
        self._fields = (
            *("model", spec.token_limit_field, "temperature", "top_p", "stop", "seed"),
            *("reasoning_effort", *spec.extra_body),
        )

    async def acquire(self) -> None:
        """Wait for a place among the endpoint's requests in flight."""
        await self._endpoint.limiter.acquire()

    def release(self) -> None:
        """Give the place back."""
        self._endpoint.limiter.release()

    async def respond(self, request: Request) -> Response:
        """Return what came of one request after the endpoint's retries; the caller holds a place.

        Raises `ModelError` where no request of this model or endpoint can succeed.
        """
        early = self._too_long(request)
        if early is not None:
            return early
        try:
            body = encode_body(self.spec, request)
        except UnicodeEncodeError:
            return _unanswered(request, "error", "the prompt is not valid Unicode", 0, 0)
        endpoint, limiter = self._endpoint, self._endpoint.limiter
        attempt = lost = 0
        while True:
            if self._fatal or endpoint.fatal:
                raise ModelError(self._fatal or endpoint.fatal)
            attempt += 1
            sent_in_round, started = limiter.round, time.monotonic()
            result = await endpoint.exchange(body, self._timeout, self._fields)
            if isinstance(result, Answer):
                endpoint.answered()
                seconds = time.monotonic() - started
                return self._answered(request, len(body), result, attempt, lost, seconds)
            lost += result.lost
            if result.kind != "retry":
                return self._refused(request, result, attempt, lost)
            endpoint.failed(result, sent_in_round, attempt, self.spec.timeout_s)
            wait_s = result.wait_s or 0.0
            if attempt >= self.spec.max_attempts or wait_s > RETRY_AFTER_CAP_S:
                endpoint.gave_up(result)
                error = result.error + (f", retry after {wait_s:.0f} s" if wait_s else "")
                return _unanswered(request, "error", error, attempt, lost)
            base_s = _THROTTLE_BASE_S if result.status == 429 and not wait_s else _BACKOFF_BASE_S
            await limiter.back_off(wait_s + backoff(attempt, endpoint.rng, base_s))

    async def close(self) -> None:
        """Close the connections, unless other models of a pool share them."""
        if self._owns_endpoint:
            await self._endpoint.close()

    def _too_long(self, request: Request) -> Response | None:
        window = self.spec.context_window
        if window is None:
            return None
        tokens = estimate_tokens(request.messages)
        if tokens + request.max_output_tokens <= window:
            return None
        error = (
            f"about {tokens} tokens of prompt and {request.max_output_tokens} of answer"
            f" exceed the window of {window}"
        )
        return _unanswered(request, "oversize", error, 0, 0)

    def _answered(
        self, request: Request, sent: int, answer: Answer, attempts: int, lost: int, seconds: float
    ) -> Response:
        text, finish, error = answer.text, answer.finish, answer.error
        if is_cut(request.messages, sent, answer.usage, self.spec.context_window):
            text, finish, error = "", "oversize", "prompt cut by the server"
        return Response(
            instance_id=request.instance_id,
            repeat=request.repeat,
            text=text,
            finish=finish,
            error=error,
            usage=answer.usage,
            attempts=attempts,
            lost=lost,
            latency_s=seconds,
            served_model=answer.model,
            fingerprint=answer.fingerprint,
            finished_at=time.time(),
        )

    def _refused(self, request: Request, failure: Failure, attempts: int, lost: int) -> Response:
        endpoint = self._endpoint
        if failure.kind == "endpoint":
            endpoint.fatal = explain(self.spec, endpoint.access, failure)
            raise ModelError(endpoint.fatal)
        if failure.kind == "model":
            self._fatal = explain(self.spec, endpoint.access, failure)
            raise ModelError(self._fatal)
        endpoint.spoke()
        finish: Finish = "error"
        if failure.kind == "oversize" or failure.kind == "refusal":
            finish = failure.kind
        return _unanswered(request, finish, failure.error, attempts, lost)


def _unanswered(request: Request, finish: Finish, error: str, attempts: int, lost: int) -> Response:
    return Response(
        instance_id=request.instance_id,
        repeat=request.repeat,
        finish=finish,
        error=error,
        attempts=attempts,
        lost=lost,
        finished_at=time.time(),
    )


def _proxy(access: Access) -> URL | None:
    """Return the proxy that the environment names for this host, None for this machine itself."""
    host = access.parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127.") or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(access.parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    url = URL(proxy if "://" in proxy else f"http://{proxy}")
    if url.scheme not in ("http", "https"):
        raise ModelError(
            f"the environment names a {url.scheme} proxy for {access.host}; only http and https"
            " proxies are known: set HTTPS_PROXY, or NO_PROXY for this host"
        )
    return url


def _tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return a context that trusts every authority that the environment names."""
    named = {name: environ.get(name, "") for name in ("SSL_CERT_FILE", *_OTHERS_CA)}
    for name, value in named.items():
        if value and not Path(value).exists():
            raise ModelError(f"{name} names a file that does not exist: {value}")
    context = ssl.create_default_context()  # OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR itself
    for name in _OTHERS_CA:
        if value := named[name]:
            is_folder = Path(value).is_dir()
            try:
                context.load_verify_locations(
                    cafile=None if is_folder else value, capath=value if is_folder else None
                )
            except ssl.SSLError:
                raise ModelError(f"{name} names a file without PEM certificates: {value}") from None
    return context
