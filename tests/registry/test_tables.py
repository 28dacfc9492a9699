"""Tables of plugins: found by hook, shown everywhere, and one that fails costs only itself."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from medhelm.errors import PluginError, UnknownName
from medhelm.plugins.registry import load_registry
from medhelm.tables.known_tables import find_tables
from medhelm.tables.loading import load_results
from tests.build_runs import items, write_run
from tests.registry.conftest import Call
from tests.registry.distributions import install

pytestmark = pytest.mark.slow

TABLE = """
from medhelm import Column, TableSpec, hookimpl, make_table

COLUMNS = (
    Column(name="model", type="string", description="model", heading="model"),
    Column(name="runs", type="integer", description="runs", heading="runs"),
)

def make(asked):
    {body}
    cells = asked.study.cells
    models = sorted({{m for own in cells.values() for m in own}})
    rows = [{{"model": m, "runs": sum(m in own for own in cells.values())}} for m in models]
    return make_table({made!r}, "Runs of a model", COLUMNS, rows, [], {{}})

@hookimpl
def medhelm_tables():
    return [
        TableSpec(name={name!r}, help="runs of a model", columns=COLUMNS, make=make{more})
    ]
"""


def table(name: str = "load", body: str = "pass", more: str = "", made: str = "") -> str:
    return TABLE.format(name=name, body=body, more=more, made=made or name)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    for benchmark in ("ward", "er"):
        write_run(folder, benchmark, "lab/a", items([1.0, 0.0, 1.0]))
    write_run(folder, "ward", "lab/b", items([0.0, 0.0, 1.0]))
    return folder


def tables(results: Path, *more: object) -> Sequence[object]:
    return ("tables", "--results-dir", results, "--draws", 20, *more)


def test_an_installed_table_is_printed_listed_and_read(
    site: Path, results: Path, call: Call
) -> None:
    install(site, "ward-load", {"tables.py": table()})
    code, out, _ = call(*tables(results, "--table", "load"))
    assert code == 0
    assert [line.split() for line in out.splitlines() if "lab/" in line] == [
        ["lab/a", "2"],
        ["lab/b", "1"],
    ]
    code, out, _ = call(*tables(results, "--table", "load", "--format", "csv"))
    assert (code, out) == (0, "model,runs\nlab/a,2\nlab/b,1\n")
    _, out, _ = call(*tables(results, "--table", "load", "--format", "json"))
    assert [row["runs"] for row in json.loads(out)["rows"]] == [2, 1]
    _, out, _ = call(*tables(results, "--table", "load", "--format", "markdown"))
    assert "| lab/a | 2 |" in out
    frame = load_results(results).table("load")
    assert frame["runs"].tolist() == [2, 1]
    assert "load" in load_results(results).tables
    _, out, _ = call("list", "tables", "--format", "json")
    (own,) = [t for t in json.loads(out)["tables"] if t["name"] == "load"]
    assert own["help"] == "runs of a model" and own["columns"][1]["name"] == "runs"
    assert own["origin"] == str(site / "ward_load" / "tables.py")


def test_a_package_inside_a_package_brings_tables_too(site: Path) -> None:
    inner = {"deep/__init__.py": "", "deep/tables.py": table("deep")}
    install(site, "ward-deep", {"tables.py": table("flat"), **inner})
    assert {"deep", "flat"} <= set(find_tables().specs)


def test_the_rest_of_a_package_is_not_imported_for_its_tables(site: Path, results: Path) -> None:
    heavy = "raise RuntimeError('imported')\n"
    install(site, "ward-lazy", {"tables.py": table(), "benchmark.py": heavy})
    assert "load" in find_tables().specs and not find_tables().broken
    code = f"""
        import sys
        sys.path.insert(0, {str(site)!r})
        from medhelm.cli import run_command
        run_command({[str(a) for a in tables(results, "--table", "load")]!r})
        print("LOADED", *sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.rsplit("LOADED", 1)[1].split())
    assert "ward_lazy.tables" in loaded and "medhelm_benchmarks.noharm.tables" in loaded
    others = {
        name for name in loaded if name.startswith(("medhelm_benchmarks.", "medhelm_metrics"))
    }
    homes = {f"medhelm_benchmarks.{name}" for name in ("noharm", "clinconsensus", "encounters")}
    assert {n for n in others if n.count(".") == 1} == homes
    parts = {n.split(".")[2] for n in others if n.count(".") > 1}
    assert {"tables"} < parts and not parts & {
        *("benchmark", "benchmarks", "commands", "curation", "fidelity", "generation"),
        *("page", "protocol", "training"),
    }


