"""Clouds: addresses, key headers, signatures, and credentials that end in the middle of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import ModelError, UsageError
from medhelm.models import access, check_model, open_model
from medhelm.models.access import resolve_access
from medhelm.models.catalogue import find_model
from medhelm.models.credentials import AwsCredentials, CredentialsLost, GoogleCredentials
from medhelm.schema.episode import Response, Sampling
from medhelm.schema.model import ModelSpec
from tests.models.asking import request, said_by
from tests.models.cloud_server import Cloud, credential_process, serve, service_account
from tests.models.sdk_server import candidates, completion, converse_reply
from tests.shell import Shell

pytestmark = pytest.mark.extra
BEDROCK = "bedrock-runtime.eu-central-1.amazonaws.com"
VERTEX = "europe-west4-aiplatform.googleapis.com"
LOCATION = f"http://{VERTEX}/v1/projects/ward/locations/europe-west4"
KEYS = {"AKIAFIRST": "secret-canary-1", "AKIASECOND": "secret-canary-2"}


def as_proxy(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", cloud.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # the addresses are http ones, as the proxy is to read what is sent; to users they are refused
    monkeypatch.setattr(access, "is_loopback", lambda host: True)


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """Bedrock, and an AWS config whose keys end after 20 requests."""
    pytest.importorskip("botocore", reason="needs the extra bedrock")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with serve(Cloud(lambda body: converse_reply("Answer: B"), 20, KEYS)) as cloud:
        as_proxy(cloud, monkeypatch)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(credential_process(tmp_path, cloud)))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        yield cloud


@pytest.fixture
def gcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """Vertex, and a service account whose tokens end after 20 requests."""
    pytest.importorskip("google.auth", reason="needs the extra vertex")
    with serve(Cloud(lambda body: candidates("Answer: B"), 20)) as cloud:
        as_proxy(cloud, monkeypatch)
        file = service_account(tmp_path, cloud)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        yield cloud


def spec(provider: str, base_url: str | None, **more: Any) -> ModelSpec:
    fields = {"name": f"{provider}/m", "model": "m", "max_concurrency": 8, **more}
    return ModelSpec(provider=provider, base_url=base_url, **fields)


def converse(model: ModelSpec, n: int) -> list[Response]:
    return asyncio.run(said_by(model, [request(i) for i in range(n)]))


def test_aws_keys_that_end_are_fetched_once_more_and_no_answer_is_lost(
    aws: Cloud, tmp_path: Path
) -> None:
    name = "arn:aws:bedrock:eu-central-1:1:inference-profile/eu.x.y-v1:0"
    responses = converse(spec("bedrock", f"http://{BEDROCK}", model=name), 40)
    ends = {(r.text, r.finish, r.attempts, r.lost) for r in responses}
    assert ends == {("Answer: B", "stop", 1, 0)}
    assert len(aws.seen) == 40 and aws.used == {"AKIAFIRST": 20, "AKIASECOND": 20}
    assert 1 <= aws.refused <= 8 and (tmp_path / "calls").read_text() == "xx"
    host, path, headers, _ = aws.seen[0]
    quoted = name.replace(":", "%3A").replace("/", "%2F")
    assert (host, path) == (BEDROCK, f"/model/{quoted}/converse")
    assert "/eu-central-1/bedrock/aws4_request" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "session-canary-AKIAFIRST"


def test_aws_keys_that_nobody_renews_stop_the_run_with_one_line(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAFIRST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["AKIAFIRST"])
    with pytest.raises(ModelError, match="AWS.*ExpiredToken") as caught:
        converse(spec("bedrock", f"http://{BEDROCK}"), 40)
    assert "canary" not in str(caught.value) and "\n" not in str(caught.value)
    assert len(aws.seen) == 20
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    with pytest.raises(ModelError, match="InvalidSignature"):
        converse(spec("bedrock", f"http://{BEDROCK}"), 1)


def test_without_any_aws_keys_it_says_so(aws: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ModelError, match="the AWS credentials.*NoCredentialsError.*renew"):
        converse(spec("bedrock", f"http://{BEDROCK}"), 3)
    assert not aws.seen


def test_the_region_is_that_of_the_address() -> None:
    pytest.importorskip("botocore")
    check_model(spec("bedrock", "https://bedrock-runtime.us-gov-west-1.amazonaws.com"))
    with pytest.raises(UsageError, match="no AWS region"):
        check_model(spec("bedrock", "https://ward.amazonaws.com"))
    with pytest.raises(UsageError, match=r"addresses of amazonaws\.com"):
        check_model(spec("bedrock", "https://gateway.ward.example"))
    with pytest.raises(ModelError, match=r"base_url is missing.*bedrock-runtime\.\{REGION\}"):
        check_model(spec("bedrock", None))
    with pytest.raises(UsageError, match="additionalModelRequestFields"):
        effort = Sampling(reasoning_effort="low")
        check_model(spec("bedrock", f"https://{BEDROCK}", sampling=effort))


def test_only_a_broken_connection_to_the_login_is_tried_again(
    aws: Cloud, gcp: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.py"
    keys.write_text(keys.read_text().replace("2999-01-01", "2001-01-01"))
    with pytest.raises(CredentialsLost) as lost:
        AwsCredentials("eu-central-1").fetch()
    assert lost.value.failure.kind == "endpoint"
    account = tmp_path / "account.json"
    account.write_text(account.read_text().replace(gcp.url, "http://127.0.0.1:1"))
    with pytest.raises(CredentialsLost) as lost:
        GoogleCredentials().fetch()
    assert lost.value.failure.kind == "retry"


@pytest.mark.parametrize(("provider", "own"), [("bedrock", "botocore"), ("vertex", "google")])
def test_a_key_needs_no_package_of_the_cloud(
    provider: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "medhelm.models.access.find_spec", lambda name: None if name.startswith(own) else name
    )
    address = "https://gateway.ward.example/v1"
    check_model(spec(provider, address, api_key_env="K"), {"K": "k"})
    own_address = f"https://{BEDROCK}" if provider == "bedrock" else f"https://{VERTEX}/v1"
    for use in (check_model, open_model):
        with pytest.raises(ModelError, match=rf"needs the package {own}.*'\.\[{provider}\]'"):
            use(spec(provider, own_address), environ={})


@pytest.mark.parametrize(
    ("provider", "reply", "path"),
    [
        ("vertex", candidates, "/publishers/google/models/m:generateContent"),
        ("vertex_openai", completion, "/endpoints/openapi/chat/completions"),
    ],
)
def test_a_token_of_google_that_ends_is_renewed_once_and_no_answer_is_lost(
    gcp: Cloud, provider: str, reply: Callable[..., Any], path: str
) -> None:
    gcp.reply = lambda body: reply("Answer: B")
    responses = converse(spec(provider, LOCATION), 40)
    assert {(r.text, r.attempts, r.lost) for r in responses} == {("Answer: B", 1, 0)}
    assert len(gcp.issued) == 2 and 1 <= gcp.refused <= 8
    host, asked, headers, _ = gcp.seen[0]
    assert (host, asked) == (VERTEX, f"/v1/projects/ward/locations/europe-west4{path}")
    assert headers["Authorization"] == "Bearer ya29.canary-0"


def test_a_login_that_is_refused_stops_the_run_with_one_line(gcp: Cloud) -> None:
    gcp.refuses_tokens = True
    with pytest.raises(ModelError, match="credentials of Google Cloud.*RefreshError.*renew"):
        converse(spec("vertex", LOCATION), 9)


def test_a_token_of_google_goes_to_google_alone(gcp: Cloud) -> None:
    for address in ("http://127.0.0.1:1/v1", "https://googleapis.com.evil.example/v1", "http://["):
        with pytest.raises((UsageError, ModelError)):
            check_model(spec("vertex", address))
    check_model(spec("vertex", "http://127.0.0.1:1/v1", api_key_env="K"), {"K": "k"})


@pytest.mark.parametrize(
    ("provider", "host"),
    [
        ("azure", "ward.openai.azure.com"),
        ("bedrock", BEDROCK),
        ("vertex", f"{VERTEX}/v1/projects/w/locations/l"),
        ("vertex_openai", f"{VERTEX}/v1/projects/w/locations/l"),
        ("openai", "api.openai.com/v1"),
        ("anthropic", "api.anthropic.com"),
    ],
)
def test_no_key_goes_to_a_service_over_plain_http(provider: str, host: str) -> None:
    environ = {"AZURE_OPENAI_API_KEY": "k", "K": "k"}
    ways: list[dict[str, Any]] = [{"api_key_env": "K"}, {"headers": {"Authorization": "$K"}}]
    if provider not in ("openai", "anthropic"):  # their keys go to a base_url only where named
        ways.append({})
    for more in ways:
        with pytest.raises(UsageError, match="http://.*could read.*https://"):
            resolve_access(spec(provider, f"http://{host}", **more), environ)
        resolve_access(spec(provider, f"https://{host}", **more), environ)
    resolve_access(spec(provider, "http://gateway:8000", api_key_env="K"), environ)


# Azure ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "query"),
    [
        ("https://ward.openai.azure.com", "2024-10-21"),
        ("https://WARD.openai.azure.com/openai/", "2024-10-21"),
        ("https://ward.openai.azure.com/openai/v1/", "2024-10-21"),
        ("https://ward.openai.azure.com/?api-version=2025-04-01-preview", "2025-04-01-preview"),
    ],
)
def test_the_address_of_a_deployment(base_url: str, query: str) -> None:
    found = resolve_access(spec("azure", base_url), {"AZURE_OPENAI_API_KEY": "k"})
    assert found.url == (
        f"https://ward.openai.azure.com/openai/deployments/m/chat/completions?api-version={query}"
    )
    assert found.key == "k"


def test_what_is_wrong_with_an_address_of_azure_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"AZURE_OPENAI_API_KEY": "k"}
    copied = "https://w.openai.azure.com/openai/deployments/d/chat/completions?api-version=1"
    with pytest.raises(UsageError, match="ends before /openai/deployments.*model.model"):
        check_model(spec("azure", copied), environ)
    with pytest.raises(ModelError, match="base_url is missing"):
        check_model(spec("azure", None), environ)
    with pytest.raises(ModelError, match="AZURE_OPENAI_API_KEY"):
        check_model(spec("azure", "https://w.openai.azure.com"), {})
    assert resolve_access(spec("azure", "https://azure.com.evil.example"), environ).key is None


def test_deployments_named_like_models_have_their_facts_and_all_are_external() -> None:
    thinks = find_model("azure/gpt-5-mini")
    assert thinks.reasoning and thinks.token_limit_field == "max_completion_tokens"
    names = ("azure/x", "bedrock/us.anthropic.claude-v1:0", "vertex/g", "vertex_openai/meta/l")
    for name in (*names, "openai_responses/gpt-5"):
        found = find_model(name)
        assert found.endpoint_class == "external" and found.name == name
        assert f"{found.provider}/{found.model}" == name


# The whole run ----------------------------------------------------------------------------------


def test_no_key_is_in_any_file_or_on_the_screen(aws: Cloud, tmp_path: Path, shell: Shell) -> None:
    aws.lasts = 3
    results = tmp_path / "results"
    line = ("model=bedrock/m", f"model.base_url=http://{BEDROCK}", "show_errors=true")
    what = ("benchmark=headqa", "data=sample", f"results_dir={results}")
    shell("run", *line, *what, code=(0, 6))
    shell("probe", *line[:2], code=6)  # all keys have ended
    stored = [p.read_bytes() for p in results.rglob("*") if p.is_file()]
    assert len(aws.seen) == 6 and stored
    assert "canary" not in shell.all
    assert not any(b"canary" in text for text in stored)
