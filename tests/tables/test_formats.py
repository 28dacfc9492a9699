"""Formats: every column at full precision in data formats; escaped, rounded text elsewhere."""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import re
from pathlib import Path

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import medhelm
from medhelm.errors import UsageError
from medhelm.tables.format import formats
from medhelm.tables.format.table import (
    SCHEMA,
    Column,
    Document,
    Form,
    Part,
    Settings,
    Table,
    json_schema,
    make_table,
)
from medhelm.tables.known_tables import find_tables
from medhelm.tables.loading import load_results
from medhelm.tables.overall import OVERALL
from medhelm.tables.spending import role_columns
from tests.build_runs import Item, items, write_run, write_suite

pytestmark = pytest.mark.slow

COLUMNS = (
    Column(name="model", type="string", description="name", heading="model"),
    Column(
        name="score",
        type="number",
        description="score",
        unit="metric",
        heading="score",
        interval=("low", "high"),
    ),
    Column(name="low", type="number", description="lower end"),
    Column(name="high", type="number", description="upper end"),
    Column(name="n", type="integer", description="instances", heading="n", of="planned"),
    Column(name="planned", type="integer", description="planned"),
    Column(name="share", type="number", description="share", heading="share", is_percent=True),
    Column(name="ranked", type="boolean", description="ranked", heading="ranked"),
    Column(
        name="flags",
        type="string",
        description="flags",
        heading="flag",
        absent="",
        marks={"coverage": "C", "partial": "P"},
    ),
)
ROWS = [
    {
        "model": "a_b/50%",
        "score": 1 / 3,
        "low": 0.3,
        "high": 0.41,
        "n": 9_000,
        "planned": 10_000,
        "share": 0.9,
        "ranked": True,
        "flags": "coverage partial",
    },
    {"model": "c|d<script>", "score": float("nan"), "ranked": False},
]


def table(rows: list[dict[str, object]] | None = None, **more: object) -> Table:
    settings = {"draws": 1000, "bootstrap_seed": 0, "confidence": 0.95, "scoring": "fixed"}
    settings["data"] = "full"
    return make_table(
        "demo", "A & B", COLUMNS, ROWS if rows is None else rows, ["note_1"], settings, **more
    )  # type: ignore[arg-type]


def test_text_cells() -> None:
    t = table()
    texts = [[formats.cell_text(c, row) for c in t.grids()[0].shown()] for row in t.rows]
    assert texts[0] == ["a_b/50%", "0.33 [0.30, 0.41]", "9,000/10,000", "90.00 %", "yes", "CP"]
    assert texts[1] == ["c|d<script>", "–", "–", "–", "no", ""]


def test_not_a_number_is_missing() -> None:
    assert table().rows[1]["score"] is None
    inf = table([{"model": "a", "score": math.inf}])
    assert inf.rows[0]["score"] is None


def test_json_is_the_published_form_and_comes_back_whole() -> None:
    text = formats.to_json(table())
    raw = json.loads(text)
    assert raw["schema"] == SCHEMA == "medhelm.table/1" and raw["table"] == "demo"
    assert raw["columns"][1] == {
        "name": "score",
        "type": "number",
        "description": "score",
        "unit": "metric",
    }
    assert raw["rows"][0]["score"] == 1 / 3 and raw["rows"][1]["score"] is None
    assert raw["notes"] == ["note_1"] and raw["settings"]["draws"] == 1000
    assert "NaN" not in text
    document = msgspec.json.decode(text, type=Document)
    assert document.rows == tuple(dict(r) for r in table().rows)


def test_the_schema_names_every_key_of_a_document() -> None:
    found = json_schema()["$defs"]["Document"]
    assert set(found["properties"]) == set(json.loads(formats.to_json(table())))


def test_every_number_of_real_tables_is_finite_or_null(tmp_path: Path) -> None:
    write_suite(tmp_path, models=2, benchmarks=4, instances=12)
    results = load_results(tmp_path)
    for t in results.tables.values():
        assert t.columns and all(set(row) == {c.name for c in t.columns} for row in t.rows)
        assert len({c.name for c in t.columns}) == len(t.columns)
        assert all(c.description for c in t.columns)
        for row in t.rows:
            assert all(math.isfinite(v) for v in row.values() if isinstance(v, float))


