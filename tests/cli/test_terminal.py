"""Terminals of any width: every number is whole, and what is left out is named."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import random
import re
import struct
import subprocess
import sys
import termios
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.plugins.registry import load_registry
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import UsageTotals
from medhelm.tables.format import formats
from medhelm.tables.format.console import open_console
from medhelm.tables.format.grid import Grid, Shown, fit, lines, print_grid, print_lines
from medhelm.tables.format.table import Settings, Table
from medhelm.tables.loading import load_results
from medhelm_leaderboard.diff import DIFF
from tests.build_runs import Item, write_run, write_suite

pytestmark = pytest.mark.slow

WIDTHS = (40, 60, 80, 100, 120, 200)
LONG = (
    "an-organisation/a-model-of-a-very-long-name-indeed-2024-05-13",
    "an-organisation/a-model-of-a-very-long-name-indeed-2024-08-13",
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    folder = tmp_path_factory.mktemp("results")
    rng = random.Random(0)
    used = UsageTotals(requests=50, input_tokens=98_765_432, output_tokens=12_345_678)
    price = Price(input=2.5, output=10.0, date="2026-01-01")
    for benchmark in ("headqa", "medec", "a_benchmark_of_a_long_name"):
        for model in (*LONG, "m/short"):
            rows = [
                Item(
                    id=f"i{i:03d}",
                    value=rng.random(),
                    outcome="scored",
                    metadata={"difficulty": "hard" if i % 3 else "easy"},
                )
                for i in range(50)
            ]
            write_run(folder, benchmark, ModelSpec(name=model, price=price), rows, usage=used)
    results = load_results(folder)
    found = [results.typed(n, Settings(draws=20)) for n in results.tables if n != "harm"]
    found.append(results.typed("slices", Settings(draws=20), by="difficulty"))
    found.append(results.comparison(*LONG, Settings(draws=20)))
    return found


def pieces(line: str) -> list[str]:
    """Return what a line holds between gaps."""
    return [piece for piece in re.split(r" {2,}", line.strip()) if piece]


@pytest.mark.parametrize("width", WIDTHS)
def test_each_number_is_a_whole_cell_and_each_missing_column_is_named(
    tables: list[Table], width: int
) -> None:
    for table in tables:
        text = formats.to_terminal([table], width)
        assert max(map(len, text.splitlines())) <= width, table.name
        printed = Counter(piece for line in text.splitlines() for piece in pieces(line))
        notes = re.findall(r"No room here for the columns ([^:]*):", " ".join(text.split()))
        left_out = Counter(name for note in notes for name in note.split(", "))
        known: set[str] = set()
        for grid in table.grids():
            for c in grid.shown():
                cells = [formats.cell_text(c, row) for row in grid.rows]
                known |= {*cells}
                if c.name in grid.group:
                    continue
                if left_out[c.name]:
                    left_out[c.name] -= 1  # each grid has a note of its own
                elif c.type != "string":
                    printed.subtract(cells)
        assert not +left_out, table.name
        assert min(printed.values()) >= 0, (table.name, [k for k, v in printed.items() if v < 0])
        for line in text.splitlines():
            if line.startswith(" "):
                numbers = [p for p in pieces(line) if re.fullmatch(r"[-–<\d.,%/\[\] ]*", p)]
                ends = {n for n in numbers if any(name.endswith(n.strip()) for name in LONG)}
                assert {*numbers} - ends <= known, (table.name, line)


def test_a_table_that_fits_leaves_nothing_out(tables: list[Table]) -> None:
    for table in tables:
        assert "No room here" not in formats.to_terminal([table])
        assert "…" not in formats.to_terminal([table])


def test_a_narrow_ranking_is_a_card_a_model_with_every_column(tables: list[Table]) -> None:
    (overall,) = (t for t in tables if t.name == "overall")
    text = formats.to_terminal([overall], 40)
    assert "No room here" not in text
    cards = [line for line in text.splitlines() if line.startswith("model ")]
    assert len(cards) == len(overall.rows)
    for column in overall.grids()[0].shown():
        is_heading = column.name in overall.group
        assert is_heading or any(column.heading in line for line in text.splitlines())


def test_what_pairs_and_a_diff_are_for_stays(tables: list[Table]) -> None:
    (pairs,) = (t for t in tables if t.name == "pairs")
    text = formats.to_terminal([pairs], 80)
    assert " A - B  p Holm" in text
    holm = next(c for c in pairs.columns if c.name == "p_holm")
    assert text.count(formats.cell_text(holm, pairs.rows[0])) >= 1


texts = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=60)


@given(st.lists(texts.filter(bool), min_size=1, max_size=5), st.integers(24, 80))
def test_any_names_fit_and_differ(names: list[str], width: int) -> None:
    from rich.cells import cell_len

    grid = Grid(
        columns=(
            Shown(name="model", heading="model", cells=tuple(names)),
            Shown(name="n", heading="n", cells=tuple("12" for _ in names), is_number=True),
        )
    )
    fitted = fit(grid, width)
    found = [line for line, _ in lines(fitted)]
    if not fitted.is_cards:
        assert all(cell_len(line) <= width for line in found)
        assert len({line.rpartition("12")[0] for line in found[2:]}) == len({*names})
    assert sum("12" in line for line in found) >= len(names)


def test_order_of_what_goes_is_that_of_the_grid() -> None:
    columns = [Shown(name=n, heading=n, cells=("123,456",), is_number=True) for n in "abcd"]
    grid = Grid(columns=tuple(columns), leaving=("c", "a"))
    assert fit(grid, 80).left_out == ()
    assert fit(grid, 30).left_out == ("c",)
    assert fit(grid, 20).left_out == ("c", "a")
    assert fit(grid, 16).is_cards
    out = io.StringIO()
    print_grid(grid, open_console(file=out, width=30), fix="do this.")
    assert "columns c: do this" in " ".join(out.getvalue().split())


def test_a_diff_keeps_what_tells_its_rows_apart() -> None:
    values: dict[str, object] = {"change": "score", "benchmark": "medec", "model": LONG[0]}
    rows = [
        values | {"metric": metric, "old": 0.5, "new": 0.625, "difference": 0.125}
        for metric in ("medec_flag_accuracy", "medec_sentence_accuracy")
    ]
    table = DIFF.table(rows, title="Changes")
    for width in WIDTHS:
        text = formats.to_terminal([table], width)
        for cell in ("medec_flag_accuracy", "medec_sentence_accuracy", "0.500", "0.625", "0.125"):
            assert cell in text, width


def test_an_old_encoding_gets_plain_characters() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    grid = Grid(columns=(Shown(name="m", heading="m", cells=("é", "–", LONG[0], LONG[1])),))
    print_lines(lines(fit(grid, 30)), open_console(file=file, width=30))
    file.flush()
    said = raw.getvalue().decode("ascii")
    assert "---" in said and "?" in said and "~" in said


def in_terminal(width: int, *argv: str, cwd: Path) -> str:
    """Return what a command prints in a real terminal of a width, without its styles."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environ = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "medhelm", *argv],
        stdin=side,
        stdout=side,
        stderr=side,
        cwd=cwd,
        env=environ | {"TERM": "xterm"},
    )
    os.close(side)
    said = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        said += part
    os.close(main)
    process.wait()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode()).replace("\r\n", "\n")


