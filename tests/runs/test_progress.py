"""The display of a run: never wider than its terminal, with a rate and a time left that mean something."""

from __future__ import annotations

import io
import re
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from medhelm.runs.progress import Display, join_fitting, pace_parts
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response, Usage
from medhelm.schema.model import ModelSpec

LONG = "an-organisation/a-model-of-a-very-long-name-indeed-2024-05-13"


def run_of(name: str) -> Any:
    return SimpleNamespace(spec=SimpleNamespace(model=ModelSpec(name=name)), path=object())


def episode(finish: Any = "stop") -> Episode:
    usage = Usage(input_tokens=12_345_678, output_tokens=9)
    response = Response(
        instance_id="i", finish=finish, error="x" * (finish == "error"), usage=usage
    )
    return Episode(instance=Instance(id="i"), response=response)


def drawn(width: int, display: Display) -> list[str]:
    display._console = Console(file=io.StringIO(), width=width, force_terminal=True)
    out = Console(file=io.StringIO(), width=400, color_system=None, legacy_windows=False)
    out.print(display._render())
    return [line.rstrip() for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100, 120])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width: int) -> None:
    runs = [run_of(LONG), run_of("m/short")]
    display = Display(runs, lambda: [f"{LONG}: writing, 1,234,567 tokens, 12.3 tokens/s"])
    for run in runs:
        display.planned(run, 98_765, 0)
        for finish in ("stop", "length", "refused", "error"):
            display.advanced(run, episode(finish))
    lines = drawn(width, display)
    assert max(map(len, lines)) <= width
    assert len(lines) == 4 and all("4/98765" in line for line in lines[:2])
    whole = {"4/98765", "0/1", "1", "1,234,567", "12.3", "49,382,748"}  # 1: of each trouble
    for line in lines[:-1]:
        _, _, behind = line.partition(" ")  # the name
        assert {*re.findall(r"[\d,./]*\d", behind)} <= whole, line
    pace = r"8 answered(, [\d.]+/(s|min|h)(, about [\d.]+ (s|min|h) left)?)?"
    assert re.fullmatch(pace, lines[-1])


def test_a_narrow_line_drops_its_bar_and_its_runs_but_no_count() -> None:
    display = Display([run_of(LONG)])
    display.planned(run_of(LONG), 10, 3)
    wide, narrow, narrowest = (drawn(w, display)[0] for w in (120, 60, 20))
    assert LONG in wide and "━" in wide and "runs 0/1" in wide
    assert "…" in narrow and "3/10" in narrow and "runs 0/1" in narrow
    assert "3/10" in narrowest and "runs" not in narrowest and len(narrowest) <= 20


def test_loading_weights_is_a_state_and_not_part_of_the_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr("medhelm.runs.progress.time.monotonic", lambda: clock[0])
    status = ["hf/ward: loading weights"]
    run = run_of("hf/ward")
    display = Display([run], lambda: status)
    display.planned(run, 24, 0)
    clock[0] = 60.0
    assert drawn(80, display)[1:] == ["hf/ward: loading weights", "0 answered"]
    status[:] = []
    clock[0] = 180.0  # two minutes of writing
    for _ in range(4):
        display.advanced(run, episode())
    assert drawn(80, display)[-1] == "4 answered, 2.0/min, about 10 min left"
    clock[0] = 240.0  # nothing new: the time left falls
    assert drawn(80, display)[-1] == "4 answered, 2.0/min, about 9 min left"
    clock[0] = 180.0 + 599.5  # longer than expected: no number is better than a wrong one
    assert drawn(80, display)[-1] == "4 answered, 2.0/min"


@pytest.mark.parametrize(
    ("new", "elapsed", "rate"),
    [(500, 10.0, "50/s"), (12, 10.0, "1.2/s"), (5, 10.0, "30.0/min"), (1, 240.0, "15.0/h")],
)
def test_no_rate_is_zero(new: int, elapsed: float, rate: str) -> None:
    assert pace_parts(new, 0, elapsed, 0.0) == [f"{new} answered", rate]


def test_the_time_left_only_falls_between_answers() -> None:
    left = [pace_parts(8, 16, 80.0, since)[-1] for since in (0.0, 30.0, 90.0, 158.0)]
    assert left == ["about 3 min left", "about 2 min left", "about 70 s left", "about 2 s left"]


def test_parts_that_do_not_fit_are_left_out_whole() -> None:
    assert join_fitting(["12,345 tokens", "0.50 USD"], 30) == "12,345 tokens, 0.50 USD"
    assert join_fitting(["12,345 tokens", "0.50 USD"], 20) == "12,345 tokens"
    assert join_fitting(["12,345 tokens", "0.50 USD"], 5) == ""
    short = join_fitting([f"{LONG}: writing", "9 tokens"], 30)
    assert short == "an-organis…2024-05-13: writing" and len(short) == 30


def test_loading_weights_is_printed_once_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medhelm.runs.progress._STATUS_EVERY_S", 0.001)
    states = iter([[], *[["hf/m: loading weights"]] * 3, ["hf/m: writing, 9 tokens"]])
    has_written = threading.Event()

    def statuses() -> list[str]:
        if (state := next(states, None)) is None:
            has_written.set()
        return state or []

    with Display([run_of("hf/m")], statuses):
        assert has_written.wait(10)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "hf/m: loading weights"
    assert len(rest) == 1 and rest[0].startswith("0 of 0 answered")


def test_nothing_is_counted_before_a_worker_has_planned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medhelm.runs.progress._PLAIN_EVERY_S", -1.0)
    run, worker = run_of("hf/m"), Display([run_of("hf/m")], is_shown=False)
    display = Display([run])
    display.show_sums(1, [worker.counts()])
    assert not capsys.readouterr().err
    worker.planned(run, 24, 3)
    display.show_sums(1, [worker.counts()])
    assert capsys.readouterr().err.startswith("3 of 24 answered")
