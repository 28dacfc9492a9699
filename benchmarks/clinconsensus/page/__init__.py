"""The page Coverage of the leaderboard."""
