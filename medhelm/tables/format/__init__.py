"""A table as a value, and how it is printed and written."""
