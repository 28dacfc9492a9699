"""Instances become the messages that a model is sent."""
