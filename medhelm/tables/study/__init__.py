"""The selected runs of a table: their scores as arrays, intervals, differences of pairs and ranks."""
