"""Writes docs/others.md: what other harnesses do on the same items.

    python scripts/others_page.py [--check]

The figures are those that the scripts of scripts/others/ stored in scripts/others/results/, each
run by hand with its harness installed. `--check` writes nothing and fails where the page differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "others.md"
RESULTS = ROOT / "scripts" / "others" / "results"


class Score(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a harness gives one kind of answer."""

    benchmark: str
    file: str
    sha256: str
    answers: str
    part: str
    n: int
    right: float


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a script stored of its harness."""

    harness: str
    package: str
    version: str
    scores: tuple[Score, ...]


def read_results(folder: Path) -> list[tuple[str, Stored]]:
    """Return the stored results with the name of their script, by name."""
    return [
        (path.stem, msgspec.json.decode(path.read_bytes(), type=Stored))
        for path in sorted(folder.glob("*.json"))
    ]


def render(results: list[tuple[str, Stored]]) -> str:
    """Return the page."""
    return TEXT + "".join(_harness(script, stored) for script, stored in results)


def _harness(script: str, stored: Stored) -> str:
    lines = [
        f"\n## {stored.harness}: `{stored.package}` {stored.version}\n",
        f"Measured by `scripts/others/{script}.py`.\n",
        "| benchmark | answers | part | items | right | score |",
        "|---|---|---|---:|---:|---:|",
    ]
    for own in stored.scores:
        cells = (own.benchmark, own.answers, own.part, f"{own.n:,}", f"{own.right:,g}")
        lines.append(f"| {' | '.join(cells)} | {own.right / own.n:.3f} |")
    files = sorted({(own.file, own.sha256) for own in stored.scores})
    lines += ["", *(f"`{file}` has the SHA-256 `{sha256[:16]}…`." for file, sha256 in files)]
    return "\n".join(lines) + "\n"


TEXT = """# medhelm-framework and others

<!-- made by scripts/others_page.py; edit the words there -->

Scores that other harnesses give to fixed answers, by their own scorers. The answer `gold` is the one that the
file holds, and a scorer that can credit every item gives it 1.000. The answer `empty` has no text. The version
of each package dates the figures. A script for each harness measures them in an environment that holds
that harness, and stores counts and no text of an item. `python scripts/others_page.py` makes this page of what
is stored. Of HELM, MedCalc-Bench alone is measured so far.

The parts of MedCalc-Bench are the categories as the file spells them. HELM's metric knows `dosage conversion`,
as another release spells `dosage`, and has no case for laboratory equations. The environment held
`crfm-helm` without its full list of dependencies: with pandas 3.1.1 and zstandard 0.25.0, where the package asks for
2.x and 0.18. This metric uses neither.
"""


def main() -> int:
    """Write or check the page and return the exit code."""
    parser = argparse.ArgumentParser(description="Write docs/others.md.")
    parser.add_argument("--check", action="store_true", help="fail where it is out of date")
    page = render(read_results(RESULTS))
    if not parser.parse_args().check:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page:
        print("docs/others.md is out of date: run python scripts/others_page.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
