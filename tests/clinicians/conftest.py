"""The browser of the leaderboard's tests."""

from tests.leaderboard.browsing import browser, chromium

__all__ = ["browser", "chromium"]