def test_csv_comes_back() -> None:
    rows = list(csv.DictReader(io.StringIO(formats.to_csv(table()))))
    assert float(rows[0]["score"]) == 1 / 3 and rows[0]["ranked"] == "true"
    assert rows[1] == {
        "model": "c|d<script>",
        "ranked": "false",
        **dict.fromkeys(("score", "low", "high", "n", "planned", "share", "flags"), ""),
    }


def test_parquet_comes_back_with_its_notes() -> None:
    found = pq.read_table(pa.BufferReader(formats.to_parquet(table())))
    assert found.to_pylist() == [dict(r) for r in table().rows]
    assert found.schema.field("n").type == pa.int64()
    about = msgspec.json.decode(
        found.schema.metadata[b"medhelm.tables.format.table"], type=Document
    )
    assert about.notes == ("note_1",) and about.settings["draws"] == 1000


def test_excel_comes_back_and_holds_no_formula() -> None:
    book = io.BytesIO(formats.render([table([*ROWS, {"model": "=1+1"}])], "excel"))
    found = pd.read_excel(book, sheet_name="demo")
    assert found["score"][0] == 1 / 3 and found["model"][2] == "'=1+1"
    assert pd.isna(found["n"][1]) and list(found.columns) == [c.name for c in COLUMNS]


def test_a_frame_has_types_and_carries_the_notes() -> None:
    frame = table().frame()
    assert str(frame["n"].dtype) == "Int64" and str(frame["ranked"].dtype) == "boolean"
    assert frame["score"][0] == 1 / 3 and pd.isna(frame["score"][1]) and pd.isna(frame["n"][1])
    assert frame.attrs["notes"] == ["note_1"] and frame.attrs["title"] == "A & B"
    assert len(table([]).frame()) == 0


def test_markdown_is_escaped() -> None:
    lines = formats.to_markdown(table()).splitlines()
    assert lines[0] == "### A &amp; B"
    assert lines[3] == "| --- | ---: | ---: | ---: | ---: | --- |"
    assert lines[4].startswith(r"| a\_b/50% | 0.33 \[0.30, 0.41\] | 9,000/10,000 |")
    assert r"c\|d&lt;script&gt;" in lines[5] and r"- note\_1" in lines
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines[2:6]} == {7}


def test_latex_is_escaped() -> None:
    text = formats.to_latex(table())
    assert r"\caption{A \& B}" in text and r"{a\_b/50\%} & {0.33 [0.30, 0.41]}" in text
    assert r"{c|d\textless{}script\textgreater{}} & {--}" in text and r"note\_1" in text
    hostile = formats.to_latex(table([{"model": r"\input{/etc/passwd}^~#$"}]))
    assert r"\input" not in hostile
    assert r"\textbackslash{}input\{/etc/passwd\}\textasciicircum{}\textasciitilde{}\#\$" in hostile


def test_control_characters_do_not_reach_the_terminal() -> None:
    text = formats.to_terminal([table([{"model": "a\x1b[31mred\x07\nb\u202ec", "score": 1.0}])])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)
    name = formats.to_csv(table([{"model": "a\x1b[31mred\x07\x9b\u202ec"}])).splitlines()[1]
    assert "a [31mred   c" in name


def test_rich_markup_in_names_is_shown_as_it_is() -> None:
    assert "[bold]x[/bold]" in formats.to_terminal([table([{"model": "[bold]x[/bold]"}])])


