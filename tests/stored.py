"""What the only run below a folder of results has left there."""

from __future__ import annotations

from pathlib import Path

from medhelm.schema.episode import Episode
from medhelm.schema.run import RunRecord
from medhelm.store import records, runlog


def log_of(folder: Path) -> Path:
    """Return the log of its calls."""
    (run,) = records.find_runs(folder)
    return run / "responses.jsonl"


def episodes_of(folder: Path) -> list[Episode]:
    """Return its episodes, with their instances."""
    run = log_of(folder).parent
    return [*runlog.read_episodes(run, records.read_plan(run))]


def by_instance(folder: Path) -> dict[str, Episode]:
    """Return its episodes by their instances, of which each was asked once."""
    return {episode.instance_id: episode for episode in episodes_of(folder)}


def newest_record(folder: Path) -> RunRecord:
    """Return the record of the last grading below a folder."""
    gradings = records.find_gradings(folder)
    newest = max(gradings, key=lambda path: (path / "summary.json").stat().st_mtime_ns)
    return records.read_record(newest)
