"""The static leaderboard: graded runs -> a folder of files that a browser opens from disk.

    results folder -> collect -> Study of each scoring -> pages -> files below SITE

`pages` says what the browser is given, `publish` what may be; the look is in `leaderboard/` at
the root.
"""
