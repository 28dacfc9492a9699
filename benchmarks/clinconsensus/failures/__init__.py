"""Seven types of failure, the reasons why criteria are not met: labels by hand or by a model, and counts."""
