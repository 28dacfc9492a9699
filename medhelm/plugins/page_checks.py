"""Check a page when its plugin is loaded: its name is part of addresses and files, its files are there."""

from __future__ import annotations

import re
from pathlib import Path

from medhelm.errors import PluginError
from medhelm.files.durable import is_file
from medhelm.schema.page import Page

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_page(page: Page) -> None:
    """Raise PluginError where a page cannot be put on a site."""
    where = f"page {page.name!r} in {page.origin}"
    if not _NAME.fullmatch(page.name):
        raise PluginError(f"{where}: a name is lower-case letters, digits and _, from a letter on")
    if not page.title.strip():
        raise PluginError(f"{where}: title is empty; the navigation shows it")
    for kind, path, suffix in (("script", page.script, ".js"), ("style", page.style, ".css")):
        if path is None:
            continue
        if not isinstance(path, Path):
            raise PluginError(f"{where}: {kind} is a pathlib.Path, not {type(path).__name__}")
        if path.suffix != suffix:
            raise PluginError(f"{where}: {kind} {path.name} is not a {suffix} file")
        if not is_file(path):
            raise PluginError(
                f"{where}: {kind} {path} does not exist; a package names it as package data"
            )
