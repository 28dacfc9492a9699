"""Agreement of judges with experts, kept beside the runs: `<results>/fidelity/BENCHMARK.json`.

`medhelm fidelity --keep` writes it, sites show it above the scores. It holds numbers and the names of judges and
groups, no text.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from medhelm.errors import RecordError
from medhelm.schema.episode import SCHEMA
from medhelm.store.records import read_struct, write_struct

_FOLDER = "fidelity"


class Agreement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measures how one judge, or a second group of experts, agrees with a group of experts."""

    reference: str
    grader: str
    asked: tuple[str, ...] = ()
    """`grader_hash` of what the judge was asked by; empty for experts."""
    decisions: int
    answers: int
    cases: int
    mf1: float | None
    mf1_low: float | None
    mf1_high: float | None
    mf1_wrong: float | None
    kappa: float | None
    positive_reference: float | None
    positive: float | None
    invalid: int


class KeptFidelity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All agreements on the criteria of one benchmark."""

    schema: int = SCHEMA
    benchmark: str
    agreements: tuple[Agreement, ...]


def keep(results_dir: Path, fidelity: KeptFidelity) -> Path:
    """Write what was measured in the place of what was kept before; return the file."""
    path = results_dir / _FOLDER / f"{fidelity.benchmark}.json"
    write_struct(path, fidelity)
    return path


def read_kept(results_dir: Path) -> tuple[dict[str, KeptFidelity], list[str]]:
    """Return what is kept, by benchmark, and the names of files that cannot be read."""
    kept, damaged = {}, []
    for path in sorted((results_dir / _FOLDER).glob("*.json")):
        try:
            found = read_struct(path, KeptFidelity)
            kept[found.benchmark] = found
        except RecordError:
            damaged.append(f"{_FOLDER}/{path.name}")
    return kept, damaged


def of_graders(
    fidelity: KeptFidelity | None, asked: Iterable[tuple[str, str]]
) -> tuple[Agreement, ...]:
    """Return the agreements of judges that graded in just this way, and those of experts beside them.

    `asked`: name and `grader_hash` of the judges behind the scores. Of a judge that was measured with
    another prompt, mode or budget nothing is known.
    """
    used: dict[str, set[str]] = {}
    for judge, key in asked:
        used.setdefault(judge, set()).add(key)
    every = fidelity.agreements if fidelity is not None else ()
    own = [a for a in every if a.grader in used and used[a.grader] <= {*a.asked}]
    return (*own, *(a for a in every if not a.asked)) if own else ()
