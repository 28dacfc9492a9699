"""The page Encounters of the leaderboard."""
