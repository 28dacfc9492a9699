"""One results folder for many tests; tests that change it take a copy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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
from tests.once import once

__all__ = ["browser", "chromium", "demo", "full", "hostile", "labelled", "opens", "pages"]


def make(folder: Path) -> None:
    """Write results and their site in a thread, since a browser may keep an event loop in this one."""

    def work() -> None:
        build(run_all(folder / "own", write_data(folder / "own")), folder / "site")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "casting", make) / "own" / "results"


@pytest.fixture(scope="session")
def site(results: Path) -> Path:
    """The site of these results; a copy of it is as good as a build."""
    return results.parents[1] / "site"