def test_narrow_terminals_leave_spare_columns_out(tmp_path: Path) -> None:
    write_suite(tmp_path, models=2, benchmarks=2, instances=25)
    t = load_results(tmp_path).typed("overall", Settings(draws=50))
    wide, narrow = (formats.to_terminal([t], width) for width in (160, 80))
    assert " cov\n" in wide and "No room here" not in wide
    assert " cov\n" not in narrow and " macro " in narrow
    assert "the columns coverage" in " ".join(narrow.split())
    every = formats.to_terminal([t.choose(["all"])])
    assert " literal " in every
    some = t.choose(["win_rate_literal", "win_rate"])
    assert [c.heading for c in some.shown()] == ["model", "literal", "win"]
    assert set(json.loads(formats.to_json(some))["rows"][0]) == {
        "model",
        "win_rate_literal",
        "win_rate",
    }


@pytest.mark.parametrize("by", ["half", "literal"])
def test_sd_and_interval_shown_are_those_of_the_rule_ranked_by(tmp_path: Path, by: str) -> None:
    write_suite(tmp_path, models=3, benchmarks=3, instances=25)
    t = load_results(tmp_path).typed("overall", Settings(draws=50, rank_by=by))  # type: ignore[arg-type]
    shown = {c.name: c for c in t.grids()[0].shown()}
    prefix, rate = ("win", "win_rate") if by == "half" else ("win_literal", "win_rate_literal")
    assert shown[rate].interval == (f"{prefix}_low", f"{prefix}_high")
    assert shown[f"{prefix}_sd"].heading == "SD"
    assert {name for name in shown if name.startswith("win")} == {rate, f"{prefix}_sd"}
    assert [c.name for c in t.columns] == [c.name for c in OVERALL.columns]


_HOME = Path(medhelm.__file__).parents[1]
_DECLARED = sorted(p.parent.relative_to(_HOME) for p in _HOME.glob("*/**/tables.toml"))


def forms_of(folder: Path) -> dict[str, Form]:
    """Return the tables of the modules beside a `tables.toml`."""
    package = ".".join(folder.parts)
    for top in ("benchmarks", "leaderboard"):
        package = re.sub(f"^{top}", f"medhelm_{top}", package)
    names = sorted(p.stem for p in (_HOME / folder).glob("*.py") if p.stem != "__init__")
    modules = [importlib.import_module(f"{package}.{name}") for name in names]
    return {own.name: own for m in modules for own in vars(m).values() if isinstance(own, Form)}


@pytest.mark.parametrize("folder", _DECLARED, ids=str)
def test_a_table_shows_at_most_twelve_columns_by_default(folder: Path) -> None:
    """Of its whole grid, what heads it included; of suites and of a cast with the columns that these add."""
    more = {"cost": role_columns(["patient", "controller"])}
    specs = find_tables().specs
    for name, own in forms_of(folder).items():
        known = {c.name: c for c in [*own.columns, *more.get(name, ())]}
        parts = own.parts or (Part("", "", columns=tuple(known)),)
        for part in parts:
            names = dict.fromkeys([*part.group, *(part.columns or known)])
            shown = [n for n in names if known[n].heading and known[n].is_default]
            is_of_suite = name in specs and specs[name].is_of_suite
            assert len(shown) + is_of_suite <= 12, (name, part.level, shown)


def test_a_grid_without_any_of_its_numbers_is_left_out() -> None:
    level = Column(name="level", type="string", description="kind of row")
    rows = [{"level": "a", "model": "m", "score": 0.5}, {"level": "b", "model": "n"}]
    parts = (Part("a", "First"), Part("b", "Second"))
    made = make_table("demo", "A & B", (level, *COLUMNS), rows, [], {}, parts=parts)
    assert [grid.title for grid in made.grids()] == ["First"]


@pytest.mark.parametrize("last", [0.575, 0.575 + 1e-16, 0.575 - 1e-16, 0.5750000000000001])
def test_equal_numbers_are_printed_equally(last: float) -> None:
    t = table([{"model": "a", "score": last}])
    score = next(c for c in t.columns if c.name == "score")
    assert formats.cell_text(score, t.rows[0]) == "0.57"


def test_notes_of_several_tables_are_said_once() -> None:
    assert formats.to_terminal([table(), table()]).count("note_1") == 1


