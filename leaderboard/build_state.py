"""Hold the settings of a build, and its results so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from medhelm.tables.format.table import Settings, Table
from medhelm_leaderboard.files import Rank, Score
from medhelm_leaderboard.pages import Download, PluginPage, Problem, ScoringPages, View


@dataclass(frozen=True, kw_only=True)
class SiteOptions:
    """Holds the settings of a build besides the selection of runs."""

    title: str = "medhelm leaderboard"
    settings: Settings = Settings()
    agreement: Table | None = None
    """The table of agreement with clinicians, where ratings are at hand."""
    command: str = "medhelm leaderboard build"


@dataclass
class Made:
    """Holds the additions of all scorings' pages to the site's first page and to `build.json`."""

    scorings: list[ScoringPages] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    downloads: list[Download] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    ranks: list[Rank] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    pages: dict[str, PluginPage] = field(default_factory=dict)
