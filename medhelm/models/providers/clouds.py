"""Models of clouds, where every customer has an address, and keys or credentials that end."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from medhelm import hookimpl
from medhelm.errors import UsageError
from medhelm.models.access import has_key, is_own_host
from medhelm.models.codecs.bedrock import CONVERSE, region_of
from medhelm.models.codecs.bedrock import check_spec as check_bedrock
from medhelm.models.codecs.google import GEMINI
from medhelm.models.codecs.wire import CHAT
from medhelm.models.provider import BUDGET, PROMPT, SERVED, Provider
from medhelm.models.providers.services import GOOGLE, OPENAI, named_openai, over_http
from medhelm.schema.model import ModelSpec

if TYPE_CHECKING:
    from medhelm.models.credentials import Credentials

_LOCATION = "https://{REGION}-aiplatform.googleapis.com/v1/projects/{PROJECT}/locations/{REGION}"
_GOOGLE_LOGIN = "the application default credentials of Google Cloud"


def _check_azure(spec: ModelSpec) -> None:
    """Refuse an address that goes on to a deployment."""
    if "/deployments" in (spec.base_url or ""):
        raise UsageError(
            f"model {spec.name!r}: base_url ends before /openai/deployments, as in "
            f"{AZURE.base_url}; the deployment's name is model.model"
        )


def _aws_login(spec: ModelSpec) -> Credentials:
    from medhelm.models.credentials import AwsCredentials

    return AwsCredentials(region_of(spec))


def _google_login(spec: ModelSpec) -> Credentials:
    from medhelm.models.credentials import GoogleCredentials

    return GoogleCredentials()


def _refuse_others(provider: Provider, spec: ModelSpec) -> None:
    """Refuse to send credentials of a cloud to anyone else."""
    if spec.base_url and not (is_own_host(provider, spec.base_url) or has_key(spec)):
        raise UsageError(
            f"model {spec.name!r}: {provider.credentials} go to addresses of "
            f"{provider.own_hosts[0].lstrip('.')} only: for another one name a variable with its key in "
            "model.api_key_env"
        )


def _check_vertex(spec: ModelSpec) -> None:
    _refuse_others(VERTEX, spec)


def _check_bedrock(spec: ModelSpec) -> None:
    check_bedrock(spec)
    _refuse_others(BEDROCK, spec)


AZURE = dataclasses.replace(
    OPENAI,
    name="azure",
    help="Azure OpenAI",
    open_host=over_http(CHAT, key_header="api-key"),
    check=_check_azure,
    spec_of=partial(named_openai, "azure"),
    base_url="https://{RESOURCE}.openai.azure.com",
    key_env="AZURE_OPENAI_API_KEY",
    own_hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
    dropped=("/openai/v1", "/openai"),
    path="/openai/deployments/{model}/chat/completions",
    query="api-version=2024-10-21",
)
BEDROCK = Provider(
    name="bedrock",
    help="Amazon Bedrock",
    open_host=over_http(CONVERSE, login=_aws_login),
    check=_check_bedrock,
    own_hosts=(".amazonaws.com", ".amazonaws.com.cn"),
    base_url="https://bedrock-runtime.{REGION}.amazonaws.com",
    credentials="the AWS credentials that botocore finds",
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
)
VERTEX = dataclasses.replace(
    GOOGLE,
    name="vertex",
    help="Gemini on Google Cloud",
    open_host=over_http(GEMINI, login=_google_login),
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
    help="Google Cloud's OpenAI-compatible address",
    open_host=over_http(CHAT, login=_google_login),
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
