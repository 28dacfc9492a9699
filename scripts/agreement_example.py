"""Writes the example of docs/jury.md: synthetic ratings, the offline jury.

    python scripts/agreement_example.py [--check] [--ratings FILE]

Runs embedded baselines on the bundled samples of two open-ended benchmarks in a folder of its own,
simulates clinicians, and puts what `medhelm agreement` says between the two markers. Nobody has
rated anything: a simulated clinician sees a latent quality of each answer, drawn by a seed, through
a habit (strict or lenient, wide or narrow) and noise. `--check` writes nothing and fails where the
page differs; `--ratings` keeps the file of ratings.
"""

from __future__ import annotations

import csv
import random
import sys
import tempfile
from pathlib import Path

from pages import ROOT, parser, put

import medhelm
from medhelm.store.records import find_gradings, read_plan, read_record
from medhelm.store.runlog import read_episodes
from medhelm.tables.clinicians.agreement import agreement_table
from medhelm.tables.clinicians.rated_answers import load_rated
from medhelm.tables.clinicians.ratings import read_ratings
from medhelm.tables.format.formats import render
from medhelm.tables.study.selection import RunChoice

PAGE = ROOT / "docs" / "jury.md"
BENCHMARKS = ("aci_bench", "mediqa_qa")
QUALITY = {
    "baseline/oracle": 4.4,
    "baseline/lexical": 3.2,
    "baseline/lead": 2.8,
    "baseline/random": 2.4,
}
"""Mean of the latent quality of each model's answers; a fixed assumption, measured nowhere."""
HABITS = {"rater-1": (0.0, 1.0), "rater-2": (0.5, 0.7), "rater-3": (-0.6, 1.2), "rater-4": (0.2, 1)}
"""Shift and scale of each simulated clinician."""
SPREAD, NOISE, OVERLAP, SEED = 0.7, 0.8, 0.7, 0
WIDTH = 80


def simulate(results_dir: Path, path: Path) -> None:
    """Write ratings of every stored answer, each rater on a part of them."""
    rng = random.Random(SEED)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, grading in enumerate(find_gradings(results_dir)):
            spec, terms = read_record(grading).spec, read_record(grading).grading.jury
            assert terms is not None
            axes = [c.name for c in terms.rubric.criteria]
            if number == 0:
                writer.writerow(["rater", "benchmark", "model", "instance", "item", "value"])
            run = grading.parents[1]
            names = sorted(e.instance.id for e in read_episodes(run, read_plan(run)))
            for name in names:
                quality = rng.gauss(QUALITY[spec.model.name], SPREAD)
                for rater, (shift, scale) in HABITS.items():
                    if rng.random() < OVERLAP:
                        seen = 3 + shift + scale * (quality - 3)
                        answer = [rater, spec.benchmark, spec.model.name, name]
                        for axis in axes:
                            writer.writerow([*answer, axis, _rate(seen + rng.gauss(0, NOISE))])


def _rate(seen: float) -> int:
    return min(5, max(1, round(seen)))


def make_example(ratings: Path) -> str:
    """Return the example's text; raises MedhelmError."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        medhelm.evaluate([*QUALITY], BENCHMARKS, data="sample", jury="offline", results_dir=results)
        simulate(results, ratings)
        table = agreement_table(load_rated(read_ratings([ratings]), RunChoice(results_dir=results)))
    shown = render([table], "terminal", WIDTH).decode()
    lines = "\n".join(line.rstrip() for line in shown.splitlines()).strip()
    return f"```text\n{lines}\n```\n"


def main() -> int:
    """Write or check the example and return the exit code."""
    given = parser(__doc__)
    given.add_argument("--ratings", metavar="FILE", help="keep the synthetic ratings there")
    args = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        example = make_example(Path(args.ratings or Path(folder) / "ratings.csv"))
    return put(PAGE, example, part="example", check=args.check)


if __name__ == "__main__":
    sys.exit(main())
