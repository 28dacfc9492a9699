"""The requests of a sweep that do not fit their model's window, counted by run and reason."""

from __future__ import annotations

from collections import Counter

from medhelm.runs.planning import Run
from medhelm.schema.episode import Episode


class OversizeRequests:
    """Counts of requests that were not asked, or were refused as too long."""

    def __init__(self) -> None:
        self._reasons: dict[str, Counter[str]] = {}
        """By benchmark and model."""

    def count(self, run: Run, episode: Episode) -> None:
        """Count an episode that ended as oversize; others are passed over."""
        response = episode.response
        if response.finish == "oversize":
            cell = f"{run.spec.benchmark} x {run.spec.model.name}"
            self._reasons.setdefault(cell, Counter())[response.error or "http 413"] += 1

    def lines(self) -> list[str]:
        """Return a line for each run of which requests do not fit the model's window, and why."""
        return [
            f"{cell}: {reasons.total()} request(s) do not fit the model's window and are in no "
            f"mean ({next(iter(reasons))}{'; others alike' * (len(reasons) > 1)}); lower "
            "model.max_output_tokens, or take a model with a larger window"
            for cell, reasons in self._reasons.items()
        ]
