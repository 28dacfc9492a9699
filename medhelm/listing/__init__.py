"""Benchmarks, models and other things that have a name, as values that show themselves."""
