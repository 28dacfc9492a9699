"""Run folders as the version before the common core wrote them, and what a test needs of them."""
