"""Models of clouds, where every customer has an address, and keys or credentials that end."""

from __future__ import annotations

import dataclasses

from medhelm import hookimpl
from medhelm.errors import UsageError
from medhelm.models.access import is_own_host
from medhelm.models.hosts import Access, Host
from medhelm.models.provider import BUDGET, PROMPT, SERVED, Provider
from medhelm.models.providers.services import GOOGLE, OPENAI, named_openai
from medhelm.schema.model import ModelSpec

_LOCATION = "https://{REGION}-aiplatform.googleapis.com/v1/projects/{PROJECT}/locations/{REGION}"
_GOOGLE_LOGIN = "the application default credentials of Google Cloud"
_AWS_LOGIN = "the AWS credentials that botocore finds"


def _azure_spec(model: str) -> ModelSpec:
    """Return the spec of a deployment, with the facts of OpenAI's model where it has its name."""
    return named_openai("azure", model)


def _check_azure(spec: ModelSpec) -> None:
    """Refuse an address that goes on to a deployment, or is that of the newer protocol."""
    address = (spec.base_url or "").partition("?")[0]
    if "/deployments" in address:
        raise UsageError(
            f"model {spec.name!r}: base_url ends before /openai/deployments, as in "
            f"{AZURE.base_url}; the deployment's name is model.model"
        )
    if "/openai/v1" in address:
        raise UsageError(
            f"model {spec.name!r}: addresses that end in /openai/v1 have neither deployments nor an "
            "api-version: set model.provider=openai (or openai_responses) and model.api_key_env"
        )


def _open_azure(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to a deployment."""
    from medhelm.models.http_endpoint import HttpEndpoint

    assert access is not None
    return HttpEndpoint(access, spec.max_concurrency, key_header="api-key")


def _check_bedrock(spec: ModelSpec) -> None:
    """Refuse what Converse cannot carry."""
    from medhelm.models.bedrock import check_spec

    check_spec(spec)


def _open_bedrock(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to a model, signed by SigV4 unless it has a key."""
    from medhelm.models.bedrock import CONVERSE, region_of
    from medhelm.models.credentials import AwsCredentials
    from medhelm.models.http_endpoint import HttpEndpoint

    assert access is not None
    credentials = None if _has_key(access) else AwsCredentials(region_of(spec))
    return HttpEndpoint(access, spec.max_concurrency, CONVERSE, credentials=credentials)


def _check_vertex(spec: ModelSpec) -> None:
    """Refuse to send a token of Google Cloud to anyone else."""
    is_google = is_own_host(VERTEX, spec.base_url or "")
    if spec.base_url and not (is_google or spec.api_key_env or spec.headers):
        raise UsageError(
            f"model {spec.name!r}: credentials of Google Cloud go to addresses of googleapis.com only: "
            "for another one name a variable with its key in model.api_key_env"
        )


def _open_vertex(spec: ModelSpec, access: Access | None) -> Host:
    """Return the connections to a model, with tokens of google-auth unless it has a key."""
    from medhelm.models.credentials import GoogleCredentials
    from medhelm.models.google import GEMINI
    from medhelm.models.http_endpoint import HttpEndpoint
    from medhelm.models.wire import CHAT

    assert access is not None
    codec = GEMINI if spec.provider == VERTEX.name else CHAT
    credentials = None if _has_key(access) else GoogleCredentials()
    return HttpEndpoint(access, spec.max_concurrency, codec, credentials=credentials)


def _has_key(access: Access) -> bool:
    return access.key is not None or bool(access.headers)


AZURE = dataclasses.replace(
    OPENAI,
    name="azure",
    help="a deployment of Azure OpenAI",
    open_host=_open_azure,
    check=_check_azure,
    spec_of=_azure_spec,
    base_url="https://{RESOURCE}.openai.azure.com",
    key_env="AZURE_OPENAI_API_KEY",
    own_hosts=(".azure.com", ".azure.us", ".azure.cn"),
    dropped=("/openai",),
    path="/openai/deployments/{model}/chat/completions",
    query="api-version=2024-10-21",
)
BEDROCK = Provider(
    name="bedrock",
    help="Amazon Bedrock",
    open_host=_open_bedrock,
    check=_check_bedrock,
    base_url="https://bedrock-runtime.{REGION}.amazonaws.com",
    credentials=_AWS_LOGIN,
    path="/model/{model}/converse",
    packages={"botocore": "botocore"},
    extra="bedrock",
    uses=SERVED,
    holds_schema=True,
    own_fields={
        "messages": PROMPT,
        "system": "model.system_prompt",
        "inferenceConfig": f"model.sampling and {BUDGET}",
    },
    schema_fields=("outputConfig.textFormat",),
    tables=("outputConfig",),
    fixes={
        "max_tokens": "set a smaller max_output_tokens",
        "stop_sequences": "set sampling.stop: []",
    },
)
VERTEX = dataclasses.replace(
    GOOGLE,
    name="vertex",
    help="Gemini on Google Cloud",
    open_host=_open_vertex,
    check=_check_vertex,
    is_open=True,
    base_url=_LOCATION,
    key_env="",
    own_hosts=(".googleapis.com",),
    credentials=_GOOGLE_LOGIN,
    dropped=(),
    path="/publishers/google/models/{model}:generateContent",
    packages={"google.auth": "google-auth", "requests": "requests"},
    extra="vertex",
)
VERTEX_OPENAI = dataclasses.replace(
    OPENAI,
    name="vertex_openai",
    help="any other model on Google Cloud",
    open_host=_open_vertex,
    check=_check_vertex,
    spec_of=None,
    base_url=_LOCATION,
    key_env="",
    credentials=_GOOGLE_LOGIN,
    dropped=("/endpoints/openapi",),
    path="/endpoints/openapi/chat/completions",
    packages=VERTEX.packages,
    extra="vertex",
)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the providers."""
    return [AZURE, BEDROCK, VERTEX, VERTEX_OPENAI]
