"""Writes the results table of README.md: the embedded baselines on the full public data.

    MEDHELM_DATA_DIR=... python scripts/results_table.py [--check]

Runs every embedded baseline on every benchmark of the suite in a folder of its own, and puts what
the tables say between the two markers. `--check` writes nothing and fails where the README differs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml
from pages import ROOT, grid, parser, put

import medhelm
from medhelm.models.catalogue import load_models

README = ROOT / "README.md"
SUITE = ROOT / "conf" / "suite" / "medhelm_core.yaml"


def make_results(folder: Path) -> medhelm.Results:
    """Return the baselines' results on the full data; raises MedhelmError where data is missing."""
    baselines = [spec for spec in load_models().values() if spec.provider == "baseline"]
    names = yaml.safe_load(SUITE.read_text(encoding="utf-8"))["benchmarks"]
    return medhelm.evaluate(baselines, names, data="full", results_dir=folder)


def render(results: medhelm.Results) -> str:
    """Return one row per model: rank, win rate, macro-average, and its score on each benchmark."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: medhelm.Results) -> Iterator[str]:
    cells = results.typed("benchmarks")
    sizes = {str(row["benchmark"]): row["n"] for row in cells.rows}
    heads = [f"{name}<br>n = {n:,}" for name, n in sizes.items()]
    scores = {(str(row["model"]), str(row["benchmark"])): row for row in cells.rows}
    overall = results.typed("overall")
    rows = []
    for row in overall.rows:
        model = str(row["model"])
        shown = [f"`{model}`", _rank(row), _number(row, "win_rate", "win")]
        shown.append(_number(row, "macro_average", "macro"))
        shown += [_number(scores[model, name], "score", "") for name in sizes]
        rows.append(shown)
    heads = ["model", "rank", "win rate", "macro-average", *heads]
    yield from grid("l" + "r" * (len(heads) - 1), heads, rows)
    settings = overall.settings
    yield ""
    yield (
        f"Full public test sets. In brackets: {float(str(settings['confidence'])):.0%} intervals, "
        f"{settings['draws']:,} bootstrap draws, seed {settings['bootstrap_seed']}. A tie "
        "counts one half in a win rate; the ranks in brackets hold for all models at once."
    )


def _rank(row: medhelm.Row) -> str:
    if row["rank"] is None:
        return "not ranked"
    return f"{row['rank']} [{row['rank_low']}, {row['rank_high']}]"


def _number(row: medhelm.Row, name: str, prefix: str) -> str:
    value = row[name]
    low, high = (row[f"{prefix}_{end}" if prefix else end] for end in ("low", "high"))
    if value is None:
        return "–"
    ends = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return f"{value:.2f}{ends}"


def main() -> int:
    """Write or check the table and return the exit code."""
    check = parser(__doc__).parse_args().check
    if not os.environ.get("MEDHELM_DATA_DIR"):
        print("set MEDHELM_DATA_DIR to the folder of the full data (`medhelm data fetch --all`)")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        table = render(make_results(Path(folder)))
    return put(README, table, part="results", check=check)


if __name__ == "__main__":
    sys.exit(main())
