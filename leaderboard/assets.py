"""The site's scripts and styles: its own, those of plugins' pages, and the chart library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from medhelm.errors import UsageError
from medhelm.files.durable import os_errors_as
from medhelm.schema.page import Page

_SCRIPTS, _STYLES = "<!-- scripts of plugins -->", "<!-- styles of plugins -->"
"""The places of `index.html` that take in what plugins' pages bring; the order of scripts is that of the navigation."""


_PICTURES = (".svg", ".png", ".jpg", ".webp")


def own_pages() -> frozenset[str]:
    """Return the names of the site's own pages."""
    folder = resources.files("medhelm_leaderboard") / "app" / "pages"
    return frozenset(e.name.removesuffix(".js") for e in folder.iterdir() if e.name.endswith(".js"))


def assets(pages: Iterable[Page]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of these files; raises UsageError where one cannot be read."""
    root = resources.files("medhelm_leaderboard")
    brought = dict(_of_plugins(pages))
    index = (root / "index.html").read_text("utf-8")
    scripts = [f'<script src="{name}"></script>' for name in brought if name.endswith(".js")]
    styles = [f'<link rel="stylesheet" href="{name}">' for name in brought if name.endswith(".css")]
    for mark, lines in ((_SCRIPTS, scripts), (_STYLES, styles)):
        index = index.replace(f"{mark}\n", "".join(f"{line}\n" for line in lines))
    yield "index.html", index.encode()
    yield from brought.items()
    for folder in ("app", "app/pages"):
        for entry in sorted((root / folder).iterdir(), key=lambda e: e.name):
            if entry.is_file() and entry.name.endswith((".js", ".css", ".svg")):
                yield f"{folder}/{entry.name}", entry.read_bytes()
    yield "app/plotly.min.js", _plotly()


def logo_file(path: Path) -> tuple[str, bytes]:
    """Return the name that a logo has in the site, and its content; raises UsageError."""
    suffix = path.suffix.lower()
    if suffix not in _PICTURES:
        raise UsageError(f"logo {path}: give a picture that ends in {', '.join(_PICTURES)}")
    with os_errors_as(UsageError, f"logo {path}"):
        return f"app/logo{suffix}", path.read_bytes()


def _of_plugins(pages: Iterable[Page]) -> Iterator[tuple[str, bytes]]:
    for page in pages:
        for path in filter(None, (page.script, page.style)):
            with os_errors_as(UsageError, f"page {page.name!r} in {page.origin}: {path}"):
                yield f"app/pages/{page.name}{path.suffix}", path.read_bytes()


def _plotly() -> bytes:
    spec = find_spec("plotly")  # importing it takes longer than building a small site
    if spec is None or spec.origin is None:
        raise UsageError("the package plotly is not installed; `pip install plotly`")
    script = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    try:
        return script.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"the package plotly has no {script.name}; install it again with `pip install plotly`"
        ) from None