def test_settings_stand_below_text_tables() -> None:
    line = "95% intervals from 1,000 bootstrap draws, seed 0; scoring=fixed, data=full."
    assert line in formats.to_terminal([table()])
    assert line in formats.to_markdown(table())


def test_render_refuses_two_tables_where_one_fits() -> None:
    for form in ("csv", "parquet"):
        with pytest.raises(UsageError, match="holds one table"):
            formats.render([table(), table()], form)
    for form in formats.FORMATS:
        assert formats.render([table()], form)
    assert formats.render([table(), table()], "markdown").count(b"### A") == 2


def test_outcomes_are_said_in_a_note(tmp_path: Path) -> None:
    rows = items([1.0] * 366)
    for i, outcome in enumerate(["truncated"] * 27 + ["empty"] * 24 + ["refused"] * 33):
        rows.append(Item(id=f"x{i}", value=0.0, outcome=outcome))
    write_run(tmp_path, "quiz", "openai/a", rows)
    t = load_results(tmp_path).typed("benchmarks", Settings(draws=50))
    note = "Not scored: quiz x openai/a 27 truncated, 24 empty, 33 refused of 450."
    assert note in " ".join(formats.to_terminal([t], 80).split())


@pytest.mark.parametrize(
    ("name", "headings", "why"),
    [
        ("cost", ("USD", "USD at most"), "the price is unknown"),
        ("mde", ("MDE",), "No MDE on x, y: it needs two ranked models"),
        ("overall", ("win", "macro"), "no win rate and no macro-average"),
    ],
)
def test_what_a_table_is_for_stays_and_says_why_it_is_missing(
    tmp_path: Path, name: str, headings: tuple[str, ...], why: str
) -> None:
    for benchmark, model in (("x", "a"), ("y", "b")):  # no benchmark in common, no price
        write_run(tmp_path, benchmark, model, items([1.0, 0.0]))
    t = load_results(tmp_path).typed(name, Settings(draws=50))
    for heading in headings:
        (column,) = (c for c in t.grids()[0].shown() if c.heading == heading)
        assert {formats.cell_text(column, row) for row in t.rows} == {"–"}
        assert f" {heading} " in formats.to_markdown(t)
        assert re.search(rf"(^| ){heading}( |$)", formats.to_terminal([t], 80), re.M)
    assert why in " ".join(t.notes)


def test_a_table_without_rows_is_a_title_and_a_line(tmp_path: Path) -> None:
    for benchmark, model in (("x", "a"), ("y", "b")):
        write_run(tmp_path, benchmark, model, items([1.0, 0.0]))
    t = load_results(tmp_path).typed("categories", Settings(draws=50))
    assert t.rows == ()
    for text in (formats.to_terminal([t]), formats.to_markdown(t), formats.to_latex(t)):
        assert "No category has" in text
        assert "subcategory " not in text and "---" not in text and "tabular" not in text


def test_the_smallest_p_is_not_zero(tmp_path: Path) -> None:
    for model, value in (("a", 1.0), ("b", 0.0)):
        write_run(tmp_path, "x", model, items([value] * 40))
    t = load_results(tmp_path).comparison("a", "b", Settings(draws=50))
    assert 0 < t.rows[0]["p"] < 1e-9  # type: ignore[operator]
    assert "<0.0001" in formats.to_terminal([t], 120) and "&lt;0.0001" in formats.to_markdown(t)
    assert r"\textless{}0.0001" in formats.to_latex(t)
    assert str(t.rows[0]["p"]) in formats.to_csv(t) and "0.0001" not in formats.to_json(t)


FORMULAS = ("=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1")


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_csv_is_a_formula_and_no_number_is_changed(text: str) -> None:
    made = table([{"model": text, "score": -0.5}, {"model": "a=b"}])
    first, second = csv.DictReader(io.StringIO(formats.to_csv(made), newline=""))
    assert (first["model"], first["score"]) == ("'" + text.replace("\r", "\n"), "-0.5")
    assert (second["model"], second["score"]) == ("a=b", "")
    assert json.loads(formats.to_json(made))["rows"][0]["model"] == text
