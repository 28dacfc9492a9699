"""Measures the leaderboard of 9 models x 35 benchmarks x 1,000 instances with texts.

    python perf/leaderboard.py [--models 9] [--benchmarks 35] [--instances 1000]

Prints seconds and peak memory of a whole build, of one after nothing changed and of one after one
run was graded again, which is whole too but writes only what differs; sizes of what a page loads; and, where Playwright's package and Chromium
are there, the seconds until the overview can be used. Targets: 20 s and 1 GiB; 1 s.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from measuring import ROOT, parser

BUILD = """
import resource, sys, time
from pathlib import Path
start = time.perf_counter()
from medhelm_leaderboard.collect import Wanted
from medhelm_leaderboard.site import SiteOptions, build_site
from medhelm.plugins.registry import load_registry
built = build_site(Wanted(results_dir=Path(sys.argv[1])), Path(sys.argv[2]), load_registry(), SiteOptions())
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"  {sys.argv[3]:34} {seconds:6.2f} s, peak {peak:5.0f} MiB, {built.written} files written")
"""


def main() -> None:
    """Write the folders, build three times, then open the site."""
    from tests.build_runs import write_suite

    args = parser(__doc__, models=9, benchmarks=35, instances=1000).parse_args()
    models, benchmarks, instances = args.models, args.benchmarks, args.instances
    with tempfile.TemporaryDirectory() as folder:
        results, site = Path(folder, "results"), Path(folder, "site")
        write_suite(results, models, benchmarks, instances, has_texts=True)
        print(f"{models} models x {benchmarks} benchmarks x {instances} instances, 1,000 draws")
        _build(results, site, "whole build (target 20 s, 1024 MiB)")
        _build(results, site, "again, nothing changed")
        changed = next(results.glob("runs/benchmark_00/*/*/gradings/*/summary.json"))
        changed.write_bytes(changed.read_bytes().replace(b'"licence":"MIT"', b'"licence":"BSD"'))
        _build(results, site, "again, one run graded anew")
        _sizes(site)
        _open(site)


def _build(results: Path, site: Path, what: str) -> None:
    subprocess.run(
        [sys.executable, "-c", BUILD, str(results), str(site), what], check=True, cwd=ROOT
    )


def _sizes(site: Path) -> None:
    files = [f for f in site.rglob("*") if f.is_file()]
    look = sum(f.stat().st_size for f in (site / "app").rglob("*") if f.name != "plotly.min.js")
    first = (site / "data" / "site.js").stat().st_size
    shard = max(f.stat().st_size for f in (site / "data").glob("answers-*"))
    whole = sum(f.stat().st_size for f in files) / 2**20
    print(f"  site: {len(files)} files, {whole:.0f} MiB; first page loads {look / 1024:.0f} kB of")
    print(
        f"  scripts and styles and {first / 1024:.0f} kB of data; largest shard {shard / 1024:.0f} kB"
    )


def _open(site: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None or find_spec("playwright") is None:
        print("  no browser: Chromium and Playwright's package are needed to time the overview")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        chromium = tool.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for what, route, ready in (
            ("overview usable (target 1 s)", "#/overview", "table tbody tr"),
            ("heatmap", "#/heatmap", "table tbody tr"),
        ):
            page = chromium.new_page()
            start = time.perf_counter()
            page.goto((site / "index.html").as_uri() + route)
            page.wait_for_selector(ready)
            print(f"  {what:34} {time.perf_counter() - start:6.2f} s")
            page.close()
        chromium.close()


if __name__ == "__main__":
    main()
