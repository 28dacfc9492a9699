"""Writes the examples of docs/agreement.md and docs/jury.md: synthetic ratings, the offline jury.

    python scripts/agreement_example.py [--check] [--ratings FILE]

Runs embedded baselines on the bundled samples of two open-ended benchmarks in a folder of its own,
simulates clinicians, and puts what `medhelm agreement` says between the two markers. Nobody has
rated anything: a simulated clinician sees a latent quality of each answer, drawn by a seed, through
a habit (strict or lenient, wide or narrow) and noise. Experts are simulated on a sheet of actions of
the bundled cases likewise, around the median of each action. `--check` writes nothing and fails where the
page differs; `--ratings` keeps the file of ratings.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import medhelm
from medhelm.store.records import find_gradings, read_plan, read_record
from medhelm.store.runlog import read_episodes
from medhelm.tables.clinicians.agreement import agreement_table, scores_table
from medhelm.tables.clinicians.rated_answers import RunChoice, load_rated
from medhelm.tables.clinicians.ratings import read_ratings
from medhelm.tables.clinicians.sheet import Sample, write_sheet
from medhelm.tables.format.formats import render
from medhelm.tables.format.table import Settings, Table
from medhelm_benchmarks.noharm.experts.agreement import actions_table, differences_table
from medhelm_benchmarks.noharm.experts.ratings import action_sheet, read_action_ratings
from medhelm_benchmarks.noharm.rules.casefile import read_cases
from medhelm_benchmarks.noharm.rules.derive import consensus

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("agreement.md", "jury.md")
"""The first shows all of the example, the second its table of agreement."""
MARKS = "<!-- example:begin -->\n", "<!-- example:end -->"
MARKS_OF_ACTIONS = "<!-- actions:begin -->\n", "<!-- actions:end -->"
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
CASES = ROOT / "benchmarks" / "noharm" / "samples" / "noharm.jsonl"
EXPERTS = {"expert-1": -0.6, "expert-2": 0.2, "expert-3": -0.1}
"""Shift of each simulated expert, in points of the scale of actions."""
ACTION_NOISE, ANSWERED = 1.5, 0.95
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


def make_example(ratings: Path) -> tuple[str, str]:
    """Return the example's text, whole and its first table; raises MedhelmError."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        medhelm.evaluate([*QUALITY], BENCHMARKS, data="sample", jury="offline", results_dir=results)
        simulate(results, ratings)
        rated = load_rated(read_ratings([ratings]), RunChoice(results_dir=results))
        tables = [agreement_table(rated), scores_table(rated, Settings())]
    return _shown(tables), _shown(tables[:1])


def make_actions_example() -> str:
    """Return the example of actions as text; raises MedhelmError."""
    cases = read_cases(CASES)
    own = {(c.code, a.id): consensus(a) for c in cases for a in c.actions}
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sheet.csv"
        write_sheet(path, action_sheet(cases, Sample(6, 15)))
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        filled = Path(folder) / "filled.csv"
        with filled.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]])
            writer.writeheader()
            for (expert, shift), row in itertools.product(EXPERTS.items(), rows):
                seen = own[row["unit"], row["item"]] + shift + rng.gauss(0, ACTION_NOISE)
                rating = min(9, max(1, round(seen))) if rng.random() < ANSWERED else ""
                writer.writerow(row | {"rater": expert, "value": rating})
        rated = read_action_ratings([filled], cases)
    return _shown([actions_table(rated), differences_table(rated, largest=5)])


def _shown(tables: Sequence[Table]) -> str:
    shown = render(tables, "terminal", WIDTH).decode()
    lines = "\n".join(line.rstrip() for line in shown.splitlines()).strip()
    return f"```text\n{lines}\n```\n"


def main() -> int:
    """Write or check the example and return the exit code."""
    parser = argparse.ArgumentParser(description="Write the example of two pages.")
    parser.add_argument("--check", action="store_true", help="fail where it is out of date")
    parser.add_argument("--ratings", metavar="FILE", help="keep the synthetic ratings there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        examples = make_example(Path(args.ratings or Path(folder) / "ratings.csv"))
    codes = [_put(n, MARKS, e, args.check) for n, e in zip(PAGES, examples, strict=True)]
    codes.append(_put(PAGES[0], MARKS_OF_ACTIONS, make_actions_example(), args.check))
    return max(codes)


def _put(name: str, marks: tuple[str, str], example: str, is_check: bool) -> int:
    """Write an example between two markers of a page, or check it; returns the exit code."""
    page = ROOT / "docs" / name
    head, begin, rest = page.read_text(encoding="utf-8").partition(marks[0])
    before, end, tail = rest.partition(marks[1])
    if not (begin and end):
        print(f"docs/{name} has no markers {marks[0].strip()} and {marks[1]}")
        return 2
    if not is_check:
        page.write_text(head + begin + example + end + tail, encoding="utf-8")
    elif before != example:
        print(f"the example of docs/{name} is out of date: run scripts/agreement_example.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
