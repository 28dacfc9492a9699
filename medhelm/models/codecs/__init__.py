"""Protocols of endpoints as bytes: how requests are written, and how what comes back is read."""