def test_a_table_of_a_file_is_one_of_the_command_and_of_python(
    tmp_path: Path, results: Path, call: Call
) -> None:
    file = tmp_path / "load.py"
    file.write_text(table())
    assert load_registry([str(file)]).files == (str(file),)
    code, out, _ = call(*tables(results, "--table", "load", "--plugin", file))
    assert code == 0 and "Runs of a model" in out
    frame = load_results(results, plugins=[file]).table("load")
    assert frame["model"].tolist() == ["lab/a", "lab/b"]
    with pytest.raises(UnknownName, match="unknown table 'load'"):
        load_results(results).table("load")


def test_a_default_table_is_printed_with_the_others(site: Path, results: Path, call: Call) -> None:
    install(site, "ward-load", {"tables.py": table(more=", is_default=True")})
    code, out, _ = call(*tables(results))
    assert code == 0
    titles = ("Models over", "Scores by benchmark", "Runs of a model")
    assert [title in out for title in titles] == [True, True, True]


def test_a_table_that_raises_is_named_and_the_others_are_printed(
    site: Path, results: Path, call: Call
) -> None:
    body = "raise ZeroDivisionError('no beds')"
    install(site, "ward-load", {"tables.py": table(body=body, more=", is_default=True")})
    code, out, err = call(*tables(results))
    assert code == 2 and "Scores by benchmark" in out and "Models over" in out
    said = "'load' of plugin ward-load (ward_load): ZeroDivisionError: no beds (tables.py line 9)"
    assert said in err and err.count("\n") == 1
    with pytest.raises(PluginError, match="'load' of plugin ward-load"):
        load_results(results).table("load")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (table(body="return 3"), r"is made as int; return make_table\('load', \.\.\.\)"),
        (table(made="lode"), "is made as a table 'lode'"),
    ],
)
def test_a_function_that_returns_something_else_is_refused(
    site: Path, results: Path, text: str, what: str
) -> None:
    install(site, "ward-load", {"tables.py": text})
    with pytest.raises(PluginError, match=what):
        load_results(results).table("load")


@pytest.mark.parametrize("taken", ["overall", "harm"])
def test_the_second_of_a_name_is_refused_and_the_rest_works(
    site: Path, results: Path, call: Call, taken: str
) -> None:
    install(site, "ward-clash", {"tables.py": table(taken)})
    install(site, "ward-load", {"tables.py": table()})
    known = find_tables()
    assert known.specs[taken].owner == "" and known.specs["load"].owner == "ward-load (ward_load)"
    (broken,) = known.broken
    assert broken.plugin == "ward-clash (ward_clash)"
    assert f"table {taken!r} is defined twice" in broken.reason
    code, out, err = call(*tables(results, "--table", "load"))
    assert code == 0 and "Runs of a model" in out
    assert err.startswith("medhelm: plugin ward-clash (ward_clash) is left out: table ")


def test_of_two_third_parties_the_first_by_name_keeps_the_table(site: Path) -> None:
    install(site, "ward-b", {"tables.py": table()})
    install(site, "ward-a", {"tables.py": table()})
    known = find_tables()
    assert known.specs["load"].owner == "ward-a (ward_a)"
    assert [b.plugin for b in known.broken] == ["ward-b (ward_b)"]


def test_a_plugin_that_cannot_be_imported_is_left_out(site: Path) -> None:
    install(site, "ward-load", {"tables.py": "raise OSError('no licence')\n"})
    (broken,) = find_tables().broken
    assert broken.reason.startswith("OSError: no licence (tables.py line 1)")


def test_a_hook_where_it_would_not_be_read_is_refused(site: Path, tmp_path: Path) -> None:
    install(site, "ward-load", {"other.py": table()})
    assert "load" not in find_tables().specs
    (broken,) = load_registry().broken
    assert "medhelm_tables to tables.py" in broken.reason


def test_a_hook_that_returns_no_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "odd.py"
    file.write_text(
        "from medhelm import hookimpl\n@hookimpl\ndef medhelm_tables():\n    return ['load']\n"
    )
    with pytest.raises(PluginError, match="str, expected TableSpec"):
        find_tables([str(file)])
