"""Two benchmarks, a metric and a model, found by their entry point."""
