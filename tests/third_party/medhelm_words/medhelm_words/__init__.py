"""A table and two commands, found by their entry point."""
