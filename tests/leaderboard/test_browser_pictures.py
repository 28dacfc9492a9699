"""Pictures of every page, to be looked at: screenshots/<width and colours>/<page>.png, not in git."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.leaderboard.browsing import Opens, World
from tests.leaderboard.worlds import ONE, TWO

pytestmark = pytest.mark.browser

FOLDER = Path(__file__).parent / "screenshots"
PATHS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "overview": ((), {}),
    "heatmap": (("heatmap",), {}),
    "categories": (("categories",), {}),
    "cost": (("cost",), {}),
    "statistics": (("statistics",), {}),
    "jury": (("jury",), {}),
    "benchmarks": (("benchmarks",), {}),
    "benchmark": (("benchmark", "triage"), {}),
    "run": (("run", "mishaps", TWO.name), {}),
    "run-pair": (("run", "triage", ONE.name), {"with": TWO.name}),
    "run-judged": (("run", "open", ONE.name), {}),
    "run-closed": (("run", "private", ONE.name), {}),
    "run-results": (("run", "open", ONE.name), {"tab": "results"}),
    "run-settings": (("run", "open", ONE.name), {"tab": "settings"}),
    "about": (("about",), {}),
}


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("light", 1280, "light"), ("phone", 360, "light"), ("dark", 1280, "dark")],
)
def test_pictures(
    opens: Opens,
    full: World,
    demo: World,
    labelled: World,
    name: str,
    width: int,
    scheme: Any,
) -> None:
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    reader = opens(full, width=width, scheme=scheme, has_charts=True)
    for page_name, (path, query) in PATHS.items():
        page = reader.open(*path, **query)
        shot = page.screenshot(full_page=True, path=folder / f"{page_name}.png")
        assert len(shot) > 20_000, page_name  # an empty page is far smaller
    acts = opens(labelled, width=width, scheme=scheme, has_charts=True)
    acts.open("harm").screenshot(full_page=True, path=folder / "harm.png")
    page = acts.go("run", "labelled", "vendor/coarse", **{"with": "lab/bold"})
    page.locator("summary").first.click()
    page.screenshot(full_page=True, path=folder / "run-labelled.png")
    page = opens(demo, width=width, scheme=scheme).open()
    page.screenshot(full_page=True, path=folder / "demo-overview.png")
