"""A plugin that cannot be used. (A named tuple: `medhelm --help` has no time for dataclasses.)"""

from __future__ import annotations

from typing import NamedTuple


class Broken(NamedTuple):
    """A third-party plugin that was left out, and why (one line)."""

    plugin: str
    reason: str
