"""Give metrics the versions that stored gradings were made with: a later one is another grading."""

from __future__ import annotations

import dataclasses

import pytest

from medhelm import Metric, hookimpl
from medhelm_metrics import exact_match


def use_stored_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let today's exact match have the version of the stored gradings."""
    later = exact_match.medhelm_metrics

    @hookimpl
    def medhelm_metrics() -> list[Metric]:
        return [
            dataclasses.replace(metric, version="2") if metric.scoring == "fixed" else metric
            for metric in later()
        ]

    monkeypatch.setattr(exact_match, "medhelm_metrics", medhelm_metrics)
