"""Runs every measure with its defaults, and prints what it printed and how long it took.

    python perf [NAME ...]

They run one more at a time than there are cores: figures of the docs come from measures that ran alone. Needs the
extras judge, ray and browser; a measure that ends with an error does not end the others.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = ("__main__", "measuring", "virtual_time")
LONGEST_FIRST = ("workers", "replicas", "limiter", "ranks")


def measures() -> list[str]:
    """Return the names of the measures, those first that take longest."""
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in SHARED)
    return sorted(names, key=lambda n: (n not in LONGEST_FIRST, *(n != m for m in LONGEST_FIRST)))


def run(name: str) -> bool:
    """Run one measure; returns whether it ended well."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(HERE / f"{name}.py")], cwd=HERE.parent, capture_output=True, text=True
    )
    took = time.monotonic() - began
    print(f"== {name}: {took:.0f} s, exit code {done.returncode}\n{done.stdout}", flush=True)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr, flush=True)
    return done.returncode == 0


def main() -> int:
    """Run the measures that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(measures()))
    names = parser.parse_args().names or measures()
    if unknown := [name for name in names if name not in measures()]:
        parser.error(f"no measure {unknown[0]!r}; there are {', '.join(measures())}")
    began = time.monotonic()
    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:  # many wait: for servers, for kills
        done = [*pool.map(run, names)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{sum(done)} of {len(done)} measures in {(time.monotonic() - began) / 60:.1f} minutes on"
        f" {os.cpu_count()} cores; {(used.ru_utime + used.ru_stime) / 60:.1f} minutes of processor"
    )
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
