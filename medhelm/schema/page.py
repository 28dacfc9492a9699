"""A page that a plugin adds to the site of the leaderboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the site, and what its benchmarks' runs show of an instance and an answer.

    The functions get what may be published, and nothing else. What they return is written as JSON:
    a msgspec struct, or lists, dicts and plain values. None is nothing.
    """

    name: str
    """Name in the page's address, in file names and in the call of its script."""
    title: str
    """Title in the navigation."""
    script: Path
    """A classic script that calls `medhelm.page(name, {...})` once; leaderboard/app/router.js has the keys."""
    style: Path | None = None
    """A stylesheet, read after those of the site."""
    data: Callable[..., object] | None = None
    """`data(runs: PublishedRuns) -> PageData | None` of the runs under one scoring. None: they are not
    what the page is about."""
    instance: Callable[[Instance], object] | None = None
    """Returns what the page shows of an instance whose text is published."""
    answer: Callable[[Episode, Mapping[str, float | None]], object] | None = None
    """Returns what it shows of an answer; the mapping holds the scores by metric. A page with
    `instance` is asked only where that returned something."""
    shows_gold: bool = False
    """True if `instance` shows the gold, in place of references and answer key."""
    origin: str = ""
    """The plugin's file; set when it is loaded."""
