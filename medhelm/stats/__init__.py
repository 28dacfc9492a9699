"""Aggregation, resampling, intervals, ranks and agreement: pure functions on arrays."""
