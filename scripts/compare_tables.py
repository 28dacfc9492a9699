"""Compares all tables of two versions of medhelm cell by cell.

    python scripts/compare_tables.py make OUT       with the environment of each version in turn
    python scripts/compare_tables.py BEFORE AFTER   prints the cells that differ; exit code 1 on any

`make` runs the embedded baselines on the bundled samples of every benchmark (the demo) and on the
real data sets that lie in MEDHELM_DATA_DIR, under both scorings, and writes every table as CSV
into OUT/SET-SCORING. Beside the tables, `instances.csv` holds a hash over the scores of all
instances of each run and metric. Of a big set the first 200 instances in the seeded order are
taken (`--max-instances`; 0 takes all).
`make OUT --results DIR` writes the tables of a results folder that exists.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import medhelm
from medhelm import Results

SCORINGS = ("fixed", "helm")
REAL = (
    "aci_bench",
    "ehrsql",
    "headqa",
    "medbullets",
    "medcalc_bench",
    "medec",
    "mediqa_qa",
    "mtsamples",
    "pubmed_qa",
    "race_bias",
)
TABLES = ("overall", "benchmarks", "jury", "categories", "mde", "cost", "pairs", "ranks", "harm")
_SCORE = ("instance_id", "repeat", "metric", "cluster", "value", "outcome", "extracted", "reason")
_SHOWN = 200


def make(out: Path, results: Path | None, most: int | None) -> None:
    """Write the tables of both sets, or of a results folder, under both scorings."""
    if results is not None:
        for scoring in SCORINGS:
            write_tables(results, scoring, out / f"given-{scoring}")
        return
    with tempfile.TemporaryDirectory() as folder:
        for scoring in SCORINGS:
            for name, data, benchmarks, limit in (
                ("demo", "sample", "*", None),
                ("real", "full", REAL, most),
            ):
                began = time.monotonic()
                medhelm.evaluate(
                    "baseline/*",
                    benchmarks,
                    data=data,  # type: ignore[arg-type]
                    results_dir=Path(folder) / name,
                    max_instances=limit,
                    scoring=scoring,  # type: ignore[arg-type]
                    jury="offline",
                )
                write_tables(Path(folder) / name, scoring, out / f"{name}-{scoring}")
                print(f"{name}, {scoring}: {time.monotonic() - began:.0f} s", flush=True)


def write_tables(results: Path, scoring: Any, into: Path) -> None:
    """Write every table of the gradings by one scoring, and the hashes of their scores."""
    found = medhelm.load_results(results, scoring=scoring)
    into.mkdir(parents=True)
    for name in TABLES:
        _write(found, into / f"{name}.csv", name)
    _write(found, into / "benchmarks-all.csv", "benchmarks", metrics="all")
    _write(found, into / "overall-literal.csv", "overall", rank_by="literal")
    _write(found, into / "overall-macro.csv", "overall", rank_by="macro")
    _write(found, into / "mde-paper.csv", "mde", mde="paper")
    keys: set[str] = set()
    with (into / "instances.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["benchmark", "model", "metric", "rows", "sha256"])
        for path in sorted(results.glob("runs/*/*/*/gradings/*/scores.parquet")):
            record = json.loads((path.parent / "summary.json").read_bytes())
            if record["grading"]["scoring"] != scoring:
                continue
            where = [record["spec"]["benchmark"], record["spec"]["model"]["name"]]
            rows = pq.read_table(path, columns=[*_SCORE, "metadata"]).to_pylist()
            keys |= {key for row in rows for key in json.loads(row.pop("metadata") or "{}")}
            lines.writerows([*where, *line] for line in _hashes(rows))
    for key in sorted(keys):
        try:
            _write(found, into / f"slices-{key}.csv", "slices", by=key)
        except medhelm.MedhelmError as e:  # a key with one value only, or whose slices are hidden
            (into / f"slices-{key}.csv").write_text(f"refused\n{str(e).partition('.')[0]}\n")


def _write(results: Results, path: Path, name: str, **options: Any) -> None:
    results.table(name, **options).to_csv(path, index=False)


def _hashes(rows: list[dict[str, Any]]) -> Iterator[tuple[str, int, str]]:
    """Yield each metric with its number of rows and their hash, whatever their order was."""
    for metric in sorted({row["metric"] for row in rows}):
        own = sorted(json.dumps(row, sort_keys=True) for row in rows if row["metric"] == metric)
        yield metric, len(own), hashlib.sha256("\n".join(own).encode()).hexdigest()


def differences(before: Path, after: Path) -> tuple[list[str], int]:
    """Return a line for each table, column, row or cell that differs, and the number of cells."""
    found: list[str] = []
    cells = 0
    names = {p.relative_to(side) for side in (before, after) for p in side.rglob("*.csv")}
    for name in sorted(names):
        lacking = [side for side in (before, after) if not (side / name).is_file()]
        if lacking:
            found.append(f"{name}: not in {lacking[0]}")
            continue
        old, new = _read(before / name), _read(after / name)
        cells += sum(map(len, old[1:]))
        found += [f"{name}: {line}" for line in _of_table(old, new)]
    return found, cells


def _read(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.reader(lines))


def _of_table(old: list[list[str]], new: list[list[str]]) -> Iterator[str]:
    gone = [column for column in old[0] if column not in new[0]]
    added = [column for column in new[0] if column not in old[0]]
    if gone or added:
        yield f"columns gone: {', '.join(gone) or '-'}; added: {', '.join(added) or '-'}"
    elif old[0] != new[0]:
        yield f"columns in another order: {', '.join(new[0])}"
    if len(old) != len(new):
        yield f"{len(old) - 1:,} rows and {len(new) - 1:,}"
    shared = [column for column in old[0] if column in new[0]]
    places = [(column, old[0].index(column), new[0].index(column)) for column in shared]
    for number, (left, right) in enumerate(zip(old[1:], new[1:], strict=False), 1):
        for column, i, j in places:
            if left[i] != right[j]:
                yield f"row {number} ({', '.join(left[:4])}), {column}: {left[i]!r} -> {right[j]!r}"


def compare(before: Path, after: Path) -> int:
    """Print what differs and return the exit code."""
    for side in (before, after):
        if not any(side.rglob("*.csv")):
            print(f"{side} holds no tables; `compare_tables.py make {side}` writes them")
            return 2
    found, cells = differences(before, after)
    for line in found[:_SHOWN]:
        print(line)
    if len(found) > _SHOWN:
        print(f"... and {len(found) - _SHOWN:,} more")
    print(f"{len(found):,} differences in {cells:,} cells")
    return 1 if found else 0


def main() -> int:
    """Make one side or compare two."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", metavar="BEFORE|make", help="a folder of tables, or `make`")
    parser.add_argument("after", metavar="AFTER|OUT", type=Path, help="a folder of tables")
    parser.add_argument("--results", type=Path, help="of make: tables of this results folder")
    parser.add_argument("--max-instances", type=int, default=200, help="of make (default: 200)")
    args = parser.parse_args()
    if args.before != "make":
        return compare(Path(args.before), args.after)
    if args.after.exists() and any(args.after.iterdir()):
        parser.error(f"{args.after} is not empty")
    if args.results is None and "MEDHELM_DATA_DIR" not in os.environ:
        parser.error("MEDHELM_DATA_DIR names no folder; it holds the real data sets")
    make(args.after, args.results, args.max_instances or None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
