"""The page Interviews: its table, and under an answer how the interview ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medhelm import Episode, Instance, Page, PageData, PublishedRuns, TableRequest, hookimpl


def page_data(runs: PublishedRuns) -> PageData | None:
    """Return the table of interviews; None where nothing was one."""
    from medhelm_interview.tables import interviews

    table = interviews(TableRequest(study=runs.study, metadata=runs.metadata))
    benchmarks = sorted({str(row["benchmark"]) for row in table.rows})
    return PageData(benchmarks=benchmarks, tables=[table]) if benchmarks else None


def facts(instance: Instance) -> int:
    """Return how many facts the note has."""
    return len(instance.references)


def ended(episode: Episode, scores: Mapping[str, float | None]) -> dict[str, Any]:
    """Return how an interview ended, and after how many turns."""
    return {"ending": episode.ending, "turns": episode.state["turns"]}


@hookimpl
def medhelm_pages() -> list[Page]:
    """Return the page."""
    script = Path(__file__).parent / "interviews.js"
    return [
        Page(
            name="interviews",
            title="Interviews",
            script=script,
            data=page_data,
            instance=facts,
            answer=ended,
        )
    ]
