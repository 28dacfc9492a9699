"""What `medhelm run` shows while it works: one line per model, redrawn a few times a second."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from medhelm.costs import cost
from medhelm.errors import MedhelmError
from medhelm.planning import Run
from medhelm.schema import Exchange, RunRecord

_PLAIN_EVERY_S = 10.0


@dataclass
class _Line:
    """Counts of one model over its runs."""

    runs: int
    ended: int = 0
    total: int = 0
    done: int = 0
    finishes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    usd: float | None = 0.0


class Display:
    """A `runner.Progress` on stderr: live on a terminal, a line now and then elsewhere."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._console = Console(stderr=True)
        self._lines: dict[str, _Line] = {
            name: _Line(n) for name, n in Counter(r.spec.model.name for r in runs).items()
        }
        self._started = self._shown = time.monotonic()
        self._new = 0
        self._oversize: dict[str, Counter[str]] = {}
        """Reasons by benchmark and model."""
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()
        print(self._summary(), file=sys.stderr)

    def planned(self, run: Run, total: int, answered: int) -> None:
        """Add a run's exchanges to its model's line."""
        line = self._lines[run.spec.model.name]
        line.total += total
        line.done += answered

    def advanced(self, run: Run, exchange: Exchange) -> None:
        """Count one exchange; drawing happens elsewhere."""
        line = self._lines[run.spec.model.name]
        response = exchange.response
        line.done += 1
        self._new += 1
        line.finishes[response.finish] += 1
        if response.finish == "error":
            line.errors[response.error or "unknown"] += 1
        if response.finish == "oversize":
            cell = f"{run.spec.benchmark} x {run.spec.model.name}"
            self._oversize.setdefault(cell, Counter())[response.error or "http 413"] += 1
        usage = response.usage
        line.tokens += (usage.input_tokens or 0) + (usage.output_tokens or 0)
        if exchange.messages and line.usd is not None:
            spent = cost(usage, run.spec.model.price)
            line.usd = None if spent is None else line.usd + spent
        if not self._console.is_terminal and time.monotonic() - self._shown > _PLAIN_EVERY_S:
            self._shown = time.monotonic()
            print(self._summary(), file=sys.stderr)

    def ended(self, run: Run, record: RunRecord | None, error: MedhelmError | None) -> None:
        """Count the end of a run."""
        self._lines[run.spec.model.name].ended += 1

    def message(self, text: str) -> None:
        """Print one line above the display."""
        self._console.print(text, markup=False, highlight=False)

    def errors(self) -> list[str]:
        """Return a line for each model of which requests failed, with the reasons."""
        return [
            f"{name}: {line.errors.total()} request(s) failed and are in no mean ("
            + ", ".join(f"{n} {reason}" for reason, n in line.errors.most_common(4))
            + "); the same command asks them again"
            for name, line in self._lines.items()
            if line.errors
        ]

    def oversize(self) -> list[str]:
        """Return a line for each run of which requests do not fit the model's window, and why."""
        return [
            f"{cell}: {reasons.total()} request(s) do not fit the model's window and are in no "
            f"mean ({next(iter(reasons))}{'; others alike' * (len(reasons) > 1)}); lower "
            "model.max_output_tokens, or take a model with a larger window"
            for cell, reasons in self._oversize.items()
        ]

    def _render(self) -> Group:
        table = Table.grid(padding=(0, 1))
        elapsed = time.monotonic() - self._started
        for name, line in self._lines.items():
            table.add_row(
                name,
                ProgressBar(total=max(line.total, 1), completed=line.done, width=24),
                f"{line.done}/{line.total}",
                f"runs {line.ended}/{line.runs}",
                self._notes(line),
            )
        rate = self._new / elapsed if elapsed else 0.0
        left = sum(line.total - line.done for line in self._lines.values())
        eta = f", about {left / rate:.0f} s left" if rate and left else ""
        return Group(table, f"{self._new} answered, {rate:.0f}/s{eta}")

    def _notes(self, line: _Line) -> str:
        troubles = [f"{n} {kind}" for kind, n in line.finishes.items() if kind != "stop"]
        if line.tokens:
            troubles.append(f"{line.tokens:,} tokens")
            troubles.append("price unknown" if line.usd is None else f"{line.usd:.2f} USD")
        return ", ".join(troubles)

    def _summary(self) -> str:
        done = sum(line.done for line in self._lines.values())
        total = sum(line.total for line in self._lines.values())
        elapsed = time.monotonic() - self._started
        troubles: Counter[str] = Counter()
        for line in self._lines.values():
            troubles.update({k: n for k, n in line.finishes.items() if k != "stop"})
        noted = "".join(f", {n} {kind}" for kind, n in troubles.items())
        return f"{done} of {total} answered ({self._new} now, {elapsed:.1f} s){noted}"
