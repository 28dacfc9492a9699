"""The askings that have a config file: packaged ones, and a user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medhelm.config import convert
from medhelm.errors import UnknownName, UsageError
from medhelm.files.durable import why
from medhelm.files.yaml_bounds import packaged_files
from medhelm.models.catalogue import yaml_values
from medhelm.schema.asking import Asking

SUFFIXES = (".yaml", ".yml")


def load_askings() -> dict[str, Asking]:
    """Return the askings of the packaged `conf/ask` by name."""
    return {
        name: _asking(name, file.read_bytes(), f"conf/ask/{name}.yaml")
        for name, file in packaged_files("ask").items()
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