@pytest.mark.parametrize("width", [40, 80])
def test_commands_keep_to_a_real_terminal(tmp_path: Path, width: int) -> None:
    models = in_terminal(width, "list", "models", cwd=tmp_path)
    rows, _, _ = models.partition("Any model of")
    assert max(map(len, rows.splitlines())) <= width
    for name, spec in load_registry().models.items():
        assert name in rows  # names are to be typed
        if spec.price is not None:
            assert f"{spec.price.input:g} in, {spec.price.output:g} out" in " ".join(rows.split())
    write_suite(tmp_path / "medhelm-results", models=2, benchmarks=2, instances=25)
    ranking = in_terminal(width, "tables", "--table", "overall", "--draws", "20", cwd=tmp_path)
    assert max(map(len, ranking.splitlines())) <= width
    results = load_results(tmp_path / "medhelm-results").typed("overall", Settings(draws=20))
    for column in results.shown():
        if column.name in ("win_rate", "macro_average"):
            for row in results.rows:
                assert formats.cell_text(column, row) in ranking


def test_a_pipe_gets_every_column(tmp_path: Path) -> None:
    write_suite(tmp_path / "medhelm-results", models=2, benchmarks=2, instances=25)
    environ = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    command = [sys.executable, "-m", "medhelm", "tables", "--draws", "20"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    assert " cov\n" in done.stdout and "No room here" not in done.stdout
