"""The pace of requests: the moment of the next one, and how many are in flight."""
