"""The metrics that come with medhelm. Each file is a plugin."""
