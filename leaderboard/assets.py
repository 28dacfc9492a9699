"""The look: files that are the same in every site, from the package of it and from plotly's."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from medhelm.errors import UsageError


def look() -> Iterator[tuple[str, bytes]]:
    """Yield the files that are the same in every site; raises UsageError without a chart library."""
    root = resources.files("medhelm_leaderboard")
    yield "index.html", (root / "index.html").read_bytes()
    for folder in ("app", "app/pages"):
        for entry in sorted((root / folder).iterdir(), key=lambda e: e.name):
            if entry.is_file() and entry.name.endswith((".js", ".css", ".svg")):
                yield f"{folder}/{entry.name}", entry.read_bytes()
    spec = find_spec("plotly")  # importing it takes longer than building a small site
    if spec is None or spec.origin is None:
        raise UsageError("the package plotly is not installed; `pip install plotly`")
    script = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    try:
        yield "app/plotly.min.js", script.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"the package plotly has no {script.name}; install it again with `pip install plotly`"
        ) from None
