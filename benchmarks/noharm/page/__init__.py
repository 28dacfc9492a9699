"""The page Harm of the leaderboard, and every labelled action on the pages of runs."""
