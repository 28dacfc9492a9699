"""Writes what a plain install weighs into docs/install.md, by package.

    python scripts/install_size.py [--check]

A fresh environment is made and the last commit installed into it, which takes minutes. `--check` installs
nothing: it fails where the page lacks a package or an extra that `pyproject.toml` names.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from pages import ROOT, grid, parser, put

PAGE = ROOT / "docs" / "install.md"
OWN = "medhelm-framework"
USES = {
    "aiohttp": "asks models over HTTP",
    "datasets": "data sets of the hub (`HubDataset`)",
    "evaluate": "metrics by name (`evaluate:NAME`)",
    "fsspec": "runs in object stores, and other files behind a URL",
    "huggingface-hub": "files of the hub, pinned by revision",
    "hydra-core": "settings and sweeps of `medhelm run`",
    "json-repair": "judges' replies in almost-JSON",
    "msgspec": "records, logs, checks of what is read",
    "numpy": "arrays of scores",
    "openpyxl": "Excel files, read and written",
    "pandas": "tables as DataFrames",
    "plotly": "charts: the site's `plotly.min.js` is taken from it",
    "pluggy": "plugins",
    "pyarrow": "Parquet files of scores and of data",
    "pyyaml": "benchmarks, rubrics and profiles in YAML",
    "rapidfuzz": "the longest common subsequence of ROUGE-L",
    "rich": "tables and progress on the terminal",
    "rouge-score": "tokens and F-measures of ROUGE",
    "scipy": "distributions behind intervals and tests",
    "sqlglot": "comparison of queries for EHRSQL",
}


@dataclass(frozen=True)
class Size:
    """Holds the bytes of a package's files, and those of them that are compiled byte code."""

    all: int
    compiled: int


def size_of(package: Distribution) -> Size:
    """Return what the files of a package weigh."""
    files = [Path(str(package.locate_file(file))) for file in package.files or ()]
    sizes = {file: file.stat().st_size for file in files if file.is_file()}
    compiled = sum(size for file, size in sizes.items() if file.suffix == ".pyc")
    return Size(sum(sizes.values()), compiled)


def reached(needs: Mapping[str, Collection[str]], *, without: str = "") -> set[str]:
    """Return the packages that an install brings, as if one of them were not named by ours."""
    waiting, found = [name for name in needs[OWN] if name != without], set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += needs[name]
    return found


def plain(name: str) -> str:
    """Return the normal form of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needs_of(package: Distribution) -> set[str]:
    """Return the packages that a package needs without extras."""
    found = map(Requirement, package.requires or ())
    return {plain(r.name) for r in found if not r.marker or r.marker.evaluate({"extra": ""})}


def measure(folder: Path) -> str:
    """Return the table of the packages below a folder of installed packages."""
    packages = {plain(package.name): package for package in distributions(path=[str(folder)])}
    sizes = {name: size_of(package) for name, package in packages.items()}
    needs = {name: needs_of(package) & packages.keys() for name, package in packages.items()}
    everything = reached(needs)
    brought = {n: everything - reached(needs, without=n) - {n, *USES} for n in USES}
    shared = everything - {*USES}.union(*brought.values())
    rows = [
        (name, sizes[name].all, sum(sizes[n].all for n in brought[name]), use)
        for name, use in USES.items()
    ]
    rows.append((f"`{OWN}`", sizes[OWN].all, 0, "this"))
    rows.append(("others", 0, sum(sizes[n].all for n in shared), "what several of these need"))
    rows.sort(key=lambda row: -row[1] - row[2])
    cells = [(name, _mb(own), _mb(more), use) for name, own, more, use in rows]
    lines = grid("lrrl", ("package", "MB", "brings MB", "what it is for"), cells)
    of_all = [sizes[name] for name in (OWN, *everything)]
    total, compiled = sum(s.all for s in of_all), sum(s.compiled for s in of_all)
    lines += [
        "",
        f"Together {total / 1e6:.0f} MB in {len(of_all)} packages, of which {compiled / 1e6:.0f} MB are "
        f"compiled byte code (`pip install --no-compile` leaves it out). Measured with Python "
        f"{platform.python_version().rpartition('.')[0]} on {platform.system()}, {platform.machine()}.",
    ]
    return "\n".join(lines) + "\n"


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f}" if size else "–"


def main() -> int:
    """Write or check the table and return the exit code."""
    given = parser(__doc__).parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {plain(Requirement(text).name) for text in project["dependencies"]}
    if differ := sorted(named ^ USES.keys()):
        print(f"pyproject.toml and {Path(__file__).name} differ in: {', '.join(differ)}")
        return 1
    if given.check:
        page = PAGE.read_text("utf-8")
        rows = {line.split(" | ")[0][2:] for line in page.splitlines()}
        if differ := sorted(named - rows):
            print(f"docs/install.md lacks {', '.join(differ)}: run {Path(__file__).name}")
        extras = [name for name in project["optional-dependencies"] if f"`{name}`" not in page]
        if extras:
            print(f"docs/install.md: the table of extras lacks {', '.join(extras)}")
        return bool(differ or extras)
    with tempfile.TemporaryDirectory() as folder:
        source, venv = Path(folder, "source"), Path(folder, "venv")
        archive = source.with_suffix(".tar")  # a build in the checkout would leave files there
        subprocess.run(["git", "archive", "-o", archive, "HEAD"], cwd=ROOT, check=True)
        shutil.unpack_archive(archive, source)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = (venv / "bin" / "python", "-m", "pip", "install", "--quiet")
        subprocess.run([*pip, source], check=True)
        (packages,) = venv.glob("lib/python*/site-packages")
        return put(PAGE, measure(packages), part="size", check=False)


if __name__ == "__main__":
    sys.exit(main())
