"""Precision and recall of the rules of simulation fidelity on labelled lines.

    python perf/fidelity_rules.py [--wrong]

The lines are written in the styles of models that play patient and surroundings of two bundled cases,
about half of them without a fault. The rules were corrected on the first part; the second was written
afterwards. Of hints, meta language and contradictions no rule tells: a judge is asked. `--wrong` prints the lines that they judge otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from medhelm.data.dataset import open_dataset
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000
from medhelm_benchmarks.encounters.grading.cast_fidelity import Line, faults_by_rule
from medhelm_benchmarks.encounters.packets import Packets, packets_of

LINES = Path(__file__).parents[1] / "tests" / "benchmarks" / "encounters" / "labelled_lines.jsonl"


SPEAKERS = frozenset({"role_break", "mixed_speech"})
"""Both say that somebody else should speak; of one whom no packet names no rule can tell the two apart."""
GROUPS: dict[str, frozenset[str]] = {
    "leak": frozenset({"leak", "volunteered", "rubric_item"}),
    "invented_finding": frozenset({"invented_finding"}),
    "role_break or mixed_speech": SPEAKERS,
    **{kind: frozenset({kind}) for kind in ("hint", "meta_language", "contradiction")},
}


def cases() -> dict[str, tuple[Packets, str]]:
    """Return packets and the clinician's packet of the bundled cases."""
    instances = open_dataset(MEDSP1000, "sample", root=Path("none")).instances()
    return {i.id.partition("/")[0]: (packets_of(i), i.context) for i in instances}


Judged = tuple[dict[str, Any], frozenset[str], frozenset[str]]


def judged() -> Iterator[Judged]:
    """Yield each labelled line with the kinds of its label and those that the rules find."""
    known = cases()
    for text in LINES.read_text("utf-8").splitlines():
        row = json.loads(text)
        packets, clinician = known[row["case"]]
        line = Line(
            number=1, turn=1, role=row["role"], text=row["text"], asked=row["asked"], state=0
        )
        found = frozenset(f.kind for f in faults_by_rule([line], packets, clinician))
        yield row, frozenset(row["kinds"]), found


def main() -> None:
    """Print a row for each kind, and one for any fault at all."""
    from measuring import parser  # a test imports this module from elsewhere

    options = parser(__doc__)
    options.add_argument("--wrong", action="store_true", help="print what is not found")
    asked = options.parse_args()
    rows = [*judged()]
    first, later = (
        [row for row in rows if row[0]["held_out"] == is_held_out] for is_held_out in (False, True)
    )
    for what, own in (("all", rows), ("of the first part", first), ("of the second part", later)):
        clean = sum(not due for _, due, _ in own)
        print(f"\n{len(own)} lines, {what}, {clean} of them without a fault:\n")
        print(
            "| rule | faults | found | right | precision | recall |\n|---|---:|---:|---:|---:|---:|"
        )
        print("\n".join(map(row_of, counts(own))))
    for row, due, said in rows if asked.wrong else ():
        if due != said:
            print(f"{row['role']}: {row['text']!r} labelled {sorted(due)}, found {sorted(said)}")


def counts(rows: Sequence[Judged]) -> Iterator[tuple[str, int, int, int]]:
    """Yield for each kind the lines labelled so, those found, and those of both; last for any fault."""
    for name, kinds in GROUPS.items():
        if any(kinds & (due | said) for _, due, said in rows):
            yield _counted(name, [(bool(kinds & due), bool(kinds & said)) for _, due, said in rows])
    yield _counted("any", [(bool(due), bool(said)) for _, due, said in rows])


def _counted(name: str, pairs: Sequence[tuple[bool, bool]]) -> tuple[str, int, int, int]:
    return name, sum(a for a, _ in pairs), sum(b for _, b in pairs), sum(a and b for a, b in pairs)


def row_of(counted: tuple[str, int, int, int]) -> str:
    """Return the line of a table."""
    kind, due, said, right = counted
    name = kind.replace("_", " ")
    shares = f"{_share(right, said)} | {_share(right, due)}"
    return f"| {name} | {due} | {said} | {right} | {shares} |"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "none"


if __name__ == "__main__":
    main()
