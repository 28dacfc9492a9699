"""Two benchmarks, a metric, a model and a provider, found by their entry point."""
