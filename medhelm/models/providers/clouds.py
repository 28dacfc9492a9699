"""Models of clouds, where every customer has an address, and keys or credentials that end."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from medhelm import hookimpl
from medhelm.errors import UsageError
from medhelm.models.codecs.bedrock import CONVERSE, region_of
from medhelm.models.codecs.bedrock import check_spec as check_bedrock
from medhelm.models.codecs.google import GEMINI
from medhelm.models.codecs.wire import CHAT
from medhelm.models.provider import BUDGET, PROMPT, SERVED, Provider
from medhelm.models.providers.services import GOOGLE, OPENAI, named_openai, over_http
from medhelm.schema.model import ModelSpec

if TYPE_CHECKING:
    from medhelm.models.credentials import Credentials

_ON_GOOGLE_CLOUD: Mapping[str, Any] = {
    "base_url": "https://{REGION}-aiplatform.googleapis.com/v1/projects/{PROJECT}/locations/{REGION}",
    "key_env": "",
    "own_hosts": (".googleapis.com",),
    "credentials": "the application default credentials of Google Cloud",
    "packages": {"google.auth": "google-auth", "requests": "requests"},
    "extra": "vertex",
}


def _check_azure(spec: ModelSpec) -> None:
    if "/deployments" in (spec.address or ""):
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
    batches="",
    query="api-version=2024-10-21",
)
BEDROCK = Provider(
    name="bedrock",
    help="Amazon Bedrock",
    open_host=over_http(CONVERSE, login=_aws_login),
    check=check_bedrock,
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
    is_open=True,
    dropped=(),
    path="/publishers/google/models/{model}:generateContent",
    **_ON_GOOGLE_CLOUD,
)
VERTEX_OPENAI = dataclasses.replace(
    OPENAI,
    name="vertex_openai",
    help="Google Cloud's OpenAI-compatible address",
    open_host=over_http(CHAT, login=_google_login),
    spec_of=None,
    dropped=("/endpoints/openapi",),
    path="/endpoints/openapi/chat/completions",
    batches="",
    **_ON_GOOGLE_CLOUD,
)


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return the providers."""
    return [AZURE, BEDROCK, VERTEX, VERTEX_OPENAI]
