"""Give metrics the versions that stored gradings were made with: a later one is another grading."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from medhelm import Metric
from medhelm.plugins import registry
from tests.stored_folders.kinds import WHOLE


def use_stored_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each metric of today that the stored gradings name have the version that they name."""
    stored = {
        (metric["name"], metric["scoring"]): metric["version"]
        for path in WHOLE.glob("*/runs/*/*/*/gradings/*/summary.json")
        for metric in json.loads(path.read_bytes())["grading"]["metrics"]
    }
    today = registry._with_origin

    def as_stored(value: Any, origin: str) -> Any:
        value = today(value, origin)
        if isinstance(value, Metric) and (key := (value.name, value.scoring)) in stored:
            return dataclasses.replace(value, version=stored[key])
        return value

    monkeypatch.setattr(registry, "_with_origin", as_stored)
