"""The look of the leaderboard: what a browser reads, copied beside the data when a site is built."""
