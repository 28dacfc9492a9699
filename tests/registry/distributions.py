"""Distributions laid out as an installer does, each with its entry point."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, distribution: str, files: str | Mapping[str, str]) -> None:
    """Write a distribution of one module, or of one package with these files."""
    name = distribution.replace("-", "_")
    paths = {f"{name}.py": files} if isinstance(files, str) else {f"{name}/__init__.py": '""""""\n'}
    if not isinstance(files, str):
        paths |= {f"{name}/{file}": text for file, text in files.items()}
    for path, text in paths.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(textwrap.dedent(text).lstrip())
    register(folder, distribution)


def register(folder: Path, distribution: str) -> None:
    """Write the metadata of a distribution whose code is there."""
    name = distribution.replace("-", "_")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[medhelm]\nown = {name}\n")
    importlib.invalidate_caches()
