"""Finished runs in the files of other tools, with no text that may not be published."""
