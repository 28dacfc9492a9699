"""Names without paths and addresses of this machine."""

from __future__ import annotations

import re

_PATH = re.compile(r"[/~.\\]|[\w+.-]*:[/\\]|file:")
"""A path, or an address with its scheme."""
_MODULE = re.compile(r"((?:evaluate|bertscore\w*):)([^#@]+)(.*)")


def metric_name(name: str) -> str:
    """Return the name of a metric; of one whose script or weights lie here without their path."""
    found = _MODULE.fullmatch(name)
    if found is None or not _PATH.match(found[2]):
        return name
    last = re.split(r"[/\\]", found[2].rstrip("/\\"))[-1]
    return f"{found[1]}{last}{found[3]}"


def plain_name(name: str) -> str:
    """Return a model's id at its endpoint, or that it is a path or an address."""
    return "a path or an address, not published" if _PATH.match(name) else name
