"""Options and output that several commands share."""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from medhelm.config import DEFAULT_RESULTS as DEFAULT_RESULTS
from medhelm.config import data_root
from medhelm.data.sources import how_to_get as how_to_get
from medhelm.errors import UsageError
from medhelm.models.catalogue import find_model
from medhelm.plugins.commands import name_broken as name_broken
from medhelm.plugins.registry import Registry, load_registry
from medhelm.processes.workers import Workers
from medhelm.processes.workers import use_workers as use_workers
from medhelm.schema.model import ModelSpec
from medhelm.tables.format.console import open_uncut_console

NO_ROOM = "widen the terminal, set COLUMNS, or add --format json."
"""The fix where a narrow terminal leaves columns out."""


def positive(text: str) -> int:
    """Return a whole number from 1; raises argparse's error."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def _positive_usd(text: str) -> float:
    try:
        usd = float(text)
    except ValueError:
        usd = -1.0
    if not usd >= 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more USD, not {text!r}")
    return usd


def _own_folder(text: str) -> str:
    if "://" in text:
        raise argparse.ArgumentTypeError("must be a folder here; `medhelm runs pull URL` fills one")
    return text


def _readable_folder(text: str) -> str:
    from medhelm.store.remote_runs import results_folder  # other commands start without it

    return str(results_folder(text))


_TYPES: Mapping[str, Any] = {
    "int": int,
    "str": str,
    "float": float,
    "path": Path,
    "positive": positive,
    "usd": _positive_usd,
    "own folder": _own_folder,
    "readable folder": _readable_folder,
}


def add_options(parser: argparse.ArgumentParser, *names: str, **changed: Any) -> None:
    """Add options that several commands have, in this order; `changed` is other here for all of them."""
    for name in names:
        _add(parser, name.split()[0], _shared()[name] | changed)


def _add(parser: argparse.ArgumentParser, words: str, own: dict[str, Any]) -> None:
    if own.get("type") == "table format":
        from medhelm.tables.format.formats import FORMATS  # other commands start without it

        own = own | {"choices": FORMATS, "type": "str"}
    if isinstance(named := own.get("type"), str):
        own = own | {"type": _TYPES[named]}
    parser.add_argument(*words.split(), **own)


@cache
def _shared() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def add_declared(
    parser: argparse.ArgumentParser, declared: Sequence[str | Mapping[str, Any]]
) -> None:
    """Add the options of a data file: `shared` ones, by a name or with what is other here, and new ones.

    A `word` is an action with options of its own.
    """
    actions: Any = None
    for option in declared:
        own = {"shared": option} if isinstance(option, str) else dict(option)
        if "word" in own:
            if actions is None:
                actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
            action = actions.add_parser(own["word"], help=own["help"], description=own["help"])
            add_declared(action, own["options"])
        elif "shared" in own:
            add_options(parser, own.pop("shared"), **own)
        else:
            _add(parser, own.pop("name"), own)


def chosen_workers(args: argparse.Namespace) -> Workers:
    """Return the workers that `--workers` names; raises UsageError where there are none."""
    from medhelm.cli.engines import chosen_engine

    choice = chosen_engine(args.workers, {})
    if choice.engine == "slurm":
        raise UsageError(
            "--workers takes no slurm, which is handed work in files: start the command as a job of "
            f"its own, `srun -c {choice.workers} medhelm ... --workers local:{choice.workers}`, or name ray:N"
        )
    if choice.engine == "ray":
        from medhelm.processes.ray_cluster import join_cluster

        join_cluster(choice.address)
    return Workers(choice.workers, choice.engine == "ray", getattr(args, "text_of", ()))


def data_folder(args: argparse.Namespace) -> Path:
    """Return the data folder that the options and the environment name."""
    return data_root(args.data_dir)


def open_registry(plugins: Sequence[str]) -> Registry:
    """Return all plugins. Those that were left out are named on stderr."""
    registry = load_registry(plugins)
    name_broken(registry.broken)
    return registry


def find_models(names: Iterable[str], plugins: Sequence[str]) -> list[ModelSpec]:
    """Return the models of these names, which plugins may bring; raises UnknownName."""
    models = open_registry(plugins).models
    return [find_model(name, models) for name in names]


def print_rows(
    columns: Mapping[str, Sequence[str]],
    *,
    numbers: Collection[str] = (),
    keys: Collection[str] = (),
    leaving: Sequence[str] = (),
    is_aside: bool = False,
) -> None:
    """Print columns of texts, as far as there is room for them; see `grid_of`. `is_aside`: on stderr."""
    from medhelm.tables.format.grid import grid_of, print_grid

    grid = grid_of(columns, numbers=numbers, keys=keys, leaving=leaving)
    print_grid(grid, open_uncut_console(stderr=is_aside), fix=NO_ROOM)


def schema_command(kind: type) -> Callable[[argparse.Namespace], int]:
    """Return the command that prints the JSON Schema of a value, one JSON object a line."""

    def run(args: argparse.Namespace) -> int:
        print(json.dumps(msgspec.json.schema(kind), indent=1))
        return 0

    return run


def print_json(kind: str, content: Mapping[str, Any]) -> None:
    """Print {"schema": "medhelm.<kind>/1", ...} to stdout."""
    encoded = msgspec.json.encode({"schema": f"medhelm.{kind}/1", **content})
    print(msgspec.json.format(encoded, indent=2).decode())
