"""Metrics that ask models: graders, what they may be shown, and the verdicts that are stored."""
