"""Hooks, the registry, benchmarks written in YAML, the taxonomy and profiles of thresholds."""
