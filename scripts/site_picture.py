"""Writes the pictures of the site that README.md and docs/leaderboard.md show, and of a report (docs/evidence.md).

    python scripts/site_picture.py

Runs the offline demo in a folder of its own, builds the site and takes pictures of it with Chromium
through Playwright's package (extra `browser`). The scores are those of fixed rules on synthetic
samples, as the site itself says.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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


def main() -> None:
    """Run, build and take the pictures."""
    argparse.ArgumentParser(description="Take the pictures of docs/images anew.").parse_args()
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("Chromium is not installed")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tool:
        for command in (("run",), (*REPORT, *BENCHMARKS)):
            words = [sys.executable, "-m", "medhelm", *command]
            subprocess.run(words, cwd=folder, check=True, capture_output=True)
        index = Path(folder, "medhelm-results", "site", "index.html")
        chromium = tool.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        for name, route, ready, first in SHOTS:
            page.goto(index.as_uri() + route)
            page.wait_for_selector(ready)
            page.locator(first).first.evaluate("e => e.scrollIntoView()")
            page.screenshot(path=PICTURES / f"{name}.png")
        page.goto(Path(folder, "evidence", "index.html").as_uri())
        page.screenshot(path=PICTURES / "evidence-page.png")
        chromium.close()


if __name__ == "__main__":
    main()
