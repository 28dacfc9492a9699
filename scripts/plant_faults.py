"""Plants faults in shipped lines, one at a time, and reports which ones no test sees.

    python scripts/plant_faults.py [WORD ...] [--jobs N]

The faults are in `planted_faults.yaml`: a file, a text that it holds once, what takes its place,
and the quick tests of which one must fail then. Everything happens in a copy of the tree. WORDs
choose faults by a part of their file or text. Exit code 1 where a fault survives.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
_PACKAGES = {
    "benchmarks": "medhelm_benchmarks",
    "leaderboard": "medhelm_leaderboard",
    "metrics": "medhelm_metrics",
}
"""Folders that are installed under another name."""
_TIMEOUT_S = 300


@dataclass(frozen=True)
class Fault:
    """A line made wrong, and the tests that must see it."""

    file: str
    text: str
    becomes: str
    tests: tuple[str, ...]


def read_faults(words: list[str]) -> list[Fault]:
    """Return the faults of which file or text holds one of the words; none: all."""
    entries = yaml.safe_load((ROOT / "scripts" / "planted_faults.yaml").read_text("utf-8"))
    faults = [Fault(e["file"], e["text"], e["becomes"], tuple(e["tests"])) for e in entries]
    return [f for f in faults if not words or any(w in f.file or w in f.text for w in words)]


def copy_tree(target: Path) -> Path:
    """Return a copy of the files that git knows or would add, ready to be imported."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    (target / ".links").mkdir()
    for folder, package in _PACKAGES.items():
        (target / ".links" / package).symlink_to(target / folder)
    return target


def run_tests(tree: Path, tests: tuple[str, ...]) -> str:
    """Return how tests end in a tree: failed, passed, or what else happened."""
    path = f"{tree}{os.pathsep}{tree / '.links'}"
    # Compiled modules are told apart by seconds and sizes, which a planted fault may share.
    env = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-n", "0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    # Of a module whose every test is slow the quick tests are none (pytest's code 5).
    ways = ([] if any("::" in test for test in tests) else [["-m", "not slow"]]) + [[]]
    for way in ways:
        try:
            code = subprocess.run(
                [*command, *way], cwd=tree, env=env, capture_output=True, timeout=_TIMEOUT_S
            ).returncode
        except subprocess.TimeoutExpired:
            return "no end"
        if code != 5:
            break
    return {0: "passed", 1: "failed"}.get(code, f"pytest ended with {code}")


def plant(tree: Path, fault: Fault) -> str:
    """Return how the tests end with a fault; the file is as before afterwards."""
    path = tree / fault.file
    before = path.read_text("utf-8")
    if before.count(fault.text) != 1:
        return f"the text is there {before.count(fault.text)} times"
    try:
        path.write_text(before.replace(fault.text, fault.becomes), "utf-8")
        return run_tests(tree, fault.tests)
    finally:
        path.write_text(before, "utf-8")


def main() -> int:
    """Print each fault that is not seen and their number; return the exit code."""
    parser = argparse.ArgumentParser(description="Which planted faults no test sees.")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="at once (default: 2)")
    args = parser.parse_args()
    faults = read_faults(args.words)
    with tempfile.TemporaryDirectory() as folder:
        trees: queue.Queue[Path] = queue.Queue()
        for number in range(args.jobs):
            trees.put(copy_tree(Path(folder) / str(number)))
        sound = run_tests(trees.queue[0], tuple(sorted({t for f in faults for t in f.tests})))
        if sound != "passed":
            print(f"without any fault: {sound}")
            return 1

        def try_out(fault: Fault) -> bool:
            tree = trees.get()
            try:
                end = plant(tree, fault)
            finally:
                trees.put(tree)
            if end != "failed":
                print(f"{fault.file}: {fault.text.strip()!r}: {end}", flush=True)
            return end == "failed"

        with ThreadPoolExecutor(args.jobs) as pool:
            seen = sum(pool.map(try_out, faults))
    print(f"{len(faults)} faults planted, {len(faults) - seen} not seen")
    return int(seen < len(faults))


if __name__ == "__main__":
    sys.exit(main())
