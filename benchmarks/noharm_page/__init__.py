"""The page Harm of the leaderboard, and every labelled action on the pages of runs."""

from medhelm_benchmarks.noharm_page.page import medhelm_pages

__all__ = ["medhelm_pages"]
