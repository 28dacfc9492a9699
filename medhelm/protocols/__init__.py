"""Protocols: how one instance is conducted with the models of a cast."""
