"""Which data goes where: every pair of classes, and what the user may widen."""

from __future__ import annotations

import itertools

import pytest

from medhelm.config import Job, convert
from medhelm.errors import PrivacyRefused, UsageError
from medhelm.models.privacy import check
from medhelm.schema.data import DataClass
from medhelm.schema.model import EndpointClass

DATA: tuple[DataClass, ...] = ("public", "gated", "private")
ENDPOINTS: tuple[EndpointClass, ...] = ("local", "contracted", "external")
ALLOWED = {
    *(("public", endpoint) for endpoint in ENDPOINTS),
    ("gated", "local"),
    ("gated", "contracted"),
    ("private", "local"),
}


@pytest.mark.parametrize(("data", "endpoint"), list(itertools.product(DATA, ENDPOINTS)))
def test_the_default_policy(data: DataClass, endpoint: EndpointClass) -> None:
    if (data, endpoint) in ALLOWED:
        check("notes", data, "m", endpoint)
        return
    with pytest.raises(PrivacyRefused) as caught:
        check("notes", data, "vllm/local", endpoint)
    message = str(caught.value)
    assert "\n" not in message
    for word in ("'notes'", data, "'vllm/local'", endpoint, f"privacy.{data}=["):
        assert word in message
    assert "model.endpoint_class=local" in message


def test_the_setting_that_the_message_names_allows_it() -> None:
    with pytest.raises(PrivacyRefused, match=r"privacy\.private=\[local,contracted\]"):
        check("notes", "private", "m", "contracted")
    check("notes", "private", "m", "contracted", {"private": ["local", "contracted"]})
    with pytest.raises(PrivacyRefused):
        check("notes", "private", "m", "external", {"private": ["local", "contracted"]})
    with pytest.raises(PrivacyRefused):
        check("notes", "private", "m", "contracted", {"gated": ["external"]})


def test_what_the_user_says_of_a_class_holds_narrower_too() -> None:
    check("notes", "gated", "m", "external", {"gated": ["external"]})
    with pytest.raises(PrivacyRefused, match=r"allow it with privacy\.public=\[local\]"):
        check("notes", "public", "m", "local", {"public": []})
    with pytest.raises(PrivacyRefused, match="model.endpoint_class=local if that"):
        check("notes", "gated", "m", "contracted", {"gated": ["local"]})
    check("notes", "private", "m", "local", {"gated": []})


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"privat": ["local"]}, "'privat'.*gated, private, public"),
        ({"gated": ["contract"]}, "'contract'.*contracted, external, local"),
    ],
)
def test_a_class_that_does_not_exist_is_named(policy: dict[str, list[str]], words: str) -> None:
    """Where the setting is read: no job has another one, from a command or from Python."""
    job = {"model": {"name": "m"}, "benchmarks": [], "privacy": policy}
    with pytest.raises(UsageError, match=f"privacy.*{words}"):
        convert(job, Job, "config")
