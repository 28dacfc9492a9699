"""Writes the pictures of the site and of a review and a report, which README.md and the documentation show.

    python scripts/site_picture.py [--only review]

Runs the offline demo in a folder of its own, builds the site, serves a review (extra `review`), and
takes pictures with Chromium through Playwright's package (extra `browser`). The scores are those of
fixed rules on synthetic samples, as the site itself says.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1280, 850
SHOTS = (
    ("leaderboard-overview", "#/overview", "table tbody tr", "body"),
    ("leaderboard-heatmap", "#/heatmap", "table tbody tr", "body"),
    ("leaderboard-harm", "#/harm", ".plot[data-drawn] >> nth=1", "figure.chart"),
)
"""Name, page, what must stand before it is taken, what it begins with."""

REPORT = ("report", "baseline/lexical", "--profile", "medhelm_core_chance", "-o", "evidence")
BENCHMARKS = ("--benchmark", "headqa", "medec", "medcalc_bench")
MEDHELM = (sys.executable, "-m", "medhelm")
RUN = "run -m model=baseline/lexical,baseline/lead benchmark=aci_bench data=sample"
SHEET = "agreement answers --template answers.json --sample 12 --set seed=1"
SERVE = "review serve answers.json --raters anna --port 0"


def main() -> None:
    """Run, build and take the pictures."""
    given = argparse.ArgumentParser(description="Take the pictures of docs/images anew.")
    given.add_argument("--only", choices=("site", "review"))
    only = given.parse_args().only
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("Chromium is not installed")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tool:
        chromium = tool.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        if only != "review":
            take_site(page, folder)
        if only != "site":
            take_review(page, folder)
        chromium.close()


def take_site(page: Page, folder: str) -> None:
    """Run the demo and take the pictures of its site, and of a report."""
    for words in (("run",), (*REPORT, *BENCHMARKS)):
        subprocess.run([*MEDHELM, *words], cwd=folder, check=True, capture_output=True)
    index = Path(folder, "medhelm-results", "site", "index.html")
    for name, route, ready, first in SHOTS:
        page.goto(index.as_uri() + route)
        page.wait_for_selector(ready)
        page.locator(first).first.evaluate("e => e.scrollIntoView()")
        page.screenshot(path=PICTURES / f"{name}.png")
    page.goto(Path(folder, "evidence", "index.html").as_uri())
    page.screenshot(path=PICTURES / "evidence-page.png")


def take_review(page: Page, folder: str) -> None:
    """Rate a part of an answer in the browser and take a picture of it."""
    for line in (RUN, SHEET):
        subprocess.run([*MEDHELM, *line.split()], cwd=folder, check=True, capture_output=True)
    command = [*MEDHELM, *SERVE.split()]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = next(line.split()[1] for line in server.stdout if line.startswith("  anna"))
        page.goto(address)
        page.wait_for_selector("fieldset")
        page.keyboard.press("4")
        page.keyboard.press("3")
        page.get_by_role("status").filter(has_text="Saved: completeness").wait_for()
        page.screenshot(path=PICTURES / "review.png")
        server.kill()


if __name__ == "__main__":
    main()
