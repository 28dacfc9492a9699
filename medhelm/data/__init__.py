"""Data files -> checked instances: where files lie, how they are fetched and read."""
