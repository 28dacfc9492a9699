"""Stored responses become scores: outcomes, metrics, juries and slow metrics."""
