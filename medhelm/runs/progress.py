"""The progress of a sweep: one line per model, redrawn a few times a second, never folded.

Where a terminal is too narrow for a line, its last parts are left out, then the bar, then the count
of runs. The model's name is shortened in its middle.
"""

from __future__ import annotations

import io
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from medhelm.models.costs import batch_price, cost
from medhelm.models.hosts import LOADING
from medhelm.runs.run import Run
from medhelm.schema.episode import Episode
from medhelm.tables.format.grid import shorten

_PLAIN_EVERY_S = 10.0
_STATUS_EVERY_S = 0.25
_BAR = 24
_LEAST_NAME = 12


class _Line(msgspec.Struct):
    runs: int
    ended: int = 0
    total: int = 0
    done: int = 0
    new: int = 0
    finishes: dict[str, int] = {}
    errors: dict[str, int] = {}
    oversize: dict[str, dict[str, int]] = {}
    """Requests that were not asked, or were refused as too long, by benchmark and reason."""
    tokens: int = 0
    usd: float | None = 0.0

    def add(self, other: _Line) -> None:
        """Add what another process has counted."""
        for name in ("ended", "total", "done", "new", "tokens"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        _add(self.finishes, other.finishes)
        _add(self.errors, other.errors)
        for benchmark, reasons in other.oversize.items():
            _add(self.oversize.setdefault(benchmark, {}), reasons)


def _add(own: dict[str, int], more: Mapping[str, int]) -> None:
    for name, n in more.items():
        own[name] = own.get(name, 0) + n


class Display:
    """The progress of a sweep on stderr or in a notebook: live on a screen, a line now and then elsewhere."""

    def __init__(
        self,
        runs: Sequence[Run],
        statuses: Callable[[], Sequence[str]] = lambda: (),
        *,
        is_shown: bool = True,
    ) -> None:
        """`statuses` says what local weights are doing before their first answer and between them."""
        self._console = Console(stderr=True)
        self._is_shown = is_shown
        self._cell = uuid.uuid4().hex
        """Name of what is shown in a notebook, by which it is drawn again in its place."""
        self._statuses = statuses
        self._lines: dict[str, _Line] = {
            name: _Line(n) for name, n in Counter(r.spec.model.name for r in runs).items()
        }
        self._planned: set[Path] = set()
        self._started = self._shown = self._began = time.monotonic()
        self._answered = self._began
        """The moment of the latest answer; `_began` is that at which the weights were loaded."""
        self._has_ended = threading.Event()
        self._announcer = threading.Thread(target=self._announce_loading, daemon=True)
        """Draws in a notebook; without a screen, prints what `_live` shows on one."""
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        if self._is_shown and self._console.is_terminal:
            self._live.start()
        elif self._is_shown:
            if self._console.is_jupyter:
                self._draw(self._render(), is_new=True)
            self._announcer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_shown:
            return
        if self._console.is_terminal:
            self._live.stop()
        else:
            self._has_ended.set()
            self._announcer.join()
        if self._console.is_jupyter:
            self._draw(Group(self._models(self._console.width), Text(self._summary())))
        else:
            print(self._summary(), file=sys.stderr)

    def planned(self, run: Run, total: int, answered: int) -> None:
        """Add a run's episodes to its model's line; once, also where a shard ends the run."""
        if run.path in self._planned:
            return
        self._planned.add(run.path)
        line = self._lines[run.spec.model.name]
        line.total += total
        line.done += answered

    def advanced(self, run: Run, episode: Episode) -> None:
        """Count one episode; drawing happens elsewhere."""
        line = self._lines[run.spec.model.name]
        response = episode.response
        line.done += 1
        line.new += 1
        self._answered = time.monotonic()
        _add(line.finishes, {response.finish: 1})
        if response.finish == "error":
            _add(line.errors, {response.error or "unknown": 1})
        if response.finish == "oversize":
            cell = line.oversize.setdefault(run.spec.benchmark, {})
            _add(cell, {response.error or "http 413": 1})
        usage = response.usage
        line.tokens += (usage.input_tokens or 0) + (usage.output_tokens or 0)
        if episode.messages and line.usd is not None:
            price = run.spec.model.price
            if price is not None and response.price_class:
                price = batch_price(price)
            spent = cost(usage, price)
            line.usd = None if spent is None else line.usd + spent
        self._say_now_and_then()

    def _say_now_and_then(self) -> None:
        is_live = self._console.is_terminal or self._console.is_jupyter or not self._is_shown
        is_planned = any(line.total for line in self._lines.values())  # by one of the workers
        if not is_live and is_planned and time.monotonic() - self._shown > _PLAIN_EVERY_S:
            self._shown = time.monotonic()
            print(self._summary(), file=sys.stderr)

    def counts(self) -> bytes:
        """Return all counts as JSON, for the display of the process that `show_sums`."""
        return msgspec.json.encode(self._lines)

    def show_sums(self, workers: int, counts: Iterable[bytes]) -> None:
        """Show the sums of what the displays of so many processes, each with a part of each run, have counted."""
        before, sums = self._new, {name: _Line(line.runs) for name, line in self._lines.items()}
        for told in counts:
            for name, line in msgspec.json.decode(told, type=dict[str, _Line]).items():
                sums[name].add(line)
        for line in sums.values():
            line.ended //= workers
        self._lines = sums
        if self._new > before:
            self._answered = time.monotonic()
        self._say_now_and_then()

    @property
    def _new(self) -> int:
        return sum(line.new for line in self._lines.values())

    def ended(self, run: Run) -> None:
        """Count the end of a run."""
        self._lines[run.spec.model.name].ended += 1

    def message(self, text: str) -> None:
        """Print one line above the display."""
        if self._is_shown:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def errors(self) -> list[str]:
        """Return a line for each model of which requests failed, with the reasons."""
        return [
            f"{name}: {sum(line.errors.values())} request(s) failed and are in no mean ("
            + ", ".join(f"{n} {reason}" for reason, n in Counter(line.errors).most_common(4))
            + "); the same command asks them again"
            for name, line in self._lines.items()
            if line.errors
        ]

    def oversize(self) -> list[str]:
        """Return a line for each run of which requests do not fit the model's window, and why."""
        return [
            f"{benchmark} x {name}: {sum(reasons.values())} request(s) do not fit the model's window and are in no "
            f"mean ({next(iter(reasons))}{'; others alike' * (len(reasons) > 1)}); lower "
            "model.max_output_tokens, or take a model with a larger window"
            for name, line in self._lines.items()
            for benchmark, reasons in line.oversize.items()
        ]

    def _announce_loading(self) -> None:
        """Print once for each set of local weights that it is being loaded, until the run ends."""
        announced: set[str] = set()
        while not self._has_ended.wait(_STATUS_EVERY_S):
            if self._console.is_jupyter:
                self._draw(self._render())
                continue
            for status in self._statuses():
                if LOADING in status and status not in announced:
                    announced.add(status)
                    print(status, file=sys.stderr, flush=True)

    def _draw(self, lines: Group, *, is_new: bool = False) -> None:
        """Show lines in a notebook in place of those before; any front end can, without widgets."""
        from IPython.display import display

        width = self._console.width
        page = Console(file=io.StringIO(), record=True, width=width, force_jupyter=False)
        page.print(lines)
        text = page.export_text(clear=False)
        html = page.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
        shown = {"text/plain": text, "text/html": html}
        display(shown, raw=True, display_id=self._cell, update=not is_new)

    def _render(self) -> Group:
        width = self._console.width
        statuses = self._statuses()
        now = time.monotonic()
        if not self._new and any(LOADING in status for status in statuses):
            self._began = now
        found = [join_fitting(status.split(", "), width) for status in statuses]
        left = sum(line.total - line.done for line in self._lines.values())
        pace = pace_parts(self._new, left, self._answered - self._began, now - self._answered)
        return Group(self._models(width), *map(Text, [*found, join_fitting(pace, width)]))

    def _models(self, width: int) -> Table:
        """Return the line of each model, of parts that fit into the width together."""
        counts = {n: f"{line.done}/{line.total}" for n, line in self._lines.items()}
        runs = {n: f"runs {line.ended}/{line.runs}" for n, line in self._lines.items()}
        name_width, count_width, runs_width = (
            max(map(len, texts), default=0)
            for texts in (self._lines, counts.values(), runs.values())
        )
        room = width - count_width - 1
        least = min(name_width, _LEAST_NAME)
        has_runs = least + runs_width + 1 <= room
        room -= (runs_width + 1) * has_runs
        has_bar = least + _BAR + 1 <= room
        room -= (_BAR + 1) * has_bar
        name_width = max(min(name_width, room), 1)
        table = Table.grid(padding=(0, 1), pad_edge=False)
        for name, line in self._lines.items():
            cells: list[Text | ProgressBar] = [Text(shorten(name, name_width))]
            if has_bar:
                total = max(line.total, 1)
                cells.append(ProgressBar(total=total, completed=line.done, width=_BAR))
            cells.append(Text(counts[name]))
            if has_runs:
                cells.append(Text(runs[name]))
            cells.append(Text(join_fitting(self._notes(line), room - name_width - 1)))
            table.add_row(*cells)
        for column in table.columns:
            column.no_wrap = True
        return table

    def _notes(self, line: _Line) -> list[str]:
        notes = [f"{n} {kind}" for kind, n in line.finishes.items() if kind != "stop"]
        if line.tokens:
            notes.append(f"{line.tokens:,} tokens")
            notes.append("price unknown" if line.usd is None else f"{line.usd:.2f} USD")
        return notes

    def _summary(self) -> str:
        done = sum(line.done for line in self._lines.values())
        total = sum(line.total for line in self._lines.values())
        elapsed = time.monotonic() - self._started
        troubles: Counter[str] = Counter()
        for line in self._lines.values():
            troubles.update({k: n for k, n in line.finishes.items() if k != "stop"})
        noted = "".join(f", {n} {kind}" for kind, n in troubles.items())
        return f"{done} of {total} answered ({self._new} now, {elapsed:.1f} s){noted}"


def has_viewer() -> bool:
    """Return whether somebody sees a display: in a notebook, or on a terminal that has both outputs."""
    console = Console(stderr=True)
    return console.is_jupyter or (console.is_terminal and sys.stdout.isatty())


def join_fitting(parts: Iterable[str], width: int) -> str:
    """Return the parts, the last ones left out where they do not fit. A first one is shortened."""
    text = ""
    for part in parts:
        longer = f"{text}, {part}" if text else part
        if len(longer) > width:
            name, colon, rest = longer.partition(": ")
            room = width - len(rest) - 2
            if text or not colon or room < 3:
                break
            longer = f"{shorten(name, room)}: {rest}"
        text = longer
    return text


def pace_parts(new: int, left: int, elapsed_s: float, since_s: float) -> list[str]:
    """Return the number of new answers, their rate and the time left.

    `elapsed_s` is the time to the latest of the answers, `since_s` the time since then. Rate and
    expected end are those at the latest answer, so that the time left falls until the next one.
    """
    parts = [f"{new} answered"]
    if not new or elapsed_s <= 0:
        return parts
    rate = new / elapsed_s
    if rate >= 1:
        parts.append(f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
    else:
        parts.append(f"{60 * rate:.1f}/min" if rate >= 1 / 60 else f"{3600 * rate:.1f}/h")
    if left and (left_s := left / rate - since_s) >= 1:  # else they take longer than those before
        parts.append(f"about {_duration(left_s)} left")
    return parts


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
