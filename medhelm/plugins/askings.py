"""The askings that have a config file: packaged ones, and a user's own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from medhelm.config import convert
from medhelm.errors import UnknownName, UsageError
from medhelm.files.durable import why
from medhelm.models.catalogue import yaml_values
from medhelm.schema.asking import Asking

SUFFIXES = (".yaml", ".yml")


def load_askings() -> dict[str, Asking]:
    """Return the askings of the packaged `conf/ask` by name."""
    folder = resources.files("medhelm.conf") / "ask"
    files = sorted(f.name for f in folder.iterdir() if f.name.endswith(SUFFIXES))
    return {
        Path(name).stem: _asking(name, (folder / name).read_bytes(), f"conf/ask/{name}")
        for name in files
    }


def find_asking(name: str, known: Mapping[str, Asking]) -> Asking:
    """Return an asking by name, or of a file of the user's; raises UnknownName and UsageError."""
    if name.endswith(SUFFIXES):
        try:
            return _asking(name, Path(name).expanduser().read_bytes(), name)
        except OSError as e:
            raise UsageError(f"ask {name}: {why(e)}") from None
    if name not in known:
        raise UnknownName("ask", name, known, "Or name a file: ask=FILE.yaml.")
    return known[name]


def _asking(name: str, text: bytes, place: str) -> Asking:
    found: Asking = convert({"name": Path(name).stem} | yaml_values(text, place), Asking, place)
    return found
