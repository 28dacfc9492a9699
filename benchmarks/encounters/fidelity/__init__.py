"""Measures how true patient and surroundings are to their packets, by rules and by a judge."""
