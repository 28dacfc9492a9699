"""Grading of encounters: items of a frozen rubric over a whole trajectory, and diagnoses."""
