"""Compare two builds of a site: scores, ranks, versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from medhelm.errors import UsageError
from medhelm.stats.aggregation import TIE
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm_leaderboard.files import Build, Rank, Score, read_build

DIFF = form(__file__, "diff")


def diff(old: Path, new: Path) -> Table:
    """Return one row per change from one built site to another; raises UsageError."""
    before, after = (_build(site) for site in (old, new))
    rows = [*_scores(before, after), *_ranks(before, after)]
    said = f"{old} of {before.built_at}, {new} of {after.built_at}."
    moved = _moved(before, after)
    notes = [said]
    if not rows:
        notes = [f"{'No score, rank or version' if moved else 'Nothing'} has changed: {said}"]
    if moved:
        notes.append(
            f"Intervals differ where scores do not, {moved:,} of {len(after.scores):,}: other "
            "draws, seed or confidence, or other models resampled with them."
        )
    return DIFF.table(rows, notes, {"old_medhelm": before.medhelm, "new_medhelm": after.medhelm})


def _build(site: Path) -> Build:
    found = read_build(site)
    if found is None:
        raise UsageError(
            f"{site} is not a built site: it has no build.json; `medhelm leaderboard build` makes one"
        )
    return found


def _by_cell(build: Build) -> dict[tuple[str, ...], Score]:
    return {(s.scoring, s.benchmark, s.model, s.metric): s for s in build.scores}


def _scores(before: Build, after: Build) -> Iterator[Row]:
    old, new = _by_cell(before), _by_cell(after)
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        if change := _change(a, b):
            row: Row = dict(zip(("scoring", "benchmark", "model", "metric"), key, strict=True))
            row["change"] = change
            for side, version, own in (("old", "was", a), ("new", "now", b)):
                if own is not None:
                    row |= {side: own.value, f"{side}_low": own.low, f"{side}_high": own.high}
                    row |= {f"{side}_n": own.n, version: own.version}
            if a is not None and b is not None:
                if a.version == b.version:
                    del row["was"], row["now"]
                if a.value is not None and b.value is not None:
                    row["difference"] = b.value - a.value
            yield row


def _moved(before: Build, after: Build) -> int:
    """Return how many scores are as they were with another interval."""
    old, new = _by_cell(before), _by_cell(after)
    pairs = [(old[key], new[key]) for key in old.keys() & new.keys()]
    return sum(
        not _change(a, b) and (_differ(a.low, b.low) or _differ(a.high, b.high)) for a, b in pairs
    )


def _change(a: Score | None, b: Score | None) -> str:
    """Return the gravest change of a score, empty where there is none."""
    if a is None or b is None:
        return "added" if a is None else "removed"
    if a.version != b.version:
        return "version"
    if _differ(a.value, b.value) or a.n != b.n:
        return "score"
    return "regraded" if a.grading != b.grading else ""


def _differ(a: float | None, b: float | None) -> bool:
    return abs(a - b) > TIE if a is not None and b is not None else a is not b


def _ranks(before: Build, after: Build) -> Iterator[Row]:
    old: dict[tuple[str, str], Rank] = {(r.scoring, r.model): r for r in before.ranks}
    for own in after.ranks:
        was = old.get((own.scoring, own.model))
        if was is not None and was.rank != own.rank:
            yield {
                "change": "rank",
                "scoring": own.scoring,
                "model": own.model,
                "metric": "rank",
                "old": was.rank,
                "new": own.rank,
                "difference": own.rank - was.rank if was.rank and own.rank else None,
            }
