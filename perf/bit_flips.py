"""Flips single bits in every kind of file of finished runs, and counts wrong numbers without a word.

    python perf/bit_flips.py [--times 100] [--seed 1] [--write]

The runs: a benchmark of choices and one that three judges have rated, by baselines and a server on
loopback. After each flip the files are read as the commands read them: `tables` after a flip in
summary.json or scores.parquet; `score`, then `tables`, after one in spec.json, the log or a judge's
log. A number is wrong in silence where it differs and neither an error, a note nor a flag of its
row says that something is amiss. `--write` puts the figures into docs/reliability.md.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import measure_reliability

from medhelm.errors import MedhelmError
from medhelm.plugins.registry import Registry, load_registry
from medhelm.runs.regrading import regrade
from medhelm.tables.format.table import Settings
from medhelm.tables.loading import load_results
from tests.juries import ESSAY, house_jury, rated
from tests.quiz import PLUGIN, medhelm, write_quiz
from tests.server import serve_in_thread

TABLES = ("benchmarks", "jury", "cost", "overall", "pairs", "mde")
KINDS = {
    "summary.json": "*/*/*/gradings/*/summary.json",
    "scores.parquet": "*/*/*/gradings/*/scores.parquet",
    "spec.json": "*/*/*/spec.json",
    "responses.jsonl (log)": "*/*/*/responses.jsonl",
    "responses.jsonl (a judge's log)": "*/*/*/judges/*/responses.jsonl",
}
GRADED_AGAIN = ("spec", "responses")


def make_runs(folder: Path) -> None:
    """Make the runs with the commands that users type."""
    write_quiz(folder, 60)
    where = [f"data_dir={folder / 'data'}", f"results_dir={folder / 'results'}"]
    quiz = ("model=baseline/majority,baseline/random,baseline/oracle", "benchmark=quiz")
    medhelm("run", "-m", *quiz, "data=full", f"plugins=[{PLUGIN}]", *where)

    def verdict(prompt: str) -> str:
        return rated(random.Random(len(prompt)).randint(1, 5), "Sound.")

    with serve_in_thread(verdict) as server:
        house = house_jury(folder, server.base_url, *"abc")
        essay = ("model=baseline/lead,baseline/oracle", "benchmark=essay", "data=sample")
        medhelm("run", "-m", *essay, f"plugins=[{ESSAY}]", where[1], *house)


def read(results: Path, data: Path, registry: Registry, is_graded_again: bool) -> dict[str, Any]:
    """Return what a user is shown: rows, flags and notes, or the error."""
    said: list[str] = []
    failed: list[str] = []
    try:
        if is_graded_again:
            failed = [r.reason for r in regrade(results, registry, root=data) if r.reason]
        rows: dict[str, Any] = {}
        for kind in ("full", "sample"):
            loaded = load_results(results, data=kind)
            said += loaded.notes
            for name in TABLES:
                table = loaded.typed(name, Settings(draws=50))
                rows[f"{kind} {name}"] = table.rows
                said += table.notes
    except MedhelmError as e:
        return {"error": str(e)}
    flags = [str(row.get("flags")) for own in rows.values() for row in own]
    return {"rows": rows, "said": sorted(said), "flags": flags, "failed": failed}


def outcome(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return what came of a flip."""
    if "error" in after or after["failed"]:
        return "refused"
    if any(note.startswith("Left out, damaged") for note in after["said"]):
        return "refused"
    if after["rows"] == before["rows"]:
        return "same"
    is_told = after["said"] != before["said"] or after["flags"] != before["flags"]
    return "shown" if is_told else "silent"


def flip(path: Path, rng: random.Random) -> str:
    """Flip one random bit of a file and return where."""
    content = bytearray(path.read_bytes())
    place, bit = rng.randrange(len(content)), rng.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"{path.name} byte {place} bit {bit}"


def measure(flips: int, seed: int) -> list[Sequence[object]]:
    """Return the rows of the table, of so many flips in each kind of file."""
    with tempfile.TemporaryDirectory() as name:
        return _measure(flips, seed, Path(name))


def _measure(flips: int, seed: int, folder: Path) -> list[Sequence[object]]:
    make_runs(folder)
    clean, work = folder / "results", folder / "work"
    registry = load_registry([str(PLUGIN), str(ESSAY)])
    rng = random.Random(seed)
    rows: list[Sequence[object]] = []
    for kind, pattern in KINDS.items():
        is_graded_again = kind.startswith(GRADED_AGAIN)
        found: Counter[str] = Counter()
        shutil.copytree(clean, work)
        before = read(work, folder / "data", registry, is_graded_again)
        for _ in range(flips):
            shutil.rmtree(work)
            shutil.copytree(clean, work)
            path = rng.choice(sorted((work / "runs").glob(pattern)))
            where = flip(path, rng)
            try:
                ended = outcome(before, read(work, folder / "data", registry, is_graded_again))
            except Exception as e:  # a traceback on the user's screen
                ended = "traceback"
                print(f"{where}: {type(e).__name__}: {e}", file=sys.stderr)
            if ended == "silent":
                print(f"{where}: a wrong number without a word", file=sys.stderr)
            found[ended] += 1
        shutil.rmtree(work)
        counts = (found[name] for name in ("refused", "shown", "same", "traceback", "silent"))
        rows.append((f"a bit of `{kind}` flipped", flips, *counts))
    return rows


if __name__ == "__main__":
    measure_reliability(__doc__, "bit flips", measure, 100)
