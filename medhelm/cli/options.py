"""Options and output that several commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm.config import DEFAULT_RESULTS as DEFAULT_RESULTS
from medhelm.config import data_root
from medhelm.data.sources import how_to_get as how_to_get
from medhelm.models.catalogue import find_model as find_model
from medhelm.plugins.registry import Registry as Registry
from medhelm.plugins.registry import load_registry
from medhelm.tables.format.console import open_uncut_console

NO_ROOM = "widen the terminal, set COLUMNS, or add --format json."
"""The fix where a narrow terminal leaves columns out."""


def add_plugins(parser: argparse.ArgumentParser) -> None:
    """Add `--plugin FILE`."""
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a further plugin, .py or .yaml; may be given several times",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add `--format text|json`."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="json: for programs"
    )


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Add `--data-dir DIR`."""
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="folder with <benchmark>/<file>; else $MEDHELM_DATA_DIR, else ~/.medhelm/data",
    )


def data_folder(args: argparse.Namespace) -> Path:
    """Return the data folder that the options and the environment name."""
    return data_root(args.data_dir)


def open_registry(plugins: Sequence[str]) -> Registry:
    """Return all plugins. Those that were left out are named on stderr."""
    registry = load_registry(plugins)
    for broken in registry.broken:
        print(f"medhelm: plugin {broken.plugin} is left out: {broken.reason}", file=sys.stderr)
    return registry


def print_rows(
    columns: Mapping[str, Sequence[str]],
    *,
    numbers: Collection[str] = (),
    keys: Collection[str] = (),
    leaving: Sequence[str] = (),
) -> None:
    """Print columns of texts on stdout, as far as there is room for them; see `grid_of`."""
    from medhelm.tables.format.grid import grid_of, print_grid

    grid = grid_of(columns, numbers=numbers, keys=keys, leaving=leaving)
    print_grid(grid, open_uncut_console(), fix=NO_ROOM)


def print_json(kind: str, content: Mapping[str, Any]) -> None:
    """Print {"schema": "medhelm.<kind>/1", ...} to stdout."""
    encoded = msgspec.json.encode({"schema": f"medhelm.{kind}/1", **content})
    print(msgspec.json.format(encoded, indent=2).decode())
