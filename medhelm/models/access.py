"""Resolve the address, the key and the packages of a model, checked before any request is made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from medhelm.errors import ModelError, UsageError
from medhelm.models.codecs.wire import Failure
from medhelm.models.hosts import KEY_NAME, Access, is_loopback
from medhelm.models.likelihoods import NONE_GIVEN
from medhelm.models.provider import NO_LOGPROBS, Provider
from medhelm.models.providers import find_provider, known_provider, known_providers
from medhelm.models.serving import LOOPBACK, command_problems
from medhelm.schema.model import ModelSpec

_SECRET_PARAMETER = re.compile(
    r"(?:^|[._-])(?:sig|signature|code|pass(?:wd|phrase)?|pwd|auth|credentials?|sas|jwt|bearer|hmac"
    r"|ticket|session|session[_-]?id|sid|pw|sign|otp|[a-z]*(?:(?<!cache[_-])key|token|secret|password"
    r"|signature))$",
    re.IGNORECASE,
)
"""Further names of a URL's parameters whose value lets its holder in: signed addresses, functions."""
_SECRET_VALUE = re.compile(r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[A-Za-z0-9+/_=~]{24,}")
"""A value that only a machine writes, whatever its name is; versions and deployments have dashes."""
_GIVES_KEY = re.compile(rf"(?:{KEY_NAME.pattern})|^(?:bearer|basic)$", re.IGNORECASE)
_KEY_VALUE = re.compile(
    r"(?:sk|rk|gsk|xai|nvapi)[-_](?=[\w-]{8})|(?:hf|gh[oprsu])_(?=[A-Za-z0-9]{16})|AKIA(?=\w{12})"
)
"""Beginnings of the keys of services."""
_PARAMETER = re.compile(r"[?&;#]([\w.-]+)=([^&;#\s]*)")
_OWN_PORT = {"http": 80, "https": 443}
_SLASHES = re.compile("/{2,}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_VARIABLE = re.compile(r"(?:[A-Za-z][\w-]* )?\$([A-Za-z_]\w*)")
"""The value of a header: a variable of the environment, perhaps after a word (`Bearer $TOKEN`)."""
_HEADER = re.compile(r"[A-Za-z0-9_-]+")
_OUR_HEADERS = frozenset(
    {"host", "content-type", "content-length", "accept-encoding", "transfer-encoding", "connection"}
)
_KEY_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
_GIVE_KEY = "take it out, put it into an environment variable and name that in model.api_key_env"

HEADER_FORM = (
    "names no variable of the environment: export the value and write 'NAME: $ITS_VARIABLE' or "
    "'NAME: Bearer $ITS_VARIABLE', in a shell in single quotes; values are written into no setting"
)
_NO_SCHEMA = "set model.json_schema=false, or json_schema: false"
TOO_MANY_FILES = "too many open files"
"""A failure of this machine, not of the server."""

_PARAM_FIX = {
    "max_tokens": "set token_limit_field: max_completion_tokens or a smaller max_output_tokens",
    "max_completion_tokens": "set token_limit_field: max_tokens or a smaller max_output_tokens",
    "temperature": "set sampling.temperature: null",
    "top_p": "set sampling.top_p: null",
    "seed": "set send_seed: false",
    "model": "correct model",
}


def resolve_access(spec: ModelSpec, environ: Mapping[str, str]) -> Access:
    """Return where and with which key a model is asked that is reached over a network.

    Without `base_url` it is the provider's own, with the key of its own variable. A `base_url` of
    the user's needs no key unless `api_key_env` names one: a key never goes to a host it was not
    given for. Raises `ModelError` and `UsageError`.
    """
    check_settings(spec)
    provider = find_provider(spec.provider, spec.name)
    if not spec.model:
        raise ModelError(
            f"model {spec.name!r}: model.model is missing: give the name of the weights that its "
            "server has loaded"
        )
    key_env = key_variable(spec)
    # A served model is reached at the address of its server, once that is up; until then nowhere else.
    own = f"http://{LOOPBACK}" if spec.serve else spec.address
    url = _server_url(spec.name, spec.model, provider, (own or provider.base_url).strip())
    _check_receiver(spec, provider, url)
    key = _read_key(spec.name, key_env, environ) if key_env else None
    headers = {}
    for name, value in spec.headers.items():
        variable = header_variable(value) or ""
        secret = _read_key(spec.name, variable, environ)
        headers[name] = value.removesuffix(f"${variable}") + secret
    return Access(url, key, key_env, (url, key, *sorted(headers.items())), headers)


def _check_receiver(spec: ModelSpec, provider: Provider, url: str) -> None:
    """Refuse to send credentials to anyone but their service, and a service any key over plain http.

    A key that the user names for a server of the house goes there as the user says.
    """
    is_named = bool(spec.api_key_env) or _has_key_header(spec)
    if provider.credentials and not is_named and not is_own_host(provider, url):
        raise UsageError(
            f"model {spec.name!r}: {provider.credentials} go to addresses of "
            f"{provider.own_hosts[0].lstrip('.')} only: for another one name a variable with its key in "
            "model.api_key_env"
        )
    parts, own = urlsplit(url), urlsplit(provider.base_url)
    is_service = own.scheme == "https" and parts.hostname == own.hostname
    is_readable = parts.scheme == "http" and not is_loopback(parts.hostname or "")
    has_key = is_named or provider.credentials or key_variable(spec)
    if is_readable and has_key and (is_service or is_own_host(provider, url)):
        raise UsageError(
            f"model {spec.name!r}: base_url begins with http://, where others on the way could read "
            "what lets its holder in; write https://"
        )


def key_variable(spec: ModelSpec) -> str | None:
    """Return the environment variable that a model's key is read from, None where it needs none."""
    provider = known_provider(spec.provider)
    if provider is None or spec.api_key_env or _has_key_header(spec):
        return spec.api_key_env or None
    is_own = not spec.serve and any(not a or is_own_host(provider, a) for a in spec.addresses)
    return provider.key_env if provider.key_env and is_own else None


def secret_variables(spec: ModelSpec) -> list[str]:
    """Return all environment variables that a model's requests need."""
    found = (key_variable(spec), *map(header_variable, spec.headers.values()))
    return [name for name in dict.fromkeys(found) if name]


def header_variable(value: str) -> str | None:
    """Return the variable that holds a header's value; None for a text that names none."""
    found = _VARIABLE.fullmatch(value)
    return found[1] if found else None


def is_key_header(name: str) -> bool:
    """Return whether a header lets its sender in, and so decides no answer."""
    return name.lower() in _KEY_HEADERS or KEY_NAME.search(_CAMEL.sub("_", name)) is not None


def is_own_host(provider: Provider, base_url: str) -> bool:
    """Return whether an address is one of the provider's service, wherever a user has it."""
    try:
        host = urlsplit(base_url.strip()).hostname or ""
    except ValueError:
        return False
    return host.endswith(provider.own_hosts)


def has_key(spec: ModelSpec) -> bool:
    """Return whether the user names a variable with a key, as such or for a header."""
    return bool(key_variable(spec)) or _has_key_header(spec)


def _has_key_header(spec: ModelSpec) -> bool:
    return any(name.lower() in _KEY_HEADERS for name in spec.headers)


def check_settings(spec: ModelSpec) -> None:
    """Refuse values that no request can be made with, and keys, which would be written down.

    Raises UsageError, which shows no value that may be a key.
    """
    for problem in (*_keys(spec), *_problems(spec)):
        raise UsageError(f"model {spec.name!r}: {problem}")


def key_parameter(text: str) -> str | None:
    """Return the name of the first query parameter of a URL that holds a key, None without one."""
    for name, value in _PARAMETER.findall(unquote(text)):
        parted = _CAMEL.sub("_", name)
        if KEY_NAME.search(parted) or _SECRET_PARAMETER.search(parted):
            return str(name)
        if _SECRET_VALUE.fullmatch(value):
            return str(name)
    return None


def _keys(spec: ModelSpec) -> Iterator[str]:
    for base in ((address or "").strip() for address in spec.addresses):
        try:
            has_login = urlsplit(base).username is not None
        except ValueError:  # no address at all, which is refused where it is used
            has_login = False
        if has_login:
            yield f"base_url holds a user name or password; {_GIVE_KEY}"
        if name := key_parameter(base):
            yield f"base_url holds a key in {name!r}; {_GIVE_KEY}"
    if name := _key_option(spec.serve):
        yield f"serve holds a key in {name!r}; {_GIVE_KEY}"
    for name in _key_fields(spec.extra_body):
        yield f"extra_body holds a key in {name!r}; {_GIVE_KEY}"


def _key_option(command: str) -> str | None:
    """Return the option or variable of a command that is given a key, None without one."""
    words = [word for word in re.split(r"[\s=:'\"]+", command) if word]
    for word, value in zip(words, [*words[1:], ""], strict=False):
        if value and not value.startswith("-") and _GIVES_KEY.search(word.rstrip("0123456789")):
            return word
        if found := _KEY_VALUE.match(word):
            return f"{found[0]}..."
    return None


def _key_fields(value: Any, name: str = "") -> Iterator[str]:
    """Yield the names, at any depth, of texts that must be a key."""
    if isinstance(value, Mapping):
        for inner, held in value.items():
            yield from _key_fields(held, str(inner))
    elif isinstance(value, list | tuple):
        for held in value:
            yield from _key_fields(held, name)
    elif isinstance(value, str) and value and KEY_NAME.search(_CAMEL.sub("_", name)):
        yield name


def _problems(spec: ModelSpec) -> Iterator[str]:
    if not spec.addresses:
        yield "base_url is an empty list; give an address or leave it out"
    for name in (
        "replicas",
        "max_concurrency",
        "max_attempts",
        "max_output_tokens",
        "context_window",
    ):
        value = getattr(spec, name)
        if value is not None and value < 1:
            yield f"{name}={value} must be 1 or more"
    if not (math.isfinite(spec.timeout_s) and spec.timeout_s > 0):
        yield f"timeout_s={spec.timeout_s} must be a positive number of seconds"
    for name, value in spec.headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OUR_HEADERS:
            yield f"headers.{name} is not a header of yours to set"
        elif header_variable(value) is None:
            yield f"headers.{name} {HEADER_FORM}"
    if spec.api_key_env and _has_key_header(spec):
        yield "headers and api_key_env both hold a key; leave one out"
    sampling = spec.sampling
    if sampling.temperature is not None and not 0 <= sampling.temperature < math.inf:
        yield f"sampling.temperature={sampling.temperature} must be 0 or more, or null"
    if sampling.top_p is not None and not 0 < sampling.top_p <= 1:
        yield f"sampling.top_p={sampling.top_p} must be above 0 and at most 1, or null"
    if spec.price is not None:
        for name in ("input", "output", "cached"):
            value = getattr(spec.price, name)
            if value is not None and not 0 <= value < math.inf:
                yield f"price.{name}={value} must be USD per million tokens, 0 or more"
        if not 0 <= spec.price.batch <= 1:
            yield f"price.batch={spec.price.batch} must be a part of the price, from 0 to 1"
    provider = known_provider(spec.provider)
    if provider is not None:  # one that is not there is refused where it is opened
        yield from _problems_of_body(spec, provider)


def _problems_of_body(spec: ModelSpec, provider: Provider) -> Iterator[str]:
    if spec.send_seed == "always" and not provider.sends_seed and provider.reads_prompt:
        yield (
            f"send_seed=always is for providers whose requests carry a seed at temperature 0, which"
            f" {spec.provider!r} is not; leave it out"
        )
    if not spec.serve and (spec.replicas, spec.gpus) != (1, 0):
        yield "replicas and gpus are for servers that serve=COMMAND starts"
    if spec.serve and not provider.can_serve:
        yield f"serve is for servers of the OpenAI chat protocol, which {spec.provider!r} is not"
    elif spec.serve:
        yield from command_problems(spec)
    if spec.batch and (not provider.batches or spec.serve or len(spec.addresses) > 1):
        able = ", ".join(name for name, one in known_providers().items() if one.batches)
        yield (
            f"batch=true is for one address of a service that takes batches (providers {able});"
            " leave it out"
        )
    if spec.json_schema and not provider.holds_schema:
        yield (
            f"json_schema=true is for endpoints that hold answers to a JSON Schema, which provider"
            f" {spec.provider!r} does not; leave it out"
        )
    own = dict(provider.own_fields)
    if spec.json_schema:
        own |= dict.fromkeys(provider.schema_fields, "model.json_schema")
    for name, setting in own.items():
        outer, _, inner = name.partition(".")
        value = spec.extra_body.get(outer, {})
        if (outer in spec.extra_body and not inner) or (
            isinstance(value, Mapping) and inner in value
        ):
            yield f"extra_body may not set {name!r}; that is for {setting}"
    for name in provider.tables:
        if not isinstance(spec.extra_body.get(name, {}), Mapping):
            yield f"extra_body.{name} must hold keys and values"


def _server_url(name: str, model: str, provider: Provider, base: str) -> str:
    try:
        parts = urlsplit(base)
        bad = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        bad = True
    if "{" in base:
        raise ModelError(f"model {name!r}: model.base_url is missing: give yours, like {base}")
    # The text itself stays out of these messages: a mistyped URL may hold a password.
    if bad:
        raise ModelError(
            f"model {name!r}: base_url is not an http or https address; give one"
            " like http://localhost:8000/v1"
        )
    parts = urlsplit(_base_address(provider, base))
    path = provider.path.replace("{model}", quote(model, safe=""))
    return urlunsplit(parts._replace(path=parts.path + path))


def server_address(provider: Provider, base_url: str | None) -> str | None:
    """Return the one form of a `base_url` that all its spellings share.

    None where it is the provider's own address. A text that is not an address is returned as it is.
    """
    if base_url is None:
        return None
    try:
        plain = _base_address(provider, base_url.strip())
    except ValueError:
        return base_url
    return None if plain == provider.base_url else plain


def _base_address(provider: Provider, base: str) -> str:
    """Return an address without what its spellings differ in; raises ValueError.

    That is the case of scheme and host, a port that is the scheme's own, doubled and trailing
    slashes, a fragment, and the endings that every address gets or loses.
    """
    parts = urlsplit(base)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = "" if parts.port in (None, _OWN_PORT.get(parts.scheme)) else f":{parts.port}"
    login, at, _ = parts.netloc.rpartition("@")
    path = _SLASHES.sub("/", parts.path).rstrip("/").removesuffix("/chat/completions")
    for ending in provider.dropped:
        path = path.removesuffix(ending)
    query = parts.query or provider.query
    return urlunsplit((parts.scheme, login + at + host + port, path, query, ""))


def _read_key(name: str, key_env: str, environ: Mapping[str, str]) -> str:
    key = environ.get(key_env, "").strip()
    if not key:
        raise ModelError(
            f"model {name!r} needs the key in the environment variable {key_env}, which is not"
            f" set; run: export {key_env}=..."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelError(
            f"the environment variable {key_env} of model {name!r} holds no key: it has spaces or"
            " characters that no key has; set it again"
        )
    return key


def explain(spec: ModelSpec, access: Access, failure: Failure) -> str:
    """Return one line on a failure that no other request of the model can escape."""
    what = failure.error + (f" {failure.code}" if failure.code else "")
    who = f"{access.host} for model {spec.name!r}"
    again = "then run the same command again"
    status = failure.status or 0
    if failure.error == TOO_MANY_FILES:
        return (
            f"{TOO_MANY_FILES} in this process for another connection to {access.host}: raise the "
            f"limit (`ulimit -n 4096`) or lower model.max_concurrency, {again}"
        )
    if failure.error == "bad certificate":
        return f"the certificate of {access.host} cannot be verified: name your CA in SSL_CERT_FILE"
    if status == 407 or failure.error.startswith("proxy"):
        return f"the proxy before {access.host} wants a login ({what}): put it into HTTPS_PROXY"
    if 300 <= status < 400:
        return (
            f"{who} redirects ({what}), which is not followed because the key would go along:"
            " set model.base_url to the final address"
        )
    login = find_provider(spec.provider, spec.name).credentials
    if status in (401, 403) and login and not has_key(spec):
        return f"{who} does not accept {login} ({what}): renew them, {again}"
    if status in (401, 403) and not has_key(spec):
        return f"{who} wants a key ({what}): name the variable that holds it in model.api_key_env"
    if status in (401, 403):
        held = ", ".join(secret_variables(spec))
        return f"{who} does not accept the key in {held} ({what}): set another, {again}"
    if failure.kind == "endpoint":
        return f"{who} has no credit or quota left ({what}): add some, {again}"
    if failure.param:
        provider = find_provider(spec.provider, spec.name)
        fixes = {
            **_PARAM_FIX,
            **dict.fromkeys(provider.schema_fields, _NO_SCHEMA),
            **provider.fixes,
        }
        fix = fixes.get(failure.param, f"change or remove {failure.param!r}")
        where = "" if fix == NO_LOGPROBS else " in its config"
        return f"{who} does not take {failure.param!r} ({what}): {fix}{where}"
    if failure.error == NONE_GIVEN:
        return f"{who} answers without log-probabilities of the options: {NO_LOGPROBS}"
    return (
        f"{who} knows no model {spec.model!r} or no chat completions ({what}): check model.model"
        f" and model.base_url"
    )


def check_likelihoods(spec: ModelSpec, *, are_letters: bool) -> None:
    """Refuse a model that gives no log-probabilities of letters, or of other texts; raises UsageError."""
    kinds = ("texts", "letters") if are_letters else ("texts",)
    able = [name for name, provider in known_providers().items() if provider.candidates in kinds]
    why = ""
    if spec.provider not in able:
        of = "" if are_letters else " of whole texts"
        why = f"provider {spec.provider!r} gives none{of}; {', '.join(able)} do"
    elif spec.reasoning or spec.strategy:
        why = (
            "it thinks before it answers" if spec.reasoning else "its strategy chooses among texts"
        )
    if why:
        asked = f"model {spec.name!r} cannot be asked for log-probabilities"
        raise UsageError(f"{asked}: {why}; set form=line or form=text")


def require_packages(spec: ModelSpec, also: dict[str, str] | None = None) -> None:
    """Refuse a model whose provider needs a package that is not installed; imports none.

    Raises ModelError.
    """
    provider = find_provider(spec.provider, spec.name)
    own = {} if provider.credentials and has_key(spec) else provider.packages
    for module, package in {**own, **(also or {})}.items():
        if not _is_there(module):
            how = f"run: pip install {package}"
            if provider.extra:
                how = f"run in the checkout: pip install '.[{provider.extra}]'"
            raise ModelError(
                f"model {spec.name!r} needs the package {package}, which is not installed; {how}"
            )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there either
        return False
