"""Finished runs in the files of other tools."""
