"""Writes docs/reference.md: the options of every command and the columns of every table.

    python scripts/reference_page.py [--check]

Both are declared in the code; this page is made of what is declared. `--check` writes nothing and
fails where the page differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from pages import ROOT, grid, make

from medhelm.cli import command_parser, known_commands
from medhelm.listing.listed import BenchmarkEntry
from medhelm.proof.checks import Finding
from medhelm.proof.manifest import Facts
from medhelm.proof.validation import Report
from medhelm.runs.estimates import JudgeEstimate, RunEstimate, Totals
from medhelm.schema.run import RunRecord
from medhelm.tables import gate
from medhelm.tables.known_tables import find_tables

PAGE = ROOT / "docs" / "reference.md"
JSON = {
    "of `validate`": Report,
    "its `facts`": Facts,
    "its `findings`": Finding,
    "of `estimate`": RunEstimate,
    "its `judges`": JudgeEstimate,
    "its `total`": Totals,
    "of `score`": RunRecord,
    "of `list benchmarks`": BenchmarkEntry,
}
"""What the entries of documents in JSON are made from."""
TEXT = """# Options and columns

<!-- made by scripts/reference_page.py from the code -->

What every command takes, every table holds, and the keys of JSON documents. [Commands](commands.md)
explains what they are for, [statistics](statistics.md) how the numbers are worked out.
`medhelm COMMAND --help` and `medhelm list tables` print the same.
"""


def render() -> str:
    """Return the page."""
    return (
        "\n".join([TEXT, "## Commands", *_commands(), "## Tables", "", *_tables(), *_json()]) + "\n"
    )


def _commands() -> Iterator[str]:
    known = known_commands()
    for command in known.commands.values():
        if command.name == "run":  # its settings are in commands.md
            continue
        made = command_parser(command)
        yield from ["", f"### medhelm {command.name}", "", f"{command.help}.", ""]
        yield from _options(made, "")


def _options(made: argparse.ArgumentParser, above: str) -> Iterator[str]:
    rows = [
        (_called(action), action.help % _values(made, action) if action.help else "")
        for action in made._actions
        if "-h" not in action.option_strings and action.help != argparse.SUPPRESS
        if action.nargs != argparse.PARSER
    ]
    if rows:
        cells = [(f"`{_cell(name)}`", _cell(text)) for name, text in rows]
        yield from grid("ll", (above or "option", "meaning"), cells)
    for action in made._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield ""
                yield from _options(child, f"option of `{name}`")


def _values(made: argparse.ArgumentParser, action: argparse.Action) -> dict[str, object]:
    return {**vars(action), "prog": made.prog}


def _called(action: argparse.Action) -> str:
    """Return an option as it is typed."""
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    choices = action.choices
    value = action.metavar or ("|".join(map(str, choices)) if choices else action.dest.upper())
    shown = " ".join(value) if isinstance(value, tuple) else value
    several = " ..." if action.nargs in ("*", "+") else ""
    return f"{names} {shown}{several}".strip()


def _tables() -> Iterator[str]:
    tables = {spec.name: spec.columns for spec in find_tables().specs.values()}
    for name, columns in (tables | {"gate": gate.GATE.columns}).items():
        cells = [(f"`{c.name}`", _cell(c.description)) for c in columns]
        yield from [f"### {name}", "", *grid("ll", ("column", "meaning"), cells), ""]


def _json() -> Iterator[str]:
    cells = [
        (entry, ", ".join(f"`{name}`" for name in kind.__struct_fields__))
        for entry, kind in JSON.items()
    ]
    yield from ["## JSON", "", *grid("ll", ("entry", "keys"), cells)]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    sys.exit(make(__doc__, PAGE, render))
