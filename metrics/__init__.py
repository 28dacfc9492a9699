"""The metrics that come with medhelm; each file is a plugin."""
