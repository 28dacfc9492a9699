"""The leaderboard: tables and runs become the data of a static site; `app/` is what a browser reads."""
