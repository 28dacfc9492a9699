"""Raters of constructed cases and of encounters: blinded sheets, and how far the raters agree."""
