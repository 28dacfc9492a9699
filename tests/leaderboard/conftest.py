"""One results folder for many tests; tests that change it take a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.leaderboard.browsing import (
    browser,
    chromium,
    demo,
    full,
    hostile,
    labelled,
    opens,
    pages,
)
from tests.leaderboard.casting import build, run_all, write_data

__all__ = ["browser", "chromium", "demo", "full", "hostile", "labelled", "opens", "pages"]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("casting")
    return run_all(folder, write_data(folder))


@pytest.fixture(scope="session")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "site"
    build(results, out)
    return out
