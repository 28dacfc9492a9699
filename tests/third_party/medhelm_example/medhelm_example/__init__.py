"""Three benchmarks, a metric, an asking, a model and a provider, found by their entry point."""
