"""A model that cannot be used is named before any request, without its key."""

from __future__ import annotations

import math
import subprocess
import sys

import msgspec
import pytest

from medhelm.errors import ModelError, UnknownName, UsageError
from medhelm.models import check_model, is_instance_model, open_model
from medhelm.models.access import resolve_access
from medhelm.schema.episode import Sampling
from medhelm.schema.model import ModelSpec, Price
from tests.cases import cases

SPEC = ModelSpec(name="openai/m", model="m", base_url="http://localhost:8000/v1")


def changed(**values: object) -> ModelSpec:
    return msgspec.structs.replace(SPEC, **values)


def test_without_a_base_url_it_is_openai_with_its_key() -> None:
    access = resolve_access(changed(base_url=None), {"OPENAI_API_KEY": "sk-1"})
    assert access.url == "https://api.openai.com/v1/chat/completions"
    assert (access.key, access.key_env) == ("sk-1", "OPENAI_API_KEY")
    assert "sk-1" not in repr(access)


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY": "  "}])
def test_a_missing_key_names_its_variable(environ: dict[str, str]) -> None:
    with pytest.raises(ModelError, match="openai/m.*OPENAI_API_KEY.*export OPENAI_API_KEY="):
        check_model(changed(base_url=None), environ)


def test_a_server_of_ones_own_needs_no_key_unless_one_is_named() -> None:
    check_model(SPEC, {})
    assert resolve_access(SPEC, {"OPENAI_API_KEY": "sk-1"}).key is None
    with pytest.raises(ModelError, match="MY_KEY"):
        check_model(changed(api_key_env="MY_KEY"), {"OPENAI_API_KEY": "sk-1"})


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel", "tab\tbed"])
def test_what_cannot_be_a_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ModelError, match="MY_KEY") as caught:
        check_model(changed(api_key_env="MY_KEY"), {"MY_KEY": key})
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h:1/v1", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1/", "http://h:1/v1/chat/completions"),
        ("http://h:1", "http://h:1/chat/completions"),
        ("http://h:1/v1/chat/completions", "http://h:1/v1/chat/completions"),
        ("https://[::1]:8/v1", "https://[::1]:8/v1/chat/completions"),
        ("https://h/x?api-version=2", "https://h/x/chat/completions?api-version=2"),
    ],
)
def test_the_path_of_the_chat_completions(base_url: str, url: str) -> None:
    assert resolve_access(changed(base_url=base_url), {}).url == url


@pytest.mark.parametrize(
    "base_url",
    ["localhost:8000/v1", "ftp://h/v1", "http://", "http://h:port", "x", "http://[::"],
)
def test_a_bad_address_is_a_model_error(base_url: str) -> None:
    with pytest.raises(ModelError, match=r"base_url .*http://localhost:8000/v1"):
        check_model(changed(base_url=base_url), {})


@pytest.mark.parametrize(
    "values", cases(__file__, "a_key_in_the_settings_is_refused_and_not_shown")
)
def test_a_key_in_the_settings_is_refused_and_not_shown(values: dict[str, object]) -> None:
    for use in (check_model, open_model):
        with pytest.raises(UsageError, match="api_key_env") as caught:
            use(changed(**values))
        assert "geheim" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "extra_body",
    [
        {"thinking": {"type": "enabled", "budget_tokens": 100}},
        {"max_output_tokens": 5, "prompt_cache_key": "medhelm", "stop_token_ids": [1]},
        {"add_special_token": True, "tokenizer": "x", "secretary": "y"},
        {"guided_json": {"properties": {"token": {"type": "string"}}, "required": ["token"]}},
    ],
)
def test_what_only_sounds_like_a_key_is_allowed(extra_body: dict[str, object]) -> None:
    spec = changed(extra_body=extra_body, token_limit_field="max_completion_tokens")
    check_model(spec, {})
    assert open_model(spec).spec.extra_body == extra_body
    for query in (
        "api-version=2",
        "api-version=2024-08-01-preview",
        "deployment-id=gpt-4o-2024-08-06-ward-a-swedencentral",
        "model=meta-llama/Llama-3.1-8B-Instruct&region=eu",
    ):
        check_model(changed(base_url=f"https://h/x?{query}"), {})


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"timeout_s": math.nan}, "timeout_s"),
        ({"timeout_s": math.inf}, "timeout_s"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"context_window": -1}, "context_window"),
        ({"sampling": Sampling(temperature=-0.1)}, "temperature"),
        ({"sampling": Sampling(temperature=math.nan)}, "temperature"),
        ({"sampling": Sampling(temperature=math.inf)}, "temperature"),
        ({"sampling": Sampling(top_p=0.0)}, "top_p"),
        ({"sampling": Sampling(top_p=1.5)}, "top_p"),
        ({"price": Price(input=-1.0, output=1.0, date="2025-05-12")}, "price.input"),
        ({"price": Price(input=1.0, output=math.nan, date="2025-05-12")}, "price.output"),
        ({"price": Price(input=1, output=1, cached=math.inf, date="x")}, "price.cached"),
        ({"extra_body": {"messages": []}}, "messages"),
        ({"extra_body": {"model": "other"}}, "model.model"),
        ({"extra_body": {"temperature": 1}}, "model.sampling.temperature"),
        ({"extra_body": {"max_tokens": 1}}, "model.max_output_tokens"),
        ({"extra_body": {"stream": True}}, "stream"),
        ({"extra_body": {"n": 5}}, "repeats"),
        ({"extra_body": {"response_format": {}}, "json_schema": True}, "model.json_schema"),
        ({"provider": "hf", "json_schema": True}, "provider 'hf' does not; leave it out"),
        ({"provider": "baseline", "json_schema": True}, "provider 'baseline' does not"),
    ],
)
def test_a_value_no_request_can_be_made_with(values: dict[str, object], word: str) -> None:
    for use in (check_model, open_model):
        with pytest.raises(UsageError, match="openai/m") as caught:
            use(changed(**values))
        assert word in str(caught.value) and "\n" not in str(caught.value)


def test_no_name_for_the_server_and_an_unknown_provider_whose_nearest_is_named() -> None:
    with pytest.raises(ModelError, match=r"model\.model"):
        check_model(changed(model=""), {})
    for use in (check_model, open_model):
        with pytest.raises(UnknownName, match="'opnai'.*'openai'"):
            use(changed(provider="opnai"))


def test_baselines_are_instance_models_and_the_others_are_not() -> None:
    assert is_instance_model(open_model(ModelSpec(name="baseline/empty", provider="baseline")))
    assert not is_instance_model(open_model(ModelSpec(name="s", provider="scripted")))
    assert not is_instance_model(open_model(SPEC, environ={}))


def test_nothing_that_does_network_is_imported_before_a_model_is_opened() -> None:
    code = (
        "import sys; from medhelm.models import check_model; from medhelm.models.catalogue import"
        " load_models; check_model(load_models()['baseline/random']); "
        "print(sorted({'aiohttp', 'numpy', 'pandas', 'urllib.request'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
