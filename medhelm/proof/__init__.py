"""Benchmarks prove themselves: validation, manifests, phrasings, the quality of golds."""
