"""Backoffs of test runs are short; what they are in earnest is tested with the limiter."""

from __future__ import annotations

import pytest

from medhelm.models import endpoint


@pytest.fixture(autouse=True)
def short_backoffs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_BACKOFF_BASE_S", 0.002)
    monkeypatch.setattr(endpoint, "_THROTTLE_BASE_S", 0.002)
    monkeypatch.setattr(endpoint, "OUTAGE_PAUSE_CAP_S", 0.02)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
