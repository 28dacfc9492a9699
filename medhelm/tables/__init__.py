"""Graded runs -> tables: reads files only, needs no model and no network."""
